import SqliteDatabase from 'better-sqlite3';
import { array, assert, constantFrom, integer, oneof, property, tuple } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { pageOf } from '../../src/api/body.ts';
import { readPageOf } from '../../src/mirror/page.ts';
import { recordRows } from '../../src/mirror/rows.ts';
import { cellIn, eachRow } from '../../src/mirror/store/upsert.ts';

import { newMirror, sync } from '../support/mirror.ts';
import { mirrorTables } from '../../src/store/schema.ts';
import { resourceNames, resourceOf, type FieldType, type ResourceName } from '../../src/model/resources.ts';
import { valuesOf } from '../support/rows.ts';

const usual: Readonly<Record<FieldType, string>> = {
  integer: '12',
  flag: '1',
  number: '171.19',
  string: String.raw`"caf\u00e9 <\/p>"`,
  timestamp: '"2026-03-11T10:20:30.000000Z"',
  any: '{"theme":"light","size":3}',
  object: '{"location":"Helsinki","cpu":100}',
  strings: '["36","9"]',
};

/** The JSON text of a record, with some of its values replaced. */
function recordText(resource: ResourceName, id: number, given: ReadonlyMap<number, string> = new Map()): string {
  const members = resourceOf(resource).fields.map(({ name, type }, at) => {
    return `"${name}":${name === 'id' ? id : (given.get(at) ?? usual[type])}`;
  });
  return `{${members.join(',')}}`;
}

function bodyWith(records: readonly string[]): string {
  return `{"status":true,"current_page":1,"data":[${records.join(',')}],"from":1,"last_page":1,"per_page":15,"total":${records.length}}`;
}

const plainLetters = ['a', 'é', '😀', '\u2028', '\u007f', "'", '{', '}', '[', ']', ',', ':', '\ufffd', ' '];
const escapes = ['\\n', '\\"', '\\\\', '\\/', '\\b', '\\u0001', '\\u0000', '\\u00e9', '\\ufeff', '\\u0041', '\\u2028'];
const surrogates = ['\\ud83d\\ude00', '\\ud83d', '\\ude00', '\\uD83D\\uDE00'];
const letters = constantFrom(...plainLetters, ...escapes, ...surrogates);
const texts = array(letters, { maxLength: 5 }).map((each) => `"${each.join('')}"`);
const numbers = '0 -0 7 -12 1.50 0.5 -0.5 -0.0 1e3 1E3 5.0 123456789012.345 12.3456'.split(' ');
const longNumbers = ['999999999999999', '9007199254740993', '0.1234567890123456789', '1e400', '-99999999999999999999'];
const objects = ['{}', '{"a":1,"a":2}', '{"b":1.0}', '{"2":1,"1":2}', '{"a":{}}', '{ }', '{"a":"\\/"}'];
const documents = [...objects, '[]', '["9"]', '[1]', '[1.0]'];
const value = oneof(texts, constantFrom('null', 'true', 'false', ...numbers, ...longNumbers, ...documents));

/** The page, read as a walk reads it. */
function read(resource: ResourceName, body: string, more: Partial<Parameters<typeof readPageOf>[1]> = {}) {
  const bytes = Buffer.from(body);
  const response = { status: 200, headers: {}, body, digest: 'new', bytes: bytes.length, milliseconds: 0 };
  const task = { resource, page: 1, relations: [], isMeant: () => true, ...more };
  return readPageOf({ ...response, cleanBytes: () => bytes }, task);
}

const isServed = (body: string): boolean => read('users', body).rows.isServed === true;

/** A function that stores a page in the mirror's table of the resource and returns the rows. */
function storing(resource: ResourceName) {
  const database = new SqliteDatabase(':memory:').defaultSafeIntegers();
  for (const table of mirrorTables) database.exec(table);
  const columns = [...resourceOf(resource).fields.map(({ name }) => name), '_extra'];
  const names = columns.map((name) => `"${name}"`).join(', ');
  const store = database.prepare<[Uint8Array]>(
    `INSERT INTO ${resource} (${names}, _first_seen_at, _changed_at) SELECT ${columns.map(cellIn).join(', ')}, '', '' FROM ${eachRow}`,
  );
  const rows = database.prepare(
    `DELETE FROM ${resource} RETURNING ${columns.map((name) => `typeof("${name}"), "${name}"`).join(', ')}`,
  );
  return (json: Uint8Array): unknown[] => {
    store.run(json);
    return rows.raw().all();
  };
}

describe.each(resourceNames)('a page of %s that is as documented', (resource) => {
  const stored = storing(resource);
  const { fields } = resourceOf(resource);

  test('gives the same rows, ids and drift as its records read one by one', () => {
    let taken = 0;
    const changes = array(tuple(integer({ min: 1, max: fields.length - 1 }), value), { maxLength: 2 });
    assert(
      property(array(changes, { minLength: 1, maxLength: 3 }), (records) => {
        const body = bodyWith(records.map((given, at) => recordText(resource, at + 1, new Map(given))));
        const { rows } = read(resource, body);
        if (rows.isServed !== true) return;
        taken += 1;
        const page = pageOf({ body, headers: {}, milliseconds: 0 }, 1, resource);
        const one = recordRows(resource, page.records);
        expect(stored(Buffer.from(body))).toEqual(stored(one.json));
        expect(rows.ids).toEqual(one.ids);
        expect(rows.drifts).toEqual(one.drifts);
      }),
      { numRuns: 1_000 },
    );
    expect(taken).toBeGreaterThan(100);
  });
});

test('records with a field that is not documented, or with two ids, are read one by one', () => {
  const plain = recordText('users', 1);
  expect(isServed(bodyWith([plain]))).toBe(true);
  expect(isServed(bodyWith([`{"colour":"red",${plain.slice(1)}`]))).toBe(false);
  expect(isServed(bodyWith([`{"id":2,${plain.slice(1)}`]))).toBe(false);
  expect(isServed(bodyWith([`${plain.slice(0, -1)},"username":"b"}`]))).toBe(false);
  expect(isServed(bodyWith([plain, `${plain.slice(0, -1)},"colour":"red"}`]))).toBe(false);
});

test.each([
  ['before it', '{"current_page":1,"data":[],', ''],
  ['after it', '{"current_page":1,', ',"data":[]'],
])('a body with another list %s is not stored as it is', (_, before, after) => {
  const body = `${before}"data":[${recordText('users', 1)}],"last_page":1,"per_page":15,"total":1${after}}`;
  expect(isServed(body)).toBe(false);
});

test.each([
  ['in chunks that end inside records and characters', () => 'é😀'],
  ['with records that are larger than a chunk', (id: number) => (id % 100 === 0 ? 'é'.repeat(70_000) : 'a')],
])('a page of a thousand records is checked %s', (_, nameOf) => {
  const ids = Array.from({ length: 1_000 }, (_each, at) => at + 1);
  const records = ids.map((id) => recordText('users', id, new Map([[1, `"${nameOf(id)}"`]])));
  const body = bodyWith(records).replace('"status":true', '"status":"é"');
  expect(isServed(body)).toBe(true);
  expect(read('users', body)).toMatchObject({ ids, total: 1_000 });
  expect(isServed(bodyWith([...records, '{"id":1}']))).toBe(false);
});

test('a text of millions of escapes is left to the parser', () => {
  const username = JSON.stringify('\n'.repeat(5_000_000));
  expect(isServed(bodyWith([recordText('users', 1, new Map([[1, username]]))]))).toBe(false);
});

describe('a page of which some records changed', () => {
  const idOf = (record: string) => Number.parseInt(record, 10);
  /** The body with records that are written as an id and a name. */
  const bodyOf = (records: readonly string[]) =>
    bodyWith(records.map((each) => recordText('users', idOf(each), new Map([[1, `"${each.slice(2)}"`]]))));
  const old = ['1 Ada', '2 Bob', '3 Cleo', '4 Dan'];

  function known() {
    const page = read('users', bodyOf(old), { hashesRecords: true });
    const ids = page.ids.filter((id) => id !== null);
    const numbers = { total: 4, lastPage: 1, perPage: 15, owned: 4, lastCreatedAt: null, rowsSum: 1 };
    return { key: 'k', hash: 'old', ids, records: page.hashes ?? null, ...numbers };
  }

  test.each([
    ['one', ['1 Ada', '2 Eve', '3 Cleo', '4 Dan'], [2]],
    ['the last', ['1 Ada', '2 Bob', '3 Cleo', '4 Eve'], [4]],
    ['one that moved onto it', ['2 Bob', '3 Cleo', '4 Dan', '5 Eve'], [5]],
    ['another with the same id', ['1 Ada', '1 Ada', '3 Cleo', '4 Dan'], [1, 4]],
  ] as const)('makes rows of those alone: %s', (_, records, changed) => {
    const page = read('users', bodyOf(records), { known: known(), hashesRecords: true });
    const whole = read('users', bodyOf(records), { hashesRecords: true });
    expect(page.ids).toEqual(whole.ids);
    expect([page.total, page.hashes]).toEqual([whole.total, whole.hashes]);
    // The last record is always read: its creation time is where the list ends.
    expect(page.rows.ids).toEqual([...new Set([...changed, ...records.slice(-1).map(idOf)])]);
    expect(page.unchanged?.size).toBe(records.length - page.rows.ids.length);
  });

  test('is read whole if its records cannot be told apart, or some belong to another window', () => {
    const spaced = bodyOf(old).replaceAll('},{', '}, {');
    expect(read('users', spaced, { known: known() }).unchanged).toBeUndefined();
    const nested = bodyOf([...old.slice(0, 3), '4 x']).replace('"theme":"light"', '"a":[{"b":1},{"id":2}]');
    expect(read('users', nested, { known: known() }).unchanged).toBeUndefined();
    expect(read('users', bodyOf(old), { known: { ...known(), owned: 3 } }).unchanged).toBeUndefined();
    expect(read('users', bodyOf(old), { known: { ...known(), records: null } }).unchanged).toBeUndefined();
  });
});

test.each([
  ['in the text of a field', (key: string) => `before ${key} after`],
  ['in base64', (key: string) => Buffer.from(key).toString('base64')],
])('a page that is as documented leaves no key in the mirror: %s', async (_, written) => {
  const { sandbox, file } = await newMirror({ users: 20, emails: 5 });
  sandbox.control.update('users', 3, { first_name: written(sandbox.key) });
  const { report } = await sync(sandbox, file);
  expect(report.status).toBe('complete');
  expect(valuesOf(file, 'SELECT first_name FROM users WHERE id = 3')).toEqual([expect.stringContaining('****')]);
});
