import { createRequire } from 'node:module';
import type * as NodeCron from 'node-cron';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { hourMs, minuteMs } from '../../src/model/time.ts';
import { isTimeZone, nextTime, timesAfter, timeZoneNames, wallText } from '../../src/model/job.ts';
import { sample } from '../support/part.ts';

/** The first occurrences after the time, in local time of the zone. */
function times(cron: string, timezone: string, after: string, count = 3): string[] {
  const found = timesAfter({ cron, timezone }, Date.parse(after)).take(count);
  return [...found].map((time) => wallText(time, timezone));
}

describe('if the clock is set forward over its time, a job comes once', () => {
  test('at the moment at which its time would have come', () => {
    expect(times('30 2 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', 2)).toEqual([
      '2026-03-29 03:30:00 +02:00',
      '2026-03-30 02:30:00 +02:00',
    ]);
  });

  test('and not again if its schedule also names the time after the change', () => {
    expect(times('30 2,3 * * *', 'Europe/Berlin', '2026-03-28T12:00Z', 2)).toEqual([
      '2026-03-29 03:30:00 +02:00',
      '2026-03-30 02:30:00 +02:00',
    ]);
  });

  test('also if a whole day is left out', () => {
    expect(times('15 2 * * *', 'Pacific/Apia', '2011-12-28T12:30Z', 3)).toEqual([
      '2011-12-29 02:15:00 -10:00',
      '2011-12-31 02:15:00 +14:00',
      '2012-01-01 02:15:00 +14:00',
    ]);
  });
});

describe('if the clock is set back over its time, a job comes once', () => {
  test('the first time', () => {
    expect(times('30 2 * * *', 'Europe/Berlin', '2026-10-24T12:00Z', 2)).toEqual([
      '2026-10-25 02:30:00 +02:00',
      '2026-10-26 02:30:00 +01:00',
    ]);
  });

  test('also seen from between the two', () => {
    expect(times('30 2 * * *', 'America/New_York', '2026-11-01T06:15Z', 1)).toEqual(['2026-11-01 02:30:00 -05:00']);
    expect(times('30 1 * * *', 'America/New_York', '2026-11-01T06:15Z', 1)).toEqual(['2026-11-02 01:30:00 -05:00']);
  });

  test('also if the clock changes by half an hour', () => {
    expect(times('45 1 * * *', 'Australia/Lord_Howe', '2026-04-04T00:00Z', 2)).toEqual([
      '2026-04-05 01:45:00 +11:00',
      '2026-04-06 01:45:00 +10:30',
    ]);
  });
});

test('an hourly job comes every elapsed hour, also when clocks change', () => {
  for (const day of ['2026-03-29', '2026-10-25']) {
    const found = [...timesAfter({ cron: '15 * * * *', timezone: 'Europe/Berlin' }, Date.parse(day)).take(6)];
    expect(found.map((time, index) => time - (found[index - 1] ?? time - hourMs))).toEqual(found.map(() => hourMs));
  }
});

test('a leap day comes only in leap years, which 2100 is not', () => {
  expect(times('0 3 29 2 *', 'UTC', '2026-01-01', 2)).toEqual([
    '2028-02-29 03:00:00 +00:00',
    '2032-02-29 03:00:00 +00:00',
  ]);
  expect(times('0 3 29 2 *', 'UTC', '2097-01-01', 1)).toEqual(['2104-02-29 03:00:00 +00:00']);
  expect(times('0 3 L 2 *', 'UTC', '2027-01-01', 2)).toEqual([
    '2027-02-28 03:00:00 +00:00',
    '2028-02-29 03:00:00 +00:00',
  ]);
});

test('a numbered weekday and the last weekday of a month are found', () => {
  expect(times('0 4 * * 0#1', 'UTC', '2026-11-02', 2)).toEqual([
    '2026-12-06 04:00:00 +00:00',
    '2027-01-03 04:00:00 +00:00',
  ]);
  expect(times('0 4 * * 5L', 'UTC', '2026-11-02', 1)).toEqual(['2026-11-27 04:00:00 +00:00']);
});

describe('the next time is the same seen from any moment', () => {
  test.each(sample(['Europe/Berlin', 'Australia/Lord_Howe', 'Antarctica/Troll'], 1))('in %s', (timezone) => {
    for (const cron of ['30 2 * * *', '*/30 * * * *', '15,45 1-3 * * *']) {
      const job = { cron, timezone };
      for (const around of ['2026-03-29', '2026-04-05', '2026-10-04', '2026-10-25']) {
        const start = Date.parse(`${around}T00:00Z`) - 12 * hourMs;
        const all = [...timesAfter(job, start).take(200)];
        const inside = Array.from({ length: 48 }, (_, index) => start + index * 30 * minuteMs);
        const moments = inside.filter((at) => at >= (all[0] ?? 0) && at < (all.at(-1) ?? 0));
        const looked = moments.map((at) => nextTime(job, at));
        const known = moments.map((at) => all.find((time) => time > at));
        expect(looked).toEqual(known);
      }
    }
  });
});

test('node-cron leaves out a night when clocks are set forward, and an hour when they are set back', () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  const { createTask } = createRequire(import.meta.url)('node-cron') as typeof NodeCron;
  const first = (cron: string, now: string) => {
    vi.setSystemTime(now);
    const task = createTask(cron, () => {}, { timezone: 'Europe/Berlin' });
    const [next] = task.getNextRuns(1);
    void task.destroy();
    const [own] = timesAfter({ cron, timezone: 'Europe/Berlin' }, Date.parse(now));
    return { nodeCron: next?.toISOString(), own: own === undefined ? undefined : new Date(own).toISOString() };
  };
  expect(first('30 2 * * *', '2026-03-28T12:00:00Z')).toEqual({
    nodeCron: '2026-03-30T00:30:00.000Z',
    own: '2026-03-29T01:30:00.000Z',
  });
  expect(first('*/30 * * * *', '2026-10-24T23:45:00Z')).toEqual({
    nodeCron: '2026-10-25T01:00:00.000Z',
    own: '2026-10-25T00:00:00.000Z',
  });
});

test('a time zone is valid if it has an IANA name', () => {
  expect(timeZoneNames()).toContain('Europe/Berlin');
  expect(['Europe/Berlin', 'UTC', 'Europe/Berln', ''].map(isTimeZone)).toEqual([true, true, false, false]);
});
