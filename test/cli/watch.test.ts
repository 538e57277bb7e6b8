import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openWorkerStore } from '../../src/worker/store/sqlite.ts';
import { runCli } from '../support/cli.ts';
import { invoke } from '../support/invoke.ts';
import { sync } from '../support/mirror.ts';
import { openReceiver } from '../support/receiver.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { listening } from '../support/listening.ts';

function configured(text: string): string {
  const folder = temporaryFolder();
  mkdirSync(`${folder}/config`);
  mkdirSync(`${folder}/data`);
  writeFileSync(`${folder}/config/admin-mirror.yaml`, text);
  return folder;
}

const nightly = 'jobs:\n  - { name: nightly, run: sync, cron: "0 0 29 2 *" }\n';

describe('schedule --test-alert', () => {
  test('sends one alert per channel and says whether it was delivered', async () => {
    const receiver = await openReceiver();
    onTestFinished(() => receiver.close());
    const folder = configured(`alerts: { webhook: "${receiver.url}/hidden", command: "cat" }\n`);
    const { code, stdout } = await invoke(['schedule', '--test-alert'], { folder });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^webhook: delivered \([\da-f]{32}\)\ncommand: delivered \([\da-f]{32}\)\n$/);
    expect(receiver.alerts()).toEqual([expect.objectContaining({ code: 'test', resolved: false })]);
  });

  test('names the profile, and does not pass the key on', async () => {
    const folder = configured(
      'profiles: { staging: { api: { base_url: "https://staging.example.com" } } }\n' +
        'alerts: { command: [sh, -c, "cat > told.json; env > told.env"] }\n',
    );
    const environment = { ADMIN_MIRROR_PROFILE: 'staging', ADMIN_MIRROR_API_KEY_STAGING: 'the-key-of-staging' };
    const { code } = await runCli(['schedule', '--test-alert'], { folder, environment });
    expect(code).toBe(0);
    expect(JSON.parse(readFileSync(`${folder}/told.json`, 'utf8'))).toMatchObject({ code: 'test', profile: 'staging' });
    const seen = readFileSync(`${folder}/told.env`, 'utf8');
    expect(seen).toContain('ALERT_CODE=test');
    expect(seen).not.toContain('the-key-of-staging');
  });

  test('ends with 4 if an alert was refused, and with 2 if no channel is set', async () => {
    const receiver = await openReceiver();
    onTestFinished(() => receiver.close());
    receiver.answer = 404;
    const folder = configured(`alerts: { webhook: "${receiver.url}/hidden" }\n`);
    const { code, stdout, stderr } = await invoke(['schedule', '--test-alert'], { folder });
    expect(code).toBe(4);
    expect(stdout + stderr).toContain('responded with 404');
    expect(stdout + stderr).not.toContain('hidden');
    expect(await invoke(['schedule', '--test-alert'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no alert channel is set'),
    });
  });
});

test('a worker ends with 2 if its port is taken, and names the setting', async () => {
  const { port } = new URL(await listening(createServer()));
  const folder = configured(`worker: { listen: "127.0.0.1:${port}" }\n${nightly}`);
  const { code, stderr } = await runCli(['schedule'], { folder });
  expect(code).toBe(2);
  expect(stderr).toContain(
    `error: the worker cannot listen on 127.0.0.1:${port} (worker.listen): another program already listens there`,
  );
});

test('status reports jobs, a stale mirror and alerts', async () => {
  const folder = configured(`worker: { max_staleness: 2h }\n${nightly}`);
  const file = `${folder}/data/mirror`;
  // The sandbox's clock stands in March, so the mirror is old for this machine.
  await sync(await startSandbox(), `${file}.db`);
  const store = openWorkerStore(`${file}.worker.db`);
  const since = '2026-03-11T10:00:00.000000Z' as never;
  const facts = { job: 'nightly', run: 'r1', outcome: 'killed', exit_code: null, parts: [] } as const;
  const failed = { code: 'job_failed', facts, since } as const;
  await store.adoptJobs([{ name: 'nightly', cron: '0 0 29 2 *', timezone: 'UTC' }]);
  const run = { run: 'r1', job: 'nightly', cause: 'scheduled', occurrence: 0, attempt: 1, command: 'sync' } as const;
  await store.beginRun(run);
  await store.endRun('r1', { outcome: 'killed', exitCode: null, problem: null, report: null });
  await store.saveAlerts([{ problem: failed, told: { webhook: since }, endedAt: null }]);
  await store.close();
  const { stdout } = await invoke(['status'], { folder });
  expect(stdout).toContain(
    '\nwhat is wrong\n  the mirror is older than the 2h of worker.max_staleness: users, packages, emails, coupons\n    Next: `npx admin-mirror sync`',
  );
  expect(stdout).toContain('\nno worker is running; its jobs are\n  nightly  killed ');
  expect(stdout).toMatch(
    /\n {2}nightly ended because the worker died, since 2026-03-11T10:00:00.000000Z\n {4}Next: check that the worker runs/,
  );
  const answer = JSON.parse((await invoke(['status', '--json'], { folder })).stdout) as object;
  expect(answer).toMatchObject({
    worker: null,
    jobs: [{ job: 'nightly', last: { outcome: 'killed' }, next_at: null }],
    freshness: { is_fresh: false, max_staleness_seconds: 7_200 },
    problems: [
      { code: 'stale', facts: { max_staleness_seconds: 7_200 }, since: null },
      { code: 'job_failed', facts: { job: 'nightly', outcome: 'killed' }, since, next: expect.any(String) },
    ],
  });
});
