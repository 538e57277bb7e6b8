import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, chmodSync, existsSync, readdirSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import SqliteDatabase from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { placeDurableFile } from '../../src/store/files/durable-file.ts';
import { type CopyRun, checkCopy, copyFile } from '../../src/data/copy-source.ts';
import { mirrorKind, openMirrorFile, openMirrorForReading } from '../../src/store/open.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';
import { isFull } from '../support/part.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const run: CopyRun = { signal: new AbortController().signal, progress: () => {} };

function filledMirror(users: number): string {
  return mirrorFile((database) => {
    insertRows(database, 'users', madeUpUsers(users));
    insertRows(database, 'packages', [{ id: 1n, global_quantity: 0n }]);
    database.exec("UPDATE users SET balance = 100; INSERT INTO mirror_server VALUES (1, '0')");
  });
}

test('a copy made while rows change in pairs always has one consistent state', { tags: 'full' }, async () => {
  const users = 5_000;
  const copies = isFull ? 12 : 4;
  const file = filledMirror(users);
  const writer = spawn(process.execPath, [fileURLToPath(new URL('../support/pair-writer.ts', import.meta.url)), file]);
  onTestFinished(() => void writer.kill('SIGKILL'));
  await once(writer.stdout, 'data');
  const moves: number[] = [];
  const look = openMirrorForReading(file);
  onTestFinished(() => void look.close());
  const moved = look.prepare<[], number>('SELECT CAST(address AS INTEGER) FROM mirror_server');
  for (let at = 0; at < copies; at += 1) {
    // On a busy machine the writer may not have run since the last copy.
    while ((moved.pluck().get() ?? 0) <= (moves.at(-1) ?? 0)) await setTimeout(1);
    const copy = join(temporaryFolder(), 'copy.db');
    let shares = 0;
    await copyFile(mirrorKind, file, copy, { ...run, progress: () => (shares += 1) }, 'whole');
    expect(shares).toBeGreaterThan(0);
    const database = openMirrorForReading(copy);
    const state = database
      .prepare<[], { sum: number; noted: number; moves: number }>(
        `SELECT (SELECT sum(balance) FROM users) AS sum, (SELECT global_quantity FROM packages) AS noted,
           (SELECT CAST(address AS INTEGER) FROM mirror_server) AS moves`,
      )
      .get();
    database.close();
    expect(state).toMatchObject({ sum: users * 100, noted: state?.moves });
    moves.push(state?.moves ?? 0);
  }
  // The mirror was written all the time, and each copy is of its own moment.
  expect(new Set(moves).size).toBe(copies);
  expect(moves).toEqual(moves.toSorted((a, b) => a - b));
});

test('a copy has one consistent state even if the log restarts during it', { tags: 'full' }, async () => {
  const file = filledMirror(10);
  const writer = openMirrorFile(file);
  onTestFinished(() => void writer.close());
  writer.pragma('wal_autocheckpoint = 0');
  const note = writer.prepare('UPDATE mirror_server SET address = ?');
  note.run('early');
  writer.exec(
    'CREATE TABLE filling (bytes BLOB); INSERT INTO filling VALUES (randomblob(20000000)); DROP TABLE filling',
  );
  note.run('late');
  writer.pragma('wal_checkpoint(PASSIVE)');
  const { size } = statSync(file);
  let begunAnew = 0;
  const progress = (share: number) => {
    const copied = share * (size + statSync(`${file}-wal`).size);
    if (copied <= size + 1_000_000 || begunAnew > 0) return;
    begunAnew += 1;
    note.run('later');
  };
  const copy = join(temporaryFolder(), 'copy.db');
  await copyFile(mirrorKind, file, copy, { ...run, progress }, 'whole');
  const database = openMirrorForReading(copy);
  const value = database.prepare('SELECT address FROM mirror_server').pluck().get();
  database.close();
  expect({ begunAnew, value }).toEqual({ begunAnew: 1, value: 'later' });
});

test('a copy does not drop the locks of other connections in the same process', async () => {
  const file = filledMirror(10);
  const reader = openMirrorForReading(file);
  onTestFinished(() => void reader.close());
  expect(reader.prepare('SELECT count(*) FROM users').pluck().get()).toBe(10);
  await copyFile(mirrorKind, file, join(temporaryFolder(), 'copy.db'), run, 'opened');
  // Another process can open the file exclusively only if nobody else has a lock on it.
  const script = `const db = require('better-sqlite3')(${JSON.stringify(file)}, { timeout: 0 });
    db.pragma('locking_mode = EXCLUSIVE'); db.exec('DELETE FROM users')`;
  const folder = fileURLToPath(new URL('../..', import.meta.url));
  const { stderr } = spawnSync(process.execPath, ['-e', script], { cwd: folder, encoding: 'utf8' });
  expect(stderr).toContain('database is locked');
  expect(reader.prepare('SELECT count(*) FROM users').pluck().get()).toBe(10);
});

test('a copy is private, has no log and no lock owner, and is readable on a read-only folder', async () => {
  const file = filledMirror(10);
  const writer = openMirrorFile(file);
  onTestFinished(() => void writer.close());
  writer.exec("INSERT INTO mirror_locks VALUES ('sync', 'run', 'sync', 1, 'host', '')");
  const folder = temporaryFolder();
  const copy = join(folder, 'copy.db');
  await copyFile(mirrorKind, file, copy, run, 'opened');
  expect(readdirSync(folder)).toEqual(['copy.db']);
  expect(statSync(copy).mode & 0o777).toBe(0o600);
  chmodSync(copy, 0o400);
  chmodSync(folder, 0o500);
  onTestFinished(() => chmodSync(folder, 0o700));
  const database = openMirrorForReading(copy);
  expect(database.pragma('journal_mode', { simple: true })).toBe('delete');
  expect(database.prepare('SELECT count(*) AS n FROM mirror_locks').get()).toEqual({ n: 0 });
  expect(database.prepare('SELECT count(*) AS n FROM users').get()).toEqual({ n: 10 });
  database.close();
  expect(readdirSync(folder)).toEqual(['copy.db']);
});

test('a stopped copy leaves nothing, and the next copy removes what a killed one left', async () => {
  const file = filledMirror(20_000);
  const folder = temporaryFolder();
  const target = join(folder, 'copy.db');
  const stop = new AbortController();
  const stopping = { signal: stop.signal, progress: (share: number) => void (share > 0 && stop.abort()) };
  const make = (signal: AbortSignal, copyRun: CopyRun) =>
    placeDurableFile(target, (temporary) => copyFile(mirrorKind, file, temporary, copyRun, 'opened'), signal);
  await expect(make(stop.signal, stopping)).rejects.toThrow('aborted');
  expect(readdirSync(folder)).toEqual([]);
  const child = spawn(process.execPath, [
    '-e',
    `const fs = require('node:fs'); const name = '.copy.db.' + require('node:os').hostname().replaceAll(/[^\\w-]/g, '-').slice(0, 40) + '.' + process.pid + '.00000000.partial';
     for (const end of ['', '-journal']) fs.writeFileSync('${folder}/' + name + end, 'half');`,
  ]);
  await once(child, 'close');
  expect(readdirSync(folder)).toHaveLength(2);
  await make(run.signal, run);
  expect(readdirSync(folder)).toEqual(['copy.db']);
});

test('a truncated or damaged copy fails its check', async () => {
  const file = filledMirror(2_000);
  const copy = join(temporaryFolder(), 'copy.db');
  await copyFile(mirrorKind, file, copy, run, 'whole');
  const database = new SqliteDatabase(copy);
  database.unsafeMode();
  database.pragma('writable_schema = ON');
  // An index that differs from its table.
  database.exec(
    "UPDATE sqlite_schema SET sql = replace(sql, 'created_at\")', 'updated_at\")') WHERE name = 'users_created_at'",
  );
  database.close();
  expect(() => checkCopy(mirrorKind, copy, 'opened')).not.toThrow();
  expect(() => checkCopy(mirrorKind, copy, 'whole')).toThrow(/the copy of the mirror is not sound/);
  appendFileSync(copy, Buffer.alloc(4_096));
  expect(() => checkCopy(mirrorKind, copy, 'opened')).toThrow(/not sound: it has \d+ bytes instead of \d+/);
  truncateSync(copy, statSync(copy).size - 2 * 4_096);
  expect(() => checkCopy(mirrorKind, copy, 'opened')).toThrow(/not sound: database disk image is malformed/);
  expect(existsSync(`${copy}-journal`)).toBe(false);
});
