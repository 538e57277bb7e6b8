// @module-tag full
import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Sandbox } from '../support/bent/sandbox.ts';
import type { RunReport } from '../../src/store/mirror-types.ts';
import { finished, runCli, startCli } from '../support/cli.ts';
import { expectMirrored } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { isFull, sample } from '../support/part.ts';

/** The fast part kills at only a few moments. */
const kills = isFull ? 10 : 2;

function environmentOf(sandbox: Sandbox, file: string): Record<string, string> {
  return {
    ADMIN_MIRROR_BASE_URL: sandbox.url,
    ADMIN_MIRROR_API_KEY: sandbox.key,
    ADMIN_MIRROR_DB: file,
  };
}

async function killAfter(requests: number, sandbox: Sandbox, file: string, folder: string): Promise<void> {
  const child = startCli(['sync', '--quiet'], { folder, environment: environmentOf(sandbox, file) });
  const ended = finished(child);
  const before = sandbox.control.requests().total;
  while (sandbox.control.requests().total < before + requests && child.exitCode === null) await wait(1);
  child.kill('SIGKILL');
  await ended;
}

// One seed per test. The moments are spread over a whole run, including the first contact.
// proves: killed-sync
test.each(sample([1, 2], 1))(
  'a sync that is killed repeatedly and run again ends equal to the server (%i)',
  async (seed) => {
    const sandbox = await startSandbox({
      users: 600,
      packages: 40,
      emails: 800,
      coupons: 60,
      chaos: seed === 1 ? 'calm' : 'rough',
      // Small pages make many moments.
      behaviour: { page_max: 25 },
    });
    const folder = temporaryFolder();
    const file = `${folder}/mirror.db`;
    for (let kill = 0; kill < kills; kill += 1) await killAfter(3 + ((kill * 37 * seed) % 60), sandbox, file, folder);
    const last = await runCli(['sync', '--json', '--quiet'], { folder, environment: environmentOf(sandbox, file) });
    expect((JSON.parse(last.stdout) as RunReport).status).toBe('complete');
    expect(last.code).toBe(0);
    expectMirrored(sandbox, file);
  },
);

test(
  'a sync that is interrupted by SIGINT prints its report and ends with 130, and the next one completes',
  { tags: 'full' },
  async () => {
    const sandbox = await startSandbox({ users: 600, behaviour: { latency: 20 } });
    const folder = temporaryFolder();
    const file = `${folder}/mirror.db`;
    const child = startCli(['sync'], { folder, environment: environmentOf(sandbox, file) });
    const ended = finished(child);
    while (sandbox.control.requests().total < 30 && child.exitCode === null) await wait(1);
    child.kill('SIGINT');
    const { code, stdout, stderr } = await ended;
    expect(code).toBe(130);
    expect(stdout).toMatch(/^run \S+: interrupted/m);
    expect(stderr).toMatch(
      /stopped by SIGINT\nWhat was read is kept\. The next `npx admin-mirror sync` goes on from there\.\n$/,
    );
    const again = await runCli(['sync', '--quiet'], { folder, environment: environmentOf(sandbox, file) });
    expect(again.code).toBe(0);
    expectMirrored(sandbox, file);
  },
);
