import { describe, expect, test } from 'vitest';
import { actionNames } from '../../src/bulk/actions.ts';

import {
  type ApprovalPolicy,
  approvalReasons,
  approvalSubjects,
  noTotals,
  type PlanTotals,
  policyByName,
  withRow,
  writeTotals,
  changeByHand,
} from '../../src/model/approval.ts';
import { changeOf, type Money } from '../../src/model/money.ts';

function policy(fields: Partial<ApprovalPolicy> = {}): ApprovalPolicy {
  const none = { rowAmount: undefined, net: undefined, gross: undefined, rows: undefined, alonePerDay: undefined };
  return { ...none, approvers: 2, goodForMs: 1, ...fields };
}

interface Sent {
  /** Null for rows that move no money. */
  readonly money: Omit<PlanTotals, 'rows'> | null;
  readonly rows: number;
  readonly aloneToday: string;
}

function money(rowAmount: string, net: string, gross: string): Sent['money'] {
  return { rowAmount: rowAmount as Money, net: net as Money, gross: gross as Money, unknown: 0 };
}

function reasonsFor(policy: ApprovalPolicy, { money, rows, aloneToday }: Sent): string[] {
  // Amounts in rows that move no money must not matter.
  const amounts = money ?? { ...noTotals, rowAmount: '9' as Money, net: '9' as Money, gross: '9' as Money };
  return approvalReasons(policy, money === null ? 'email' : 'balance', { ...amounts, rows }, aloneToday);
}

function approvalsNeeded(policy: ApprovalPolicy, sent: Sent): number {
  return reasonsFor(policy, sent).length === 0 ? 0 : policy.approvers;
}

const small: Sent = { money: money('5.00', '5.00', '5.00'), rows: 1, aloneToday: '0' };

describe('approval', () => {
  test('is always needed if a policy names no threshold', () => {
    expect(approvalsNeeded(policy(), small)).toBe(2);
    expect(approvalsNeeded(policy(), { money: null, rows: 0, aloneToday: '0' })).toBe(2);
  });

  test.each([
    ['rowAmount', '100', (amount: string) => ({ ...small, money: money(amount, '0', '0') })],
    ['net', '100', (amount: string) => ({ ...small, money: money('0', amount, '0') })],
    ['gross', '100', (amount: string) => ({ ...small, money: money('0', '0', amount) })],
  ] as const)('is needed above %s but not at it, to the last decimal and with either sign', (name, limit, totals) => {
    const under = policy({ [name]: limit as Money });
    for (const amount of ['100', '100.00', '-100.00', '0']) expect(approvalsNeeded(under, totals(amount))).toBe(0);
    for (const amount of ['100.00000001', '-100.01', '12345678901234.5']) {
      expect(approvalsNeeded(under, totals(amount))).toBe(2);
    }
  });

  test('is needed above a number of rows', () => {
    expect(approvalsNeeded(policy({ rows: 10 }), { ...small, rows: 10 })).toBe(0);
    expect(approvalsNeeded(policy({ rows: 10 }), { ...small, rows: 11 })).toBe(2);
  });

  test('is needed once one person would send more alone within a day', () => {
    const day = policy({ alonePerDay: '0.30' as Money });
    const totals = { money: money('0.1', '-0.1', '0.1'), rows: 1 };
    // 0.1 + 0.2 is more than 0.3 only in floating point.
    expect(approvalsNeeded(day, { ...totals, aloneToday: '0.2' })).toBe(0);
    expect(approvalsNeeded(day, { ...totals, aloneToday: '0.21' })).toBe(2);
    const rows = policy({ alonePerDay: '10' as Money });
    expect(approvalsNeeded(rows, { money: null, rows: 4, aloneToday: '6' })).toBe(0);
    expect(approvalsNeeded(rows, { money: null, rows: 5, aloneToday: '6' })).toBe(2);
  });

  test('for rows that move no money depends on their number only', () => {
    const amounts = policy({ rowAmount: '1' as Money, net: '1' as Money, gross: '1' as Money });
    expect(reasonsFor(amounts, { money: null, rows: 1_000, aloneToday: '0' })).toEqual([]);
    const rows = policy({ rows: 1, alonePerDay: '2' as Money });
    expect(reasonsFor(rows, { money: null, rows: 2, aloneToday: '1' })).toEqual([
      'there are 2 rows, more than 1',
      'with it, one person would have sent 3 rows alone within 24 hours, more than 2',
    ]);
  });

  test('gives each reason', () => {
    const all = policy({ rowAmount: '1', net: '2', gross: '3', rows: 0, alonePerDay: '4' } as Partial<ApprovalPolicy>);
    expect(reasonsFor(all, { money: money('-5.00', '6.00', '7.00'), rows: 1, aloneToday: '8' })).toEqual([
      'one row changes a balance by 5, more than 1',
      'the net total is 6, more than 2',
      'the gross total is 7, more than 3',
      'there are 1 row, more than 0',
      'with it, one person would have sent 15 in all alone within 24 hours, more than 4',
    ]);
  });
});

test('every action can require approval', () => {
  expect(approvalSubjects).toEqual(actionNames);
});

describe('the totals of a batch', () => {
  const rows = [
    { plannedBefore: '100.00', plannedAfter: '40.10' },
    { plannedBefore: '0.00', plannedAfter: '0.20' },
    { plannedBefore: '5.00', plannedAfter: '5.00' },
  ];

  const totals = rows.reduce((sum, row) => withRow(sum, changeOf(row)), noTotals);

  test('are the largest change, the net and the gross sum, to the last decimal', () => {
    expect(totals).toEqual({ rowAmount: '59.90', net: '-59.70', gross: '60.10', unknown: 0, rows: 3 });
  });

  test('are only rows if no money moves', () => {
    const limits = policy({ net: '1' as Money, rows: 2 });
    expect(approvalReasons(limits, 'email', totals)).toEqual(['there are 3 rows, more than 2']);
  });
});

test('a policy is shown with the names of the config file, without what is not set', () => {
  expect(policyByName(policy({ goodForMs: 72 * 3_600_000 }))).toEqual({ approvers: 2, good_for: '3d' });
  const all = { rowAmount: '1', net: '2', gross: '3', rows: 0, alonePerDay: '4', approvers: 1, goodForMs: 60_000 };
  expect(Object.entries(policyByName(all as ApprovalPolicy))).toEqual([
    ['row_amount', '1'],
    ['net', '2'],
    ['gross', '3'],
    ['rows', 0],
    ['alone_per_day', '4'],
    ['approvers', 1],
    ['good_for', '1m'],
  ]);
});

describe('a write by hand', () => {
  const reasons = (type: string, amount: unknown, limits: Partial<ApprovalPolicy>): string[] =>
    writeTotals({ operation: 'users.update-balance', body: JSON.stringify({ type, amount }) }).flatMap(
      ([subject, totals]) => approvalReasons(policy(limits), subject, totals),
    );
  const limit = { net: '100' as Money };

  test('counts as a batch of one row', () => {
    expect(reasons('add', 100, limit)).toEqual([]);
    expect(reasons('remove', '100.01', limit)).toEqual(['the net total is 100.01, more than 100']);
    expect(writeTotals({ operation: 'users.delete', body: '{}' })).toEqual([['delete', { ...noTotals, rows: 1 }]]);
    expect(writeTotals({ operation: 'users.get', body: '{}' })).toEqual([]);
    const body = '{"type":"remove","amount":"7.5"}';
    const [, totals] = writeTotals({ operation: 'users.update-balance', body })[0] ?? [];
    expect(totals).toEqual({ rowAmount: '7.50', net: '7.50', gross: '7.50', rows: 1, unknown: 0 });
  });

  test('that sets a balance which was not read, or whose amount cannot be read, exceeds every limit of an amount', () => {
    expect(reasons('set', '1', limit)).toHaveLength(1);
    expect(reasons('add', 'much', { alonePerDay: '1000000' as Money })).toHaveLength(1);
    expect(reasons('set', '1', { rows: 1 })).toEqual([]);
    for (const body of ['', '{"type":"add"', 'null', '[]', '"add"', '{"type":"ADD","amount":1}']) {
      expect(writeTotals({ operation: 'users.update-balance', body })).toEqual([
        ['balance', { ...noTotals, rows: 1, unknown: 1 }],
      ]);
    }
  });

  test.each([
    ['users.update-balance', { type: 'add', amount: 7.5 }, '7.50'],
    ['users.update-balance', { type: 'remove', amount: '7.5' }, '7.50'],
    ['users.update-balance', { type: 'add', amount: 'much' }, null],
  ])('(%s with %j) counts for the bounds as a row with the change %s', (operation, body, plannedAfter) => {
    const write = { operation, body: JSON.stringify(body), balance: '3' };
    expect(changeByHand(write)).toEqual({ plannedBefore: '0', plannedAfter });
  });

  test('that sets a balance changes it from what it was', () => {
    const write = { operation: 'users.update-balance', body: '{"type":"set","amount":"5"}', balance: '-3595.00' };
    expect(changeByHand(write)).toEqual({ plannedBefore: '-3595.00', plannedAfter: '5.00' });
    expect(writeTotals(write)).toMatchObject([['balance', { rowAmount: '3600.00', gross: '3600.00', unknown: 0 }]]);
  });

  test('that moves no money does not count for the bounds', () => {
    for (const operation of ['users.get', 'users.delete', 'users.send-email']) {
      expect(changeByHand({ operation, body: '{"type":"add","amount":5}' })).toBeNull();
    }
  });
});
