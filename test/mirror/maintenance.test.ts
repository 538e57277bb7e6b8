// @module-tag full
/** What a run leaves behind: old run records are pruned, the log is folded in and bounded, and the disk is not filled. */
import { existsSync, statSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { watchLog } from '../../src/mirror/run-bounds.ts';
import type { SyncEvent } from '../../src/store/mirror-types.ts';
import { dayMs } from '../../src/model/time.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { sync } from '../support/mirror.ts';
import { rowsOf } from '../support/relations.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const newFile = (): string => `${temporaryFolder()}/mirror.db`;

/** Opens a reader that holds the current state until the test ends. */
function holdReading(file: string): void {
  const reader = new SqliteDatabase(file, { readonly: true });
  reader.exec('BEGIN');
  reader.prepare('SELECT count(*) FROM users').get();
  onTestFinished(() => void reader.close());
}

describe('the records of runs', () => {
  test('are pruned when they are old, with their events, but schema drift stays on record', async () => {
    const sandbox = await startSandbox({ users: 3, emails: 3 });
    const file = newFile();
    await sync(sandbox, file);
    const database = openMirrorFile(file);
    const [old, recent] = [30, 5].map((days) => new Date(sandboxNow - days * dayMs).toISOString());
    for (let at = 0; at < 1_200; at += 1) {
      database
        .prepare("INSERT INTO mirror_runs (run, command, status, started_at) VALUES (?, 'sync', 'complete', ?)")
        .run(`old ${at}`, old);
      database
        .prepare("INSERT INTO mirror_events (at, kind, subject) VALUES (?, 'clock_set_back', ?)")
        .run(old, `old ${at}`);
    }
    database.exec(`INSERT INTO mirror_run_resources (run, resource, status) VALUES ('old 1', 'users', 'complete');
      INSERT INTO mirror_runs (run, command, status, started_at) VALUES ('recent', 'sync', 'failed', '${recent}');
      INSERT INTO mirror_events (at, resource, kind, subject) VALUES ('${old}', 'users', 'unknown_field', 'nickname'),
        ('${recent}', 'users', 'clock_set_back', 'recent')`);
    database.close();
    await sync(sandbox, file, { runsKeepMs: 20 * dayMs, eventsKeepMs: 20 * dayMs });
    expect(rowsOf(file, "SELECT run FROM mirror_runs WHERE run LIKE 'old%'")).toEqual([]);
    expect(rowsOf(file, "SELECT run FROM mirror_run_resources WHERE run LIKE 'old%'")).toEqual([]);
    expect(rowsOf(file, 'SELECT count(*) AS n FROM mirror_runs')).toEqual([{ n: 3 }]);
    expect(rowsOf(file, 'SELECT subject FROM mirror_events ORDER BY event')).toEqual([
      { subject: 'nickname' },
      { subject: 'recent' },
    ]);
  });

  test('stay if no limit is set', async () => {
    const sandbox = await startSandbox({ users: 3, emails: 3 });
    const file = newFile();
    const clock = { now: () => sandboxNow - 1_000 * dayMs };
    const store = openMirrorStore(file, clock);
    store.beginRun('old', 'sync', []);
    store.finishRun('old', { status: 'failed', requests: 0, retries: 0, answers: {}, problem: null });
    store.close();
    await sync(sandbox, file);
    expect(rowsOf(file, 'SELECT count(*) AS n FROM mirror_runs')).toEqual([{ n: 2 }]);
  });
});

describe('the log of the mirror', () => {
  test('is folded in at the end of a run, and the statistics hold no samples of the data', async () => {
    const sandbox = await startSandbox();
    const file = newFile();
    await sync(sandbox, file);
    expect(existsSync(`${file}-wal`) ? statSync(`${file}-wal`).size : 0).toBe(0);
    const known = rowsOf<{ name: string }>(file, "SELECT name FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'");
    const samples = known.filter(({ name }) => name !== 'sqlite_stat1');
    expect(samples.flatMap(({ name }) => rowsOf(file, `SELECT * FROM "${name}"`))).toEqual([]);
  });

  test(
    'that a reader holds back is reported, and ends the run cleanly if it reaches the limit',
    { timeout: 60_000 },
    async () => {
      const sandbox = await startSandbox({ users: 6_000, emails: 0 });
      const file = newFile();
      openMirrorFile(file).close();
      holdReading(file);
      const events: SyncEvent[] = [];
      const request = {
        pageSize: 100,
        resources: ['users'] as const,
        onEvent: (event: SyncEvent) => void events.push(event),
      };
      const { report, error } = await sync(sandbox, file, { ...request, maxLogBytes: 1_000_000 });
      expect(report.status).toBe('partial');
      expect(error).toMatchObject({
        exitCode: 5,
        message: expect.stringMatching(/log has grown to [1-4]\.\d MB, .*1\.0 MB is the most that it may take/),
      });
      expect(report.resources.users).toMatchObject({
        status: 'partial',
        problem: expect.stringMatching(/log has grown/),
      });
      const told = rowsOf(file, "SELECT detail FROM mirror_events WHERE kind = 'log_held'");
      expect(told.length).toBeGreaterThan(0);
      expect(events.filter(({ kind }) => kind === 'notice')).toHaveLength(told.length);
      // At most what is written at once by the windows that are read side by side.
      expect(statSync(`${file}-wal`).size).toBeLessThan(5_000_000);
    },
  );

  test('starts again once the reader is gone, and the next run continues', { timeout: 60_000 }, async () => {
    const sandbox = await startSandbox({ users: 6_000, emails: 0 });
    const file = newFile();
    openMirrorFile(file).close();
    const reader = new SqliteDatabase(file, { readonly: true });
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM users').get();
    const request = { pageSize: 100, resources: ['users'] as const, maxLogBytes: 1_000_000 };
    expect((await sync(sandbox, file, request)).report.status).toBe('partial');
    reader.close();
    const { report } = await sync(sandbox, file, request);
    expect(report.status).toBe('complete');
    expect(report.resources.users?.live).toBe(6_000);
    expect(existsSync(`${file}-wal`) ? statSync(`${file}-wal`).size : 0).toBe(0);
  });

  test('is watched from the start again once it could be folded in', () => {
    let size = 0;
    const folds: number[] = [];
    const stops: unknown[] = [];
    let held = true;
    const look = watchLog(
      {
        store: {
          logBytes: () => size,
          checkpoint: () => {
            folds.push(size);
            return held ? 'held' : 'folded';
          },
          recordEvent: () => {},
        },
        run: 'one',
        emit: () => {},
        stop: (reason) => void stops.push(reason),
      },
      1_600,
    );
    for (size = 50; size <= 450; size += 50) look();
    expect(folds).toEqual([100, 200, 400]);
    held = false;
    size = 800;
    look();
    for (size = 50; size <= 150; size += 50) look();
    expect(folds).toEqual([100, 200, 400, 800, 100, 150]);
    expect(stops).toEqual([]);
    held = true;
    size = 1_700;
    look();
    look();
    expect(stops).toHaveLength(1);
  });
});

describe('a disk without room', () => {
  test('is reported after a few pages, with the space that is needed, the space that is free, and where', async () => {
    const sandbox = await startSandbox({ users: 120_000, emails: 0, packages: 0, coupons: 0 });
    const file = newFile();
    const tried = { resources: ['users'], pageSize: 500 } as const;
    const { report, error } = await sync(sandbox, file, { ...tried, freeSpace: () => 10_000_000 });
    const [, needed] = /^no room to sync: it needs about (\d+) MB on the disk of \S+, where 10 MB are free$/.exec(
      error?.message ?? '',
    ) ?? ['', '0'];
    expect(error).toMatchObject({
      exitCode: 2,
      advice: `Make room for ${Number(needed) - 10} MB more, or use another disk. What is there is unharmed.`,
    });
    expect(report.status).toBe('partial');
    // Windows are read side by side, and write eight pages at a time.
    expect(report.resources.users?.received).toBeLessThan(60_000);
  });

  test('is reported with nearly the size that the mirror then has', { tags: 'full' }, async () => {
    const sandbox = await startSandbox({ users: 100_000, emails: 0, packages: 0, coupons: 0 });
    const file = newFile();
    const tried = { resources: ['users'], pageSize: 500 } as const;
    const { error } = await sync(sandbox, file, { ...tried, freeSpace: () => 10_000_000 });
    const needed = /about (\d+) MB/.exec(error?.message ?? '')?.[1];
    const { error: none } = await sync(sandbox, file, { ...tried, freeSpace: () => Number(needed) * 1e6 });
    expect(none).toBeNull();
    // The prediction is nearly the size of the mirror, of which a part is there by then, and at most 1.4 times that.
    const taken = statSync(file).size / 1e6;
    expect(Number(needed)).toBeGreaterThan(taken * 0.8);
    expect(Number(needed)).toBeLessThan(taken * 1.4);
  });

  test('is not reported if hardly anything is new', async () => {
    const sandbox = await startSandbox();
    const { report } = await sync(sandbox, newFile(), { freeSpace: () => 0 });
    expect(report.status).toBe('complete');
  });
});
