import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isResourceName } from '../../../src/model/resources.ts';
import { dayMs } from '../../../src/model/time.ts';
import type { Cell } from '../../../src/store/reading-types.ts';
import type { ColumnType } from '../../../src/data/reports/reports.ts';
import { blankSnapshot, boundValues, reportRows } from '../../../src/data/reports/run.ts';
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
  test('are whole, and each has figures of its own below', () => {
    expect(broken).toEqual([]);
    expect(reports.map(({ name }) => name)).toEqual(Object.keys(figures).sort());
  });

  test.each(Object.entries(figures))('%s says what the server has', (name, figuresOf) => {
    const expected = figuresOf(world);
    expect(world.run(name)).toEqual(expected);
    // Nothing to compare would prove nothing.
    expect(expected.length).toBeGreaterThan(0);
  });

  test.each(reports)('$name gives the columns of its header, each of its type', ({ name, columns }) => {
    const { names, cells } = runReport(world.file, reportsIn(), { name, given: {}, now: world.at });
    expect(names).toEqual(columns.map((column) => column.name));
    for (const [index, column] of columns.entries()) {
      const wrong = cells.map((row) => row[index] ?? null).filter((cell) => !isOf(column.type, cell));
      // A balance that is no number is told as it came.
      expect([name, column.name, wrong.filter((cell) => cell !== 'none')]).toEqual([name, column.name, []]);
    }
  });

  // What tells of a whole, or of each day, has rows all the same.
  const rowsWithoutRecords: Readonly<Record<string, number>> = {
    'balance-distribution': 10,
    'balance-liability': 1,
    'changes-since': 12,
    'email-volume-by-day': 31,
    'mirror-health': 4,
  };

  test.each(reports)('$name is no error on a mirror without a record', (report) => {
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
    case 'text':
      return typeof cell === 'string';
    case 'date':
    case 'time':
      return patterns[type]?.test(String(cell)) === true;
  }
}

describe('a parameter', () => {
  test('cuts signups-by-month to whole days, the last one among them', () => {
    const day = world.now.users.map((user) => String(user['created_at']).slice(0, 10)).sort()[40] ?? '';
    const rows = world.run('signups-by-month', { from: day, to: day });
    const signups = world.now.users.filter((user) => String(user['created_at']).startsWith(day)).length;
    expect(rows.map((row) => [row['month'], row['signups']])).toEqual([[day.slice(0, 7), signups]]);
  });

  test('says what is_subscribed means', () => {
    const rows = world.run('subscribers', { subscribed: '0' });
    expect(rows.map((row) => row['id'])).toEqual(
      world.now.users.filter((user) => user['is_subscribed'] === 0).map((user) => user['id']),
    );
    const months = world.run('signups-by-month', { subscribed: '0' });
    expect(months.reduce((total, row) => total + Number(row['subscribed']), 0)).toBe(rows.length);
  });

  test('dots finds the addresses that differ in dots alone', () => {
    expect(world.run('duplicate-accounts', { dots: '1' })).toEqual(duplicates(world.now.users, true));
    expect(duplicates(world.now.users, true)).not.toEqual(duplicates(world.now.users, false));
  });

  test('at moves the time that days are counted from', () => {
    const at = new Date(world.at - dayMs).toISOString();
    expect(world.run('unverified-stale', { at }).length).toBeLessThan(world.run('unverified-stale').length);
    expect(world.run('coupons-expiring', { at }).map((row) => row['id'])).toContain(3);
    expect(world.run('coupons-expiring').map((row) => row['id'])).not.toContain(3);
  });

  test('limits top-balances, with all who share the last balance', () => {
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

  test('of a value that is SQL is a value', () => {
    expect(world.run('unpaid', { status: "unpaid' OR '1'='1" })).toEqual([]);
  });
});

describe('a report at an earlier time', () => {
  test('differs from that of now', () => {
    expect(liability(world.before.users)).not.toEqual(liability(world.now.users));
  });

  const withHistory = reports.filter(({ needs }) => needs.every(({ table }) => isResourceName(table)));

  test.each(withHistory)('says what the server had then: $name', ({ name }) => {
    const expected = figures[name]?.({ ...world, now: world.before });
    expect(world.run(name, {}, { asOf: world.earlier })).toEqual(expected);
  });

  test('is refused where it reads what has no history', () => {
    expect(() => world.run('unpaid', {}, { asOf: world.earlier })).toThrow(/reads user_payments, which has no history/);
  });
});

test('a part of a report is chosen like that of a table', () => {
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
