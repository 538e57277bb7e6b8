/**
 * The memory of a first sync and of a `--full` one if every record of every list is 60 KB long, emails as well as
 * users.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { measureCli } from './process.ts';
import type { Row } from './table.ts';

const serverFile = fileURLToPath(new URL('large-records-server.ts', import.meta.url));
const records = 3_000;
const recordBytes = 60_000;
const mostMb = 600;

/** Measures both once: 12,000 records, 720 MB of JSON. */
export async function benchLargeRecords(folder: string): Promise<Row[]> {
  const server = spawn(process.execPath, [serverFile, String(records), String(recordBytes)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const first = await createInterface({ input: server.stdout })[Symbol.asyncIterator]().next();
    const environment = { ADMIN_MIRROR_BASE_URL: String(first.value), ADMIN_MIRROR_API_KEY: 'bench-of-large-records' };
    const rows: Row[] = [];
    for (const mode of [[], ['--full']]) {
      const mirror = join(folder, 'large-records.db');
      const { peakMb, seconds } = await measureCli(['sync', ...mode, '--quiet', '--db', mirror], environment);
      rows.push({
        what: `peak memory, four lists of ${records.toLocaleString('en-US')} records of 60 KB, ${mode[0] ?? 'first sync'}`,
        floor: '',
        ours: `${peakMb.toFixed(0)} MB, ${seconds.toFixed(0)} s`,
        ratio: '',
        goal: `at most ${mostMb} MB`,
        met: peakMb <= mostMb,
      });
    }
    return rows;
  } finally {
    server.kill();
  }
}
