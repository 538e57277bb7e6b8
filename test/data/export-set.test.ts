// @module-tag full
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { exportSet, manifestProgram, type SetRequest } from '../../src/data/export-set.ts';
import { removeDurableFolder } from '../../src/store/files/durable-folder.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { type ReadingStore, openReadingStore } from '../../src/data/reading.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const clock = { now: () => Date.parse('2026-03-11T10:00:00Z') };
const never = new AbortController().signal;

function opened(file: string): ReadingStore {
  const store = openReadingStore(file);
  onTestFinished(() => store.close());
  return store;
}

function mirror(users = 3): string {
  return mirrorFile((database) => {
    insertRows(database, 'users', madeUpUsers(users));
    database.exec('CREATE VIEW mine AS SELECT 1 AS one');
  });
}

interface Tried extends Partial<Omit<SetRequest, 'form'>> {
  readonly format?: SetRequest['form']['format'];
  readonly signal?: AbortSignal;
  readonly onRows?: () => void;
}

function write(store: ReadingStore, folder: string, { format = 'csv', signal = never, onRows, ...tried }: Tried = {}) {
  const form = { format, raw: false, compression: null, bom: false };
  const request = { folder, form, meta: false, check: () => {}, ...tried };
  return exportSet(store, request, { signal, clock, onRows: onRows ?? (() => {}), onWarning: () => {} });
}

const tables = ['users', 'packages', 'emails', 'coupons'];
const names = [...tables, ...tables.map((name) => `${name}_history`), 'mirror_freshness'];

/** The manifest, after a check that each file matches it. */
function look(folder: string) {
  const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as Awaited<ReturnType<typeof write>>;
  for (const { file, bytes, sha256 } of manifest.files) {
    const content = readFileSync(join(folder, file));
    expect({ bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') }).toEqual({
      bytes,
      sha256,
    });
  }
  return manifest;
}

describe('an export of all tables', () => {
  test('creates the folder, and lists rows, columns and hashes in the manifest', async () => {
    const folder = join(temporaryFolder(), 'exports');
    const manifest = await write(opened(mirror()), folder);
    expect(readdirSync(folder).sort()).toEqual([...names.map((name) => `${name}.csv`), 'manifest.json'].sort());
    expect(look(folder)).toEqual(manifest);
    expect(manifest).toMatchObject({ program: 'admin-mirror', snapshot_at: '2026-03-11T10:00:00.000000Z' });
    expect(manifest.files.map(({ table }) => table)).toEqual(names);
    expect(manifest.files[0]).toMatchObject({
      table: 'users',
      file: 'users.csv',
      format: 'csv',
      rows: 3,
      fresh_as_of: null,
    });
    expect(manifest.files[0]?.columns.slice(0, 2)).toEqual([
      { name: 'id', type: 'INTEGER' },
      { name: 'username', type: 'TEXT' },
    ]);
  });

  test('includes related records with their views, and the freshness of each table', async () => {
    const file = mirror();
    const writer = openMirrorFile(file);
    writer.exec(`CREATE TABLE user_orders (user_id INTEGER, id ANY, record TEXT, _key ANY);
      CREATE VIEW user_orders_flat AS SELECT user_id, record ->> 'total' AS total FROM user_orders;
      INSERT INTO user_orders VALUES (1, 7, '{"total":12.5}', '7')`);
    writer.close();
    const fresh = '2026-03-11T09:00:00.000000Z';
    const store = opened(file);
    const manifest = await write(
      {
        ...store,
        snapshot: () => ({ ...store.snapshot(), freshness: () => new Map([['users', fresh as never]]) }),
      },
      join(temporaryFolder(), 'exports'),
    );
    const known = manifest.files.map(({ table, rows, fresh_as_of: at }) => [table, rows, at]);
    expect(known).toContainEqual(['user_orders', 1, fresh]);
    expect(known).toContainEqual(['user_orders_flat', 1, fresh]);
    expect(known).toContainEqual(['users_history', 0, fresh]);
    expect(known).toContainEqual(['packages', 0, null]);
  });

  test('shows a single state, whatever is committed meanwhile', async () => {
    const file = mirror(25_000);
    const writer = openMirrorFile(file);
    onTestFinished(() => void writer.close());
    let commits = 0;
    const folder = join(temporaryFolder(), 'exports');
    const onRows = () => {
      if (commits++ === 0)
        writer.exec(
          "INSERT INTO users_history (id, change, valid_from, valid_to, record) VALUES (1, 'deleted', '', '', '{}'); DELETE FROM users WHERE id > 10",
        );
    };
    const manifest = await write(opened(file), folder, { onRows });
    expect(manifest.files.map(({ rows }) => rows).slice(0, 5)).toEqual([25_000, 0, 0, 0, 0]);
  });

  test('replaces an older one: removes its old files and keeps others', async () => {
    const folder = temporaryFolder();
    const store = opened(mirror());
    await write(store, folder);
    writeFileSync(join(folder, 'notes.txt'), 'mine');
    await write(store, folder, { format: 'jsonl' });
    expect(readdirSync(folder).sort()).toEqual(
      [...names.map((name) => `${name}.jsonl`), 'manifest.json', 'notes.txt'].sort(),
    );
    look(folder);
  });

  test('leaves the older one unchanged if it is stopped', async () => {
    const folder = temporaryFolder();
    await write(opened(mirror()), folder);
    const before = look(folder);
    const stop = new AbortController();
    const tried = { signal: stop.signal, onRows: () => stop.abort(new Error('stopped')) };
    await expect(write(opened(mirror(5)), folder, tried)).rejects.toThrow('stopped');
    expect(look(folder)).toEqual(before);
    expect(readdirSync(folder)).toHaveLength(names.length + 1);
  });

  test('leaves no new folder if it is stopped', async () => {
    const outer = temporaryFolder();
    const stop = new AbortController();
    const tried = { signal: stop.signal, onRows: () => stop.abort(new Error('stopped')) };
    await expect(write(opened(mirror()), join(outer, 'exports'), tried)).rejects.toThrow('stopped');
    expect(readdirSync(outer)).toEqual([]);
  });

  test.each([false, true])('has no manifest while files are replaced (older one there: %s)', async (older) => {
    const folder = temporaryFolder();
    const store = opened(mirror());
    if (older) await write(store, folder);
    // A folder with the name of a file makes renaming fail half-way, like a crash.
    mkdirSync(join(folder, 'emails.jsonl'));
    await expect(write(store, folder, { format: 'jsonl' })).rejects.toMatchObject({ exitCode: 2 });
    expect(existsSync(join(folder, 'users.jsonl'))).toBe(true);
    expect(existsSync(join(folder, 'manifest.json'))).toBe(false);
  });

  test("refuses a file, and a folder with another program's manifest", async () => {
    const outer = temporaryFolder();
    const store = opened(mirror());
    writeFileSync(join(outer, 'manifest.json'), '{"name":"a web application"}');
    await expect(write(store, outer)).rejects.toMatchObject({
      message: expect.stringContaining('does not belong to admin-mirror'),
    });
    await expect(write(store, join(outer, 'manifest.json'))).rejects.toMatchObject({
      message: expect.stringContaining('it is a file'),
    });
    expect(readdirSync(outer)).toEqual(['manifest.json']);
  });

  test('can be removed, except for files that somebody else put there', async () => {
    const outer = temporaryFolder();
    const store = opened(mirror());
    for (const name of ['one', 'two']) await write(store, join(outer, name));
    writeFileSync(join(outer, 'two', 'notes.txt'), 'mine');
    mkdirSync(join(outer, 'three'));
    expect(await removeDurableFolder(join(outer, 'one'), manifestProgram)).toBe(true);
    expect(await removeDurableFolder(join(outer, 'two'), manifestProgram)).toBe(false);
    expect(await removeDurableFolder(join(outer, 'three'), manifestProgram)).toBe(false);
    expect(readdirSync(outer).sort()).toEqual(['three', 'two']);
    expect(readdirSync(join(outer, 'two'))).toEqual(['notes.txt']);
  });
});
