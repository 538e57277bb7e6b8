import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { sheets } from '../../fixtures/sheets/make.ts';

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
