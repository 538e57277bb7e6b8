/**
 * Later syncs of the same mirror, by processor time: nothing changed, a hundredth changed, and a quick one; and their cost for
 * the server.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import type { RunReport } from '../src/store/mirror-types.ts';
import { measureCli, median } from './process.ts';
import { startBenchSandbox, type BenchSandbox } from './sandbox.ts';
import type { Row } from './table.ts';

const pageSize = 1_000;

async function sync(
  sandbox: BenchSandbox,
  mirror: string,
  mode: string[],
): Promise<{ cpuSeconds: number; report: RunReport }> {
  const { cpuSeconds, stdout } = await measureCli(['sync', ...mode, '--json', '--quiet', '--db', mirror], {
    ...sandbox.environment,
    ADMIN_MIRROR_SYNC_REQUESTS_PER_RUN: '100000',
  });
  const report = JSON.parse(stdout) as RunReport;
  if (report.status !== 'complete') throw new Error(`the sync ended ${report.status}`);
  return { cpuSeconds, report };
}

/** The rows that the server skips by OFFSET for the walks of the mirror's windows, and for one walk over everything. */
function skippedRows(mirror: string, users: number): { windows: number; plain: number } {
  const database = new SqliteDatabase(mirror, { readonly: true });
  const totals = database
    .prepare<[], number>(`SELECT server_total FROM mirror_windows WHERE resource = 'users'`)
    .pluck()
    .all();
  database.close();
  const skipped = (total: number): number => {
    const pages = Math.ceil(total / pageSize);
    return (pageSize * pages * (pages - 1)) / 2;
  };
  return { windows: totals.reduce((sum, total) => sum + skipped(total), 0), plain: skipped(users) };
}

const number = (value: number): string => Math.round(value).toLocaleString('en-US');

/** Measures the later syncs of `users` users; the first sync of the same mirror is the floor. */
export async function benchNextSync(folder: string, users: number, tries: number): Promise<Row[]> {
  const mirror = join(folder, 'next.db');
  const sandbox = await startBenchSandbox(users);
  try {
    const first: number[] = [];
    const unchanged: number[] = [];
    const changed: number[] = [];
    for (let attempt = 0; attempt < tries; attempt += 1) {
      for (const end of ['', '-wal', '-shm']) rmSync(`${mirror}${end}`, { force: true });
      first.push((await sync(sandbox, mirror, ['users'])).cpuSeconds);
      // The second sync compares every row; after that, unchanged pages are recognised.
      await sync(sandbox, mirror, ['users']);
      unchanged.push((await sync(sandbox, mirror, ['users'])).cpuSeconds);
      await sandbox.changeUsers(users / 100);
      changed.push((await sync(sandbox, mirror, ['users'])).cpuSeconds);
    }
    await sync(sandbox, mirror, []);
    const quick = await sync(sandbox, mirror, ['--quick']);
    const perSecond = (cpuSeconds: number[]): string => `${number(users / median(cpuSeconds))}/s`;
    const row = (what: string, ours: number[], goal: number): Row => {
      const ratio = median(ours.map((each, index) => (first[index] ?? 0) / each));
      return {
        what: `${what}, processor time`,
        floor: perSecond(first),
        ours: perSecond(ours),
        ratio: `${ratio.toFixed(1)} × the first sync`,
        goal: `at least ${goal} ×`,
        met: ratio >= goal,
      };
    };
    return [
      row('sync of all windows, nothing changed', unchanged, 4.5),
      row('sync of all windows, 1 % changed at random, with history', changed, 1.5),
      {
        what: 'requests of a quick sync of all resources, nothing new',
        floor: '',
        ours: String(quick.report.requests),
        ratio: '',
        goal: 'at most 12 and the open windows, packages and coupons',
        // An open window, empty or of one page, for each of the four lists, and the sealed windows of packages and
        // coupons.
        met: quick.report.requests <= 12 + 4 + 2,
      },
    ];
  } finally {
    sandbox.close();
  }
}

/** How the rows that the server skips grow with the number of users. */
export async function benchServerCost(folder: string, sizes: readonly number[]): Promise<string> {
  const lines = ['| users | rows skipped by our windows | by one walk over everything |', '|---|---|---|'];
  for (const users of sizes) {
    const mirror = join(folder, `cost-${users}.db`);
    const sandbox = await startBenchSandbox(users);
    try {
      await sync(sandbox, mirror, ['users']);
    } finally {
      sandbox.close();
    }
    const { windows, plain } = skippedRows(mirror, users);
    lines.push(`| ${number(users)} | ${number(windows)} | ${number(plain)} |`);
    rmSync(mirror);
  }
  return lines.join('\n');
}
