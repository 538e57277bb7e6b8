import { describe, expect, test } from 'vitest';
import { hourMs, minuteMs, timestampOf } from '../../src/model/time.ts';
import type { Job } from '../../src/model/job.ts';
import type { Alert, JobRun, RunOutcome } from '../../src/worker/store/port.ts';
import { freshnessOf, type OpenBatch, type ResourceHealth } from '../../src/worker/store/health.ts';
import { alertsAfter, isDue } from '../../src/worker/alerts.ts';
import { type Problem, type ProblemCode, wordsOf } from '../../src/worker/problem-words.ts';
import { checkCode, type Judged, keyOf, problemsOf } from '../../src/worker/problems.ts';
import { jobOf } from '../support/jobs.ts';

const now = Date.parse('2026-03-11T10:00:00Z');

function ran(outcome: RunOutcome, exitCode: number | null = null, more: Partial<JobRun> = {}): JobRun {
  const at = timestampOf(now);
  const run = { run: 'r1', job: 'sync', cause: 'scheduled', occurrence: now, attempt: 1, command: 'c' } as const;
  const end = { outcome, exitCode, problem: 'anna@example.com said no', report: null };
  return { ...run, startedAt: at, finishedAt: at, ...end, ...more };
}

const fresh = { freshAsOf: timestampOf(now - hourMs), knownAt: timestampOf(now - hourMs) };
const users: ResourceHealth = { resource: 'users', ...fresh, completeAt: null, live: 5, serverTotal: 5, heldBack: 0 };

interface World extends Partial<Pick<Judged, 'journal' | 'trouble' | 'mirror'>> {
  readonly judged?: JobRun | 'unreadable';
  readonly job?: Job;
  readonly resources?: readonly ResourceHealth[];
}

function facts({ judged, job = jobOf('sync'), resources = [users], ...more }: World): Judged {
  const mirror = more.mirror ?? ({ found: { resources } } as const);
  return {
    jobs: judged === 'unreadable' ? undefined : [{ job, judged }],
    journal: { absent: true },
    trouble: null,
    ...more,
    mirror,
    freshness: freshnessOf(mirror, { startedAt: now, now, maxStalenessMs: 26 * hourMs }),
  };
}

const namesOf = (world: World, known: readonly Problem[] = []) => problemsOf(facts(world), known).map(keyOf);

const one = { parts: { users: 1 } };
const onePart = '1 part of users is not up to date';

/** One of each code, with its words and the exit code of `status --check`. */
const each: {
  readonly [Code in ProblemCode]: readonly [Problem<Code>['facts'], what: string, next: RegExp, check: number];
} = {
  settings: [{ message: 'no key', advice: 'Set it.' }, 'no key', /^Set it\.$/, 2],
  no_mirror: [{ message: 'there is no mirror', advice: 'Sync.' }, 'there is no mirror', /^Sync\.$/, 2],
  other_server: [{ message: 'of another', advice: 'Sync.' }, 'of another', /^Sync\.$/, 2],
  shared_store: [{ message: 'it is away', advice: 'Start it.' }, 'it is away', /^Start it\.$/, 2],
  journal: [{ message: 'it is lost' }, 'it is lost', /doctor/, 2],
  batch_unknown: [
    { batch: 'b1', rows: { sending: 0, acknowledged: 0, unknown: 2, needs_human: 1 } },
    'batch b1 has rows whose outcome is not known: 2 unknown, 1 in need of a person',
    /`admin-mirror bulk resume b1`/,
    8,
  ],
  batch_stopped: [
    { batch: 'b1', sent: 1, left: 59 },
    'batch b1 was stopped: 1 row was sent, and 59 were not',
    /`admin-mirror bulk resume b1` sends the rest/,
    5,
  ],
  worker_file: [{ message: 'the disk is full' }, 'the worker cannot write its own file: the disk is full', /space/, 5],
  key_refused: [
    { jobs: ['sync', 'check'], parts: { users: 2 } },
    'the server refused the key: sync, check failed; 2 parts of users are not up to date',
    /doctor/,
    5,
  ],
  server_unreachable: [{ jobs: ['sync'] }, 'the server could not be reached: sync failed', /doctor/, 5],
  server_failed: [{ parts: { users: 1 } }, 'the server failed: 1 part of users is not up to date', /sync/, 5],
  deletions_refused: [
    { parts: { users: 2 } },
    'many records disappeared from the server at once, and were kept here: 2 parts of users are not up to date',
    /--allow-deletions/,
    5,
  ],
  list_contradicts_itself: [
    { parts: { users: 1, emails: 2 }, reason: '5 more' },
    'the server contradicts itself: 3 parts of users, emails are not up to date',
    /sync/,
    5,
  ],
  list_changed: [one, `records came and went while a list was read: ${onePart}`, /sync/, 5],
  records_unreadable: [one, `some records cannot be read: ${onePart}`, /status --verbose/, 5],
  deletions_unproven: [one, `records disappeared, and nothing proves that they are gone: ${onePart}`, /sync/, 5],
  requests_spent: [one, `the last sync had used its requests: ${onePart}`, /sync/, 5],
  rows_altered: [one, `another program has changed rows: ${onePart}`, /sync/, 5],
  rows_differ: [one, `a comparison has found rows that differ: ${onePart}`, /sync/, 5],
  not_read: [one, `a sync ended before it had read everything: ${onePart}`, /sync/, 5],
  last_run: [
    { started_at: timestampOf(now), status: 'failed', reasons: ['no answer'] },
    'the last sync, of 2026-03-11 10:00 UTC, failed',
    /doctor/,
    5,
  ],
  never_read: [{ resources: ['users'], is_running: true }, 'never read whole: users', /wait for the sync/, 5],
  stale: [
    { resources: ['users', 'emails'], max_staleness_seconds: 7_200 },
    'the mirror is older than the 2h of worker.max_staleness: users, emails',
    /sync/,
    5,
  ],
  job_failed: [
    { job: 'sync', run: 'r1', outcome: 'partial', exit_code: 5, parts: ['users partial'] },
    'sync ended with exit code 5: finished, but a part failed (users partial)',
    /status/,
    5,
  ],
  test: [{}, 'this is a test, nothing is wrong', /^$/, 5],
};

test.each(Object.entries(each))('%s has its words and its exit code', (code, [found, what, next, check]) => {
  const problem = { code, facts: found, since: null } as Problem;
  const words = wordsOf(problem);
  expect(words.what).toBe(what);
  expect(words.next ?? '').toMatch(next);
  expect(checkCode([problem])).toBe(check);
});

test('a sync that somebody stopped is told as that, and goes on next time', () => {
  const facts = { started_at: timestampOf(now), status: 'interrupted', reasons: [] };
  expect(wordsOf({ code: 'last_run', facts, since: null })).toMatchObject({
    what: 'the last sync, of 2026-03-11 10:00 UTC, was interrupted',
    next: 'Next: `admin-mirror sync` goes on from there',
    details: [],
  });
});

test('the worst exit code counts, and without a problem it is 0', () => {
  const of = (code: ProblemCode) => ({ code, facts: each[code][0], since: null }) as Problem;
  expect(checkCode([])).toBe(0);
  expect(checkCode([of('stale'), of('journal')])).toBe(2);
  expect(checkCode([of('journal'), of('batch_unknown')])).toBe(8);
});

describe('a job', () => {
  test.each([
    ['complete', 0, null],
    ['partial', 5, 'sync ended with exit code 5: finished, but a part failed'],
    ['failed', 1, 'sync ended with exit code 1: a bug in admin-mirror; please report it'],
    ['failed', 9, 'sync ended with exit code 9: failed'],
    ['failed', null, 'sync was ended by a signal, or could not be run'],
    ['locked', 7, 'sync ended with exit code 7: another run holds the lock'],
    ['interrupted', 143, 'sync ended with exit code 143: stopped by SIGTERM'],
    ['killed', null, 'sync ended because the worker died'],
  ] as const)('that ended as %s with %s: %s', (outcome, exitCode, what) => {
    const [problem] = problemsOf(facts({ judged: ran(outcome, exitCode) }), []);
    expect(problem === undefined ? null : [keyOf(problem), wordsOf(problem).what]).toEqual(
      what === null ? null : ['job_failed:sync', what],
    );
  });

  test('that the server keeps out is one problem with all others, over when the last of them is', () => {
    const unreachable = ran('failed', 4);
    const jobs = ['sync', 'verify', 'export'] as const;
    const world = (judged: JobRun) => ({
      ...facts({}),
      jobs: jobs.map((run) => ({ job: jobOf(run, { run }), judged: run === 'sync' ? judged : unreachable })),
    });
    const found = (judged: JobRun) => problemsOf(world(judged), []).map((problem) => [keyOf(problem), problem.facts]);
    const kept = (code: string, ...names: readonly string[]) => [code, expect.objectContaining({ jobs: names })];
    const ofExport = ['job_failed:export', expect.objectContaining({ exit_code: 4 })];
    expect(found(unreachable)).toEqual([kept('server_unreachable', 'sync', 'verify'), ofExport]);
    expect(found(ran('complete', 0))).toEqual([kept('server_unreachable', 'verify'), ofExport]);
    expect(found(ran('failed', 3))[0]).toEqual(kept('key_refused', 'sync'));
  });

  test.each([
    ['a sync by hand was complete since', 1, 5, []],
    ['a sync by hand was complete before', -1, 5, ['job_failed:sync']],
    ['the server kept it out, and a sync by hand was complete since', 1, 4, []],
  ])('that failed is over if %s', (_, hours, exitCode, problems) => {
    const completeAt = timestampOf(now + hours * hourMs);
    const judged = ran(exitCode === 5 ? 'partial' : 'failed', exitCode);
    expect(namesOf({ judged, resources: [{ ...users, completeAt }] })).toEqual(problems);
  });

  test('is told of without text from the server or a file', () => {
    const report = {
      resources: { users: { status: 'partial', problem: 'anna@example.com' }, coupons: { status: 'complete' } },
    };
    const found = problemsOf(facts({ judged: ran('partial', 5, { report }) }), []);
    expect(found).toMatchObject([{ code: 'job_failed', facts: { parts: ['users partial'] }, since: timestampOf(now) }]);
    expect(JSON.stringify(found)).not.toContain('anna');
  });

  test('that was removed is not a problem', () => {
    const failed = problemsOf(facts({ judged: ran('failed', 1) }), []);
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
    ['in which deletions were refused is a problem', [{ ...users, heldBack: 2 }], ['deletions_refused:users']],
  ] as const)('%s', (_, resources, problems) => {
    expect(namesOf({ resources: resources as readonly ResourceHealth[] })).toEqual(problems);
  });

  test('that does not exist is stale after the worker has waited for too long', () => {
    const isFresh = (startedAt: number) =>
      freshnessOf({ absent: true }, { startedAt, now, maxStalenessMs: hourMs }).is_fresh;
    expect(isFresh(now - 59 * minuteMs)).toBe(true);
    expect(isFresh(now - 61 * minuteMs)).toBe(false);
  });
});

test('a batch with rows of unknown outcome is a problem if no process sends it, and remains one while one resumes it', () => {
  const batch = (isInHand: boolean): World => {
    const rows = { sending: 0, acknowledged: 0, unknown: 1, needs_human: 1 };
    const open: OpenBatch = { batch: 'b1', rows, isInHand };
    return { journal: { found: { open: [open], stopped: [], head: null } } };
  };
  expect(namesOf(batch(true))).toEqual([]);
  const known = problemsOf(facts(batch(false)), []);
  expect(known.map(keyOf)).toEqual(['batch_unknown:b1']);
  expect(problemsOf(facts(batch(true)), known)).toEqual(known);
  expect(namesOf({}, known)).toEqual([]);
});

test('a problem that cannot be checked is neither new nor over', () => {
  const world = {
    judged: ran('failed', 1),
    resources: [{ ...users, heldBack: 1, freshAsOf: null, knownAt: timestampOf(0) }],
  };
  const known = problemsOf(facts(world), []);
  const blind = { judged: 'unreadable', mirror: { problem: 'locked' }, journal: { problem: 'locked' } } as const;
  expect(namesOf(blind, known)).toEqual(['stale', 'deletions_refused:users', 'job_failed:sync']);
  expect(namesOf(blind)).toEqual([]);
});

test('a worker that cannot write its file is a problem', () => {
  expect(namesOf({ trouble: 'the disk is full' })).toEqual(['worker_file']);
});

describe('an alert', () => {
  const [problem] = problemsOf(facts({ judged: ran('failed', 1) }), []) as [Problem];

  /** What a channel is told at each of these hours, with the problem present or not. */
  function toldAt(...hours: readonly (readonly [hour: number, isThere: boolean])[]): string[] {
    let alerts = new Map<string, Alert>();
    return hours.flatMap(([hour, isThere]) => {
      const time = now + hour * hourMs;
      alerts = alertsAfter(alerts, isThere ? [problem] : [], { now: time, reachable: ['webhook'] });
      const [alert] = alerts.values();
      if (alert === undefined || !isDue(alert, 'webhook', time)) return [];
      const kind = alert.endedAt !== null ? 'ends' : alert.told.webhook === undefined ? 'begins' : 'lasts';
      alerts = new Map(kind === 'ends' ? [] : [[keyOf(problem), { ...alert, told: { webhook: timestampOf(time) } }]]);
      return [`${hour} ${kind}`];
    });
  }

  test('is told when its problem begins, each day while it lasts, and when it ends', () => {
    const hours = [0, 1, 23, 24, 30, 47, 48].map((hour) => [hour, true] as const);
    expect(toldAt(...hours, [49, false], [50, false])).toEqual(['0 begins', '24 lasts', '48 lasts', '49 ends']);
  });

  test('of a problem that comes back is told again', () => {
    expect(toldAt([0, true], [1, false], [2, true], [3, false])).toEqual(['0 begins', '1 ends', '2 begins', '3 ends']);
  });

  test('that no channel was told of goes when its problem ends, as does one of a channel that is no longer set', () => {
    const begun = alertsAfter(new Map(), [problem], { now, reachable: ['webhook'] });
    expect(alertsAfter(begun, [], { now, reachable: ['webhook'] }).size).toBe(0);
    const told = new Map(Array.from(begun, ([key, alert]) => [key, { ...alert, told: { command: timestampOf(now) } }]));
    expect(alertsAfter(told, [], { now, reachable: ['command'] }).size).toBe(1);
    expect(alertsAfter(told, [], { now, reachable: ['webhook'] }).size).toBe(0);
  });
});
