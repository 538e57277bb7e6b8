import { describe, expect, test } from 'vitest';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { startSandbox } from '../support/sandbox.ts';
import { call, ids } from './call.ts';

/** A sandbox with coupons created at these times, numbered from 1, and a frozen clock. */
async function withCoupons(times: readonly string[], now: string): Promise<Sandbox> {
  const sandbox = await startSandbox({ coupons: 0, now: () => Date.parse(now) });
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
});

describe('date ranges', () => {
  const range = 'coupons?date=2026-03-10,2026-03-11';

  test('end at midnight at the start of the last day', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z');
    expect(await ids(sandbox, range)).toEqual([2, 3, 4]);
  });

  test('omit records without a readable time of creation', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z');
    sandbox.control.update('coupons', 3, { created_at: null });
    expect(await ids(sandbox, 'coupons?date=2020-01-01,2030-01-01')).toEqual([1, 2, 4, 5, 6]);
    expect(await ids(sandbox, 'coupons')).toEqual([1, 2, 3, 4, 5, 6]);
  });
});

describe('the format of a range', () => {
  const iso = 'coupons?date=2026-03-10,2026-03-11';
  const dayMonthYear = 'coupons?date=10-03-2026,11-03-2026';

  test('can be either of the two', async () => {
    const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z');
    expect(await ids(sandbox, dayMonthYear)).toEqual(await ids(sandbox, iso));
  });

  test.each(['2026-02-30,2026-03-01', '2026-03-10', 'tomorrow', '2026-03-10,2026-03-11,2026-03-12', ','])(
    'is not "%s"',
    async (text) => {
      const sandbox = await withCoupons(aroundMidnights, '2026-03-20T00:00:00Z');
      expect((await call(sandbox, `/api/v1/coupons?date=${text}`)).status).toBe(422);
    },
  );
});
