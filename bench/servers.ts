/**
 * The cost of more servers, from 1 to 100 in one config file: an idle `schedule --all`, and `status --all`. Part of
 * `npm run bench`; alone: `node bench/servers.ts`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { command, cpuOf, measureCli, peakOf } from './process.ts';
import { startBenchSandbox } from './sandbox.ts';
import { markdownTable, type Row } from './table.ts';

const counts = [1, 10, 100] as const;
const users = 5_000;
/** A worker checks its files every 30 seconds. */
const idleMs = 60_000;
const goals = { memoryMbEach: 3, idlePercent: 3, statusMsEach: 30, statusMbMore: 60 };

interface Cost {
  readonly servers: number;
  readonly workerMb: number;
  readonly idlePercent: number;
  readonly statusMs: number;
  readonly statusMb: number;
}

/** Fills a working folder with this many profiles, each with a copy of the mirror. */
function placeWith(folder: string, servers: number, mirror: string, url: string): void {
  const names = Array.from({ length: servers }, (_, at) => `shop-${at}`);
  mkdirSync(join(folder, 'config'), { recursive: true });
  const job = '{name: sync, run: sync, cron: "0 2 * * *"}';
  const profiles = names.map((name) => `  ${name}: {api: {base_url: "${url}"}}\n`).join('');
  writeFileSync(
    join(folder, 'config/admin-mirror.yaml'),
    `worker: {listen: "127.0.0.1:0"}\njobs: [${job}]\nprofiles:\n${profiles}`,
  );
  for (const name of names) {
    mkdirSync(join(folder, 'data', name), { recursive: true });
    copyFileSync(mirror, join(folder, 'data', name, 'mirror.db'));
  }
}

/** An idle worker for all of them: its largest memory, and its share of a processor. */
async function idleWorker(folder: string, servers: number): Promise<Pick<Cost, 'workerMb' | 'idlePercent'>> {
  const child = spawn(process.execPath, [command, 'schedule', '--all'], {
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const { pid = 0 } = child;
  try {
    let started = 0;
    const lines = createInterface({ input: child.stderr });
    for await (const line of lines) {
      if (line.includes('the worker has started')) started += 1;
      if (started === servers) break;
    }
    child.stderr.resume();
    await wait(5_000);
    const before = cpuOf(pid);
    await wait(idleMs);
    return { workerMb: peakOf(pid), idlePercent: ((cpuOf(pid) - before) / (idleMs / 1_000)) * 100 };
  } finally {
    child.kill('SIGTERM');
    await once(child, 'close');
  }
}

async function statusOf(folder: string): Promise<Pick<Cost, 'statusMs' | 'statusMb'>> {
  const script = `cd '${folder}' && exec '${process.execPath}' '${command}' status --all --json > status.json`;
  const child = spawn('sh', ['-c', script], { stdio: 'ignore' });
  let [statusMb, seconds] = [0, 0];
  const poll = setInterval(() => {
    statusMb = Math.max(statusMb, peakOf(child.pid ?? 0));
    seconds = Math.max(seconds, cpuOf(child.pid ?? 0));
  }, 10);
  await once(child, 'close');
  clearInterval(poll);
  JSON.parse(readFileSync(join(folder, 'status.json'), 'utf8'));
  return { statusMb, statusMs: seconds * 1_000 };
}

/** Measures the servers, and returns their rows of the table. */
export async function benchServers(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'admin-mirror-servers-'));
  const sandbox = await startBenchSandbox(users);
  try {
    const mirror = join(folder, 'mirror.db');
    await measureCli(['sync', '--quiet'], { ...sandbox.environment, ADMIN_MIRROR_DB: mirror });
    const costs: Cost[] = [];
    for (const servers of counts) {
      const place = join(folder, String(servers));
      placeWith(place, servers, mirror, sandbox.url);
      costs.push({ servers, ...(await statusOf(place)), ...(await idleWorker(place, servers)) });
    }
    return rowsOf(costs);
  } finally {
    sandbox.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function rowsOf(costs: readonly Cost[]): Row[] {
  const [one] = costs;
  if (one === undefined) return [];
  return costs.slice(1).flatMap((each): Row[] => {
    const more = each.servers - one.servers;
    const memory = (each.workerMb - one.workerMb) / more;
    const time = (each.statusMs - one.statusMs) / more;
    return [
      {
        what: `schedule --all, idle, ${each.servers} servers: memory`,
        floor: `${one.workerMb.toFixed(0)} MB for one`,
        ours: `${each.workerMb.toFixed(0)} MB`,
        ratio: `${memory.toFixed(1)} MB a server`,
        goal: `at most ${goals.memoryMbEach} MB a server`,
        met: memory <= goals.memoryMbEach,
      },
      {
        what: `schedule --all, idle, ${each.servers} servers: processor`,
        floor: `${one.idlePercent.toFixed(2)} % of one for one`,
        ours: `${each.idlePercent.toFixed(2)} %`,
        ratio: '',
        goal: `at most ${goals.idlePercent} %`,
        met: each.idlePercent <= goals.idlePercent,
      },
      {
        what: `status --all, ${each.servers} servers`,
        floor: `${one.statusMs.toFixed(0)} ms of processor time, ${one.statusMb.toFixed(0)} MB for one`,
        ours: `${each.statusMs.toFixed(0)} ms, ${each.statusMb.toFixed(0)} MB`,
        ratio: `${time.toFixed(1)} ms a server`,
        goal: `at most ${goals.statusMsEach} ms a server, ${goals.statusMbMore} MB more`,
        met: time <= goals.statusMsEach && each.statusMb - one.statusMb <= goals.statusMbMore,
      },
    ];
  });
}

if (process.argv[1] === import.meta.filename) process.stdout.write(`${markdownTable(await benchServers())}\n`);
