import { Big } from 'big.js';
import type { JsonRecord } from '../../../../src/sandbox/envelope.ts';
import type { Owned, World } from '../world.ts';
import { day, daysFrom, type Figures, groups, ordered, percent, sum, text, wholeDays } from './shared.ts';

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

const couponRevenue: Figures = (world) => {
  const named = world.now.payments.filter((each) => isPaid(each) && couponNamed(each) !== undefined);
  const rows = groups(named, (each) => {
    const name = couponNamed(each) ?? '';
    return JSON.stringify([couponOf(world, name)?.['id'] ?? name.toLowerCase(), valueOf(each.record, 'currency')]);
  }).map(([key, payments]) => {
    const coupon = couponOf(world, couponNamed(payments[0] as Owned) ?? '');
    const { payments: count, revenue, paid_with_balance } = sums(payments);
    return {
      id: coupon?.['id'] ?? null,
      code: coupon?.['code'] ?? payments.map((each) => couponNamed(each) ?? '').sort()[0] ?? null,
      currency: (JSON.parse(key) as (string | null)[])[1] ?? null,
      users: new Set(payments.map(({ user }) => user['id'])).size,
      payments: count,
      revenue,
      paid_with_balance,
    };
  });
  return ordered(rows, 'currency', '-revenue', 'code');
};

const topCustomers: Figures = ({ now }) => {
  const made = now.payments.filter((each) => isPaid(each) && !isFromBalance(each));
  const rows = groups(made, ({ user, record }) => JSON.stringify([user['id'], valueOf(record, 'currency')])).map(
    ([key, payments]) => {
      const { user } = payments[0] as Owned;
      const times = payments.flatMap(({ record }) => (record['created_at'] as string | undefined) ?? []).sort();
      return {
        user_id: user['id'],
        username: user['username'],
        email: user['email'],
        currency: (JSON.parse(key) as (string | null)[])[1] ?? null,
        payments: payments.length,
        revenue: sum(payments.map(({ record }) => record['amount'])),
        last_paid_at: times.at(-1) ?? null,
      };
    },
  );
  return ordered(ordered(rows, '-revenue', 'user_id').slice(0, 50), 'currency', '-revenue', 'user_id');
};

const monthsIn: Readonly<Record<string, number>> = { monthly: 1, yearly: 12 };

const recurring: Figures = ({ now }) => {
  const running = now.orders.filter(({ record }) => record['status'] === 'active');
  const rows = groups(running, ({ record }) => String(record['package_id'])).map(([id, orders]) => {
    const amounts = orders.map(({ record }) => {
      const { period = '', renewal_price: price } = record['price'] as { period?: string; renewal_price?: number };
      const months = monthsIn[period];
      return months === undefined || price === undefined ? null : new Big(price).div(months).round(4, Big.roundHalfUp);
    });
    const known = amounts.filter((amount) => amount !== null);
    return {
      package_id: Number(id),
      name: now.packages.find((each) => each['id'] === Number(id))?.['name'] ?? null,
      orders: orders.length,
      monthly: sum(known),
      unreadable: amounts.length - known.length,
    };
  });
  return ordered(rows, '-monthly', 'package_id');
};

/** The months from a year before that time to it. */
function monthsUpTo(at: number): string[] {
  return [...new Set(daysFrom(at - 365 * day, at).map((each) => each.slice(0, 7)))];
}

const churn: Figures = ({ now, at }) => {
  const spans = now.orders
    .filter(({ record }) => !/cancelled|terminated/.test(text(record, 'status')) || record['cancelled_at'] !== null)
    .map(({ record }) => ({ began: text(record, 'created_at'), ended: record['cancelled_at'] as string | null }));
  return monthsUpTo(at).map((month) => {
    const running = spans.filter(({ began, ended }) => began < month && (ended === null || ended >= month));
    const ended = running.filter((each) => each.ended?.startsWith(month) === true).length;
    return {
      month,
      at_start: running.length,
      began: spans.filter(({ began }) => began.startsWith(month)).length,
      ended,
      churn_percent: percent(ended, running.length),
    };
  });
};

const cohorts: Figures = ({ now, at }) => {
  const months = monthsUpTo(at);
  return months.flatMap((cohort, born) => {
    const users = now.users.filter((user) => text(user, 'created_at').startsWith(cohort)).map((user) => user['id']);
    if (users.length === 0) return [];
    return months.slice(born).map((month, months_later) => {
      const payers = now.payments.filter(
        (each) => isPaid(each) && users.includes(each.user['id']) && text(each.record, 'created_at').startsWith(month),
      );
      const paying = new Set(payers.map(({ user }) => user['id'])).size;
      return { cohort, months_later, users: users.length, paying, percent: percent(paying, users.length) };
    });
  });
};

const balancesByAge: Figures = ({ now, at }) => {
  const steps = { 'under 30': 30, '30 to 89': 90, '90 to 179': 180, '180 to 364': 365, '365 and more': Infinity };
  const aged = now.users
    .filter(({ balance }) => typeof balance === 'number' && balance !== 0)
    .map((user) => {
      const times = now.transactions.filter((each) => each.user['id'] === user['id']);
      const newest = times.map(({ record }) => Date.parse(text(record, 'created_at'))).sort((a, b) => b - a)[0];
      const days = newest === undefined ? null : (at - newest) / day;
      const [name = ''] = Object.entries(steps).find(([, end]) => days !== null && days < end) ?? ['no transaction'];
      return { name, balance: user['balance'] };
    });
  return [...Object.keys(steps), 'no transaction'].map((age) => {
    const own = aged.filter(({ name }) => name === age);
    return { age, users: own.length, balance: sum(own.map(({ balance }) => balance)) };
  });
};

export const paymentFigures: Readonly<Record<string, Figures>> = {
  'revenue-by-day': byDay,
  'revenue-by-package': byPackage,
  unpaid,
  'credit-ledger': ledger,
  'balance-drift': drift,
  'balances-by-age': balancesByAge,
  churn,
  'cohorts-by-month': cohorts,
  'coupon-revenue': couponRevenue,
  'monthly-recurring-revenue': recurring,
  'top-customers': topCustomers,
};
