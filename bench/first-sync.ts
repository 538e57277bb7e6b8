/** First sync of many users compared with the floor of the same run: records a second of processor time, memory, requests. */
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import SqliteDatabase from 'better-sqlite3';
import type { RunReport } from '../src/store/mirror-types.ts';
import { measure, measureCli, median } from './process.ts';
import { startBenchSandbox, type BenchSandbox } from './sandbox.ts';
import type { Row } from './table.ts';

const pageSize = 1_000;
const floorFile = fileURLToPath(new URL('floor.ts', import.meta.url));

interface SyncTry {
  readonly cpuSeconds: number;
  readonly peakMb: number;
  readonly requests: number;
}

async function syncOnce(sandbox: BenchSandbox, file: string): Promise<SyncTry> {
  for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
  const { cpuSeconds, peakMb, stdout } = await measureCli(
    ['sync', 'users', '--json', '--quiet', '--db', file],
    sandbox.environment,
  );
  const report = JSON.parse(stdout) as RunReport;
  if (report.status !== 'complete') throw new Error(`the sync ended ${report.status}`);
  return { cpuSeconds, peakMb, requests: report.requests };
}

async function floorOnce(sandbox: BenchSandbox, mirror: string, file: string): Promise<number> {
  for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
  const { cpuSeconds } = await measure(process.execPath, [floorFile, mirror, file], sandbox.environment);
  return cpuSeconds;
}

/** The pages of the windows that the mirror was read in, 2 requests for each window, and 25. */
function boundOf(mirror: string): number {
  const database = new SqliteDatabase(mirror, { readonly: true });
  const totals = database
    .prepare<[], number>(`SELECT server_total FROM mirror_windows WHERE resource = 'users'`)
    .pluck()
    .all();
  database.close();
  const pages = totals.reduce((sum, total) => sum + Math.max(1, Math.ceil(total / pageSize)), 0);
  return pages + 2 * totals.length + 25;
}

/**
 * Makes the mirror: measures `pairs` pairs, ours and floor in turn, with `large` users, and the memory once with
 * `small` ones.
 */
export async function benchFirstSync(mirror: string, large: number, small: number, pairs: number): Promise<Row[]> {
  const folder = dirname(mirror);
  const sandbox = await startBenchSandbox(large);
  const ours: SyncTry[] = [];
  const floors: number[] = [];
  try {
    for (let pair = 0; pair < pairs; pair += 1) {
      ours.push(await syncOnce(sandbox, mirror));
      floors.push(await floorOnce(sandbox, mirror, join(folder, 'floor.db')));
    }
  } finally {
    sandbox.close();
  }
  const little = await startBenchSandbox(small);
  const smallTry = await syncOnce(little, join(folder, 'small.db')).finally(() => little.close());

  const ratio = median(ours.map(({ cpuSeconds }, index) => (floors[index] ?? 0) / cpuSeconds));
  const peak = median(ours.map(({ peakMb }) => peakMb));
  const requests = median(ours.map((each) => each.requests));
  const bound = boundOf(mirror);
  const perSecond = (cpuSeconds: number): string => `${Math.round(large / cpuSeconds).toLocaleString('en-US')}/s`;
  return [
    {
      what: `first sync of ${large.toLocaleString('en-US')} users, processor time`,
      floor: perSecond(median(floors)),
      ours: perSecond(median(ours.map(({ cpuSeconds }) => cpuSeconds))),
      ratio: `${(ratio * 100).toFixed(0)} % of the floor`,
      goal: 'at least 60 %',
      met: ratio >= 0.6,
    },
    {
      what: `peak memory, ${large.toLocaleString('en-US')} users`,
      floor: `${smallTry.peakMb.toFixed(0)} MB with ${small.toLocaleString('en-US')}`,
      ours: `${peak.toFixed(0)} MB`,
      ratio: `${(peak / smallTry.peakMb).toFixed(2)} ×`,
      goal: 'at most 250 MB, within 15 %',
      met: peak <= 250 && peak / smallTry.peakMb <= 1.15,
    },
    {
      what: 'requests of the first sync',
      floor: `${large / pageSize} full pages`,
      ours: `${requests}`,
      ratio: `${(requests / (large / pageSize)).toFixed(2)} ×`,
      goal: `at most ${bound} (pages + 2 × windows + 25)`,
      met: requests <= bound,
    },
  ];
}
