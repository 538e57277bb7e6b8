/**
 * The console with many users: the time of each page under 20 readers while a sync writes, its processor time, and the
 * memory of the process. Part of `npm run bench`; alone, with fewer users: `node bench/console.ts 100000`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../test/support/free-port.ts';
import { roles, actorOf } from '../src/model/actor.ts';
import { systemClock } from '../src/model/time.ts';
import { openPeopleIn } from '../test/support/journal-file.ts';
import { command, cpuOf, measureCli, peakOf } from './process.ts';
import { startBenchSandbox } from './sandbox.ts';
import { markdownTable, type Row } from './table.ts';

const readers = 20;
const goalMs = 150;
const goalMb = 200;
/** How often each page is read to measure its processor time. */
const rounds = 5;

const pages = [
  '/',
  '/runs',
  '/me',
  '/audit',
  '/people',
  '/data',
  '/data/users',
  '/data/users?sort=balance&down=1',
  '/data/users/1000',
  '/find?q=anna+tay',
  '/reports',
  '/sql',
] as const;

async function startServe(folder: string, environment: Readonly<Record<string, string>>) {
  const port = await freePort();
  // It announces the address of the proxy, which does not exist.
  const args = ['serve', '--json', '--listen', `127.0.0.1:${port}`];
  const child = spawn(process.execPath, [command, ...args], {
    cwd: folder,
    env: { ...process.env, ...environment, ADMIN_MIRROR_SERVE_BEHIND_PROXY: 'http://127.0.0.1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  return { url: `http://127.0.0.1:${port}`, pid: child.pid ?? 0, close: () => child.kill('SIGKILL') };
}

/** The measured time below which this part of the times is. */
function percentile(times: readonly number[], part: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.ceil(sorted.length * part) - 1] ?? Number.NaN;
}

/** Measures the console, and returns its rows of the table. */
export async function benchConsole(users: number): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'admin-mirror-console-'));
  const sandbox = await startBenchSandbox(users);
  try {
    mkdirSync(join(folder, 'data'));
    const files = {
      ADMIN_MIRROR_DB: join(folder, 'data/mirror.db'),
      ADMIN_MIRROR_JOURNAL: join(folder, 'data/journal.db'),
    };
    const environment = { ...sandbox.environment, ...files };
    await measureCli(['sync', 'users', '--quiet'], environment);
    const actor = actorOf(process.env);
    const people = await openPeopleIn(files.ADMIN_MIRROR_JOURNAL, actor, systemClock);
    const account = await people.add({ name: 'bench', roles: [...roles], osUsers: [], password: null });
    const token = await people.sessions.begin(account, { method: 'password', address: '127.0.0.1' }, actor);
    await people.close();

    const { url, pid, close } = await startServe(folder, environment);
    try {
      const times = new Map<string, number[]>();
      const visit = async (path: string, reader: number): Promise<void> => {
        const startedAt = performance.now();
        const response = await fetch(`${url}${path}`, {
          // Each reader has its own address, as a proxy reports it: requests of one address are limited.
          headers: { cookie: `__Host-admin-mirror=${token}`, 'x-forwarded-for': `127.0.1.${reader}` },
        });
        await response.arrayBuffer();
        if (response.status !== 200) throw new Error(`${path} responded with ${response.status}`);
        times.set(path, [...(times.get(path) ?? []), performance.now() - startedAt]);
      };
      const cpu = new Map<string, number>();
      for (const path of pages) {
        const before = cpuOf(pid);
        for (let round = 0; round < rounds; round += 1) await visit(path, round);
        cpu.set(path, ((cpuOf(pid) - before) / rounds) * 1_000);
      }
      times.clear();
      const syncs = { isDone: false };
      const syncing = measureCli(['sync', 'users', '--full', '--quiet'], environment).finally(() => {
        syncs.isDone = true;
      });
      await Promise.all(
        Array.from({ length: readers }, async (_, reader) => {
          // Each reader reads every page at least once, even if the sync has ended before.
          for (let turn = 0; !syncs.isDone || turn < pages.length; turn += 1) {
            await visit(pages[(reader + turn) % pages.length] ?? '/', reader);
          }
        }),
      );
      const { peakMb: besides } = await syncing;
      const peak = peakOf(pid);
      const many = users.toLocaleString('en-US');
      return [
        ...pages.map((path): Row => {
          const all = times.get(path) ?? [];
          const late = percentile(all, 0.95);
          return {
            what: `console, ${path}, ${many} users, ${readers} readers while a sync writes`,
            floor: `${(cpu.get(path) ?? 0).toFixed(0)} ms of processor time alone`,
            ours: `${percentile(all, 0.5).toFixed(0)} ms, 95 % within ${late.toFixed(0)} ms`,
            ratio: `${all.length} requests`,
            goal: `95 % within ${goalMs} ms`,
            met: late <= goalMs,
          };
        }),
        {
          what: `console, peak memory, ${many} users`,
          floor: `${besides.toFixed(0)} MB of the sync`,
          ours: `${peak.toFixed(0)} MB`,
          ratio: '',
          goal: `at most ${goalMb} MB beside the sync`,
          met: peak <= goalMb,
        },
      ];
    } finally {
      close();
    }
  } finally {
    sandbox.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

if (process.argv[1] === import.meta.filename) {
  process.stdout.write(`${markdownTable(await benchConsole(Number(process.argv[2] ?? 100_000)))}\n`);
}
