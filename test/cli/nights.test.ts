import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { openSandbox, type Sandbox } from '../support/bent/sandbox.ts';
import { textOf } from '../support/documents.ts';
import { invoke } from '../support/invoke.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await openSandbox({ users: 20, packages: 3, emails: 10, coupons: 3, now: sandboxNow });
});

afterAll(() => sandbox.close());

/** The part of the example from that heading on, without comment marks. */
function exampleFrom(heading: string): string {
  const lines = textOf('config/admin-mirror.example.yaml').split('\n');
  const from = lines.indexOf(heading);
  return lines
    .slice(from)
    .map((line) => line.replace(/^# ?/, ''))
    .join('\n');
}

function folderWith(config: string) {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config/admin-mirror.yaml'), config);
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  const run = (argv: readonly string[], more: Readonly<Record<string, string>> = {}) =>
    invoke(argv, { folder, environment: { ...environment, ...more } });
  const doctor = async (more: Readonly<Record<string, string>> = {}) => (await run(['doctor'], more)).stdout;
  return { folder, run, doctor };
}

test('the jobs of the example run unchanged in a new folder', { tags: 'full' }, async () => {
  const jobs = exampleFrom('# jobs:');
  const names = (parse(jobs) as { readonly jobs: readonly { readonly name: string }[] }).jobs.map(({ name }) => name);
  expect(names).toEqual(['sync', 'users', 'check']);
  const { folder, run, doctor } = folderWith(jobs);
  expect(await doctor()).toMatch(/ok +jobs +3 jobs: sync, users, check\n/);
  for (const name of names) expect(await run(['schedule', '--once', name])).toMatchObject({ code: 0 });
  expect(existsSync(join(folder, 'data/exports/users.csv'))).toBe(true);
});

describe('doctor', () => {
  const job = (more: string) => `jobs:\n  - { name: nightly, cron: "0 3 * * *", ${more} }\n`;

  test.each([
    [
      'run: export, what: user, output: data/u.csv',
      /fail +job nightly +there is no table "user" to export\n +.*"users"/,
    ],
    [
      'run: export, what: "report:top-balance", output: b.csv',
      /fail +job nightly +there is no report "top-balance"[^\n]*\n.*top-balances/,
    ],
    ['run: export, what: users, output: data/u.txt', /fail +job nightly +".txt" is not the ending of any format/],
    [
      'run: export, what: users, output: config/admin-mirror.yaml/u.csv',
      /fail +job nightly +.*config\/admin-mirror\.yaml is not a folder/,
    ],
    [
      'run: export, what: users, output: data/new/u.csv',
      /ok +job nightly +.*data\/new: created when it is needed\n[^]*job nightly disk +.* free/,
    ],
    ['run: verify', /warn +jobs +1 job: nightly\n +None of them is a sync/],
  ])('checks jobs: %s', async (more, found) => {
    expect(await folderWith(job(more)).doctor()).toMatch(found);
  });

  test('warns if nobody gets alerts, and else names the channels without their addresses', async () => {
    const { doctor } = folderWith(job('run: sync'));
    expect(await doctor()).toMatch(/warn +alerts +nobody is told when a job fails/);
    const told = await doctor({ ADMIN_MIRROR_ALERTS_WEBHOOK: 'https://chat.example/secret' });
    expect(told).toMatch(/ok +alerts +webhook chat\.example; to try: .*admin-mirror schedule --test-alert/);
    expect(told).not.toContain('secret');
  });

  test('checks the folder of the backups', async () => {
    expect(await folderWith('').doctor()).toMatch(/ok +backups +.*backups: created when it is needed/);
  });
});
