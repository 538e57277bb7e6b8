import { statSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { FileError, LockHeldError } from '../../src/model/errors.ts';
import { openWorkerStore, openWorkerStoreForReading } from '../../src/worker/store/sqlite.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { type Opened, workerStoreContract } from './contract.ts';

const run = { job: 'sync', cause: 'scheduled', occurrence: null, attempt: 1, command: 'c' } as const;
const end = { outcome: 'complete', exitCode: 0, problem: null, report: null } as const;

async function openedAt(file: string): Promise<Opened> {
  let now = Date.parse('2026-03-11T10:00:00Z');
  const open = () => {
    const store = openWorkerStore(file, { now: () => now });
    onTestFinished(() => store.close());
    return store;
  };
  return { store: open(), again: async () => open(), pass: (ms) => void (now += ms) };
}

describe("a worker's file", () => {
  workerStoreContract(() => openedAt(`${temporaryFolder()}/mirror.worker.db`));
});

async function opened() {
  const file = `${temporaryFolder()}/mirror.worker.db`;
  const { store } = await openedAt(file);
  const database = new SqliteDatabase(file);
  onTestFinished(() => void database.close());
  return { file, store, database };
}

test("a worker's file is private, and is not created by a reader", async () => {
  const { file, store } = await opened();
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(() => openWorkerStoreForReading(`${file}.none`)).toThrow(/no worker has run for this mirror/);
  const reading = openWorkerStoreForReading(file);
  await store.beginRun({ ...run, run: 'r1' });
  expect(await reading.runs(1)).toMatchObject([{ run: 'r1' }]);
  await expect(reading.beginRun({ ...run, run: 'r2', job: 'users' })).rejects.toThrow(FileError);
  await reading.close();
});

test("a worker's file is not written by a worker that lost its lock", async () => {
  const { store, database } = await opened();
  await store.acquireScheduler('w1');
  database.exec('DELETE FROM worker_locks');
  await expect(store.setHandled('sync', 0)).rejects.toThrow(LockHeldError);
  await expect(store.beginRun({ ...run, run: 'r1' })).rejects.toThrow(LockHeldError);
  await expect(store.saveAlerts([])).rejects.toThrow(LockHeldError);
  expect(await store.runs(9)).toEqual([]);
});

test("a worker's file that becomes unwritable as a run takes its lock leaves the job free", async () => {
  const { file, store, database } = await opened();
  database.exec(`CREATE TRIGGER full BEFORE INSERT ON worker_runs BEGIN SELECT RAISE(ABORT, 'full'); END;
    CREATE TRIGGER left BEFORE DELETE ON worker_locks BEGIN SELECT RAISE(ABORT, 'full'); END`);
  await expect(store.beginRun({ ...run, run: 'r1' })).rejects.toThrow(/full/);
  database.exec('DROP TRIGGER full; DROP TRIGGER left');
  const { store: other } = await openedAt(file);
  await other.beginRun({ ...run, run: 'r2' });
  expect(await other.endRun('r2', end)).toMatchObject({ run: 'r2', outcome: 'complete' });
});

test("a worker's file that was unwritable for a moment can be used again", async () => {
  const { store, database } = await opened();
  await store.acquireScheduler('w1');
  database.exec(`CREATE TRIGGER full BEFORE INSERT ON worker_locks BEGIN SELECT RAISE(ABORT, 'full'); END`);
  await expect(store.beginRun({ ...run, run: 'r1' })).rejects.toThrow(/full/);
  database.exec('DROP TRIGGER full');
  await store.adoptJobs([]);
  await store.beginRun({ ...run, run: 'r2' });
  expect(await store.endRun('r2', end)).toMatchObject({ run: 'r2', outcome: 'complete' });
});
