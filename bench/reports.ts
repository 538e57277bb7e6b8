/**
 * Every shipped report on a million users, emails, orders, payments and balance transactions, as a whole command,
 * compared with the sqlite3 shell with the same statement on the same file. Reports that take longer than a second are
 * listed with the reason.
 */
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { boundValues } from '../src/data/reports/run.ts';
import { loadReports, type Report } from '../src/data/reports/reports.ts';
import { relationTable } from '../src/model/resources.ts';
import { systemClock } from '../src/model/time.ts';
import { openMirrorStore } from '../src/mirror/store/mirror-store.ts';
import type { BoundValues } from '../src/data/reading-types.ts';
import { measure, measureCli, median, root } from './process.ts';
import { startBenchSandbox } from './sandbox.ts';
import type { Row } from './table.ts';

const goalSeconds = 1;

const readsAll =
  "every related record is JSON that must be opened to know its status and time, and its keys are the server's own";

/** Why no index can answer the question, by report. */
const reasons: Readonly<Record<string, string>> = {
  'changes-since': 'in the bench every record came within the days asked for, so every one of them is counted',
  'duplicate-accounts': 'every address is taken apart and sorted; what makes no difference in one is a parameter',
  'inactive-users':
    'a column that changes at each visit is cheaper to scan than to keep in an index, and orders are looked up for each row',
  subscribers: 'most users are in the answer, which is written whole',
  'unverified-stale': 'a tenth of all users is in the answer, which is written whole',
  'signups-by-month': 'every user is counted',
  'balance-distribution': 'every balance is looked at',
  'coupons-never-used': readsAll,
  'coupon-usage': readsAll,
  'revenue-by-day': readsAll,
  'revenue-by-package': readsAll,
  unpaid: readsAll,
  'credit-ledger': readsAll,
  'balance-drift': `${readsAll}; the newest of each user is looked up`,
};

/** Measures each report `pairs` times; returns its rows, and a list of the slow ones with the reasons. */
export async function benchReports(
  folder: string,
  count: number,
  tries: number,
): Promise<{ rows: Row[]; slow: string }> {
  const mirror = join(folder, 'reports.db');
  await fill(mirror, count);
  const reports = loadReports({ shipped: join(root, 'reports'), own: folder }).reports;
  const measured = [];
  for (const report of reports) measured.push(await measureReport(folder, mirror, report, tries));
  const slow = measured
    .filter(({ seconds }) => seconds > goalSeconds)
    .map(
      ({ report, seconds }) =>
        `- \`${report.name}\`, ${seconds.toFixed(1)} s: ${reasons[report.name] ?? 'no reason is known'}.`,
    );
  return { rows: measured.map(({ row }) => row), slow: slow.join('\n') };
}

async function measureReport(folder: string, mirror: string, report: Report, tries: number) {
  const values = boundValues(report, new Map(), systemClock.now());
  const ours: number[] = [];
  const shell: number[] = [];
  for (let at = 0; at < tries; at += 1) {
    const args = ['export', `report:${report.name}`, '--quiet', '--db', mirror, '-o', join(folder, 'report.csv')];
    ours.push((await measureCli(args)).seconds);
    shell.push(await shellSeconds(folder, mirror, withValues(report.sql, values)));
  }
  const seconds = median(ours);
  const floor = median(shell);
  const known = reasons[report.name] !== undefined;
  return {
    report,
    seconds,
    row: {
      what: `report ${report.name} (${planOf(mirror, report, values)})`,
      floor: Number.isNaN(floor) ? 'too old a shell' : `${floor.toFixed(2)} s`,
      ours: `${seconds.toFixed(2)} s`,
      ratio: Number.isNaN(floor) ? '' : `${(seconds / floor).toFixed(2)} ×`,
      goal: known ? 'at most 1 s, or the reason below' : 'at most 1 s',
      met: seconds <= goalSeconds || known,
    },
  };
}

/** The shell cannot bind values on its command line. */
function withValues(sql: string, values: BoundValues): string {
  return sql.replaceAll(/:([a-z_]+)/g, (whole, name: string) => {
    if (!(name in values)) return whole;
    const value = values[name];
    if (value === null || value === undefined) return 'NULL';
    return typeof value === 'string' ? `'${value.replaceAll("'", "''")}'` : String(value);
  });
}

/** NaN if the machine's shell is too old for the statement. */
async function shellSeconds(folder: string, mirror: string, sql: string): Promise<number> {
  const output = openSync(join(folder, 'shell.csv'), 'w');
  try {
    return (await measure('sqlite3', ['-readonly', '-csv', '-header', '-bail', mirror, sql], {}, output)).seconds;
  } catch {
    return Number.NaN;
  } finally {
    closeSync(output);
  }
}

/** The plan in words: `index emails_unsent`, or the tables that are read completely. */
function planOf(mirror: string, report: Report, values: BoundValues): string {
  const database = new SqliteDatabase(mirror, { readonly: true });
  const plan = database.prepare<[BoundValues], { detail: string }>(`EXPLAIN QUERY PLAN ${report.sql}`).all(values);
  database.close();
  const details = plan.map(({ detail }) => detail);
  const found = (pattern: RegExp): string[] => details.flatMap((detail) => pattern.exec(detail)?.[1] ?? []);
  const whole = found(/^SCAN (users|emails|user_\w+|payments)$/);
  const indices = found(/USING (?:COVERING )?INDEX ((?!sqlite_)\w+)/);
  return (
    [
      ...(whole.length === 0 ? [] : [`all of ${[...new Set(whole)].join(', ')}`]),
      ...(indices.length === 0 ? [] : [`index ${[...new Set(indices)].join(', ')}`]),
    ].join('; ') || 'small tables'
  );
}

/** Fills a synced mirror with generated related records: the server would take an hour to serve them. */
async function fill(mirror: string, count: number): Promise<void> {
  const sandbox = await startBenchSandbox(count, count);
  try {
    await measureCli(['sync', '--quiet', '--db', mirror], sandbox.environment);
  } finally {
    sandbox.close();
  }
  const store = openMirrorStore(mirror);
  store.includeRelations('users', Object.keys(related));
  store.close();
  const database = new SqliteDatabase(mirror);
  for (const [name, record] of Object.entries(related)) {
    const { table } = relationTable('users', name);
    database.exec(
      `INSERT INTO ${table} (user_id, id, record, _key) SELECT id, id, ${record}, CAST(id AS TEXT) FROM users`,
    );
    const keys = `(SELECT json_group_array(key) FROM json_each((SELECT record FROM ${table} LIMIT 1)))`;
    database.exec(`UPDATE mirror_relations SET keys = ${keys} WHERE relation = '${name}'`);
  }
  database.pragma('wal_checkpoint(TRUNCATE)');
  database.close();
}

/** One for each user, with the keys that the reports read and others that a server may send. */
const related: Readonly<Record<string, string>> = {
  orders: `json_object('id', id, 'status', iif(id % 5, 'active', 'cancelled'), 'package_id', id % 50, 'created_at', created_at)`,
  payments: `json_object('id', id, 'order_id', id, 'package_id', id % 50, 'status', iif(id % 10, 'paid', 'unpaid'),
    'description', 'Payment of an invoice', 'currency', 'USD', 'amount', (id % 9000) / 100.0,
    'gateway', json_object('id', 5, 'driver', iif(id % 3, 'stripe', 'balance')), 'due_date', NULL,
    'options', json_object('coupon', iif(id % 20, NULL, 'SPRING')), 'created_at', created_at)`,
  balance_transactions: `json_object('id', id, 'result', '+', 'amount', balance, 'balance_before_transaction', 0,
    'description', 'Balance top-up', 'created_at', created_at)`,
};
