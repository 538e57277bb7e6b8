/** A mirror on a full disk, in a read-only folder, under two processes, or with a wrong clock. */
import { spawn } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { resourceOf } from '../../src/model/resources.ts';
import { dayMs, parseInstant } from '../../src/model/time.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import type { RunReport } from '../../src/store/mirror-types.ts';
import { rowsOf, textOf } from '../property/server-history.ts';
import { finished, runCli, startCli, type CliResult } from '../support/cli.ts';
import { commandFile } from '../support/command-file.ts';
import { expectMirrored, newMirror, sync, type SyncTry } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { sample } from '../support/part.ts';

function environmentOf(sandbox: Sandbox, file: string): Record<string, string> {
  return {
    ADMIN_MIRROR_BASE_URL: sandbox.url,
    ADMIN_MIRROR_API_KEY: sandbox.key,
    ADMIN_MIRROR_DB: file,
  };
}

/** The error lines of standard error. */
function errorsIn({ stderr }: CliResult): string[] {
  return stderr.split('\n').filter((line) => line.startsWith('error:'));
}

/** A sync that may make no file larger than this many blocks of the shell, as on a full disk. */
function syncWithin(blocks: number, folder: string, environment: Record<string, string>): Promise<CliResult> {
  const script = `ulimit -f ${blocks} && exec "$0" "$1" sync --quiet`;
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn('sh', ['-c', script, process.execPath, commandFile], {
    cwd: folder,
    env: { PATH, HOME, ...environment },
  });
  return finished(child);
}

async function countOf(folder: string, environment: Record<string, string>): Promise<number> {
  const sql = 'SELECT (SELECT count(*) FROM users) + (SELECT count(*) FROM emails) AS records';
  const { stdout } = await runCli(['query', sql, '--format', 'json'], { folder, environment });
  return Number((JSON.parse(stdout) as { records: number }[])[0]?.records);
}

test('a disk that is full during a sync is reported once, and the next run continues', { tags: 'full' }, async () => {
  const sandbox = await startSandbox({ users: 3_000, packages: 10, emails: 1_500, coupons: 5 });
  const folder = temporaryFolder();
  const file = `${folder}/mirror.db`;
  const environment = environmentOf(sandbox, file);
  for (const blocks of [1_500, 2_000]) {
    const full = await syncWithin(blocks, folder, environment);
    expect(full.code).toBe(2);
    expect(errorsIn(full)).toEqual([expect.stringMatching(/could not write to the mirror .*mirror\.db: the disk/)]);
    expect(full.stderr).not.toContain('bug');
  }
  const kept = await countOf(folder, environment);
  expect(kept).toBeGreaterThan(0);
  expect(kept).toBeLessThan(4_500);
  const status = await runCli(['status', '--json'], { folder, environment });
  // Not everything was read yet, so nothing is fresh.
  expect(JSON.parse(status.stdout)).toMatchObject({ fresh_as_of: null, running: null });

  const again = await runCli(['sync', '--json', '--quiet'], { folder, environment });
  expect(again.code).toBe(0);
  const { users, emails } = (JSON.parse(again.stdout) as RunReport).resources;
  expect((users?.inserted ?? 0) + (emails?.inserted ?? 0)).toBe(4_500 - kept);
  expectMirrored(sandbox, file);
});

test('a read-only folder is reported in one line', async () => {
  const sandbox = await startSandbox();
  const folder = temporaryFolder();
  // Root can write to any folder of its own.
  const locked = process.getuid?.() === 0 ? '/sys' : folder;
  if (locked === folder) chmodSync(folder, 0o555);
  const environment = environmentOf(sandbox, `${locked}/mirror.db`);
  const ended = await runCli(['sync', '--quiet'], { folder, environment });
  chmodSync(folder, 0o755);
  expect(ended.code).toBe(2);
  expect(errorsIn(ended)).toEqual([
    expect.stringMatching(/could not open the mirror .*: (permission|the file system)/),
  ]);
  expect(sandbox.control.requests().total).toBe(0);
});

test(
  'a second sync is refused while the first runs, and takes over once that is killed',
  { tags: 'full' },
  async () => {
    const sandbox = await startSandbox({ users: 600, behaviour: { latency: 30, page_max: 10 } });
    const folder = temporaryFolder();
    const file = `${folder}/mirror.db`;
    const environment = environmentOf(sandbox, file);
    const owner = startCli(['sync', '--quiet'], { folder, environment });
    const ended = finished(owner);
    while (sandbox.control.requests().total < 40 && owner.exitCode === null) await setTimeout(3);
    // However long the second takes to begin, the first is still waiting for a response.
    sandbox.control.setBehaviour({ latency: 20_000 });
    const second = await runCli(['sync', '--quiet'], { folder, environment });
    expect(second.code).toBe(7);
    expect(errorsIn(second)).toEqual([expect.stringContaining(`process ${owner.pid}`)]);
    expect(owner.exitCode).toBeNull();
    const newest = async () => {
      const { stdout } = await runCli(['status', '--json'], { folder, environment });
      const [run] = (JSON.parse(stdout) as { readonly runs: readonly RunReport[] }).runs;
      return [run?.status, (run?.requests ?? 0) > 0];
    };
    expect(await newest()).toEqual(['running', true]);
    owner.kill('SIGKILL');
    await ended;
    expect(await newest()).toEqual(['killed', true]);
    sandbox.control.setBehaviour({ latency: 0 });
    const third = await runCli(['sync', '--quiet'], { folder, environment });
    expect(third.code).toBe(0);
    expectMirrored(sandbox, file);
  },
);

describe('a clock that is set forward and back between runs', () => {
  /** By how many days it is wrong at each run. */
  const wrong = [
    [0, 10, -30, 0, 400, 0, -1, 0],
    [10, 0, 0],
    [-10, 0, 0],
  ];
  const cases = (['default', 'quick', 'full'] as const).flatMap((mode) => wrong.map((days) => ({ mode, days })));

  test.each(sample(cases, 2))(
    'loses nothing, and fresh_as_of is true whenever the clock is right ($mode, $days)',
    async (drawn) => {
      const { mode, days } = drawn;
      const { sandbox, file } = await newMirror({ packages: 0, emails: 0, coupons: 0 });
      const { control } = sandbox;
      const fields = resourceOf('users').fields.map(({ name }) => name);
      const touched = new Map<number, number>();
      const removed = new Map<number, number>();
      const touch = (record: Readonly<Record<string, unknown>>) => touched.set(Number(record['id']), control.now());
      for (const [step, wrongBy] of days.entries()) {
        const offset = wrongBy * dayMs;
        control.advanceClock(dayMs);
        touch(control.update('users', 3 + step, { first_name: `Changed ${step}` }));
        touch(control.insert('users'));
        touch(control.insert('users', { created_at: `2025-0${step + 1}-17T00:00:00.000000Z` }));
        control.remove('users', 20 + step);
        removed.set(20 + step, control.now());
        control.advanceClock(1_000);
        const tried: SyncTry = {
          resources: ['users'],
          pageSize: 20,
          windowPages: 1,
          mode,
          clock: { now: () => control.now() + offset },
        };
        const { report } = await sync(sandbox, file, tried);
        expect(report.resources.users).toMatchObject({ status: 'complete', live: control.count('users') });

        const rows = rowsOf(file, 'users', fields);
        const server = control.dump('users');
        // A quick run does not see a change that leaves a window's count as it was; fresh_as_of takes that into account.
        if (mode !== 'quick') expectMirrored(sandbox, file, ['users']);
        if (offset !== 0) continue;
        const fresh = parseInstant(report.resources.users?.fresh_as_of) ?? 0;
        expect(fresh).toBeLessThanOrEqual(control.now());
        const untold = [...rows.keys()].filter((id) => (removed.get(id) ?? Infinity) < fresh);
        expect(untold).toEqual([]);
        const known = server.filter((record) => (touched.get(Number(record['id'])) ?? 0) < fresh);
        for (const record of known) expect(rows.get(Number(record['id']))).toBe(textOf(record, fields));
      }
    },
  );
});
