import { describe, expect, test } from 'vitest';
import type { Job } from '../../src/model/job.ts';
import { dayMs, minuteMs, timestampOf } from '../../src/model/time.ts';
import type { JobRun, RunOutcome } from '../../src/worker/store/port.ts';
import { decide, type Decision, jitterOf, type JobState, nextTime } from '../../src/worker/decide.ts';
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
    return `${each.job.name} runs ${time}${each.late ? ' late' : ''}${each.attempt > 1 ? ' again' : ''}`;
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

  test('that was missed three times catches up once', () => {
    expect(said([sync], { sync: { handled: '2026-03-08T02:15Z' } }, '06:00')).toEqual(['sync runs 02:15 late']);
  });

  test('without catch-up is missed if it is more than five minutes late', () => {
    const only = jobOf('sync', { catchUp: false });
    expect(said([only], { sync: { handled: '2026-03-08T02:15Z' } }, '06:00')).toEqual(['sync is missed 02:15']);
    expect(said([only], {}, '02:20')).toEqual(['sync runs 02:15']);
    expect(said([only], {}, '2026-03-11T02:20:00.001Z')).toEqual(['sync is missed 02:15']);
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
    expect(said([sync], { sync: { handled: '2031-01-01T00:00Z' } }, '01:15')).toEqual(['sync forgets']);
  });

  test('of every minute catches up once after a year', () => {
    const often = jobOf('sync', { cron: '* * * * *' });
    expect(said([often], { sync: { handled: '2025-03-11T00:00Z' } }, '02:15')).toEqual(['sync runs 02:15']);
  });

  test.each(['stopped', 'killed'] as const)('that was %s with the worker is run once more', (outcome) => {
    const latest = ended('sync', outcome, '02:15', '02:20');
    expect(said([sync], { sync: { handled: '02:15', latest } }, '02:30')).toEqual(['sync runs 02:15 late again']);
    const byHand = { ...latest, occurrence: null };
    expect(said([sync], { sync: { handled: '02:15', latest: byHand } }, '02:30')).toEqual([]);
    const second = { ...latest, attempt: 2 };
    expect(said([sync], { sync: { handled: '02:15', latest: second } }, '02:30')).toEqual([]);
    const never = { ...sync, catchUp: false };
    expect(said([never], { sync: { handled: '02:15', latest } }, '02:30')).toEqual([]);
    const users = jobOf('users', { run: 'export' });
    expect(said([users], { users: { handled: '02:15', latest, isRunning: true } }, '02:30')).toEqual([]);
  });

  test.each(['interrupted', 'failed', 'timed_out'] as const)('that was %s is not run again', (outcome) => {
    expect(
      said([sync], { sync: { handled: '02:15', latest: ended('sync', outcome, '02:15', '02:20') } }, '02:30'),
    ).toEqual([]);
  });
});

describe('jitter', () => {
  const late = jobOf('sync', { jitterMs: 10 * minuteMs });
  const nights = Array.from({ length: 300 }, (_, night) => at('02:15') + night * dayMs);

  test('is bounded, and fixed for each time but different between times', () => {
    const delays = nights.map((night) => jitterOf(late, night));
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...delays)).toBeLessThan(10 * minuteMs);
    expect(delays).toEqual(nights.map((night) => jitterOf(late, night)));
    expect(new Set(delays).size).toBeGreaterThan(290);
    expect(Math.max(...delays) - Math.min(...delays)).toBeGreaterThan(9 * minuteMs);
  });

  test('delays a job, and the next time includes the delay', () => {
    const delay = jitterOf(late, at('02:15'));
    expect(nextTime(late, at('01:00'), at('01:00'))).toBe(at('02:15') + delay);
    const before = new Date(at('02:15') + delay - 1).toISOString();
    const then = new Date(at('02:15') + delay).toISOString();
    expect(said([late], {}, before)).toEqual([]);
    expect(said([late], {}, then)).toEqual(['sync runs 02:15']);
    // While the job is delayed, its time is still to come; after that the next one is.
    expect(nextTime(late, at('01:00'), Date.parse(before))).toBe(at('02:15') + delay);
    const tomorrow = at('02:15') + dayMs + jitterOf(late, at('02:15') + dayMs);
    expect(nextTime(late, at('01:00'), Date.parse(then))).toBe(tomorrow);
    // A handled time does not come again if the clock was set back.
    expect(nextTime(late, at('02:15'), at('01:00'))).toBe(tomorrow);
  });

  test('may let a later time of the same job come first', () => {
    const often = jobOf('sync', { cron: '* * * * *', jitterMs: 10 * minuteMs });
    const times = Array.from({ length: 100 }, (_, minute) => at('01:30') + minute * minuteMs);
    for (let now = at('02:00'); now < at('02:30'); now += 150_000) {
      const soonest = times
        .filter((time) => time > now - often.jitterMs)
        .map((time) => time + jitterOf(often, time))
        .filter((time) => time > now);
      expect(nextTime(often, at('01:00'), now)).toBe(Math.min(...soonest));
    }
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
    expect(said([users, sync], {}, '06:00')).toEqual(['sync runs 02:15 late']);
    const caughtUp = { occurrence: at('02:15'), cause: 'caught_up' } as const;
    const latest = ended('sync', 'complete', '06:00', '06:10', caughtUp);
    expect(said([users, sync], { sync: { handled: '02:15', latest } }, '06:10')).toEqual(['users runs 03:00 late']);
    const never = { ...users, catchUp: false };
    expect(said([never, sync], { sync: { handled: '02:15', latest } }, '06:10')).toEqual(['users is missed 03:00']);
  });

  test.each(['partial', 'failed', 'missed'] as const)(
    'runs if the other was %s, unless it requires a complete run',
    (outcome) => {
      const latest = ended('sync', outcome, '02:15', '02:40');
      const known = { sync: { handled: '02:15', latest } };
      expect(said([users, sync], known, '03:00')).toEqual(['users runs 03:00']);
      expect(said([strict, sync], known, '03:00')).toEqual(['users is skipped 03:00']);
      expect(decided([strict, sync], known, '03:00')).toMatchObject([{ why: `sync was not complete: ${outcome}` }]);
    },
  );

  test('gives the problem of the other as its reason to be skipped', () => {
    const latest = ended('sync', 'failed', '02:15', '02:40', { problem: 'the disk is full' });
    expect(decided([strict, sync], { sync: { handled: '02:15', latest } }, '03:00')).toMatchObject([
      { why: 'sync was not complete: failed, the disk is full' },
    ]);
  });

  test('that waited is on time, also through a third one, unless the other was late', () => {
    const only = { ...users, catchUp: false };
    const after = (cause: JobRun['cause'], now: string) => {
      const latest = ended('sync', 'complete', '02:56', '05:00', { occurrence: at('02:15'), cause });
      return said([only, sync], { sync: { handled: '02:15', latest } }, now);
    };
    expect(after('scheduled', '05:05')).toEqual(['users runs 03:00']);
    expect(after('scheduled', '2026-03-11T05:05:00.001Z')).toEqual(['users is missed 03:00']);
    expect(after('caught_up', '05:00')).toEqual(['users is missed 03:00']);
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

  test('waits until the skip of the other is recorded', () => {
    const missed = jobOf('sync', { catchUp: false });
    expect(said([users, missed], {}, '03:00')).toEqual(['sync is missed 02:15']);
  });

  test('that requires a complete run counts a run that ended exactly at the time of the other', () => {
    const latest = ended('sync', 'complete', '02:00', '02:15', { occurrence: null, cause: 'by_hand' });
    expect(said([strict, sync], { sync: { handled: '02:15', latest } }, '03:00')).toEqual(['users runs 03:00']);
  });

  test('that requires a complete run is skipped if the other has not run since its time', () => {
    const latest = ended('sync', 'complete', '2026-03-10T02:15Z', '2026-03-10T02:40Z');
    expect(said([strict, sync], { sync: { handled: '02:15', latest } }, '03:00')).toEqual(['users is skipped 03:00']);
  });

  test('that requires a complete run counts a later run by hand', () => {
    const latest = ended('sync', 'complete', '02:50', '02:55', { occurrence: null, cause: 'by_hand' });
    expect(said([strict, sync], { sync: { handled: '02:15', latest } }, '03:00')).toEqual(['users runs 03:00']);
  });

  test('waits for the other if that is run again', () => {
    const latest = ended('sync', 'stopped', '02:15', '02:20');
    expect(said([strict, sync], { sync: { handled: '02:15', latest } }, '03:00')).toEqual([
      'sync runs 02:15 late again',
    ]);
  });

  test('that depends on a dependent job waits for both, in whatever order they are written', () => {
    const third = jobOf('copy', { cron: '15 3 * * *', after: ['users'] });
    expect(said([third, users, sync], {}, '04:00')).toEqual(['sync runs 02:15 late']);
  });

  test('does not wait for one that runs less often', () => {
    const weekly = jobOf('sync', { cron: '15 2 * * 0' });
    const latest = ended('sync', 'complete', '2026-03-08T02:15Z', '2026-03-08T02:40Z');
    expect(said([strict, weekly], { sync: { handled: '2026-03-08T02:15Z', latest } }, '03:00')).toEqual([
      'users runs 03:00',
    ]);
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
        handled = new Date(each.occurrence).toISOString();
      }
    }
    expect(runs).toBe(1);
  }
});
