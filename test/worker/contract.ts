/** What every store of a worker does, in any database. */
import { describe, expect, test } from 'vitest';
import { LockHeldError } from '../../src/model/errors.ts';
import { minuteMs, timestampOf } from '../../src/model/time.ts';
import type { Alert, JobRunEnd, NewJobRun } from '../../src/worker/store/port.ts';
import type { WorkerStore } from '../../src/worker/store/store.ts';
import { jobOf } from '../support/jobs.ts';

/** A store that was never written to, at 10:00. A test need not close it. */
export interface Opened {
  readonly store: WorkerStore;
  /** Another connection to the same store, as another process would have. */
  readonly again: () => Promise<WorkerStore>;
  readonly pass: (ms: number) => void;
}

const at = (time: string) => Date.parse(`2026-03-11T${time}Z`);
const sync = jobOf('sync');
const complete: JobRunEnd = { outcome: 'complete', exitCode: 0, problem: null, report: { requests: 7 } };
const skipped: JobRunEnd = { outcome: 'skipped', exitCode: null, problem: 'sync was not complete', report: null };

function newRun(run: string, occurrence: number | null = at('10:15'), job = 'sync'): NewJobRun {
  const cause = occurrence === null ? 'by_hand' : 'scheduled';
  return { run, job, cause, occurrence, attempt: 1, command: 'admin-mirror sync' };
}

const alert: Alert = {
  problem: { code: 'deletions_refused', facts: { parts: { users: 2 } }, since: timestampOf(at('10:00')) },
  told: { webhook: timestampOf(at('10:05')) },
  endedAt: null,
};

async function outcomesOf(store: WorkerStore): Promise<(string | null)[]> {
  return (await store.runs(1_000)).map(({ outcome }) => outcome);
}

/** @param open opens a new store of the tested kind */
export function workerStoreContract(open: () => Promise<Opened>): void {
  describe('the scheduler', () => {
    test('holds a lock that no other connection can take until it is released or its connection is closed', async () => {
      const { store, again } = await open();
      const other = await again();
      await store.acquireScheduler('w1');
      await expect(other.acquireScheduler('w2')).rejects.toThrow(LockHeldError);
      expect(await other.scheduler()).toMatchObject({ run: 'w1', command: 'schedule', pid: process.pid });
      await store.releaseScheduler();
      await other.acquireScheduler('w2');
      await other.close();
      expect(await store.scheduler()).toBeUndefined();
      await store.acquireScheduler('w3');
      expect(await store.scheduler()).toMatchObject({ run: 'w3' });
    });
  });

  describe('a job', () => {
    test('that is new or has a new schedule counts from now on, and one that was removed is forgotten', async () => {
      const { store, pass } = await open();
      const users = jobOf('users');
      await store.adoptJobs([sync, users]);
      pass(minuteMs);
      await store.adoptJobs([sync, { ...users, cron: '0 4 * * *' }]);
      expect(await store.progress()).toEqual(
        new Map([
          ['sync', { handledUntil: at('10:00'), latest: undefined }],
          ['users', { handledUntil: at('10:01'), latest: undefined }],
        ]),
      );
      await store.adoptJobs([users]);
      expect([...(await store.progress()).keys()]).toEqual(['users']);
      pass(minuteMs);
      await store.adoptJobs([sync, users]);
      expect((await store.progress()).get('sync')?.handledUntil).toBe(at('10:02'));
    });

    test('with a new schedule does not go back before the times it has handled', async () => {
      const { store } = await open();
      await store.adoptJobs([sync]);
      await store.setHandled('sync', at('12:00'));
      await store.adoptJobs([{ ...sync, timezone: 'Europe/Berlin' }]);
      expect((await store.progress()).get('sync')?.handledUntil).toBe(at('12:00'));
      await store.setHandled('sync', at('09:00'));
      expect((await store.progress()).get('sync')?.handledUntil).toBe(at('09:00'));
    });
  });

  describe('a run', () => {
    test('is recorded from its start to its end, for every connection', async () => {
      const { store, again, pass } = await open();
      const other = await again();
      await store.adoptJobs([sync]);
      await store.beginRun(newRun('r1'), at('10:15'));
      const begun = { ...newRun('r1'), startedAt: timestampOf(at('10:00')), outcome: null, finishedAt: null };
      expect(await other.runs(1)).toEqual([{ ...begun, exitCode: null, problem: null, report: null }]);
      expect((await other.progress()).get('sync')).toEqual({ handledUntil: at('10:15'), latest: undefined });
      pass(minuteMs);
      const ended = { ...begun, ...complete, finishedAt: timestampOf(at('10:01')) };
      expect(await store.endRun('r1', complete)).toEqual(ended);
      expect((await other.progress()).get('sync')?.latest).toEqual(ended);
    });

    test('is the only one of its job on any connection', async () => {
      const { store, again } = await open();
      const other = await again();
      await store.adoptJobs([sync]);
      await store.beginRun(newRun('r1'));
      await expect(other.beginRun(newRun('r2', null))).rejects.toThrow(/job "sync" is running already: process/);
      await other.beginRun(newRun('r3', null, 'users'));
      await store.endRun('r1', complete);
      await other.beginRun(newRun('r2', null));
      expect((await store.runs(9)).map(({ run }) => run)).toEqual(['r2', 'r3', 'r1']);
      expect((await store.runs(9, 'users')).map(({ run }) => run)).toEqual(['r3']);
    });

    test('that could not be recorded leaves nothing behind, and its job free', async () => {
      const { store, again } = await open();
      await store.adoptJobs([sync]);
      await store.beginRun(newRun('r1', at('10:15'), 'users'));
      await expect(store.beginRun(newRun('r1', at('10:30')), at('10:30'))).rejects.toThrow(/unique|duplicate/i);
      expect((await store.progress()).get('sync')?.handledUntil).toBe(at('10:00'));
      await (await again()).beginRun(newRun('r2', at('10:30')));
    });

    test('by hand or of an earlier time does not move the handled time of its job', async () => {
      const { store } = await open();
      await store.adoptJobs([sync]);
      await store.setHandled('sync', at('11:00'));
      await store.beginRun(newRun('r1'), at('10:15'));
      await store.endRun('r1', complete);
      await store.beginRun(newRun('r2', null));
      expect((await store.progress()).get('sync')).toMatchObject({ handledUntil: at('11:00'), latest: { run: 'r1' } });
    });

    test('that was skipped is recorded with its time, and is the latest', async () => {
      const { store } = await open();
      await store.adoptJobs([sync]);
      const { cause: _cause, attempt: _attempt, ...rest } = newRun('r1');
      await store.recordSkip({ ...rest, occurrence: at('10:15') }, skipped, at('10:15'));
      const progress = (await store.progress()).get('sync');
      expect(progress).toMatchObject({
        handledUntil: at('10:15'),
        latest: { run: 'r1', ...skipped },
        judged: undefined,
      });
      expect(await outcomesOf(store)).toEqual(['skipped']);
    });

    test('that finds its lock held is the latest, unless it was begun by hand', async () => {
      const { store } = await open();
      const locked: JobRunEnd = { outcome: 'locked', exitCode: 7, problem: null, report: null };
      await store.adoptJobs([sync]);
      for (const [run, occurrence] of [
        ['scheduled', at('10:15')],
        ['by-hand', null],
      ] as const) {
        await store.beginRun(newRun(run, occurrence));
        await store.endRun(run, locked);
      }
      expect((await store.progress()).get('sync')).toMatchObject({
        latest: { run: 'scheduled' },
        judged: { run: 'scheduled' },
      });
    });

    test('that was left running is recorded as killed after its process is gone, and not before', async () => {
      const { store, again } = await open();
      const other = await again();
      await other.beginRun(newRun('r1'));
      await store.beginRun(newRun('r2', null, 'users'));
      expect(await store.endOrphanedRuns()).toEqual([]);
      expect(await outcomesOf(store)).toEqual([null, null]);
      await other.close();
      // Those who only read see it at once.
      expect(await outcomesOf(store)).toEqual([null, 'killed']);
      expect(await store.run('r1')).toMatchObject({ outcome: 'killed', finishedAt: null });
      expect(await store.endOrphanedRuns()).toMatchObject([{ run: 'r1', outcome: 'killed', exitCode: null }]);
      expect(await store.endOrphanedRuns()).toEqual([]);
      expect(await outcomesOf(store)).toEqual([null, 'killed']);
    });

    test('is kept if it is among the newest 500 of its job', async () => {
      const { store } = await open();
      await store.beginRun(newRun('other', null, 'users'));
      const { cause: _cause, attempt: _attempt, ...rest } = newRun('');
      for (let number = 1; number <= 502; number += 1) {
        await store.recordSkip({ ...rest, run: `r${number}`, occurrence: at('10:15') }, skipped, at('10:15'));
      }
      const kept = (await store.runs(1_000)).map(({ run }) => run);
      expect(kept).toHaveLength(501);
      expect(kept.slice(-2)).toEqual(['r3', 'other']);
    });

    test('is recorded completely while other jobs start and end at the same moment', async () => {
      const { store, again } = await open();
      const names = 'abcdefghijkl'.split('');
      await store.adoptJobs(names.map((name) => jobOf(name)));
      await Promise.all(
        names.map(async (job) => {
          await store.beginRun(newRun(job, at('10:15'), job), at('10:15'));
          await store.endRun(job, complete);
        }),
      );
      const progress = await (await again()).progress();
      expect([...progress.values()]).toEqual(
        names.map((run) =>
          expect.objectContaining({ handledUntil: at('10:15'), latest: expect.objectContaining({ run }) }),
        ),
      );
    });
  });

  describe('the alerts', () => {
    test('are stored as they were saved, the oldest first, and replaced completely', async () => {
      const { store, again } = await open();
      const other = await again();
      expect(await store.alerts()).toEqual([]);
      const stale = { code: 'stale', facts: { resources: [], max_staleness_seconds: 1 } } as const;
      const earlier: Alert = {
        problem: { ...stale, since: timestampOf(at('09:00')) },
        told: {},
        endedAt: timestampOf(at('09:30')),
      };
      await store.saveAlerts([alert, earlier]);
      expect(await other.alerts()).toEqual([earlier, alert]);
      await store.saveAlerts([alert]);
      expect(await other.alerts()).toEqual([alert]);
    });

    test('stay as they were if they could not be saved', async () => {
      const { store } = await open();
      await store.saveAlerts([alert]);
      await expect(store.saveAlerts([alert, alert])).rejects.toThrow(/unique|duplicate/i);
      expect(await store.alerts()).toEqual([alert]);
    });
  });
}
