import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { relationTable } from '../../src/model/resources.ts';
import { relatedList, relatedRows } from '../../src/mirror/cell.ts';
import { flatViewSql } from '../../src/store/relations.ts';

describe('the value of a relation', () => {
  test.each<[string, unknown, unknown[]]>([
    ['a list', [{ id: 1 }, { id: 2 }], [{ id: 1 }, { id: 2 }]],
    ['one record', { id: 1, name: 'a' }, [{ id: 1, name: 'a' }]],
    ['null', null, []],
    ['an empty list', [], []],
    ['an empty object', {}, []],
    ['a list from which PHP removed elements', { 0: { id: 1 }, 4: { id: 2 } }, [{ id: 1 }, { id: 2 }]],
    ['a record whose keys are numbers', { 0: 'a', 4: { id: 2 } }, [{ 0: 'a', 4: { id: 2 } }]],
    ['names alone', ['admin', 'staff'], ['admin', 'staff']],
    ['a single value', 'admin', ['admin']],
    ['a list with some nulls', [null, { id: 1 }, null], [{ id: 1 }]],
  ])('may be %s', (_, value, list) => {
    expect(relatedList(value)).toEqual(list);
  });

  test('keeps all digits of integers beyond 2^53', () => {
    const [row] = relatedRows([{ id: 9_007_199_254_740_993n, total: 1n }]);
    expect(row).toMatchObject({
      id: '9007199254740993',
      key: '9007199254740993',
      record: '{"id":9007199254740993,"total":1}',
    });
  });

  test('that is not an object has its position as key, and one value column', () => {
    const rows = relatedRows(['admin', 'staff']);
    expect(rows.map(({ key, id, keys }) => [key, id, keys])).toEqual([
      ['#1', null, [null]],
      ['#2', null, [null]],
    ]);
    const database = new SqliteDatabase(':memory:');
    database.exec('CREATE TABLE user_groups (user_id INTEGER, record TEXT)');
    database.exec(flatViewSql(relationTable('users', 'groups'), [null, 'value']));
    const insert = database.prepare('INSERT INTO user_groups VALUES (1, ?)');
    for (const record of [...rows.map(({ record }) => record), '[1]', '{"value":5}']) insert.run(record);
    expect(database.prepare('SELECT value, value_2 FROM user_groups_flat').raw().all()).toEqual([
      ['admin', null],
      ['staff', null],
      ['[1]', null],
      [null, 5],
    ]);
    database.close();
  });
});

test('a view of more keys than a view can have columns has the first ones', () => {
  const database = new SqliteDatabase(':memory:');
  database.exec('CREATE TABLE user_permissions (user_id INTEGER, record TEXT)');
  const keys = Array.from({ length: 3_000 }, (_, index) => `permission.${index}`);
  database.exec(flatViewSql(relationTable('users', 'permissions'), keys));
  expect(database.prepare('SELECT * FROM user_permissions_flat').columns()).toHaveLength(1 + 1_000);
  database.close();
});

test('keys that SQL or JSON must escape are found', () => {
  const database = new SqliteDatabase(':memory:');
  database.exec('CREATE TABLE user_oauth (user_id INTEGER, record TEXT)');
  const keys = ['a\0b', 'tab\t', "';--", '"', '\\', '$', '#-1', ' '];
  database.exec(flatViewSql(relationTable('users', 'oauth'), keys));
  const record = JSON.stringify(Object.fromEntries(keys.map((key, index) => [key, index])));
  database.prepare('INSERT INTO user_oauth VALUES (1, ?)').run(record);
  expect(database.prepare('SELECT * FROM user_oauth_flat').raw().all()).toEqual([[1, ...keys.keys()]]);
  database.close();
});
