// @module-tag full
import { Buffer } from 'node:buffer';
import { readFileSync, readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { sheets } from '../../fixtures/sheets/make.ts';
import { folder } from './fixture.ts';

const isSheet = (name: string): boolean => /\.(?:csv|tsv|xlsx|jsonl)$/.test(name);

test('The sheets are exactly those that the script makes, byte for byte', () => {
  expect(readdirSync(folder).filter(isSheet).toSorted()).toEqual([...sheets.keys()].toSorted());
  for (const [name, content] of sheets) {
    const committed = readFileSync(folder + name);
    expect({ name, same: Buffer.compare(committed, content) === 0 }).toEqual({ name, same: true });
  }
});

test('Every sheet is used in a test', () => {
  const tests = readdirSync(import.meta.dirname)
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => readFileSync(`${import.meta.dirname}/${name}`, 'utf8'))
    .join();
  const unread = [...sheets.keys()].filter(
    (name) => !tests.includes(name) && !tests.includes(`'${name.replace('.xlsx', '')}'`),
  );
  expect(unread).toEqual([]);
});
