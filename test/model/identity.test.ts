import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { mayHaveKeySql, nameKey, sameName, spellingsOf, valueKey } from '../../src/model/identity.ts';

const nfd = (text: string): string => text.normalize('NFD');
const alike = [
  ['Anna@Example.com', 'anna@example.COM', ' anna@example.com\u00a0', '\u200banna@example.com'],
  ['José', nfd('José'), 'JOSÉ', nfd('JOSÉ '), '\tjosé\n'],
  ['ΟΔΥΣΣΕΥΣ', 'οδυσσευς', 'οδυσσευσ'],
  ['İzmir', nfd('İzmir'), 'i̇zmir'],
  ['\u1100\u1161\u11a8', '각'],
];
const apart = [
  'jose',
  'anna@example.com',
  'anna',
  'an na',
  'izmir',
  'ızmir',
  'user2',
  'user²',
  'strauss',
  'strauß',
  '',
];

test.each(alike)('%j and its other spellings have one key', (...spellings) => {
  expect(new Set(spellings.map(nameKey)).size).toBe(1);
  expect(nameKey(nameKey(spellings[0] ?? ''))).toBe(nameKey(spellings[0] ?? ''));
});

test('names that people tell apart have keys of their own', () => {
  expect(new Set(apart.map(nameKey)).size).toBe(apart.length);
});

test('what is missing names nobody', () => {
  expect([sameName(null, null), sameName(undefined, 'a'), sameName('', ''), sameName('A', 'a')]).toEqual([
    false,
    false,
    true,
    true,
  ]);
});

test('a plain name has two spellings to look for, one with accents has each form', () => {
  expect(spellingsOf(['Bo'])).toEqual(['Bo', 'bo']);
  expect(spellingsOf(['é'])).toEqual(['é', nfd('é')]);
});

test('values may differ in blanks between words, too', () => {
  expect(valueKey('Ana  Maria')).toBe(valueKey(' ana maria'));
  expect(valueKey('AnaMaria')).not.toBe(valueKey('ana maria'));
});

test('the condition of SQL lets every row with the key pass, and no plain row without it', () => {
  const database = new Database(':memory:');
  database.exec('CREATE TABLE users (name TEXT)');
  const names = [...alike.flat(), ...apart];
  for (const name of names) database.prepare('INSERT INTO users VALUES (?)').run(name);
  const find = database.prepare<[string], string>(`SELECT name FROM users WHERE ${mayHaveKeySql('name')}`).pluck();
  for (const name of names) {
    const found = find.all(JSON.stringify([nameKey(name)]));
    expect(found).toEqual(expect.arrayContaining(names.filter((each) => sameName(each, name))));
    expect(found.filter((each) => /^[!-~]+$/.test(each) && !sameName(each, name))).toEqual([]);
  }
  database.close();
});

test('nothing else compares the emails and names of users', () => {
  const root = join(import.meta.dirname, '../../src');
  const own =
    /(?:email|username|address)\w*\)?(?:\[\w+\])?[?.]*\.(?:normalize|to(?:Locale)?(?:Lower|Upper)Case)\(|lower\((?:email|username)|COLLATE NOCASE/i;
  const places = globSync('{bulk,mirror,cli,web,journal,data,store}/**/*.ts', { cwd: root }).flatMap((file) =>
    readFileSync(join(root, file), 'utf8')
      .split('\n')
      .flatMap((line) => (own.test(line) ? [`${file}: ${line.trim()}`] : [])),
  );
  expect(places).toEqual([]);
});
