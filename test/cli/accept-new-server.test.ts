import { expect, onTestFinished, test } from 'vitest';
import { openSandbox } from '../../src/sandbox/sandbox.ts';
import type { RunReport } from '../../src/store/mirror-types.ts';
import { runCli } from '../support/cli.ts';
import { expectMirrored } from '../support/mirror.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test('sync accepts a new server behind its mirror only with --accept-new-server', async () => {
  const sandbox = await startSandbox();
  const folder = temporaryFolder();
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  expect((await runCli(['sync', '--quiet'], { folder, environment })).code).toBe(0);
  await sandbox.close();
  const port = Number(new URL(sandbox.url).port);
  const sizes = { users: 50, packages: 12, emails: 80, coupons: 20, now: sandboxNow } as const;
  const other = await openSandbox({ ...sizes, seed: 8, port, key: sandbox.key });
  onTestFinished(() => other.close());

  const refused = await runCli(['sync', '--json', '--quiet'], { folder, environment });
  expect(refused).toMatchObject({ code: 2, stdout: '' });
  expect(refused.stderr).toMatch(
    /^error: is http:\S+ still the server that the mirror was read from\? It has other records/,
  );
  expect(refused.stderr).toMatch(/Nothing was changed\..* --accept-new-server/);

  const flags = ['--accept-new-server', '--allow-deletions', '--json', '--quiet'];
  const accepted = await runCli(['sync', ...flags], { folder, environment });
  expect(accepted.code).toBe(0);
  expect((JSON.parse(accepted.stdout) as RunReport).status).toBe('complete');
  expectMirrored(other, `${folder}/data/mirror.db`);
  const { stdout } = await runCli(['status', '--verbose'], { folder });
  expect(stdout).toMatch(/server_accepted http:/);
});
