/** A sandbox with data for all reports, and a mirror that has seen it change. The tests of all reports share it. */
import { join } from 'node:path';
import { reportsIn, type ReportRun, runReport } from '../../support/reports.ts';
import { dayMs, timestampOf, type Timestamp } from '../../../src/model/time.ts';
import { openSandbox, type Sandbox } from '../../support/bent/sandbox.ts';
import type { JsonRecord } from '../../../src/sandbox/envelope.ts';
import { sync } from '../../support/mirror.ts';
import { sandboxNow } from '../../support/sandbox.ts';
import { temporaryFolderNow } from '../../support/temporary-folder.ts';

/** A related record with its user. */
export interface Owned {
  readonly user: JsonRecord;
  readonly record: JsonRecord;
}

/** What the API serves at one moment. */
export interface Served {
  readonly users: readonly JsonRecord[];
  readonly packages: readonly JsonRecord[];
  readonly emails: readonly JsonRecord[];
  readonly coupons: readonly JsonRecord[];
  readonly orders: readonly Owned[];
  readonly payments: readonly Owned[];
  readonly transactions: readonly Owned[];
}

export interface World {
  readonly file: string;
  /** `at` is when `now` was read; `earlier` is between that and when `before` was read. */
  readonly at: number;
  readonly earlier: Timestamp;
  readonly now: Served;
  readonly before: Served;
  readonly run: (name: string, given?: Readonly<Record<string, string>>, part?: ReportRun['part']) => JsonRecord[];
  readonly close: () => Promise<void>;
}

const included = ['orders', 'payments', 'balance_transactions'] as const;

function servedBy({ control }: Sandbox): Served {
  const users = control.dump('users');
  const owned = (kind: string): Owned[] =>
    users.flatMap((user) => control.related('users', user['id'] as number, kind).map((record) => ({ user, record })));
  return {
    users,
    packages: control.dump('packages'),
    emails: control.dump('emails'),
    coupons: control.dump('coupons'),
    orders: owned('orders'),
    payments: owned('payments'),
    transactions: owned('balance_transactions'),
  };
}

/** Adds what generated data lacks: ties, odd shapes and edge cases. */
function prepare({ control }: Sandbox): void {
  const day = (days: number, more = 0): string => timestampOf(sandboxNow + days * dayMs + more);
  // Balances: ties at the end of the list, negative ones, and one that is not a number.
  for (const [id, balance] of [
    [1, 900],
    [2, 900],
    [3, 850.05],
    [4, 850.05],
    [5, -12.34],
    [6, -0.1],
    [7, 0.3],
    [8, 0.1],
  ] as const) {
    control.update('users', id, { balance });
  }
  control.update('users', 9, { balance: 'none' });
  // One address in several spellings.
  for (const [id, email] of [
    [10, 'Ann.Lee@Mail.example'],
    [11, 'ann.lee+shop@mail.example'],
    [12, 'annlee@mail.example'],
    [13, '+odd@mail.example'],
    [14, '+odd@MAIL.example'],
    [15, 'no address'],
    [16, 'no address'],
  ] as const) {
    control.update('users', id, { email });
  }
  // Just inside and just outside the days of the reports.
  control.update('users', 20, { last_seen_at: day(-180, -1_000) });
  control.update('users', 21, { last_seen_at: day(-180, 1_000) });
  control.update('users', 22, { last_seen_at: null, last_login_at: day(-500) });
  control.update('users', 23, { email_verified_at: null });
  control.insert('users', { created_at: day(-30, -1_000), email_verified_at: null, email: 'edge@a.example' });
  control.insert('users', { created_at: day(-30, 1_000), email_verified_at: null, email: 'edge@b.example' });
  // Emails: overdue, not yet due, without a valid receiver, and resent.
  control.update('emails', 1, { is_sent: 0, scheduled_at: day(0, -7_200_000), receiver: 'A@Late.Example' });
  control.update('emails', 2, { is_sent: 0, scheduled_at: day(0, -60_000), receiver: 'b@late.example' });
  control.update('emails', 3, { is_sent: 0, scheduled_at: day(2), receiver: 'c@late.example' });
  control.update('emails', 4, { is_sent: 0, scheduled_at: null, receiver: 'nobody', resent: 2 });
  control.insert('emails', { created_at: day(-3), is_sent: 1, resent: 3 });
  // Coupons: about to expire, expired, never expiring.
  control.update('coupons', 1, { expires_at: day(30, -1_000) });
  control.update('coupons', 2, { expires_at: day(30, 1_000) });
  control.update('coupons', 3, { expires_at: day(0) });
  control.update('coupons', 4, { expires_at: day(-1) });
  control.update('coupons', 5, { code: '7' });
  preparePayments({ control });
  const [order] = control.related('users', 40, 'orders');
  // Orders of other periods, without a period, and over without saying since when.
  control.setRelated('users', 40, 'orders', [
    { ...order, status: 'active', package_id: 1, price: { period: 'yearly', renewal_price: 100, price: 1 } },
    { ...order, status: 'active', package_id: 1, price: { period: 'sometimes', renewal_price: 100 } },
    { ...order, status: 'terminated', cancelled_at: null, created_at: day(-200) },
    { ...order, status: 'cancelled', cancelled_at: day(-20), created_at: day(-200) },
  ]);
}

function preparePayments({ control }: Pick<Sandbox, 'control'>): void {
  const stripe = { driver: 'stripe', name: 'Stripe' };
  const made = (days: number, more: JsonRecord): JsonRecord => ({
    status: 'paid',
    amount: 1,
    currency: 'USD',
    gateway: stripe,
    package_id: 1,
    created_at: timestampOf(sandboxNow - days * dayMs),
    ...more,
  });
  const code = String(control.get('coupons', 6)?.['code']);
  control.setRelated('users', 1, 'payments', [
    ...Array.from({ length: 10 }, () => made(1, { amount: 0.1 })),
    made(1, { amount: '0.20', gateway: 'Stripe' }),
    made(1, { amount: 50, gateway: 'balance', options: { coupon: code.toLowerCase() } }),
    made(1, { amount: 60, gateway: { name: 'Balance' }, options: { coupon: { id: 8 } } }),
    // On the last day of the reports.
    made(-1, { amount: 2.5 }),
    made(2, { amount: 110, package_id: null, description: 'Top-up' }),
    made(2, { amount: 9.99, currency: 'EUR', options: { coupon: { code } }, status: 'Paid' }),
    made(3, { amount: 5, status: 'unpaid', due_date: null, options: { coupon: 7 } }),
    made(4, { amount: 7, status: 'refunded', options: { coupon: 'GONE' } }),
    made(4, { amount: 8.505, package_id: 999, options: [] }),
  ]);
  control.setRelated('users', 2, 'payments', [
    { status: 'paid', amount: 3.33, options: { coupon: 'gone' } },
    { note: 'odd' },
  ]);
  control.setRelated('users', 2, 'balance_transactions', [
    { result: '+', amount: 1_000, balance_before_transaction: 0, created_at: timestampOf(sandboxNow - 2 * dayMs) },
    { result: '-', amount: 99.9, balance_before_transaction: 1_000, created_at: timestampOf(sandboxNow - dayMs) },
  ]);
  control.setRelated('users', 3, 'balance_transactions', [
    { result: '=', amount: 850.05, balance_before_transaction: 0.1, created_at: timestampOf(sandboxNow - dayMs) },
  ]);
  control.setRelated('users', 5, 'balance_transactions', [
    { result: '-', amount: 12.34, balance_before_transaction: 0, created_at: timestampOf(sandboxNow + dayMs) },
  ]);
  control.setRelated('users', 4, 'balance_transactions', [
    { result: '?', amount: 1, balance_before_transaction: 1, created_at: timestampOf(sandboxNow - dayMs) },
  ]);
}

/** What changes between the two syncs. */
function change({ control }: Sandbox): void {
  for (const id of [30, 31, 32]) control.update('users', id, { balance: 77.77, status: 'pending' });
  control.update('users', 30, { balance: 78 });
  control.remove('users', 33);
  control.remove('users', 34);
  control.insert('users', { balance: 5, email: 'late@new.example' });
  control.update('packages', 1, { status: 'archived' });
  control.remove('coupons', 9);
  control.insert('emails', { is_sent: 0 });
}

/** Creates the world; the caller must close it. */
export async function makeWorld(): Promise<World> {
  const sandbox = await openSandbox({
    users: 300,
    packages: 12,
    emails: 500,
    coupons: 30,
    seed: 7,
    now: () => sandboxNow,
  });
  const folder = temporaryFolderNow();
  const file = join(folder.path, 'mirror.db');
  const includes = { users: included, packages: [], emails: [] };
  prepare(sandbox);
  await sync(sandbox, file, { includes });
  const before = servedBy(sandbox);
  const earlier = timestampOf(sandboxNow + dayMs / 2);
  sandbox.control.advanceClock(dayMs);
  change(sandbox);
  const { report } = await sync(sandbox, file, { includes, mode: 'full' });
  if (report.status !== 'complete') throw new Error(`the sync of the reports' world ended ${report.status}`);
  const reports = reportsIn();
  const at = sandboxNow + dayMs;
  return {
    file,
    at,
    earlier,
    before,
    now: servedBy(sandbox),
    run: (name, given, part) =>
      runReport(file, reports, { name, given: given ?? {}, now: at, ...(part && { part }) }).rows,
    close: async () => {
      await sandbox.close();
      folder.remove();
    },
  };
}
