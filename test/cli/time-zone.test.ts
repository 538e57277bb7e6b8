/** The time zone of jobs that have none of their own: what TZ says, or that of the machine. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { spawnCli } from '../support/cli.ts';
import { invoke } from '../support/invoke.ts';
import { sample } from '../support/part.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A folder with one job, as it stands in the config file. */
function folderWith(job: string, more = ''): string {
  const folder = temporaryFolder();
  mkdirSync(`${folder}/config`);
  writeFileSync(`${folder}/config/admin-mirror.yaml`, `jobs:\n  - {name: nightly, run: sync, ${job}}\n${more}`);
  return folder;
}

const withoutZone = 'cron: "15 2 * * *"';
const profiles =
  'profiles:\n  east: {api: {base_url: "http://127.0.0.1:1"}}\n  west: {api: {base_url: "http://127.0.0.1:1"}}\n';

describe.each(['Factory', ':/etc/localtime', 'Foo/Bar', 'UTC+2', 'CET-1CEST', '+02:00', 'europe/berlin', ' '])(
  'TZ "%s" is no time zone',
  (TZ) => {
    const named = `job "nightly" has no timezone, and TZ is "${TZ}", which is no time zone`;

    test.each([['schedule'], ['schedule --list'], ['schedule --once nightly'], ['status']])(
      '%s ends with 2 and asks for the setting',
      async (line) => {
        const { code, stderr } = await invoke(line.split(' '), {
          folder: folderWith(withoutZone),
          environment: { TZ },
        });
        expect(stderr).toContain(`config/admin-mirror.yaml:2: ${named}`);
        expect(stderr).toContain('Give the job a timezone, such as Europe/Berlin or UTC, or correct TZ.');
        expect(code).toBe(2);
      },
    );

    test('so does the worker for every server', async () => {
      const folder = folderWith(withoutZone, profiles);
      const { code, stderr } = await invoke(['schedule', '--all'], { folder, environment: { TZ } });
      expect(stderr).toContain(named);
      expect(code).toBe(2);
    });

    test('doctor says so', async () => {
      const { stdout } = await invoke(['doctor'], { folder: folderWith(withoutZone), environment: { TZ } });
      expect(stdout).toContain(named);
    });

    test('a job with a timezone does not need it', async () => {
      const folder = folderWith(`${withoutZone}, timezone: Asia/Tokyo`);
      expect(await invoke(['schedule', '--list'], { folder, environment: { TZ } })).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('15 2 * * * in Asia/Tokyo'),
      });
    });
  },
);

test('a name that differs in case is suggested', async () => {
  const environment = { TZ: 'europe/berlin' };
  const { stderr } = await invoke(['schedule', '--list'], { folder: folderWith(withoutZone), environment });
  expect(stderr).toContain('Did you mean "Europe/Berlin"');
});

const zones = [
  ['', 'UTC'],
  ['UTC', 'UTC'],
  ['Europe/Berlin', 'Europe/Berlin'],
  [':Europe/Berlin', 'Europe/Berlin'],
  ['CET', 'CET'],
  ['Etc/GMT+2', 'Etc/GMT+2'],
];
test.each(sample(zones, 2))('TZ "%s" is %s, also to a process that starts with it', async (TZ, zone) => {
  const place = { folder: folderWith(withoutZone), environment: { TZ } };
  for (const { code, stdout } of [
    await invoke(['schedule', '--list'], place),
    await spawnCli(['schedule', '--list'], place),
  ]) {
    expect(stdout).toContain(`15 2 * * * in ${zone}\n`);
    expect(code).toBe(0);
  }
});
