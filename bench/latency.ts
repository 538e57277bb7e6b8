/** A first sync of a server that takes 100 ms for each response: how much of the time its requests are all under way. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { RunReport } from '../src/store/mirror-types.ts';
import { measureCli, median } from './process.ts';
import { startBenchSandbox } from './sandbox.ts';
import type { Row } from './table.ts';

const users = 50_000;
const pageSize = 100;
const latencyMs = 100;
const concurrency = 8;

/** Seconds, not processor time: what is measured is waiting. The floor is every page, eight at a time. */
export async function benchLatency(folder: string, tries: number): Promise<Row[]> {
  const sandbox = await startBenchSandbox(users, 0, { behaviour: { latency: latencyMs, page_max: pageSize } });
  const mirror = join(folder, 'latency.db');
  const seconds: number[] = [];
  const requests: number[] = [];
  try {
    for (let attempt = 0; attempt < tries; attempt += 1) {
      for (const end of ['', '-wal', '-shm']) rmSync(`${mirror}${end}`, { force: true });
      const run = await measureCli(['sync', 'users', '--json', '--quiet', '--db', mirror], {
        ...sandbox.environment,
      });
      const report = JSON.parse(run.stdout) as RunReport;
      if (report.status !== 'complete') throw new Error(`the sync ended ${report.status}`);
      seconds.push(run.seconds);
      requests.push(report.requests);
    }
  } finally {
    sandbox.close();
  }
  const floor = ((users / pageSize) * latencyMs) / 1_000 / concurrency;
  const ours = median(seconds);
  return [
    {
      what: `first sync of ${users.toLocaleString('en-US')} users in pages of ${pageSize}, ${latencyMs} ms a response, seconds`,
      floor: `${floor.toFixed(1)} s: ${concurrency} pages at a time`,
      ours: `${ours.toFixed(1)} s, ${median(requests)} requests`,
      ratio: `${(ours / floor).toFixed(2)} ×`,
      goal: 'at most 1.75 ×',
      met: ours / floor <= 1.75,
    },
  ];
}
