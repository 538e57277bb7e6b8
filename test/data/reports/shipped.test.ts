import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isResourceName } from '../../../src/model/resources.ts';
import { dayMs } from '../../../src/model/time.ts';
import type { Cell } from '../../../src/data/reading-types.ts';
import type { ColumnType } from '../../../src/data/reports/reports.ts';
import { blankSnapshot, boundValues, reportRows } from '../../../src/data/reports/run.ts';
import { sync } from '../../support/mirror.ts';
import { sandboxNow, startSandbox } from '../../support/sandbox.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { reportsIn, runReport } from '../../support/reports.ts';
import type { Figures } from './figures/shared.ts';
import { otherFigures } from './figures/others.ts';
import { paymentFigures } from './figures/payments.ts';
import { duplicates, liability, userFigures } from './figures/users.ts';
import { makeWorld, type World } from './world.ts';

const figures: Readonly<Record<string, Figures>> = { ...userFigures, ...paymentFigures, ...otherFigures };
const { reports, broken } = reportsIn();
let world: World;

beforeAll(async () => {
  world = await makeWorld();
});

afterAll(() => world.close());

describe('the shipped reports', () => {
  test('are valid, and each has figures here', () => {
    expect(broken).toEqual([]);
    expect(reports.map(({ name }) => name)).toEqual(Object.keys(figures).sort());
  });

  test.each(Object.entries(figures))('%s has the figures of the server', (name, figuresOf) => {
    const expected = figuresOf(world);
    expect(world.run(name)).toEqual(expected);
    // An empty result would prove nothing.
    expect(expected.length).toBeGreaterThan(0);
  });

  test.each(reports)('$name has the columns of its header, with their types', ({ name, columns }) => {
    const { names, cells } = runReport(world.file, reportsIn(), { name, given: {}, now: world.at });
    expect(names).toEqual(columns.map((column) => column.name));
    for (const [index, column] of columns.entries()) {
      const wrong = cells.map((row) => row[index] ?? null).filter((cell) => !isOf(column.type, cell));
      // A balance that is not a number is shown unchanged.
      expect([name, column.name, wrong.filter((cell) => cell !== 'none')]).toEqual([name, column.name, []]);
    }
  });

  // Reports with a row per day, range or resource have rows even without records.
  const rowsWithoutRecords: Readonly<Record<string, number>> = {
    'balance-distribution': 10,
    'balance-liability': 1,
    'balances-by-age': 6,
    'changes-since': 12,
    churn: 13,
    'email-volume-by-day': 31,
    'mirror-health': 4,
  };

  test.each(reports)('$name works on an empty mirror', (report) => {
    const blank = blankSnapshot();
    const values = boundValues(report, new Map(), world.at);
    const rows = [...reportRows(blank, { report, values, part: {} }, () => {}).batches(() => 100)].flat();
    blank.release();
    expect(rows).toHaveLength(rowsWithoutRecords[report.name] ?? 0);
    expect(rows.flat().filter((cell) => typeof cell === 'number' && cell !== 0)).toEqual([]);
  });
});

const patterns: Readonly<Partial<Record<ColumnType, RegExp>>> = {
  date: /^\d{4}-\d\d-\d\d$/,
  time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/,
};

function isOf(type: ColumnType, cell: Cell): boolean {
  if (cell === null) return true;
  switch (type) {
    case 'integer':
      return typeof cell === 'bigint';
    case 'flag':
      return cell === 0n || cell === 1n;
    case 'number':
      return typeof cell === 'number' || typeof cell === 'bigint';
    case 'money':
      return /^-?\d+(?:\.\d{1,4})?$/.test(String(cell));
    case 'json':
      return Array.isArray(JSON.parse(String(cell)));
    case 'mixed':
      return true;
    case 'text':
      return typeof cell === 'string';
    case 'date':
    case 'time':
      return patterns[type]?.test(String(cell)) === true;
  }
}

describe('a parameter', () => {
  test('limits signups-by-month to whole days, including the last one', () => {
    const day = world.now.users.map((user) => String(user['created_at']).slice(0, 10)).sort()[40] ?? '';
    const rows = world.run('signups-by-month', { from: day, to: day });
    const signups = world.now.users.filter((user) => String(user['created_at']).startsWith(day)).length;
    expect(rows.map((row) => [row['month'], row['signups']])).toEqual([[day.slice(0, 7), signups]]);
  });

  test('says which value of is_subscribed means subscribed', () => {
    const rows = world.run('subscribers', { subscribed: '0' });
    expect(rows.map((row) => row['id'])).toEqual(
      world.now.users.filter((user) => user['is_subscribed'] === 0).map((user) => user['id']),
    );
    const months = world.run('signups-by-month', { subscribed: '0' });
    expect(months.reduce((total, row) => total + Number(row['subscribed']), 0)).toBe(rows.length);
  });

  test('dots finds addresses that differ only in dots', () => {
    expect(world.run('duplicate-accounts', { dots: '1' })).toEqual(duplicates(world.now.users, true));
    expect(duplicates(world.now.users, true)).not.toEqual(duplicates(world.now.users, false));
  });

  test('at sets the time from which days are counted back', () => {
    const at = new Date(world.at - dayMs).toISOString();
    expect(world.run('unverified-stale', { at }).length).toBeLessThan(world.run('unverified-stale').length);
    expect(world.run('coupons-expiring', { at }).map((row) => row['id'])).toContain(3);
    expect(world.run('coupons-expiring').map((row) => row['id'])).not.toContain(3);
  });

  test('limits top-balances, including all who share the last balance', () => {
    expect(world.run('top-balances', { limit: '3' }).map((row) => [row['rank'], row['id']])).toEqual([
      [1, 1],
      [1, 2],
      [3, 3],
      [3, 4],
    ]);
    expect(world.run('top-balances', { limit: '100000' })).toHaveLength(
      liability(world.now.users)['holders'] as number,
    );
  });

  // proves: sql-in-value
  test('with SQL in it is just a value', () => {
    expect(world.run('unpaid', { status: "unpaid' OR '1'='1" })).toEqual([]);
  });
});

describe('a report at an earlier time', () => {
  test('differs from the report of now', () => {
    expect(liability(world.before.users)).not.toEqual(liability(world.now.users));
  });

  const withHistory = reports.filter(({ needs }) => needs.every(({ table }) => isResourceName(table)));

  test.each(withHistory)('shows what the server had then: $name', ({ name }) => {
    const expected = figures[name]?.({ ...world, now: world.before });
    expect(world.run(name, {}, { asOf: world.earlier })).toEqual(expected);
  });

  test('is refused if it reads a table without history', () => {
    expect(() => world.run('unpaid', {}, { asOf: world.earlier })).toThrow(/reads user_payments, which has no history/);
  });
});

test('columns, condition and order apply to a report like to a table', () => {
  const part = { columns: ['balance', 'id'], where: 'rank = 1 -- the first', order: 'id DESC' };
  expect(world.run('top-balances', {}, part)).toEqual([
    { balance: 900, id: 2 },
    { balance: 900, id: 1 },
  ]);
  expect(() => world.run('top-balances', {}, { columns: ['balnce'] })).toThrow(/no column "balnce"/);
  expect(() => world.run('top-balances', {}, { where: 'true) UNION SELECT * FROM (users' })).toThrow(
    /closes a parenthesis/,
  );
});

test('a report over a key that no record has says so, even if the records name it with null', async () => {
  const sandbox = await startSandbox({ users: 40, coupons: 0 });
  const file = `${temporaryFolder()}/mirror.db`;
  await sync(sandbox, file, { includes: { users: ['payments'], packages: [], emails: [] } });
  const { warnings } = runReport(file, reportsIn(), { name: 'coupon-revenue', given: {}, now: sandboxNow });
  expect(warnings).toEqual([
    'no record in user_payments has "options.coupon": what the report computes from it is empty or 0',
  ]);
});
