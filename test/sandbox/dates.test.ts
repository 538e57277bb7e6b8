import { describe, expect, test } from 'vitest';
import type { Behaviour, Sandbox } from '../../src/sandbox/sandbox.ts';
import { startSandbox } from '../support/sandbox.ts';
import { call, ids } from './call.ts';

/** A sandbox with coupons created at these times, numbered from 1, and a frozen clock. */
async function withCoupons(
  times: readonly string[],
  now: string,
  behaviour: Partial<Behaviour> = {},
): Promise<Sandbox> {
  const sandbox = await startSandbox({ coupons: 0, now: () => Date.parse(now), behaviour });
  for (const [at, time] of times.entries()) {
    sandbox.control.insert('coupons', { id: at + 1, created_at: `${time}.000000Z` });
  }
  return sandbox;
}

const aroundMidnights = [
  '2026-03-09T23:59:59',
  '2026-03-10T00:00:00',
  '2026-03-10T12:00:00',
  '2026-03-11T00:00:00',
  '2026-03-11T12:00:00',
  '2026-03-12T00:00:00',
];

describe('date presets', () => {
  const times = [
    '2025-12-12T10:00:00',
    '2026-02-10T10:00:00',
    '2026-03-08T11:00:00',
    '2026-03-10T23:59:59',
    '2026-03-11T00:00:00',
  ];
  const cases = [
    ['today', [5]],
    ['yesterday', [4]],
    ['3days', [3, 4, 5]],
    ['7days', [3, 4, 5]],
    ['14days', [3, 4, 5]],
    ['30days', [2, 3, 4, 5]],
    ['90days', [1, 2, 3, 4, 5]],
  ] as const;
  test.each(cases)('%s finds what was created in that time', async (preset, expected) => {
    const sandbox = await withCoupons(times, '2026-03-11T10:00:00Z');
    expect(await ids(sandbox, `coupons?date=${preset}`)).toEqual(expected);
  });

  test('count back from the current moment', async () => {
    const sandbox = await withCoupons(['2026-03-08T09:59:59', '2026-03-08T10:00:00'], '2026-03-11T10:00:00Z');
    expect(await ids(sandbox, 'coupons?date=3days')).toEqual([2]);
  });

  test("use the days of the server's time zone", async () => {
    const sandbox = await withCoupons(['2026-03-10T22:30:00', '2026-03-10T23:30:00'], '2026-03-11T10:00:00Z');
    sandbox.control.setBehaviour({ timezone_minutes: 60 });
    expect(await ids(sandbox, 'coupons?date=today')).toEqual([2]);
    expect(await ids(sandbox, 'coupons?date=yesterday')).toEqual([1]);
  });
});

describe('date ranges', () => {
  const range = 'coupons?date=2026-03-10,2026-03-11';

  test('end at midnight at the start of the last day', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z');
    expect(await ids(sandbox, range)).toEqual([2, 3, 4]);
  });

  test('end just before that midnight with a switch', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z', { date_end: 'exclusive' });
    expect(await ids(sandbox, range)).toEqual([2, 3]);
  });

  test('include the whole last day with a switch', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z', { date_end: 'day' });
    expect(await ids(sandbox, range)).toEqual([2, 3, 4, 5]);
  });

  test('move with the time zone of the server', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z', {
      timezone_minutes: 1,
      date_end: 'exclusive',
    });
    expect(await ids(sandbox, range)).toEqual([1, 2, 3]);
    sandbox.control.setBehaviour({ timezone_minutes: -720 });
    expect(await ids(sandbox, range)).toEqual([3, 4]);
  });

  test('are empty if they end before they begin', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z');
    expect(await ids(sandbox, 'coupons?date=2026-03-11,2026-03-10')).toEqual([]);
  });

  test('omit records without a readable time of creation', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z');
    sandbox.control.update('coupons', 3, { created_at: null });
    expect(await ids(sandbox, 'coupons?date=2020-01-01,2030-01-01')).toEqual([1, 2, 4, 5, 6]);
    expect(await ids(sandbox, 'coupons')).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test('are ignored with a switch', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z', { date_ranges: 'ignored' });
    expect(await ids(sandbox, range)).toHaveLength(6);
  });

  test('get 500 with a switch, and presets still work', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z', { date_ranges: 'error' });
    expect((await call(sandbox, `/api/v1/${range}`)).status).toBe(500);
    expect(await ids(sandbox, 'coupons?date=14days')).toHaveLength(6);
  });
});

describe('the format of a range', () => {
  const iso = 'coupons?date=2026-03-10,2026-03-11';
  const dayMonthYear = 'coupons?date=10-03-2026,11-03-2026';

  test('can be either of the two', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z');
    expect(await ids(sandbox, dayMonthYear)).toEqual(await ids(sandbox, iso));
  });

  test('is only one of them with a switch', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z', { date_format: 'iso' });
    expect(await ids(sandbox, iso)).toHaveLength(3);
    expect((await call(sandbox, `/api/v1/${dayMonthYear}`)).status).toBe(422);
    sandbox.control.setBehaviour({ date_format: 'dmy' });
    expect(await ids(sandbox, dayMonthYear)).toHaveLength(3);
    expect((await call(sandbox, `/api/v1/${iso}`)).status).toBe(422);
  });

  test.each(['2026-02-30,2026-03-01', '2026-03-10', 'tomorrow', '2026-03-10,2026-03-11,2026-03-12', ','])(
    'is not "%s"',
    async (text) => {
      const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z');
      expect((await call(sandbox, `/api/v1/coupons?date=${text}`)).status).toBe(422);
    },
  );

  test('that cannot be read is ignored, finds nothing or gets 500, depending on a switch', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z', { date_format: 'dmy' });
    sandbox.control.setBehaviour({ date_unreadable: 'ignore' });
    expect(await ids(sandbox, iso)).toHaveLength(6);
    sandbox.control.setBehaviour({ date_unreadable: 'empty' });
    expect(await ids(sandbox, iso)).toHaveLength(0);
    sandbox.control.setBehaviour({ date_unreadable: 'error' });
    expect((await call(sandbox, `/api/v1/${iso}`)).status).toBe(500);
  });

  test('must be text', async () => {
    const sandbox = await withCoupons([], '2026-03-20T00:00:00Z');
    expect((await call(sandbox, '/api/v1/coupons?date[]=today')).status).toBe(422);
  });
});
