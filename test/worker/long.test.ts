// @module-tag full
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { tellsSizes } from '../support/process-size.ts';
import { openReceiver } from '../support/receiver.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const loop = fileURLToPath(new URL('../support/worker-loop.ts', import.meta.url));

interface Size {
  readonly runs: number;
  readonly rss: number;
  readonly descriptors: number;
}

test.skipIf(!tellsSizes)(
  'a worker uses no more memory and no more descriptors after 200 runs than after 20',
  // Four hundred processes with durable writes take long on a busy machine.
  { timeout: 300_000 },
  async () => {
    const receiver = await openReceiver();
    onTestFinished(() => receiver.close());
    // Otherwise the engine lets its young generation grow to 48 MB within the first hundred runs, whatever they do.
    const flags = ['--expose-gc', '--max-semi-space-size=1'];
    const child = spawn(process.execPath, [...flags, loop, temporaryFolder(), receiver.url, '20', '200'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
    const code = await new Promise((resolve) => child.once('close', resolve));
    expect(code).toBe(0);
    const [early, late] = output
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Size);
    expect(early?.runs).toBe(20);
    expect(late?.runs).toBe(200);
    // A leak in each run would be far larger; a busy machine collects garbage later.
    expect((late?.rss ?? 0) / (early?.rss ?? 1)).toBeLessThan(1.5);
    expect(late?.descriptors).toBe(early?.descriptors);
    // The worker did work: each complete run has pinged, and each problem was sent when it began and ended.
    expect(receiver.taken.filter(({ path }) => path === '/ping').length).toBeGreaterThan(190);
    expect(receiver.told().filter((each) => each.endsWith('job_failed:sync'))).toEqual([
      'job_failed:sync',
      'over job_failed:sync',
      'job_failed:sync',
      'over job_failed:sync',
      'job_failed:sync',
      'over job_failed:sync',
      'job_failed:sync',
      'over job_failed:sync',
    ]);
  },
);
