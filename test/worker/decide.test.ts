import { describe, expect, test } from 'vitest';
import type { Job } from '../../src/model/job.ts';
import { dayMs, minuteMs, timestampOf } from '../../src/model/time.ts';
import type { JobRun, RunOutcome } from '../../src/worker/store/port.ts';
import { decide, type Decision, jitterOf, type JobState, nextTime, occurrencesOf } from '../../src/worker/decide.ts';
import { jobOf } from '../support/jobs.ts';

const at = (time: string) => Date.parse(time.length === 5 ? `2026-03-11T${time}Z` : time);

/** How the last run of a job ended, and when. */
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
      return [name, { handledUntil: at(handled), latest: undefined, isRunning: false, ...state }];
    }),
  );
  return decide(
    jobs.map((job) => ({ job, occurrences: occurrencesOf(job) })),
    states,
    at(now),
  );
}

/** The same in words: `sync runs 02:15`. */
function said(...given: Parameters<typeof decided>): string[] {
  return decided(...given).map((each) => {
    if (each.kind === 'forget') return `${each.job.name} forgets`;
    const time = new Date(each.occurrence).toISOString().slice(11, 16);
    const over = each.skippedBefore > 0 ? ` passing over ${each.skippedBefore}` : '';
    if (each.kind === 'skip') return `${each.job.name} is ${each.outcome} ${time}${over}`;
    return `${each.job.name} runs ${time}${each.late ? ' late' : ''}${each.attempt > 1 ? ' again' : ''}${over}`;
  });
}

const sync = jobOf('sync');

describe('a job', () => {
  test('runs when its time has come, not before, and once', () => {
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

  test('that was missed three times is caught up on once', () => {
    expect(said([sync], { sync: { handled: '2026-03-08T02:15Z' } }, '06:00')).toEqual([
      'sync runs 02:15 late passing over 2',
    ]);
  });

  test('that does not catch up is missed, and said to be', () => {
    const only = jobOf('sync', { catchUp: false });
    expect(said([only], { sync: { handled: '2026-03-08T02:15Z' } }, '06:00')).toEqual([
      'sync is missed 02:15 passing over 2',
    ]);
    expect(said([only], {}, '02:20')).toEqual(['sync runs 02:15']);
    expect(said([only], {}, '2026-03-11T02:20:00.001Z')).toEqual(['sync is missed 02:15']);
  });

  test('of which nothing is known is left alone', () => {
    expect(decide([{ job: sync, occurrences: occurrencesOf(sync) }], new Map(), at('02:15'))).toEqual([]);
  });

  test('does not run again where the clock was set back', () => {
    expect(said([sync], { sync: { handled: '02:15' } }, '01:15')).toEqual([]);
    expect(said([sync], { sync: { handled: '02:15' } }, '02:15')).toEqual([]);
  });

  test('begins anew where the clock was more than a day ahead', () => {
    expect(said([sync], { sync: { handled: '2026-03-12T01:15Z' } }, '01:15')).toEqual([]);
    expect(said([sync], { sync: { handled: '2026-03-12T01:15:00.001Z' } }, '01:15')).toEqual(['sync forgets']);
    expect(said([sync], { sync: { handled: '2031-01-01T00:00Z' } }, '01:15')).toEqual(['sync forgets']);
  });

  test('of every minute that was down for a year is not counted to the end', () => {
    const often = jobOf('sync', { cron: '* * * * *' });
    expect(said([often], { sync: { handled: '2025-03-11T00:00Z' } }, '02:15')).toEqual([
      'sync runs 02:15 passing over 1000',
    ]);
  });

  test.each(['stopped', 'killed'] as const)('that was %s with the worker is taken up once more', (outcome) => {
    const latest = ended('sync', outcome, '02:15', '02:20');
    expect(said([sync], { sync: { handled: '02:15', latest } }, '02:30')).toEqual(['sync runs 02:15 late again']);
    const byHand = { ...latest, occurrence: null };
    expect(said([sync], { sync: { handled: '02:15', latest: byHand } }, '02:30')).toEqual([]);
    const second = { ...latest, attempt: 2 };
    expect(said([sync], { sync: { handled: '02:15', latest: second } }, '02:30')).toEqual([]);
  });

  test.each(['interrupted', 'failed', 'timed_out'] as const)('that was %s is not', (outcome) => {
    expect(
      said([sync], { sync: { handled: '02:15', latest: ended('sync', outcome, '02:15', '02:20') } }, '02:30'),
    ).toEqual([]);
  });
});

describe('jitter', () => {
  const late = jobOf('sync', { jitterMs: 10 * minuteMs });
  const nights = Array.from({ length: 300 }, (_, night) => at('02:15') + night * dayMs);

  test('is bounded, the same for the same time, and another for others', () => {
    const delays = nights.map((night) => jitterOf(late, night));
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...delays)).toBeLessThan(10 * minuteMs);
    expect(delays).toEqual(nights.map((night) => jitterOf(late, night)));
    expect(new Set(delays).size).toBeGreaterThan(290);
    expect(Math.max(...delays) - Math.min(...delays)).toBeGreaterThan(9 * minuteMs);
  });

  test('keeps a job back until it is over, and is said beforehand', () => {
    const delay = jitterOf(late, at('02:15'));
    const scheduled = { job: late, occurrences: occurrencesOf(late) };
    expect(nextTime(scheduled, at('01:00'), at('01:00'))).toBe(at('02:15') + delay);
    const before = new Date(at('02:15') + delay - 1).toISOString();
    const then = new Date(at('02:15') + delay).toISOString();
    expect(said([late], {}, before)).toEqual([]);
    expect(said([late], {}, then)).toEqual(['sync runs 02:15']);
    // While it waits, its time is still to come; once it is there, the next one is.
    expect(nextTime(scheduled, at('01:00'), Date.parse(before))).toBe(at('02:15') + delay);
    const tomorrow = at('02:15') + dayMs + jitterOf(late, at('02:15') + dayMs);
    expect(nextTime(scheduled, at('01:00'), Date.parse(then))).toBe(tomorrow);
    // Nor does a time come again that was dealt with, where the clock was set back.
    expect(nextTime(scheduled, at('02:15'), at('01:00'))).toBe(tomorrow);
  });

  test('may let a later time of the same job come first', () => {
    const often = jobOf('sync', { cron: '* * * * *', jitterMs: 10 * minuteMs });
    const times = Array.from({ length: 100 }, (_, minute) => at('01:30') + minute * minuteMs);
    for (let now = at('02:00'); now < at('02:30'); now += 150_000) {
      const soonest = times
        .filter((time) => time > now - often.jitterMs)
        .map((time) => time + jitterOf(often, time))
        .filter((time) => time > now);
      const scheduled = { job: often, occurrences: occurrencesOf(often) };
      expect(nextTime(scheduled, at('01:00'), now)).toBe(Math.min(...soonest));
    }
  });
});

describe('a job after another', () => {
  const users = jobOf('users', { cron: '0 3 * * *', after: ['sync'] });
  const strict = { ...users, requireComplete: true };

  test('waits while that runs, or is still to run, and begins when it is done', () => {
    const running = { handled: '02:15', isRunning: true };
    expect(said([users, sync], { sync: running }, '03:00')).toEqual([]);
    const latest = ended('sync', 'complete', '02:15', '03:40');
    expect(said([users, sync], { sync: { handled: '02:15', latest } }, '03:40')).toEqual(['users runs 03:00']);
  });

  test('at the same time begins after it', () => {
    const same = { ...users, cron: sync.cron };
    expect(said([same, sync], {}, '02:15')).toEqual(['sync runs 02:15']);
  });

  test('is missed with it, and caught up on behind it', () => {
    expect(said([users, sync], {}, '06:00')).toEqual(['sync runs 02:15 late']);
    const latest = ended('sync', 'complete', '06:00', '06:10', { occurrence: at('02:15') });
    expect(said([users, sync], { sync: { handled: '02:15', latest } }, '06:10')).toEqual(['users runs 03:00 late']);
    const never = { ...users, catchUp: false };
    expect(said([never, sync], { sync: { handled: '02:15', latest } }, '06:10')).toEqual(['users is missed 03:00']);
  });

  test.each(['partial', 'failed', 'missed', 'locked'] as const)(
    'runs although that was %s, unless it must be complete',
    (outcome) => {
      const latest = ended('sync', outcome, '02:15', '02:40');
      const known = { sync: { handled: '02:15', latest } };
      expect(said([users, sync], known, '03:00')).toEqual(['users runs 03:00']);
      expect(said([strict, sync], known, '03:00')).toEqual(['users is skipped 03:00']);
      expect(decided([strict, sync], known, '03:00')).toMatchObject([{ why: `sync was not complete: ${outcome}` }]);
    },
  );

  test('is told the problem of that one, where it was not complete', () => {
    const latest = ended('sync', 'failed', '02:15', '02:40', { problem: 'the disk is full' });
    expect(decided([strict, sync], { sync: { handled: '02:15', latest } }, '03:00')).toMatchObject([
      { why: 'sync was not complete: failed, the disk is full' },
    ]);
  });

  test('that begins late since it waited is on time, if that one began within five minutes of its own time', () => {
    const only = { ...users, catchUp: false };
    const waited = (started: string) => {
      const latest = ended('sync', 'complete', started, '05:00', { occurrence: at('02:15') });
      return said([only, sync], { sync: { handled: '02:15', latest } }, '05:00');
    };
    expect(waited('02:56')).toEqual(['users runs 03:00']);
    expect(waited('03:04')).toEqual(['users runs 03:00']);
    expect(waited('03:05')).toEqual(['users runs 03:00']);
    expect(waited('2026-03-11T03:05:00.001Z')).toEqual(['users is missed 03:00']);
  });

  test('runs beside one that was skipped, or that is not there', () => {
    expect(said([users, sync], { sync: { handled: '02:15' } }, '03:00')).toEqual(['users runs 03:00']);
    expect(said([users], {}, '03:00')).toEqual(['users runs 03:00']);
    expect(said([strict], {}, '03:00')).toEqual(['users is skipped 03:00']);
  });

  test('runs beside one that begins anew', () => {
    expect(said([users, sync], { sync: { handled: '2031-01-01T00:00Z' } }, '03:00')).toEqual([
      'sync forgets',
      'users runs 03:00',
    ]);
  });

  test('waits for the skip of that one to be on record', () => {
    const known = { sync: { handled: '2026-03-10T02:15Z', isRunning: true } };
    expect(said([users, sync], known, '03:00')).toEqual(['sync is overlapped 02:15']);
    const missed = jobOf('sync', { catchUp: false });
    expect(said([users, missed], {}, '03:00')).toEqual(['sync is missed 02:15']);
  });

  test('that must be complete counts a run that ended just at the time of that one', () => {
    const latest = ended('sync', 'complete', '02:00', '02:15', { occurrence: null, cause: 'by_hand' });
    expect(said([strict, sync], { sync: { handled: '02:15', latest } }, '03:00')).toEqual(['users runs 03:00']);
  });

  test('that must be complete is skipped where it has not run since its time', () => {
    const latest = ended('sync', 'complete', '2026-03-10T02:15Z', '2026-03-10T02:40Z');
    expect(said([strict, sync], { sync: { handled: '02:15', latest } }, '03:00')).toEqual(['users is skipped 03:00']);
  });

  test('that must be complete goes by a later run by hand', () => {
    const latest = ended('sync', 'complete', '02:50', '02:55', { occurrence: null, cause: 'by_hand' });
    expect(said([strict, sync], { sync: { handled: '02:15', latest } }, '03:00')).toEqual(['users runs 03:00']);
  });

  test('waits for one that is taken up again', () => {
    const latest = ended('sync', 'stopped', '02:15', '02:20');
    expect(said([strict, sync], { sync: { handled: '02:15', latest } }, '03:00')).toEqual([
      'sync runs 02:15 late again',
    ]);
  });

  test('that itself comes after one waits for both, in whatever order they are written', () => {
    const third = jobOf('copy', { cron: '15 3 * * *', after: ['users'] });
    expect(said([third, users, sync], {}, '04:00')).toEqual(['sync runs 02:15 late']);
  });

  test('is not held up by one that comes less often', () => {
    const weekly = jobOf('sync', { cron: '15 2 * * 0' });
    const latest = ended('sync', 'complete', '2026-03-08T02:15Z', '2026-03-08T02:40Z');
    expect(said([strict, weekly], { sync: { handled: '2026-03-08T02:15Z', latest } }, '03:00')).toEqual([
      'users runs 03:00',
    ]);
  });
});

test('at the changes of clocks a nightly job is decided once', () => {
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
