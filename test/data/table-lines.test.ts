// @module-tag full
import { Buffer } from 'node:buffer';
import type { Database } from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { exportChunks, type FileForm } from '../../src/data/export.ts';
import type { TableRequest } from '../../src/data/selection.ts';
import { openReadingStore, type ReadingStore } from '../../src/data/reading.ts';
import { resourceNames } from '../../src/model/resources.ts';
import { quoteName } from '../../src/store/schema.ts';
import { insertRows, madeUpUsers, mirrorFile, type StoredValue } from '../support/mirror-file.ts';

const rows = 2_000;

/** Texts that a line must escape or may misread. */
const nastyTexts = [
  '',
  '"',
  '""',
  'a,"x',
  'b",c',
  'x,y',
  'p"q',
  'a;b',
  'a;=1',
  'tab\tin',
  'line\nbreak',
  'line\r\nbreak',
  'null\0in',
  '=1',
  '+49 30',
  '-1',
  '@x',
  ' =1',
  '\uFEFFx',
  '＝1',
  '\u061C=1',
  '\u3000=1',
  '#x',
  '.x',
  '💰',
  'Жук',
  '李',
  '{}',
  '{"a":[1.0,"x\\u0000"]}',
  '["é",\n 1]',
  '{"a":1,}',
  '[01]',
  '"{}"',
  '\u0001=1',
  '\u0002',
  'a\u0003"b',
  '\u007F\u2028\b',
];
const nastyNumbers = [-0, -1.5, 0.1 + 0.2, 1e15, 1e21, 1e-7, 123456789.123456, 0.00005, Infinity, -Infinity, 2 ** 60];

/** Users of which every nth has nasty values, in changing columns. */
function* users(every: number): Generator<Readonly<Record<string, StoredValue>>> {
  const names = ['username', 'email', 'first_name', 'last_name', 'avatar', 'data', 'language', 'updated_at'];
  let at = 0;
  for (const user of madeUpUsers(rows)) {
    // A column whose texts are always in quotes is written in another way.
    const plain = { ...user, first_name: 'Anna', last_name: 'Smith', data: '{"a":"b; c"}' };
    if (Number(user['id']) < 200 || Number(user['id']) % every !== 0) {
      yield plain;
      continue;
    }
    at += 1;
    const text = nastyTexts[at % nastyTexts.length] ?? '';
    const [name = '', next = ''] = [names[at % names.length], names[(at + 1) % names.length]];
    const balance = at % 3 === 0 ? { balance: nastyNumbers[at % nastyNumbers.length] ?? 0 } : {};
    yield { ...plain, [name]: text, [next]: nastyTexts[(at * 7) % nastyTexts.length] ?? '', ...balance };
  }
}

async function exported(store: ReadingStore, what: TableRequest, form: Partial<FileForm> = {}): Promise<string> {
  const chunks = exportChunks(
    store,
    { what, form: { format: 'csv', raw: false, compression: null, bom: false, ...form } },
    { signal: new AbortController().signal, onRows: () => {}, onWarning: () => {} },
  );
  return Buffer.concat(await Array.fromAsync(chunks)).toString();
}

describe.each([
  ['now and then', 37],
  ['often', 5],
  ['in every row', 1],
])('a table with cells that need quotes and guards %s', (_, every) => {
  const file = () => mirrorFile((database) => insertRows(database, 'users', users(every)));

  test.each<[string, Partial<FileForm>, string[] | undefined]>([
    ['CSV', {}, undefined],
    ['TSV', { format: 'tsv' }, undefined],
    ['JSON lines', { format: 'jsonl' }, undefined],
    ['CSV without the guard', { raw: true }, undefined],
    ['CSV whose lines begin with a number that may be negative', {}, ['balance', 'username', 'last_name', 'id']],
  ])('is the same %s by lines as by cells', async (__, form, columns) => {
    const store = openReadingStore(file());
    onTestFinished(() => store.close());
    const textOf = (where: { readonly where?: string }) =>
      exported(store, { relation: 'users', meta: true, ...(columns === undefined ? {} : { columns }), ...where }, form);
    // An export with a condition is written cell by cell.
    expect((await textOf({})).split('\n')).toEqual((await textOf({ where: 'true' })).split('\n'));
  });
});

/** Tables whose rows a mirror could not be opened with: they list tables, or number changes. */
const kept = ['mirror_relations', 'mirror_cursor'];

/** Fills every other table with rows of nasty values, as far as its keys let it. */
function filledTables(database: Database): void {
  database.pragma('ignore_check_constraints = ON');
  database.pragma('foreign_keys = OFF');
  const tables = database.pragma('table_list') as readonly { readonly name: string; readonly type: string }[];
  for (const { name, type: kind } of tables) {
    if (kind !== 'table' || name.startsWith('sqlite_') || kept.includes(name)) continue;
    const columns = database.pragma(`table_info(${quoteName(name)})`) as readonly {
      readonly name: string;
      readonly type: string;
    }[];
    const insert = database.prepare(
      `INSERT OR IGNORE INTO ${quoteName(name)} (${columns.map((column) => quoteName(column.name)).join(', ')})
       VALUES (${columns.map(() => '?').join(', ')})`,
    );
    for (let row = 1; row <= 300; row += 1) {
      insert.run(
        columns.map(({ type }, at) => {
          if (type === 'INTEGER') return BigInt(row);
          if (type === 'REAL') return nastyNumbers[(row * 3 + at) % nastyNumbers.length] ?? 0;
          const isNasty = row > 100 && (row + at) % 11 === 0;
          return isNasty ? (nastyTexts[(row * 7 + at) % nastyTexts.length] ?? '') : `text ${row}`;
        }),
      );
    }
  }
}

test.each(['csv', 'jsonl'] as const)(
  'every table is the same %s whole, out of SQLite, as row by row',
  async (format) => {
    const store = openReadingStore(mirrorFile(filledTables));
    onTestFinished(() => store.close());
    const snapshot = store.snapshot();
    const tables = snapshot.relations().map(({ name }) => name);
    snapshot.release();
    let filled = 0;
    for (const relation of tables) {
      const lines = await exported(store, { relation, meta: true }, { format });
      const cells = await exported(store, { relation, meta: true, where: 'true' }, { format });
      expect([relation, lines]).toEqual([relation, cells]);
      if (lines.split('\n').length > 200) filled += 1;
    }
    expect(filled).toBeGreaterThan(2 * resourceNames.length);
  },
);
