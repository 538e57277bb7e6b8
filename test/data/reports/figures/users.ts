import type { JsonRecord } from '../../../../src/sandbox/envelope.ts';
import { day, type Figures, groups, ordered, percent, sum, text, wholeDays } from './shared.ts';

const numbers = (users: readonly JsonRecord[]) =>
  users.map((user) => user['balance']).filter((each) => typeof each === 'number');

export function liability(users: readonly JsonRecord[]): JsonRecord {
  const balances = numbers(users);
  return {
    liability: sum(balances.filter((each) => each > 0)),
    holders: balances.filter((each) => each > 0).length,
    negative: sum(balances.filter((each) => each < 0)),
    debtors: balances.filter((each) => each < 0).length,
    net: sum(balances),
    users: users.length,
    unreadable: users.length - balances.length,
  };
}

const signups: Figures = ({ now }) => {
  const byMonth = new Map(groups(now.users, (user) => text(user, 'created_at').slice(0, 7)));
  const known = [...byMonth.keys()].sort();
  const months: string[] = [];
  for (let month = known[0] ?? ''; month <= (known.at(-1) ?? '');) {
    months.push(month);
    const [year = 0, number = 0] = month.split('-').map(Number);
    month = new Date(Date.UTC(year, number, 1)).toISOString().slice(0, 7);
  }
  return months.map((month) => {
    const users = byMonth.get(month) ?? [];
    const verified = users.filter((user) => user['email_verified_at'] !== null).length;
    const subscribed = users.filter((user) => user['is_subscribed'] === 1).length;
    return {
      month,
      signups: users.length,
      verified,
      verified_percent: percent(verified, users.length),
      subscribed,
      subscribed_percent: percent(subscribed, users.length),
    };
  });
};

const top: Figures = ({ now }) => {
  const holders = now.users.filter((user) => typeof user['balance'] === 'number' && user['balance'] > 0);
  const sorted = ordered(holders, '-balance', 'id');
  const least = sorted[19]?.['balance'] as number;
  return sorted
    .filter((user) => (user['balance'] as number) >= least)
    .map((user) => ({
      rank: 1 + holders.filter((other) => (other['balance'] as number) > (user['balance'] as number)).length,
      ...pick(user, ['id', 'username', 'email', 'status', 'balance', 'last_seen_at']),
    }));
};

function pick(record: JsonRecord, keys: readonly string[]): JsonRecord {
  return Object.fromEntries(keys.map((key) => [key, record[key] ?? null]));
}

const inactive: Figures = ({ now, at }) => {
  const rows = now.users.flatMap((user) => {
    const seen = user['last_seen_at'] ?? user['last_login_at'] ?? user['created_at'];
    if (Date.parse(String(seen)) >= at - 180 * day) return [];
    const open = now.orders.filter(
      (order) => order.user['id'] === user['id'] && ['active', 'suspended'].includes(text(order.record, 'status')),
    );
    return {
      ...pick(user, ['id', 'username', 'email', 'status']),
      last_seen_at: seen,
      days_away: wholeDays(at, seen),
      balance: user['balance'],
      open_orders: open.length,
    };
  });
  return ordered(rows, 'last_seen_at', 'id');
};

const unverified: Figures = ({ now, at }) =>
  ordered(
    now.users
      .filter((user) => user['email_verified_at'] === null && Date.parse(text(user, 'created_at')) < at - 30 * day)
      .map((user) => ({
        ...pick(user, ['id', 'username', 'email', 'status', 'created_at']),
        days_old: wholeDays(at, user['created_at']),
        ...pick(user, ['last_seen_at', 'balance']),
      })),
    'created_at',
    'id',
  );

const subscribers: Figures = ({ now }) =>
  now.users
    .filter((user) => user['is_subscribed'] === 1)
    .map((user) => ({
      ...pick(user, ['id', 'email', 'first_name', 'last_name', 'language', 'status']),
      verified: user['email_verified_at'] === null ? 0 : 1,
      created_at: user['created_at'],
    }));

/** Written with a pattern; the report uses positions instead. */
export function duplicates(users: readonly JsonRecord[], dots: boolean): JsonRecord[] {
  const plain = (user: JsonRecord): string => {
    const [, local = '', host = ''] = /^([^@]+)(@.*)$/.exec(text(user, 'email').toLowerCase()) ?? [];
    const kept = local.replace(/(?<=.)\+.*$/, '');
    return host === '' ? '' : `${dots ? kept.replaceAll('.', '') : kept}${host}`;
  };
  const rows = groups(users, plain)
    .filter(([address, shared]) => address !== '' && shared.length > 1)
    .map(([address, shared]) => ({
      address,
      accounts: shared.length,
      user_ids: JSON.stringify(shared.map((user) => user['id'])),
      emails: JSON.stringify(shared.map((user) => user['email'])),
      balance: sum(numbers(shared)),
      first_created_at: shared.map((user) => text(user, 'created_at')).sort()[0],
      last_created_at: shared
        .map((user) => text(user, 'created_at'))
        .sort()
        .at(-1),
    }));
  return ordered(rows, '-accounts', 'address');
}

/** The end of each range. 0 has its own range, and the last range has no end. */
const ranges: readonly (readonly [string, number])[] = [
  ['0 to 10', 10],
  ['10 to 25', 25],
  ['25 to 50', 50],
  ['50 to 100', 100],
  ['100 to 250', 250],
  ['250 to 500', 500],
  ['500 to 1000', 1_000],
  ['1000 and up', Infinity],
];

const distribution: Figures = ({ now }) => {
  const rangeOf = (balance: number): string => {
    if (balance <= 0) return balance < 0 ? 'below 0' : '0';
    return ranges.find(([, end]) => balance < end)?.[0] ?? '';
  };
  const balances = numbers(now.users);
  return ['below 0', '0', ...ranges.map(([range]) => range)].map((range) => {
    const own = balances.filter((each) => rangeOf(each) === range);
    return { range, users: own.length, balance: sum(own) };
  });
};

export const userFigures: Readonly<Record<string, Figures>> = {
  'signups-by-month': signups,
  'balance-distribution': distribution,
  'balance-liability': ({ now }) => [liability(now.users)],
  'top-balances': top,
  'inactive-users': inactive,
  'unverified-stale': unverified,
  subscribers,
  'duplicate-accounts': ({ now }) => duplicates(now.users, false),
};
