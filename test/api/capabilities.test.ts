import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Capabilities, measureCapabilities } from '../../src/api/capabilities.ts';
import type { Client } from '../../src/api/client.ts';
import { openClient } from '../../src/api/client.ts';
import { silentLog } from '../../src/model/log.ts';
import type { ResourceName } from '../../src/model/resources.ts';
import { timestampOf } from '../../src/model/time.ts';
import { type Behaviour, openSandbox, type Sandbox } from '../../src/sandbox/sandbox.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { matrix, sample } from '../support/part.ts';

let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await openSandbox({ users: 20_000, packages: 40, emails: 900, coupons: 0, seed: 7, now: sandboxNow });
});

afterAll(() => sandbox.close());

interface Measured {
  readonly found: Capabilities;
  readonly requests: number;
}

async function measure(
  behaviour: Partial<Behaviour> = {},
  { of = sandbox, resource = 'users', known }: { of?: Sandbox; resource?: ResourceName; known?: Capabilities } = {},
): Promise<Measured> {
  of.control.setChaos('calm');
  of.control.setBehaviour(behaviour);
  const clock = { now: () => of.control.clock().now };
  const client: Client = openClient({
    baseUrl: of.url,
    key: of.key,
    timeoutMs: 5_000,
    concurrency: 8,
    attempts: 5,
    pageSize: 1_000,
    userAgent: 'tests',
    log: silentLog,
    clock,
    sleep: () => Promise.resolve(),
  });
  try {
    const found = await measureCapabilities(client, resource, undefined, { clock, known });
    return { found, requests: client.counters.requests };
  } finally {
    await client.close();
  }
}

describe('capabilities measured with enough data', () => {
  test.each<[Partial<Behaviour>, Partial<Capabilities>]>([
    [{}, { pageSize: 1_000, ranges: 'iso', rangeEnd: 'exclusive', dayShiftMinutes: 0, sorts: 'kept' }],
    [{ date_end: 'exclusive' }, { rangeEnd: 'exclusive', dayShiftMinutes: 0 }],
    [{ date_end: 'day' }, { rangeEnd: 'inclusive', dayShiftMinutes: 0 }],
    [{ timezone_minutes: 330 }, { rangeEnd: 'exclusive', dayShiftMinutes: 330 }],
    [{ date_format: 'iso' }, { ranges: 'iso' }],
    [{ date_format: 'dmy' }, { ranges: 'dmy', rangeEnd: 'exclusive', dayShiftMinutes: 0 }],
    [
      { date_format: 'dmy', date_unreadable: 'ignore' },
      { ranges: 'dmy', rangeEnd: 'exclusive' },
    ],
    [
      { date_format: 'dmy', date_unreadable: 'empty', date_end: 'day' },
      { ranges: 'dmy', rangeEnd: 'inclusive' },
    ],
    [{ date_ranges: 'ignored' }, { ranges: 'none', rangeEnd: 'unknown', dayShiftMinutes: 'unknown' }],
    [{ date_ranges: 'error' }, { ranges: 'none' }],
    [{ sorts: 'ignored' }, { sorts: 'ignored', ranges: 'iso' }],
    [{ sorts: 'random' }, { sorts: 'ignored', ranges: 'iso' }],
    [{ sort_ties: 'random', ties: 0.5 }, { sorts: 'kept' }],
    [{ page_max: 100 }, { pageSize: 100 }],
    [{ page_over: 'ignore' }, { pageSize: 15 }],
  ])('are found in at most 8 requests: %j', async (behaviour, expected) => {
    const { found, requests } = await measure(behaviour);
    expect(found).toMatchObject(expected);
    expect(requests).toBeLessThanOrEqual(8);
  });

  test('halve a refused page size until the server accepts it', async () => {
    const { found } = await measure({ page_max: 300, page_over: 'refuse' });
    expect(found.pageSize).toBe(250);
  });

  test('count records that cannot be read to the page that should show them', async () => {
    const newest = sandbox.control
      .dump('users')
      .toSorted((a, b) => (String(a['created_at']) < String(b['created_at']) ? 1 : -1));
    const { found } = await measure({
      poisoned: `users:${String(newest[40]?.['id'])},users:${String(newest[500]?.['id'])}`,
    });
    expect(found.pageSize).toBe(1_000);
    expect(found).not.toHaveProperty('failedSize');
  });

  test('name the size that was requested if the host cannot make such pages', async () => {
    const { found } = await measure({ page_breaks_over: 300 });
    expect(found).toMatchObject({
      pageSize: expect.toSatisfy((size: number) => size > 200 && size <= 300),
      failedSize: 1_000,
    });
    expect((await measure({ page_max: 300 })).found).not.toHaveProperty('failedSize');
  });

  test('are the same if the server fails on a few ranges of days, once one has worked', async () => {
    // The range that has worked is a wide one.
    const isNarrow = /date=(\d{4}-\d\d-\d)\d,\1/;
    sandbox.control.faultNext({ fault: 'error_500', times: 6, match: { path: isNarrow } });
    expect((await measure()).found).toMatchObject({ rangeEnd: 'exclusive', dayShiftMinutes: 0 });
  });

  test('include the clock difference and the rate limit from the headers', async () => {
    const { found } = await measure({ rate_limit: 600, rate_window: 60 });
    expect(found.rateLimit).toEqual({ limit: 600 });
    expect(Math.abs(found.clockDifferenceMs ?? Infinity)).toBeLessThan(1_500);
  });
});

const shifts = [-840, -720, -210, 0, 45, 60, 690, 840];
const ends = ['midnight', 'exclusive', 'day'] as const;
const formats = [
  { date_format: 'both' },
  { date_format: 'dmy', date_unreadable: 'refuse' },
  { date_format: 'dmy', date_unreadable: 'error' },
  { date_format: 'iso', date_unreadable: 'ignore' },
] as const;

/** The behaviour, if a capability contradicts it. */
function falseClaims(found: Capabilities, behaviour: Partial<Behaviour>): string[] {
  const { date_format = 'both', date_end = 'midnight', timezone_minutes = 0, sorts = 'kept' } = behaviour;
  const end = date_end === 'day' ? 'inclusive' : 'exclusive';
  const wrong = [
    found.ranges !== 'none' && date_format !== 'both' && found.ranges !== date_format,
    found.rangeEnd !== 'unknown' && found.rangeEnd !== end,
    found.dayShiftMinutes !== 'unknown' && found.dayShiftMinutes !== timezone_minutes,
    found.sorts === 'kept' && sorts !== 'kept',
  ];
  return wrong.includes(true) ? [JSON.stringify({ found, behaviour })] : [];
}

describe('measured capabilities are true under every combination', () => {
  test.each(sample([3, 60, 1_000], 1))('of %i users', async (users) => {
    const of = await startSandbox({ users });
    const wrong: string[] = [];
    for (const [timezone_minutes, date_end, sorts, format] of matrix(shifts, ends, ['kept', 'ignored'], formats)) {
      const behaviour = { ...format, timezone_minutes, date_end, sorts, page_max: 400 };
      wrong.push(...falseClaims((await measure(behaviour, { of })).found, behaviour));
    }
    expect(wrong).toEqual([]);
  });

  test('and identify a server in UTC if there is enough data', { tags: 'full' }, async () => {
    for (const timezone_minutes of shifts) {
      for (const date_end of ends) {
        const behaviour = { timezone_minutes, date_end, sorts: 'kept' } as const;
        const { found } = await measure(behaviour);
        expect(falseClaims(found, behaviour)).toEqual([]);
        expect(found).toMatchObject({ ranges: 'iso', rangeEnd: date_end === 'day' ? 'inclusive' : 'exclusive' });
        expect([timezone_minutes === 0 ? 0 : 'unknown', timezone_minutes]).toContain(found.dayShiftMinutes);
      }
    }
  });

  test('while records are added and deleted', async () => {
    const of = await startSandbox({ users: 2_000 });
    for (const date_end of ends) {
      const churn = { churn_inserts: 2, churn_deletes: 2, churn_backdated: 0.5 };
      const behaviour = { date_end, timezone_minutes: 60, sorts: 'kept', ...churn } as const;
      expect(falseClaims((await measure(behaviour, { of })).found, behaviour)).toEqual([]);
    }
  });
});

describe('a server with summer time', () => {
  test.each(sample(['Europe/London', 'Europe/Berlin', 'Australia/Sydney'], 1))(
    'in %s is not mistaken for one without',
    async (zone) => {
      const client = { list: listIn(zone) };
      const found = await measureCapabilities(client, 'users', undefined, { clock: { now: () => sandboxNow } });
      expect(found).toMatchObject({ ranges: 'iso', rangeEnd: 'inclusive', dayShiftMinutes: 'unknown' });
    },
  );

  test.each(
    sample(
      [
        ['UTC', 0],
        ['Asia/Kathmandu', 345],
      ],
      1,
    ),
  )('is distinguished from %s, which has none', async (zone, minutes) => {
    const client = { list: listIn(zone) };
    const found = await measureCapabilities(client, 'users', undefined, { clock: { now: () => sandboxNow } });
    expect(found).toMatchObject({ ranges: 'iso', rangeEnd: 'inclusive', dayShiftMinutes: minutes });
  });
});

/** A list with one record every five minutes for two years, from a server whose days follow the time zone. */
function listIn(zone: string): Client['list'] {
  const format = new Intl.DateTimeFormat('en-CA', { timeZone: zone, dateStyle: 'short' });
  const records = Array.from({ length: 2 * 365 * 288 }, (_, index) => {
    const at = sandboxNow - (index + 1) * 300_000;
    return { id: index, created_at: timestampOf(at), day: format.format(at) };
  }).reverse();
  return (_, options = {}) => {
    const { date, sorts, paginate = 15 } = options;
    const range = typeof date === 'object' ? date : { from: '0', to: '9' };
    const found = records.filter(({ day }) => day >= range.from && day <= range.to);
    if (sorts?.[0]?.direction === 'desc') found.reverse();
    return Promise.resolve({
      page: 1,
      perPage: paginate,
      lastPage: Math.max(1, Math.ceil(found.length / paginate)),
      total: found.length,
      records: found.slice(0, paginate),
      text: '',
      milliseconds: 1,
    });
  };
}

describe('further resources of a server', () => {
  test('reuse known capabilities once one range confirms them', async () => {
    const { found: known } = await measure({ timezone_minutes: 330, date_end: 'day' });
    const { found, requests } = await measure(
      { timezone_minutes: 330, date_end: 'day' },
      { resource: 'emails', known },
    );
    expect(found).toMatchObject({ ranges: 'iso', rangeEnd: 'inclusive', dayShiftMinutes: 330 });
    expect(requests).toBeLessThanOrEqual(4);
  });

  test('are measured again if known capabilities do not hold', async () => {
    const { found: known } = await measure();
    const { found } = await measure({ date_ranges: 'ignored' }, { resource: 'emails', known });
    expect(found).toMatchObject({ ranges: 'none', rangeEnd: 'unknown' });
    const { found: other } = await measure({ date_end: 'day', timezone_minutes: -840 }, { resource: 'emails', known });
    expect(other.rangeEnd).not.toBe('exclusive');
  });

  test('without records reuse known capabilities, or stay unknown', async () => {
    const { found: known } = await measure();
    const { found } = await measure({}, { resource: 'coupons', known });
    expect(found).toMatchObject({ ranges: 'iso', rangeEnd: 'exclusive', sorts: 'unknown' });
    const { found: alone } = await measure({}, { resource: 'coupons' });
    expect(alone).toMatchObject({ ranges: 'none', sorts: 'unknown' });
    expect(alone.notes).toHaveLength(1);
    const { found: failing } = await measure({ date_ranges: 'error' }, { resource: 'coupons', known });
    expect(failing).toMatchObject({ ranges: 'none' });
  });
});

test('a list that the key may not see is not reported as one without capabilities', async () => {
  await expect(measure({ forbidden: 'users' })).rejects.toMatchObject({ name: 'KeyRefused' });
});
