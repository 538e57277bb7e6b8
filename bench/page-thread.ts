/**
 * What the thread that makes pages of responses buys: the same first sync with it and without, in turn. Run by itself:
 * `node bench/page-thread.ts --users 300000 --pairs 3`. The script runs itself once more for each try.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openClient } from '../src/api/client.ts';
import { openSyncEngine } from '../src/mirror/open.ts';
import { openPageReader, openPlainReader } from '../src/mirror/page-reader.ts';
import { silentLog } from '../src/model/log.ts';
import { hourMs, minuteMs, systemClock } from '../src/model/time.ts';
import { measure, median, type Measured } from './process.ts';
import { startBenchSandbox, type BenchSandbox } from './sandbox.ts';
import { markdownTable, type Row } from './table.ts';

type Way = 'thread' | 'plain';

/** One first sync, in this process. */
async function syncOnce(way: Way, file: string): Promise<void> {
  const { ADMIN_MIRROR_BASE_URL: baseUrl = '', ADMIN_MIRROR_API_KEY: key = '' } = process.env;
  const shared = { pageSize: 1_000, clock: systemClock };
  const bounds = { timeoutMs: minuteMs, concurrency: 4, attempts: 3 };
  const client = openClient({ ...shared, ...bounds, baseUrl, key, userAgent: 'bench', log: silentLog });
  const engine = openSyncEngine({
    ...shared,
    client,
    file,
    signal: new AbortController().signal,
    progress: () => {},
    historyIgnore: [],
    readPages: way === 'thread' ? openPageReader() : openPlainReader(),
  });
  const { report } = await engine.run({
    resources: ['users'],
    mode: 'default',
    only: null,
    allowDeletions: false,
    requestsPerRun: 1_000,
    graceMs: 48 * hourMs,
    windowPages: 20,
    concurrency: 4,
  });
  engine.close();
  await client.close();
  if (report.status !== 'complete') throw new Error(`the sync ended ${report.status}`);
}

async function measureOnce(sandbox: BenchSandbox, way: Way, file: string): Promise<Measured> {
  for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
  return measure(process.execPath, [fileURLToPath(import.meta.url), '--way', way, '--file', file], sandbox.environment);
}

/** Measures so many pairs, with the thread and without it in turn. */
export async function benchPageThread(folder: string, users: number, pairs: number): Promise<Row[]> {
  const sandbox = await startBenchSandbox(users);
  const tries: Record<Way, Measured[]> = { thread: [], plain: [] };
  try {
    for (let pair = 0; pair < pairs; pair += 1) {
      for (const way of ['plain', 'thread'] as const) {
        tries[way].push(await measureOnce(sandbox, way, join(folder, `${way}.db`)));
      }
    }
  } finally {
    sandbox.close();
  }
  const of = (way: Way, what: (each: Measured) => number) => median(tries[way].map(what));
  const text = (way: Way) =>
    `${of(way, ({ seconds }) => seconds).toFixed(1)} s, CPU ${of(way, ({ cpuSeconds }) => cpuSeconds).toFixed(1)} s, ${of(way, ({ peakMb }) => peakMb).toFixed(0)} MB`;
  const ratio = median(tries.plain.map(({ seconds }, at) => seconds / (tries.thread[at]?.seconds ?? 0)));
  return [
    {
      what: `first sync of ${users.toLocaleString('en-US')} users, pages made in a thread (floor: in the engine's own)`,
      floor: text('plain'),
      ours: text('thread'),
      ratio: `${ratio.toFixed(2)} × as fast`,
      goal: 'at least 1.3 ×',
      met: ratio >= 1.3,
    },
  ];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      way: { type: 'string' },
      file: { type: 'string', default: '' },
      users: { type: 'string', default: '300000' },
      pairs: { type: 'string', default: '3' },
    },
  });
  const { way, file, users, pairs } = values;
  if (way === 'thread' || way === 'plain') {
    await syncOnce(way, file);
    process.exit(0);
  }
  const folder = mkdtempSync(join(tmpdir(), 'admin-mirror-page-thread-'));
  try {
    process.stdout.write(`${markdownTable(await benchPageThread(folder, Number(users), Number(pairs)))}\n`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
