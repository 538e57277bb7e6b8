import { describe, expect, onTestFinished, test } from 'vitest';
import { dictionary } from '../../src/data/dictionary.ts';
import { inventory, inventoryOf } from '../../src/data/inventory.ts';
import { relationTables } from '../../src/model/resources.ts';
import { flatViewSql, makeRelationTable } from '../../src/store/relations.ts';
import { openReadingStore } from '../../src/data/reading.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';

function snapshotOf(file: string) {
  const store = openReadingStore(file);
  const snapshot = store.snapshot();
  onTestFinished(() => {
    snapshot.release();
    store.close();
  });
  return snapshot;
}

describe('the data dictionary', () => {
  test('has exactly the tables, views and columns of a mirror, in their order', () => {
    const described = dictionary().map(({ name, kind, columns }) => ({
      name,
      kind,
      columns: columns.map((each) => each.name),
    }));
    const present = snapshotOf(mirrorFile())
      .relations()
      .map(({ name, kind, columns }) => ({ name, kind, columns: columns.map((each) => each.name) }));
    const byName = (a: { name: string }, b: { name: string }) => a.name.localeCompare(b.name);
    expect(described.toSorted(byName)).toEqual(present.toSorted(byName));
  });

  test('has the types of mirror columns, and which of them may be null', () => {
    const described = dictionary()
      .filter(({ kind }) => kind === 'table')
      .flatMap(({ name, columns }) =>
        columns
          .filter(({ source }) => source === 'mirror')
          .map((column) => [`${name}.${column.name}`, column.type.split(' ')[0], column.nullable]),
      );
    // A primary key is never null, even if not declared so.
    const keys = new Set(['mirror_epochs.from_seq', 'mirror_runs.run', 'mirror_events.event', 'mirror_locks.name']);
    const present = new Map<string, unknown[]>(
      snapshotOf(mirrorFile())
        .relations()
        .flatMap(({ name, columns }) => columns.map((column) => [`${name}.${column.name}`, column] as const))
        .map(([path, { type, notNull }]) => [path, [path, type, !notNull && !keys.has(path)]] as const),
    );
    expect(described).toEqual(described.map(([path]) => present.get(String(path))));
  });

  test.each(dictionary().map(({ name, example }) => [name, example]))(
    'has a working example for %s: %s',
    (_, example) => {
      const snapshot = snapshotOf(
        mirrorFile((database) => {
          insertRows(database, 'users', madeUpUsers(5));
          insertRows(database, 'coupons', [{ id: 1n, code: 'SPRING', applicable_products: '["1","2"]' }]);
        }),
      );
      expect(snapshot.query(example).columns.length).toBeGreaterThan(0);
      expect(() => [...snapshot.query(example).batches(() => 10)]).not.toThrow();
    },
  );
});

test('every column has a description', () => {
  const silent = inventory(undefined).flatMap(({ name, columns }) =>
    columns.filter(({ meaning }) => meaning === '').map((column) => `${name}.${column.name}`),
  );
  expect(silent).toEqual([]);
});

describe('related records', () => {
  function withRelations(): string {
    return mirrorFile((database) => {
      const list = database.prepare("INSERT INTO mirror_relations VALUES (?, ?, ?, 1, '[]', '')");
      for (const relation of relationTables) {
        makeRelationTable(database, relation);
        database.exec(flatViewSql(relation, []));
        list.run(relation.resource, relation.relation, relation.table);
      }
    });
  }

  test('have entries that match their tables, and working examples', () => {
    const snapshot = snapshotOf(withRelations());
    const tables = inventory(snapshot.relations()).filter(({ source }) => source === 'relation');
    expect(tables.map(({ name }) => name)).toEqual(relationTables.flatMap(({ table, view }) => [table, view]));
    expect(tables.flatMap(({ columns }) => columns.filter((column) => column.in_file !== true))).toEqual([]);
    expect(tables.flatMap(({ columns }) => columns.filter((column) => column.source === 'file'))).toEqual([]);
    for (const { example } of tables) expect(() => [...snapshot.query(example).batches(() => 10)]).not.toThrow();
  });
});

describe('the inventory', () => {
  test('says what a file lacks, and what it has in addition', () => {
    const file = mirrorFile((database) => {
      database.exec(
        'DROP VIEW users_by_day; ALTER TABLE coupons ADD COLUMN "points" ANY; CREATE VIEW mine AS SELECT 1 AS one',
      );
    });
    const tables = inventory(snapshotOf(file).relations());
    expect(inventoryOf(tables, 'users_by_day').in_file).toBe(false);
    expect(inventoryOf(tables, 'users')).toMatchObject({ in_file: true });
    expect(inventoryOf(tables, 'coupons').columns.at(-1)).toEqual({
      name: 'points',
      type: 'ANY',
      nullable: true,
      source: 'file',
      in_file: true,
      meaning: '',
    });
    expect(inventoryOf(tables, 'mine')).toMatchObject({ kind: 'view', in_file: true, columns: [{ name: 'one' }] });
  });

  test('leaves this open without a file', () => {
    expect(
      inventory(undefined).every(
        ({ in_file, columns }) => in_file === null && columns.every((each) => each.in_file === null),
      ),
    ).toBe(true);
  });
});
