import { mkdirSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { type Invocation, invoke } from '../support/invoke.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function folderWith(config: string): Invocation {
  const folder = temporaryFolder();
  mkdirSync(`${folder}/config`);
  writeFileSync(`${folder}/config/admin-mirror.yaml`, config);
  return { folder };
}

const jobs = `jobs:
  - {name: sync, run: sync, quick: true, cron: "15 2 * * *", timezone: America/New_York}
  - {name: leap, run: export, what: users, output: a.csv, cron: "0 3 29 2 *", timezone: UTC, after: sync, require: complete}
`;

interface Listed {
  readonly jobs: readonly {
    readonly name: string;
    readonly next: readonly { readonly local: string; readonly utc: string }[];
  }[];
}

describe('schedule --list', () => {
  test('prints the next five times of each job, in its time zone and in UTC', async () => {
    const { code, stdout } = await invoke(['schedule', '--list'], folderWith(jobs));
    expect(code).toBe(0);
    const [sync = '', leap = ''] = stdout.split('\n\n');
    expect(sync.split('\n').slice(0, 2)).toEqual([
      'sync  npx admin-mirror sync --quick',
      '  15 2 * * * in America/New_York',
    ]);
    expect(sync.match(/^ {2}20\d\d-\d\d-\d\d 0[23]:15:00 -0[45]:00 {2}20\d\d-\d\d-\d\dT0[67]:15:00Z$/gm)).toHaveLength(
      5,
    );
    expect(leap).toContain('0 3 29 2 * in UTC, after sync, if complete');
  });

  test('prints the same times as JSON, in order', async () => {
    const { stdout } = await invoke(['schedule', '--list', '--json'], folderWith(jobs));
    const listed = (JSON.parse(stdout) as Listed).jobs;
    expect(listed).toMatchObject([
      {
        name: 'sync',
        command: 'admin-mirror sync --quick',
        after: [],
        require: null,
      },
      { name: 'leap', run: 'export', after: ['sync'], require: 'complete' },
    ]);
    for (const { next } of listed) {
      const times = next.map(({ utc }) => Date.parse(utc));
      expect(times).toHaveLength(5);
      expect(times.toSorted((a, b) => a - b)).toEqual(times);
      for (const { local, utc } of next) expect(Date.parse(local)).toBe(Date.parse(utc));
    }
  });

  test('with --all prints the jobs of every server, and names those that have none', async () => {
    const job = '{name: night, run: sync, cron: "0 3 * * *", timezone: UTC}';
    const folder = folderWith(`profiles:\n  east:\n    jobs:\n      - ${job}\n  west: {}\n`);
    const { code, stdout } = await invoke(['schedule', '--list', '--all'], folder);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^2 servers: 1 job, next night of east, at \S+\neast\n {2}night {2}npx admin-mirror.* sync\n(?: {4}.*\n){6}west\n {2}no jobs\n$/,
    );
    const { profiles } = JSON.parse((await invoke(['schedule', '--list', '--all', '--json'], folder)).stdout) as {
      profiles: { profile: string; jobs: Listed['jobs'] }[];
    };
    const names = profiles.map(({ profile, jobs }) => [profile, jobs.map(({ name }) => name)]);
    expect(names).toEqual([
      ['east', ['night']],
      ['west', []],
    ]);
  });
});

describe('schedule', () => {
  test('says where to list jobs if there are none', async () => {
    const { code, stderr } = await invoke(['schedule'], folderWith(''));
    expect(code).toBe(2);
    expect(stderr).toContain('there are no jobs to run\nList them under "jobs" in the config file');
  });

  test('--once names the nearest match of an unknown job', async () => {
    const { code, stderr } = await invoke(['schedule', '--once', 'snyc'], folderWith(jobs));
    expect(code).toBe(2);
    expect(stderr).toBe('error: there is no job "snyc"\nDid you mean "sync"?\n');
  });
});
