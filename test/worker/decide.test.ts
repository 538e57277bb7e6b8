import { describe, expect, test } from 'vitest';
import type { Job } from '../../src/model/job.ts';
import { dayMs, minuteMs, timestampOf } from '../../src/model/time.ts';
import type { JobRun, RunOutcome } from '../../src/worker/store/port.ts';
import {
  awaitsLock,
  decide,
  type Decision,
  jitterOf,
  type JobState,
  nextStart,
  nextTime,
  occurrencesOf,
} from '../../src/worker/decide.ts';
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
      return [
        name,
        { handledUntil: at(handled), latest: undefined, lockedSince: undefined, isRunning: false, ...state },
      ];
    }),
  );
  return decide(
    jobs.map((job) => ({ job, occurrences: occurrencesOf(job) })),
    states,
    at(now),
  );
}

/** The decisions in words: `sync runs 02:15`. */
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
    expect(said([sync], { sync: { handled: '2026-03-08T02:15Z' } }, '06:00')).toEqual([
      'sync runs 02:15 late passing over 2',
    ]);
  });

  test('without catch-up is missed if it is more than five minutes late', () => {
    const only = jobOf('sync', { catchUp: false });
    expect(said([only], { sync: { handled: '2026-03-08T02:15Z' } }, '06:00')).toEqual([
      'sync is missed 02:15 passing over 2',
    ]);
    expect(said([only], {}, '02:20')).toEqual(['sync runs 02:15']);
    expect(said([only], {}, '2026-03-11T02:20:00.001Z')).toEqual(['sync is missed 02:15']);
  });

  test('of unknown state is left alone', () => {
    expect(decide([{ job: sync, occurrences: occurrencesOf(sync) }], new Map(), at('02:15'))).toEqual([]);
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

  test('of every minute counts at most 1000 missed times after a year', () => {
    const often = jobOf('sync', { cron: '* * * * *' });
    expect(said([often], { sync: { handled: '2025-03-11T00:00Z' } }, '02:15')).toEqual([
      'sync runs 02:15 passing over 1000',
    ]);
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
    const scheduled = { job: late, occurrences: occurrencesOf(late) };
    expect(nextTime(scheduled, at('01:00'), at('01:00'))).toBe(at('02:15') + delay);
    const before = new Date(at('02:15') + delay - 1).toISOString();
    const then = new Date(at('02:15') + delay).toISOString();
    expect(said([late], {}, before)).toEqual([]);
    expect(said([late], {}, then)).toEqual(['sync runs 02:15']);
    // While the job is delayed, its time is still to come; after that the next one is.
    expect(nextTime(scheduled, at('01:00'), Date.parse(before))).toBe(at('02:15') + delay);
    const tomorrow = at('02:15') + dayMs + jitterOf(late, at('02:15') + dayMs);
    expect(nextTime(scheduled, at('01:00'), Date.parse(then))).toBe(tomorrow);
    // A handled time does not come again if the clock was set back.
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
    const latest = ended('sync', 'complete', '06:00', '06:10', { occurrence: at('02:15') });
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

  test("that waited is on time if the other started within five minutes after this job's time", () => {
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

  test('runs if the other has no run yet or does not exist, unless it requires a complete run', () => {
    expect(said([users, sync], { sync: { handled: '02:15' } }, '03:00')).toEqual(['users runs 03:00']);
    expect(said([users], {}, '03:00')).toEqual(['users runs 03:00']);
    expect(said([strict], {}, '03:00')).toEqual(['users is skipped 03:00']);
  });

  test('runs if the other starts afresh', () => {
    expect(said([users, sync], { sync: { handled: '2031-01-01T00:00Z' } }, '03:00')).toEqual([
      'sync forgets',
      'users runs 03:00',
    ]);
  });

  test('waits until the skip of the other is recorded', () => {
    const known = { sync: { handled: '2026-03-10T02:15Z', isRunning: true } };
    expect(said([users, sync], known, '03:00')).toEqual(['sync is overlapped 02:15']);
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

describe('jobs that take one lock', () => {
  const half = '30 2 * * *';
  const night = jobOf('night', { cron: half });
  const hourly = jobOf('hourly', { cron: '10 * * * *' });
  const quick = jobOf('quick', { run: 'sync', cron: half });
  const once = { handled: '02:10' };

  test('begin one after the other: the one that has been due for longest, then as they are written', () => {
    const jobs = [night, quick, hourly];
    // Since 02:10, although its last time is later than that of the others.
    expect(said(jobs, { hourly: { handled: '01:10' } }, '04:00')).toEqual(['hourly runs 03:10 late passing over 1']);
    expect(said(jobs, { hourly: { handled: '02:10' } }, '04:00')).toEqual(['night runs 02:30 late']);
    expect(said([quick, night, hourly], { hourly: once }, '02:30')).toEqual(['quick runs 02:30']);
    expect(said(jobs, { hourly: { ...once, isRunning: true } }, '02:30')).toEqual([]);
    expect(said(jobs, { quick: { handled: '02:30', isRunning: true }, hourly: once }, '02:30')).toEqual([]);
    expect(said(jobs, { night: { handled: '02:30' }, hourly: once }, '02:30')).toEqual(['quick runs 02:30']);
    const done = { night: { handled: '02:30' }, quick: { handled: '02:30' } };
    expect(said(jobs, { ...done, hourly: once }, '03:10')).toEqual(['hourly runs 03:10']);
  });

  test('are due in the order of their times with the delays', () => {
    const one = jobOf('one', { cron: '0 2 * * *', jitterMs: 60 * minuteMs });
    const delay = jitterOf(one, at('02:00'));
    const other = (minutes: number) => jobOf('other', { cron: `${Math.floor(delay / minuteMs) + minutes} 2 * * *` });
    expect(said([other(0), one], {}, '03:00')).toMatchObject([expect.stringMatching(/^other /)]);
    expect(said([other(1), one], {}, '03:00')).toMatchObject([expect.stringMatching(/^one /)]);
  });

  test('never keep one of them from running, however often the others are due', () => {
    const jobs = ['a', 'b', 'c'].map((name) => jobOf(name, { cron: '* * * * *' }));
    const known = new Map<string, Known>(jobs.map(({ name }) => [name, { handled: '02:00' }]));
    const begun: string[] = [];
    // Each run takes two and a half minutes.
    for (let now = at('02:01'); now < at('02:20'); now += 150_000) {
      const time = new Date(now).toISOString();
      for (const each of decided(jobs, Object.fromEntries(known), time)) {
        if (each.kind !== 'run') continue;
        begun.push(each.job.name);
        // By its end, the times that came meanwhile are dealt with.
        known.set(each.job.name, { handled: new Date(now + 150_000 - 1).toISOString() });
      }
    }
    expect(begun.join('')).toMatch(/^(abc)+/);
  });

  test.each(['export', 'report', 'verify', 'snapshot', 'backup', 'publish'] as const)('do not include %s', (run) => {
    const other = jobOf('other', { run, cron: half });
    expect(said([night, other], {}, '02:30')).toEqual(['night runs 02:30', 'other runs 02:30']);
    expect(said([night, other], { night: { handled: '02:30', isRunning: true } }, '02:30')).toEqual([
      'other runs 02:30',
    ]);
  });

  test('are also two that publish', () => {
    const publish = ['one', 'two'].map((name) => jobOf(name, { run: 'publish', cron: half }));
    expect(said(publish, {}, '02:30')).toEqual(['one runs 02:30']);
    const exports = publish.map((job) => ({ ...job, run: 'export' as const }));
    expect(said(exports, {}, '02:30')).toEqual(['one runs 02:30', 'two runs 02:30']);
  });

  test('skip what is to be skipped at once', () => {
    const jobs = [night, jobOf('strict', { cron: half, after: ['other'], requireComplete: true })];
    expect(said(jobs, {}, '02:30')).toEqual(['night runs 02:30', 'strict is skipped 02:30']);
    const known = { night: { handled: '02:30', isRunning: true }, hourly: { handled: '02:10', isRunning: true } };
    expect(said([night, hourly], known, '03:10')).toEqual(['hourly is overlapped 03:10']);
    const missed = { ...hourly, catchUp: false };
    expect(said([missed, night], { hourly: { handled: '01:10' } }, '02:30')).toEqual([
      'hourly is missed 02:10',
      'night runs 02:30',
    ]);
  });

  test('begin a stopped run again only when the other has ended, and what follows it waits', () => {
    const stopped = { handled: '02:30', latest: ended('night', 'stopped', '02:30', '02:40') };
    const follows = jobOf('e', { run: 'export', cron: half, after: ['night'], requireComplete: true });
    const jobs = [night, hourly, follows];
    expect(said(jobs, { night: stopped, hourly: { ...once, isRunning: true } }, '02:45')).toEqual([]);
    expect(said(jobs, { night: stopped, hourly: once }, '03:15')).toEqual(['night runs 02:30 late again']);
    const delayed = { ...night, jitterMs: 60 * minuteMs };
    expect(decided([delayed], { night: stopped }, '02:45')).toMatchObject([
      { since: at('02:30') + jitterOf(delayed, at('02:30')) },
    ]);
    expect(said(jobs, { night: stopped, hourly: { handled: '01:10' } }, '03:10')).toEqual([
      'hourly runs 03:10 passing over 1',
    ]);
  });

  test('are on time if they waited for each other, and so is what follows them', () => {
    const only = { catchUp: false };
    const known = {
      hourly: { handled: '03:10', latest: ended('hourly', 'complete', '02:34', '02:50') },
      night: { handled: '02:30', latest: ended('night', 'complete', '02:55', '03:40') },
    };
    const quickly = { ...quick, ...only };
    expect(said([night, hourly, quickly], known, '03:45')).toEqual(['quick runs 02:30']);
    expect(said([night, hourly, quickly], known, '2026-03-11T03:45:00.001Z')).toEqual(['quick is missed 02:30']);
    const follows = jobOf('e', { run: 'export', cron: half, after: ['night'], ...only });
    expect(said([follows, night, hourly], known, '03:45')).toEqual(['e runs 02:30']);
    const alone = jobOf('e', { run: 'export', cron: half, ...only });
    expect(said([alone, night, hourly], known, '03:45')).toEqual(['e is missed 02:30']);
    const gap = { ...known, night: { ...known.night, latest: ended('night', 'complete', '02:56', '03:40') } };
    expect(said([follows, night, hourly], gap, '03:45')).toEqual(['e is missed 02:30']);
    // A run of its own does not count.
    const own = { handled: '01:10', latest: ended('hourly', 'complete', '02:10', '03:18', { occurrence: null }) };
    expect(said([{ ...hourly, ...only }], { hourly: own }, '03:20')).toEqual(['hourly is missed 03:10 passing over 1']);
  });
});

describe('a job that finds its lock held', () => {
  const late = (started: string, finished: string, more: Partial<JobRun> = {}) => {
    const latest = ended('sync', 'locked', started, finished, { occurrence: at('02:15'), ...more });
    return { handled: '02:15', latest, lockedSince: at('02:15') };
  };
  const first = late('02:15', '02:15');

  test('is tried again after a minute, then after longer pauses of at most ten', () => {
    const again = ['sync runs 02:15 late'];
    expect(decided([sync], { sync: first }, '02:16')).toMatchObject([{ again: true }]);
    expect(decided([sync], {}, '02:15')).toMatchObject([{ again: false }]);
    for (const [started, next] of [
      ['02:15', '02:16'],
      ['02:16', '02:17'],
      ['02:20', '02:25'],
      ['02:25', '02:35'],
      ['03:15', '03:25'],
    ] as const) {
      const known = { sync: late(started, started) };
      expect(said([sync], known, new Date(at(next) - 1).toISOString())).toEqual([]);
      expect(said([sync], known, next)).toEqual(again);
    }
    expect(said([sync], { sync: { ...first, isRunning: true } }, '02:16')).toEqual([]);
    expect(said([sync], { sync: { ...first, latest: { ...first.latest, occurrence: null } } }, '02:16')).toEqual([]);
  });

  test('is tried at once if the clock was set back', () => {
    const known = { sync: late('04:15', '04:15') };
    expect(said([sync], known, '2026-03-11T04:14:59.999Z')).toEqual(['sync runs 02:15 late']);
    expect(said([sync], known, '04:15')).toEqual([]);
  });

  test('runs at its next time instead, and counts that as its first attempt', () => {
    const known = { sync: late('2026-03-12T02:10Z', '2026-03-12T02:10Z', { attempt: 2 }) };
    expect(said([sync], known, '2026-03-12T02:14Z')).toEqual([]);
    expect(said([sync], known, '2026-03-12T02:15Z')).toEqual(['sync runs 02:15']);
  });

  test('keeps its attempts for a worker that dies', () => {
    expect(said([sync], { sync: late('02:15', '02:15', { attempt: 2 }) }, '02:16')).toEqual([
      'sync runs 02:15 late again',
    ]);
  });

  test('and does not catch up is tried again for five minutes', () => {
    const only = jobOf('sync', { catchUp: false, jitterMs: 60 * minuteMs });
    const due = at('02:15') + jitterOf(only, at('02:15'));
    const time = (ms: number) => new Date(due + ms).toISOString();
    const known = { handled: '02:15', latest: ended('sync', 'locked', time(0), time(0)), lockedSince: due };
    const sync = { ...known, latest: { ...known.latest, occurrence: at('02:15') } };
    expect(said([only], { sync }, time(5 * minuteMs))).toEqual(['sync runs 02:15 late']);
    expect(said([only], { sync }, time(5 * minuteMs + 1))).toEqual([]);
    const state = { handledUntil: at('02:15'), isRunning: false, latest: sync.latest, lockedSince: due };
    expect(awaitsLock(only, state, due + 5 * minuteMs)).toBe(true);
    expect(awaitsLock(only, state, due + 5 * minuteMs + 1)).toBe(false);
  });

  test('holds up what follows it until it has run', () => {
    const users = jobOf('users', { run: 'export', cron: '15 2 * * *', after: ['sync'] });
    const jobs = [users, { ...users, name: 'strict', requireComplete: true }, sync];
    const times = { users: {}, strict: {} };
    expect(said(jobs, { ...times, sync: first }, '02:15')).toEqual([]);
    expect(said(jobs, { ...times, sync: first }, '02:16')).toEqual(['sync runs 02:15 late']);
    const latest = ended('sync', 'complete', '02:16', '02:40', { occurrence: at('02:15') });
    expect(said(jobs, { ...times, sync: { handled: '02:15', latest } }, '02:40')).toEqual([
      'users runs 02:15',
      'strict runs 02:15',
    ]);
  });

  test('is a problem after an hour, unless it runs then', () => {
    const { latest, lockedSince } = late('03:10', '03:10');
    const state: JobState = { handledUntil: at('02:15'), latest, lockedSince, isRunning: false };
    expect(awaitsLock(sync, state, at('03:15') - 1)).toBe(true);
    expect(awaitsLock(sync, state, at('03:15'))).toBe(false);
    expect(awaitsLock(sync, { ...state, isRunning: true }, at('03:15'))).toBe(true);
    expect(awaitsLock(sync, { ...state, lockedSince: undefined }, at('03:14'))).toBe(false);
  });

  test('begins next when it is tried again, or at its next time', () => {
    const scheduled = { job: sync, occurrences: occurrencesOf(sync) };
    const tomorrow = at('2026-03-12T02:15Z');
    const progress = { handledUntil: at('02:15'), latest: first.latest, lockedSince: first.lockedSince };
    expect(nextStart(scheduled, progress, at('02:15'))).toBe(at('02:16'));
    expect(nextStart(scheduled, progress, at('02:16'))).toBe(tomorrow);
    expect(nextStart(scheduled, undefined, at('02:15'))).toBe(tomorrow);
    expect(nextStart(scheduled, { ...progress, lockedSince: undefined }, at('01:15'))).toBe(tomorrow);
    const last = late('2026-03-12T02:10Z', '2026-03-12T02:10Z');
    expect(nextStart(scheduled, { ...progress, ...last }, at('2026-03-12T02:11Z'))).toBe(tomorrow);
    const never = { job: sync, occurrences: { ...scheduled.occurrences, *after() {} } };
    expect(nextStart(never as typeof scheduled, progress, at('02:15'))).toBe(at('02:16'));
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
