import { describe, expect, test } from 'vitest';
import { hourMs, minuteMs, timestampOf } from '../../src/model/time.ts';
import type { Alert, JobRun, Problem, RunOutcome } from '../../src/worker/store/port.ts';
import type { OpenBatch, ResourceHealth } from '../../src/worker/store/health.ts';
import { alertsAfter, decideAlerts } from '../../src/worker/alerts.ts';
import { type Facts, freshnessOf, problemsOf } from '../../src/worker/problems.ts';
import { jobOf } from '../support/jobs.ts';

const now = Date.parse('2026-03-11T10:00:00Z');

function ran(outcome: RunOutcome, exitCode: number | null = null, more: Partial<JobRun> = {}): JobRun {
  const at = timestampOf(now);
  const run = { run: 'r1', job: 'sync', cause: 'scheduled', occurrence: now, attempt: 1, command: 'c' } as const;
  return {
    ...run,
    startedAt: at,
    finishedAt: at,
    outcome,
    exitCode,
    problem: 'anna@example.com said no',
    report: null,
    ...more,
  };
}

const users: ResourceHealth = {
  resource: 'users',
  freshAsOf: timestampOf(now - hourMs),
  knownAt: timestampOf(now - hourMs),
  windows: { pending: 0, walking: 0, settled: 3, unsettled: 0 },
  live: 5,
  serverTotal: 5,
  heldBack: 0,
};

interface World extends Partial<Pick<Facts, 'journal' | 'trouble' | 'mirror'>> {
  readonly latest?: JobRun | 'unreadable';
  readonly resources?: readonly ResourceHealth[];
}

function facts({ latest, resources = [users], ...more }: World): Facts {
  const mirror = more.mirror ?? ({ found: { resources } } as const);
  const newest = latest === 'unreadable' ? undefined : latest;
  const job = { job: jobOf('sync'), nextAt: null, running: null, latest: newest };
  return {
    jobs: latest === 'unreadable' ? undefined : [job],
    journal: { absent: true },
    trouble: undefined,
    ...more,
    mirror,
    freshness: freshnessOf(mirror, { startedAt: now, now, maxStalenessMs: 26 * hourMs }),
  };
}

const namesOf = (world: World, known: readonly Problem[] = []) =>
  problemsOf(facts(world), known).map(({ problem }) => problem);

describe('a job', () => {
  test.each([
    ['complete', 0, []],
    ['partial', 5, ['job_partial:sync']],
    ['failed', 3, ['job_failed:sync']],
    ['locked', 7, ['job_failed:sync']],
    ['timed_out', 143, ['job_failed:sync']],
    ['interrupted', 143, ['job_failed:sync']],
    ['killed', null, ['job_failed:sync']],
    ['missed', null, ['job_failed:sync']],
    ['stopped', 143, []],
    ['skipped', null, []],
  ] as const)('that ended as %s is a problem, or none', (outcome, exitCode, problems) => {
    expect(namesOf({ latest: ran(outcome, exitCode) })).toEqual(problems);
  });

  test('that gets worse is another problem, and one that gets better is not over until it is complete', () => {
    const partial = problemsOf(facts({ latest: ran('partial', 5) }), []);
    const both = problemsOf(facts({ latest: ran('failed', 4) }), partial);
    expect(both.map(({ problem }) => problem)).toEqual(['job_partial:sync', 'job_failed:sync']);
    expect(problemsOf(facts({ latest: ran('partial', 5) }), both)).toEqual(both);
    expect(namesOf({ latest: ran('complete', 0) }, both)).toEqual([]);
  });

  test('that was skipped, or stopped with the worker, keeps its problem', () => {
    const failed = problemsOf(facts({ latest: ran('failed', 1) }), []);
    expect(problemsOf(facts({ latest: ran('skipped') }), failed)).toEqual(failed);
    expect(problemsOf(facts({ latest: ran('stopped') }), failed)).toEqual(failed);
  });

  test('that did not get its lock has failed', () => {
    expect(problemsOf(facts({ latest: ran('locked', 7) }), [])).toMatchObject([
      { problem: 'job_failed:sync', text: 'sync could not run: another run held the lock' },
    ]);
  });

  test('is reported without text from the server or a file', () => {
    const [key] = problemsOf(facts({ latest: ran('failed', 3) }), []);
    expect(key).toMatchObject({
      kind: 'job_failed',
      job: 'sync',
      run: 'r1',
      outcome: 'failed',
      exitCode: 3,
      text: 'sync failed: the server refused the key (exit code 3)',
    });
    const report = {
      resources: { users: { status: 'partial', problem: 'anna@example.com' }, coupons: { status: 'complete' } },
    };
    const [part] = problemsOf(facts({ latest: ran('partial', 5, { report }) }), []);
    expect(part?.text).toBe('sync was not complete: users partial');
    expect(JSON.stringify([key, part])).not.toContain('anna');
  });

  test('that was removed is not a problem', () => {
    const failed = problemsOf(facts({ latest: ran('failed', 1) }), []);
    expect(problemsOf({ ...facts({}), jobs: [] }, failed)).toEqual([]);
  });
});

describe('the mirror', () => {
  const at = (hours: number | null, known = hours ?? 0) => ({
    ...users,
    freshAsOf: hours === null ? null : timestampOf(now - hours * hourMs),
    knownAt: timestampOf(now - known * hourMs),
  });

  test.each([
    ['that is a day old is no problem', [at(25)], []],
    ['with one resource that is too old is stale', [at(1), { ...at(27), resource: 'emails' }], ['stale']],
    ['that was first requested an hour ago and is not complete yet is no problem', [at(null, 1)], []],
    ['that was first requested two days ago and was never complete is stale', [at(null, 48)], ['stale']],
    ['from before the clock was set back is no problem', [at(-3)], []],
    ['without resources is no problem for a worker that just started', [], []],
  ] as const)('%s', (_, resources, problems) => {
    expect(namesOf({ resources: resources as readonly ResourceHealth[] })).toEqual(problems);
  });

  test('that does not exist is stale after the worker has waited for too long', () => {
    const absent = { absent: true } as const;
    const fresh = (startedAt: number) => freshnessOf(absent, { startedAt, now, maxStalenessMs: hourMs }).is_fresh;
    expect(fresh(now - 59 * minuteMs)).toBe(true);
    expect(fresh(now - 61 * minuteMs)).toBe(false);
  });

  test('in which deletions were refused is a problem', () => {
    expect(namesOf({ resources: [{ ...users, heldBack: 2 }] })).toEqual(['deletions_refused:users']);
  });
});

describe('a batch with rows of unknown outcome', () => {
  const batch = (isInHand: boolean): World => {
    const open: OpenBatch = {
      batch: 'b1',
      rows: { sending: 0, acknowledged: 0, unknown: 1, needs_human: 1 },
      isInHand,
    };
    return {
      journal: { found: { batches: { planned: 0, applying: 0, stopped: 1, done: 0 }, open: [open], head: null } },
    };
  };

  test('is a problem if no process is sending it, and remains one while a process resumes it', () => {
    expect(namesOf(batch(true))).toEqual([]);
    const known = problemsOf(facts(batch(false)), []);
    expect(known[0]?.text).toBe('the outcome of 2 rows of the batch b1 is not known');
    expect(problemsOf(facts(batch(true)), known)).toEqual(known);
    expect(namesOf({}, known)).toEqual([]);
  });
});

test('a problem that cannot be checked is neither new nor over', () => {
  const world = {
    latest: ran('failed', 1),
    resources: [{ ...users, heldBack: 1, freshAsOf: null, knownAt: timestampOf(0) }],
  };
  const known = problemsOf(facts(world), []);
  const blind = { latest: 'unreadable', mirror: { problem: 'locked' }, journal: { problem: 'locked' } } as const;
  expect(problemsOf(facts(blind), known)).toEqual(known);
  expect(namesOf(blind)).toEqual([]);
});

test('a worker that cannot write its file is a problem', () => {
  expect(namesOf({ trouble: 'the disk is full' })).toEqual(['worker_file']);
});

describe('an alert', () => {
  const problem = problemsOf(facts({ latest: ran('failed', 1) }), [])[0] as Problem;

  /** The alerts at each of these hours, with the problem present or not. */
  function sentAt(...hours: readonly (readonly [hour: number, isThere: boolean])[]): string[] {
    let alerts: readonly Alert[] = [];
    return hours.flatMap(([hour, isThere]) => {
      const steps = decideAlerts(alerts, isThere ? [problem] : [], now + hour * hourMs);
      alerts = alertsAfter(alerts, steps);
      return steps.map(({ kind }) => `${hour} ${kind}`);
    });
  }

  test('is sent when its problem begins, each day while it lasts, and when it ends', () => {
    const hours = [0, 1, 23, 24, 30, 47, 48].map((hour) => [hour, true] as const);
    expect(sentAt(...hours, [49, false], [50, false])).toEqual(['0 begins', '24 lasts', '48 lasts', '49 ends']);
  });

  test('of a problem that comes back is sent again', () => {
    expect(sentAt([0, true], [1, false], [2, true], [3, false])).toEqual(['0 begins', '1 ends', '2 begins', '3 ends']);
  });
});
