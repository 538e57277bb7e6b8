// @module-tag full
/**
 * Only in `npm run soak`, because it takes a quarter of an hour: the worker as users run it, with jobs as real
 * processes, under a storm.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { describe, expect, onTestFinished, test } from 'vitest';
import { finished, startCli } from '../support/cli.ts';
import { freePort } from '../support/free-port.ts';
import { descriptorsOf, rssOf, tellsSizes } from '../support/process-size.ts';
import { openReceiver } from '../support/receiver.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const runs = Number(process.env['SOAK_RUNS'] ?? 0);
const lead = Math.round(runs / 10);

interface Line {
  readonly msg: string;
  readonly outcome?: string;
  readonly seconds?: number;
}

describe.skipIf(runs === 0 || !tellsSizes)('a worker that runs for long', () => {
  test(
    `uses no more memory and descriptors after ${runs} runs than after ${lead}`,
    { timeout: 3_600_000 },
    async () => {
      const sandbox = await startSandbox({ users: 40, emails: 60, chaos: 'hostile', now: Date.now() });
      const receiver = await openReceiver();
      onTestFinished(() => receiver.close());
      const folder = temporaryFolder();
      const port = await freePort();
      mkdirSync(`${folder}/config`);
      writeFileSync(
        `${folder}/config/admin-mirror.yaml`,
        `api: { base_url: "${sandbox.url}" }
worker: { listen: "127.0.0.1:${port}", max_staleness: 5m }
alerts: { webhook: "${receiver.url}/alert", ping: "${receiver.url}/ping", command: "cat" }
jobs:
  - { name: sync, run: sync, cron: "*/3 * * * * *" }
`,
      );
      const worker = startCli(['schedule'], { folder, environment: { ADMIN_MIRROR_API_KEY: sandbox.key } });
      const ended = finished(worker);
      const pid = worker.pid ?? 0;
      const outcomes: Record<string, number> = {};
      const sizes: { runs: number; rss: number; descriptors: number }[] = [];
      let count = 0;
      for await (const text of createInterface({ input: worker.stderr })) {
        const { outcome, seconds } = JSON.parse(text) as Line;
        if (outcome === undefined || seconds === undefined) continue;
        count += 1;
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
        await Promise.all(['healthz', 'readyz', 'metrics'].map((path) => fetch(`http://127.0.0.1:${port}/${path}`)));
        if (count % lead === 0) sizes.push({ runs: count, rss: rssOf(pid), descriptors: descriptorsOf(pid) });
        // Two runs during maintenance.
        if (count === Math.round(runs * 0.3)) sandbox.control.setBehaviour({ maintenance: true });
        if (count === Math.round(runs * 0.3) + 2) sandbox.control.setBehaviour({ maintenance: false });
        if (count >= runs) break;
      }
      worker.kill('SIGTERM');
      const { code } = await ended;
      const told = receiver.told();
      process.stdout.write(`${JSON.stringify({ outcomes, sizes, told }, undefined, 1)}\n`);
      expect(code).toBe(0);
      const [first, last] = [sizes[0], sizes.at(-1)];
      expect(last?.rss ?? 0).toBeLessThan((first?.rss ?? 0) * 1.1);
      expect(last?.descriptors).toBeLessThanOrEqual((first?.descriptors ?? 0) + 2);
      // A message for each beginning and each end of a problem, and no other.
      expect(told.length).toBeLessThanOrEqual(2 * (runs - (outcomes['complete'] ?? 0)));
      const ids = receiver.alerts().map(({ id }) => id);
      expect(new Set(ids).size).toBe(ids.length);
      expect(receiver.taken.filter(({ path }) => path === '/ping').length).toBe(outcomes['complete']);
    },
  );
});
