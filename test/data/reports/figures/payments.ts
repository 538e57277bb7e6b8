import { Big } from 'big.js';
import type { JsonRecord } from '../../../../src/sandbox/envelope.ts';
import type { Owned, World } from '../world.ts';
import { day, daysFrom, type Figures, groups, ordered, sum, text, wholeDays } from './shared.ts';

function isPaid({ record }: Owned): boolean {
  return text(record, 'status').toLowerCase() === 'paid';
}

function isFromBalance({ record }: Owned): boolean {
  const gateway = record['gateway'];
  const { driver, name } = (
    typeof gateway === 'object' && gateway !== null ? gateway : { name: gateway }
  ) as JsonRecord;
  return String(driver ?? name).toLowerCase() === 'balance';
}

function valueOf(record: JsonRecord, key: string): unknown {
  return record[key] ?? null;
}

function sums(payments: readonly Owned[]) {
  const amounts = (list: readonly Owned[]) => sum(list.map(({ record }) => record['amount']));
  const others = payments.filter((each) => !isFromBalance(each));
  const balance = payments.filter(isFromBalance);
  return {
    payments: others.length,
    revenue: amounts(others),
    balance_payments: balance.length,
    paid_with_balance: amounts(balance),
  };
}

const byDay: Figures = ({ now, at }) => {
  const days = daysFrom(at - 30 * day, at);
  const made = now.payments.filter(
    (each) => isPaid(each) && days.includes(text(each.record, 'created_at').slice(0, 10)),
  );
  const currencies = [...new Set(made.map(({ record }) => text(record, 'currency')))].sort();
  return days.flatMap((each) =>
    currencies.map((currency) => ({
      day: each,
      currency,
      ...sums(
        made.filter(({ record }) => text(record, 'created_at').startsWith(each) && record['currency'] === currency),
      ),
    })),
  );
};

const byPackage: Figures = ({ now }) => {
  const rows = groups(now.payments.filter(isPaid), ({ record }) =>
    JSON.stringify([valueOf(record, 'package_id'), valueOf(record, 'currency')]),
  ).map(([key, payments]) => {
    const [packageId, currency] = JSON.parse(key) as [number | null, string | null];
    const found = now.packages.find((each) => each['id'] === packageId);
    return { package_id: packageId, name: found?.['name'] ?? null, currency, ...sums(payments) };
  });
  return ordered(rows, 'currency', '-revenue', 'package_id');
};

const unpaid: Figures = ({ now, at }) =>
  ordered(
    now.payments
      .filter(({ record }) => record['status'] === 'unpaid')
      .map(({ user, record }) => ({
        payment_id: String(record['id']),
        user_id: user['id'],
        email: user['email'],
        description: valueOf(record, 'description'),
        order_id: valueOf(record, 'order_id'),
        amount: record['amount'],
        currency: record['currency'],
        due_date: valueOf(record, 'due_date'),
        created_at: record['created_at'],
        days_open: wholeDays(at, record['created_at']),
      })),
    'created_at',
    'payment_id',
  );

/** The balance after a transaction; undefined if it is not known. */
function leftBy(record: JsonRecord): Big | undefined {
  const before = new Big(record['balance_before_transaction'] as number);
  const amount = new Big(record['amount'] as number);
  const left: Readonly<Record<string, Big>> = { '+': before.plus(amount), '-': before.minus(amount), '=': amount };
  return left[text(record, 'result')];
}

const ledger: Figures = ({ now, at }) => {
  const days = daysFrom(at - 30 * day, at);
  const rows = now.transactions
    .filter(({ record }) => days.includes(text(record, 'created_at').slice(0, 10)))
    .map(({ user, record }) => {
      const after = leftBy(record);
      const before = record['balance_before_transaction'] as number;
      return {
        created_at: record['created_at'],
        transaction_id: record['id'],
        user_id: user['id'],
        email: user['email'],
        change: after?.minus(before).toNumber() ?? null,
        balance_before: before,
        balance_after: after?.toNumber() ?? null,
        description: valueOf(record, 'description'),
      };
    });
  return ordered(rows, 'created_at', 'transaction_id');
};

const drift: Figures = ({ now }) => {
  const rows = now.users.flatMap((user) => {
    const own = now.transactions.filter((each) => each.user['id'] === user['id']).map(({ record }) => record);
    const newest = ordered(own, 'created_at', 'id').at(-1);
    const should = newest === undefined ? new Big(0) : leftBy(newest);
    // A balance that is not a number has no drift.
    const has = typeof user['balance'] === 'number' ? new Big(user['balance']) : null;
    if (has !== null && should?.eq(has) === true) return [];
    const difference = should === undefined || has === null ? null : has.minus(should);
    return {
      row: {
        id: user['id'],
        username: user['username'],
        email: user['email'],
        balance: has?.toNumber() ?? null,
        ledger_balance: should?.toNumber() ?? null,
        drift: difference?.toNumber() ?? null,
        transactions: own.length,
        newest_at: newest?.['created_at'] ?? null,
      },
      size: difference?.abs().toNumber() ?? Infinity,
      id: user['id'],
    };
  });
  return ordered(rows, '-size', 'id').map(({ row }) => row as JsonRecord);
};

/** The coupon's name in a payment. */
export function couponNamed({ record }: Owned): string | undefined {
  const options = record['options'] as { coupon?: string | number | JsonRecord | null } | null | undefined;
  const coupon = options?.coupon ?? undefined;
  if (typeof coupon !== 'object') return coupon?.toString();
  return String(coupon['code'] ?? coupon['id']);
}

/** By code first, then by id. */
export function couponOf({ now }: World, name: string): JsonRecord | undefined {
  return (
    now.coupons.find((each) => text(each, 'code').toLowerCase() === name.toLowerCase()) ??
    now.coupons.find((each) => String(each['id']) === name)
  );
}

export const paymentFigures: Readonly<Record<string, Figures>> = {
  'revenue-by-day': byDay,
  'revenue-by-package': byPackage,
  unpaid,
  'credit-ledger': ledger,
  'balance-drift': drift,
};
