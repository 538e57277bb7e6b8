/** Hosts that are not as the reference has it: what stands in front of them, and pages that they cannot make. */
import { describe, expect, test } from 'vitest';
import { expectMirrored, sync } from '../support/mirror.ts';
import { runCli } from '../support/cli.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

describe('a mirror is equal to the server', () => {
  test.each([
    { compression: 'gzip' },
    { compression: 'br', byte_order_mark: true },
    { compression: 'deflate', data_as_object: true },
    { compression: 'deflate_raw' },
    { byte_order_mark: true, data_as_object: true },
  ] as const)('whose bodies come with %o', async (behaviour) => {
    const sandbox = await startSandbox({ behaviour });
    const file = `${temporaryFolder()}/mirror.db`;
    expect((await sync(sandbox, file, { pageSize: 20 })).error).toBeNull();
    expectMirrored(sandbox, file);
  });

  test('whose bodies come compressed to the command, in the thread that reads', async () => {
    const sandbox = await startSandbox({ behaviour: { compression: 'gzip', byte_order_mark: true } });
    const folder = temporaryFolder();
    const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
    const { code } = await runCli(['sync', '--db', 'mirror.db'], { folder, environment });
    expect(code).toBe(0);
    expectMirrored(sandbox, `${folder}/mirror.db`);
  });
});
