import { describe, expect, test } from 'vitest';
import type { Job } from '../../src/model/job.ts';
import { minuteMs, timestampOf } from '../../src/model/time.ts';
import type { JobRun, RunOutcome } from '../../src/worker/store/port.ts';
import { decide, type Decision, type JobState } from '../../src/worker/decide.ts';
import { jobOf } from '../support/jobs.ts';

const at = (time: string) => Date.parse(time.length === 5 ? `2026-03-11T${time}Z` : time);

/** The last run of a job, with its outcome and its times. */
function ended(
  job: string,
  outcome: RunOutcome,
  started: string,
  finished: string,
  more: Partial<JobRun> = {},
): JobRun {
  return {
    run: `${job}-1`,
    job,
    cause: 'scheduled',
    occurrence: at(started),
    attempt: 1,
    command: `admin-mirror ${job}`,
    startedAt: timestampOf(at(started)),
    finishedAt: timestampOf(at(finished)),
    outcome,
    exitCode: outcome === 'complete' ? 0 : 5,
    problem: null,
    report: null,
    ...more,
  };
}

interface Known extends Partial<JobState> {
  readonly handled?: string;
}

function decided(jobs: readonly Job[], known: Readonly<Record<string, Known>>, now: string): readonly Decision[] {
  const states = new Map<string, JobState>(
    jobs.map(({ name }) => {
      const { handled = '2026-03-10T12:00Z', ...state } = known[name] ?? {};
      return [name, { handledUntil: at(handled), latest: undefined, judged: undefined, isRunning: false, ...state }];
    }),
  );
  return decide(jobs, states, at(now));
}

/** The decisions in words: `sync runs 02:15`. */
function said(...given: Parameters<typeof decided>): string[] {
  return decided(...given).map((each) => {
    if (each.kind === 'forget') return `${each.job.name} forgets`;
    const time = new Date(each.occurrence).toISOString().slice(11, 16);
    if (each.kind === 'skip') return `${each.job.name} is ${each.outcome} ${time}`;
    return `${each.job.name} runs ${time}${each.attempt > 1 ? ' again' : ''}`;
  });
}

const sync = jobOf('sync');

describe('a job', () => {
  test('runs once at its time, and not before', () => {
    expect(said([sync], {}, '02:14')).toEqual([]);
    expect(said([sync], {}, '02:15')).toEqual(['sync runs 02:15']);
    expect(said([sync], { sync: { handled: '02:15' } }, '02:16')).toEqual([]);
  });

  test('does not overlap itself: a time that comes while it runs is skipped', () => {
    const often = jobOf('sync', { cron: '*/15 * * * *' });
    expect(said([often], { sync: { handled: '02:00', isRunning: true } }, '02:15')).toEqual([
      'sync is overlapped 02:15',
    ]);
  });

  test.each([
    ['15 2 * * *', '2026-03-08T02:15Z'],
    ['* * * * *', '2025-03-11T02:14Z'],
  ])('of %s that was missed since %s catches up once', (cron, handled) => {
    expect(said([jobOf('sync', { cron })], { sync: { handled } }, '06:00')).toEqual(['sync runs 02:15']);
  });

  test('of unknown state is left alone', () => {
    expect(decide([sync], new Map(), at('02:15'))).toEqual([]);
  });

  test('does not run again if the clock was set back', () => {
    expect(said([sync], { sync: { handled: '02:15' } }, '01:15')).toEqual([]);
    expect(said([sync], { sync: { handled: '02:15' } }, '02:15')).toEqual([]);
  });

  test('starts afresh if the clock was more than a day ahead', () => {
    expect(said([sync], { sync: { handled: '2026-03-12T01:15Z' } }, '01:15')).toEqual([]);
    expect(said([sync], { sync: { handled: '2026-03-12T01:15:00.001Z' } }, '01:15')).toEqual(['sync forgets']);
  });

  test.each(['stopped', 'killed'] as const)('that was %s with the worker is run once more', (outcome) => {
    const latest = ended('sync', outcome, '02:15', '02:20');
    const next = (more: Partial<JobRun>, isRunning = false) =>
      said([sync], { sync: { handled: '02:15', latest: { ...latest, ...more }, isRunning } }, '02:30');
    expect(next({})).toEqual(['sync runs 02:15 again']);
    expect([next({ occurrence: null }), next({ attempt: 2 }), next({}, true)]).toEqual([[], [], []]);
  });

  test.each(['interrupted', 'failed'] as const)('that was %s is not run again', (outcome) => {
    const latest = ended('sync', outcome, '02:15', '02:20');
    expect(said([sync], { sync: { handled: '02:15', latest } }, '02:30')).toEqual([]);
  });
});

describe('a job after another job', () => {
  const users = jobOf('users', { cron: '0 3 * * *', after: ['sync'] });
  const strict = { ...users, requireComplete: true };

  test('waits while the other runs, and starts when that has ended', () => {
    const running = { handled: '02:15', isRunning: true };
    expect(said([users, sync], { sync: running }, '03:00')).toEqual([]);
    const latest = ended('sync', 'complete', '02:15', '03:40');
    expect(said([users, sync], { sync: { handled: '02:15', latest } }, '03:40')).toEqual(['users runs 03:00']);
  });

  test('at the same time starts after the other', () => {
    const same = { ...users, cron: sync.cron };
    expect(said([same, sync], {}, '02:15')).toEqual(['sync runs 02:15']);
  });

  test('is missed with the other, and catches up after it', () => {
    expect(said([users, sync], {}, '06:00')).toEqual(['sync runs 02:15']);
    const latest = ended('sync', 'complete', '06:00', '06:10', { occurrence: at('02:15') });
    expect(said([users, sync], { sync: { handled: '06:00', latest } }, '06:10')).toEqual(['users runs 03:00']);
  });

  test('runs however the other ended, unless it requires a complete run', () => {
    const latest = ended('sync', 'failed', '02:15', '02:40', { problem: 'the disk is full' });
    const known = { sync: { handled: '02:15', latest } };
    expect(said([users, sync], known, '03:00')).toEqual(['users runs 03:00']);
    expect(decided([strict, sync], known, '03:00')).toMatchObject([
      { kind: 'skip', outcome: 'skipped', why: 'sync was not complete: failed, the disk is full' },
    ]);
  });

  test('runs if the other has no run yet or does not exist, unless it requires a complete run', () => {
    expect(said([users, sync], { sync: { handled: '02:15' } }, '03:00')).toEqual(['users runs 03:00']);
    expect(said([users], {}, '03:00')).toEqual(['users runs 03:00']);
    expect(said([strict], {}, '03:00')).toEqual(['users is skipped 03:00']);
  });

  test('runs if the other starts afresh', () => {
    expect(said([users, sync], { sync: { handled: '2031-01-01T00:00Z' } }, '03:00')).toEqual([
      'users runs 03:00',
      'sync forgets',
    ]);
  });

  const byHand = { occurrence: null, cause: 'by_hand' } as const;
  test.each([
    ['counts a run that ended exactly at the time of the other', ended('sync', 'complete', '02:00', '02:15', byHand)],
    ['counts a later run by hand', ended('sync', 'complete', '02:50', '02:55', byHand)],
    [
      'is skipped if the other has not run since its time',
      ended('sync', 'complete', '2026-03-10T02:15Z', '2026-03-10T02:40Z'),
    ],
  ])('that requires a complete run %s', (title, latest) => {
    const expected = title.startsWith('counts') ? 'users runs 03:00' : 'users is skipped 03:00';
    expect(said([strict, sync], { sync: { handled: '02:15', latest } }, '03:00')).toEqual([expected]);
  });

  test('waits for the other if that is run again', () => {
    const latest = ended('sync', 'stopped', '02:15', '02:20');
    const known = { sync: { handled: '02:15', latest } };
    expect(said([strict, sync], known, '03:00')).toEqual(['sync runs 02:15 again']);
  });

  test('that depends on a dependent job waits for both, in whatever order they are written', () => {
    const third = jobOf('copy', { cron: '15 3 * * *', after: ['users'] });
    expect(said([third, users, sync], {}, '04:00')).toEqual(['sync runs 02:15']);
  });

  test('does not wait for one that runs less often', () => {
    const weekly = jobOf('sync', { cron: '15 2 * * 0' });
    const latest = ended('sync', 'complete', '2026-03-08T02:15Z', '2026-03-08T02:40Z');
    const known = { sync: { handled: '2026-03-08T02:15Z', latest } };
    expect(said([strict, weekly], known, '03:00')).toEqual(['users runs 03:00']);
  });
});

test('a nightly job is decided once when daylight saving time begins or ends', () => {
  for (const night of ['2026-03-29', '2026-10-25']) {
    const job = jobOf('sync', { cron: '30 2 * * *', timezone: 'Europe/Berlin' });
    let handled = `${night}T00:00Z`;
    let runs = 0;
    for (let now = Date.parse(`${night}T00:00Z`); now < Date.parse(`${night}T06:00Z`); now += minuteMs) {
      for (const each of decided([job], { sync: { handled } }, new Date(now).toISOString())) {
        if (each.kind !== 'run') continue;
        runs += 1;
        handled = new Date(now).toISOString();
      }
    }
    expect(runs).toBe(1);
  }
});
