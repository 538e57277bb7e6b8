import { expect, test } from 'vitest';
import type { RunPlan } from '../../src/mirror/open.ts';
import { dayMs } from '../../src/model/time.ts';
import { runCli } from '../support/cli.ts';
import { newMirror, sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test('a dry run shows each step with its reason and its requests, and sends nothing', async () => {
  const sandbox = await startSandbox({ users: 200 });
  const folder = temporaryFolder();
  const file = `${folder}/mirror.db`;
  await sync(sandbox, file, { pageSize: 20, windowPages: 3 });
  sandbox.control.clearRequests();
  const { code, stdout } = await runCli(['sync', 'users', '--dry-run', '--json', '--db', file], { folder });
  const plan = JSON.parse(stdout) as RunPlan;
  expect(code).toBe(0);
  expect(plan.resources.users?.map(({ reason }) => reason)).toEqual([
    'open: records may still be added',
    'least recently read',
    'count, and the windows that differ if it does',
  ]);
  expect(plan.requests).toBeGreaterThanOrEqual(200 / 20);
  expect(sandbox.control.requests().total).toBe(0);
});

test('a quick run over sealed windows makes only the requests of its plan', async () => {
  const { sandbox, file } = await newMirror({ users: 200 });
  sandbox.control.advanceClock(10 * dayMs);
  await sync(sandbox, file, { pageSize: 20, windowPages: 3 });
  const { report } = await sync(sandbox, file, { pageSize: 20, windowPages: 3, mode: 'quick' });
  const { users, emails } = report.resources;
  // One for the empty open window and one for the count, for each resource; and the look at a user that tells the server.
  expect([users?.requests, emails?.requests]).toEqual([3, 2]);
});

test('a dry run is refused without a mirror', async () => {
  const folder = temporaryFolder();
  const { code, stderr } = await runCli(['sync', '--dry-run', '--db', 'none.db'], { folder });
  expect(code).toBe(2);
  expect(stderr).toContain('there is no mirror');
});

test('a dry run with days takes every day of the era and refuses a range outside of it', async () => {
  const [sandbox, folder] = [await startSandbox({ users: 3 }), temporaryFolder()];
  await sync(sandbox, `${folder}/mirror.db`);
  const run = (...flags: string[]) => runCli(['sync', 'users', '--dry-run', '--db', 'mirror.db', ...flags], { folder });
  expect((await run('--since', '2026-01-01', '--until', '9999-12-31')).code).toBe(0);
  for (const [flags, words] of [
    [['--since', '2026-03-02', '--until', '2026-03-01'], '--since 2026-03-02 is after --until 2026-03-01'],
    [['--since', '3000-01-01'], '--since 3000-01-01 is after 2999-12-31, the last day that is read'],
    [['--until', '0999-12-31'], '--until 0999-12-31 is before 1000-01-01, the first day that is read'],
  ] as const) {
    expect(await run(...flags)).toMatchObject({ code: 2, stderr: expect.stringContaining(words) });
  }
});
