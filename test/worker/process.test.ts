// @module-tag full
import SqliteDatabase from 'better-sqlite3';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { describe, expect, onTestFinished, test } from 'vitest';
import { startChild } from '../../src/worker/run-job.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { openMirrorStoreForReading } from '../../src/mirror/store/mirror-store.ts';
import { openWorkerStoreForReading } from '../../src/worker/store/sqlite.ts';
import { spawnCli, startCli } from '../support/cli.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const job = (name: string, more: string) => `  - {name: ${name}, timezone: UTC, ${more}}\n`;
const everySecond = 'cron: "* * * * * *"';

/** A working folder with these jobs, and the environment that a command needs to reach the sandbox. */
function placeWith(jobs: string, sandbox?: Sandbox) {
  const folder = temporaryFolder();
  mkdirSync(`${folder}/config`);
  const configure = (text: string) => writeFileSync(`${folder}/config/admin-mirror.yaml`, text);
  configure(`jobs:\n${jobs}`);
  const environment: Record<string, string> = {
    // Any free port: another worker may use the default one.
    ADMIN_MIRROR_WORKER_LISTEN: '127.0.0.1:0',
    ...(sandbox && { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key }),
  };
  return { folder, configure, environment };
}

/** Starts the worker and reads its log line by line. */
function startWorker(place: ReturnType<typeof placeWith>, ...flags: readonly string[]) {
  const child = startCli(['schedule', ...flags], place);
  const lines: string[] = [];
  const log = createInterface({ input: child.stderr });
  log.on('line', (line) => lines.push(line));
  const code = new Promise<number | null>((resolve) => child.on('close', resolve));
  onTestFinished(() => void child.kill('SIGKILL'));
  /** Waits for a line with the text. */
  const saying = (text: string | RegExp) =>
    new Promise<string>((resolve, reject) => {
      const look = (line: string) =>
        (typeof text === 'string' ? line.includes(text) : text.test(line)) && resolve(line);
      lines.forEach(look);
      log.on('line', look);
      child.on('close', () => reject(new Error(`it ended without saying ${String(text)}: ${lines.join('\n')}`)));
    });
  return { child, code, saying };
}

async function runsIn(folder: string) {
  const store = openWorkerStoreForReading(`${folder}/data/mirror.worker.db`);
  try {
    const runs = await store.runs(100);
    return runs.map(({ job, cause, outcome, attempt, exitCode }) => ({ job, cause, outcome, attempt, exitCode }));
  } finally {
    await store.close();
  }
}

/** The running process that writes the mirror. */
function writerOf(folder: string): number | undefined {
  const store = openMirrorStoreForReading(`${folder}/data/mirror.db`);
  const pid = store.lockOwner('sync')?.pid;
  store.close();
  return pid;
}

/** Waits until a sync is running, and makes the server so slow that it does not end. */
async function caughtIn({ saying }: ReturnType<typeof startWorker>, sandbox: Sandbox): Promise<void> {
  sandbox.control.setBehaviour({ latency: 100 });
  await saying('"msg":"reading"');
  sandbox.control.setBehaviour({ latency: 60_000 });
}

/** Matches the log line that says that a sync of the profile is complete. */
const ended = (profile: string) => new RegExp(`"profile":"${profile}".*"msg":"sync is complete, after [\\d.]+ s"`);

describe('the worker', () => {
  // proves: broken-config
  test('stops its run in order at SIGTERM and ends with 0; until then it keeps out other workers and bad configs', async () => {
    const sandbox = await startSandbox({ users: 400 });
    const place = placeWith(job('sync', `run: sync, ${everySecond}`), sandbox);
    const worker = startWorker(place);
    await caughtIn(worker, sandbox);
    const second = await spawnCli(['schedule'], place);
    expect(second.code).toBe(7);
    expect(second.stderr).toContain(`another schedule holds the lock: process ${worker.child.pid} on `);

    // What it has read stays in force.
    place.configure('jobs: [\n');
    worker.child.kill('SIGTERM');
    expect(await worker.code).toBe(0);
    expect((await runsIn(place.folder)).at(-1)).toMatchObject({ job: 'sync', outcome: 'stopped', exitCode: 143 });
    const database = new SqliteDatabase(`${place.folder}/data/mirror.db`, { readonly: true });
    expect(database.prepare('SELECT status FROM mirror_runs').pluck().all()).toEqual(['interrupted']);
    database.close();
  });

  test(
    'that is killed is replaced by the next, which repeats its run and ends at once at a second signal',
    { tags: 'full' },
    async () => {
      const sandbox = await startSandbox({ users: 400 });
      const place = placeWith(job('sync', `run: sync, ${everySecond}`), sandbox);
      const first = startWorker(place);
      await caughtIn(first, sandbox);
      first.child.kill('SIGKILL');
      await first.code;
      // Its child process does not outlive it.
      await expect.poll(() => writerOf(place.folder)).toBeUndefined();

      const second = startWorker(place);
      await second.saying('sync ended as killed: the worker died while it ran');
      await caughtIn(second, sandbox);
      expect(await runsIn(place.folder)).toContainEqual(expect.objectContaining({ job: 'sync', outcome: 'killed' }));
      expect(writerOf(place.folder)).toBeDefined();
      second.child.kill('SIGINT');
      second.child.kill('SIGTERM');
      expect([130, 143]).toContain(await second.code);
      await expect.poll(() => writerOf(place.folder)).toBeUndefined();
    },
  );

  test('ends if its folder was moved away and made again', async () => {
    const place = placeWith(job('users', `run: export, what: users, output: a.csv, ${everySecond}`));
    const worker = startWorker(place);
    await worker.saying('users ended as failed: there is no mirror at ');
    renameSync(`${place.folder}/data`, `${place.folder}/data.away`);
    mkdirSync(`${place.folder}/data`);
    expect(await worker.code).toBe(7);
    expect(await worker.saying('the lock of the schedule was lost: ')).toContain('was removed or replaced');
  });
});

test('a command that does not stop in time is killed', async () => {
  const stop = new AbortController();
  // Without a job, it waits for one.
  const child = startChild({
    folder: temporaryFolder(),
    environment: process.env,
    streams: ['ignore', 'ignore', 'inherit'],
    signal: stop.signal,
    graceMs: 100,
  });
  await once(child, 'spawn');
  child.kill('SIGSTOP');
  // Of two signals that wait, the system takes the other one first.
  await expect.poll(() => readFileSync(`/proc/${child.pid}/stat`, 'utf8')).toMatch(/\) T /);
  stop.abort();
  expect(await once(child, 'close')).toEqual([null, 'SIGKILL']);
});

describe('schedule --once', () => {
  test('runs the job now, ends with its exit code, and records it', async () => {
    const sandbox = await startSandbox();
    const jobs =
      job('sync', 'run: sync, resources: [coupons], cron: "@daily"') +
      job('users', 'run: export, what: nobody, output: a.csv, cron: "@daily"');
    const place = placeWith(jobs, sandbox);
    const done = await spawnCli(['schedule', '--once', 'sync', '--json'], place);
    expect(done.code).toBe(0);
    expect(JSON.parse(done.stdout)).toMatchObject({ status: 'complete', resources: { coupons: { live: 20 } } });
    const failed = await spawnCli(['schedule', '--once', 'users'], place);
    expect(failed.code).toBe(2);
    expect(failed.stderr).toContain('nobody');
    expect(await runsIn(place.folder)).toEqual([
      { job: 'users', cause: 'by_hand', outcome: 'failed', attempt: 1, exitCode: 2 },
      { job: 'sync', cause: 'by_hand', outcome: 'complete', attempt: 1, exitCode: 0 },
    ]);
  });
});

describe('a worker for every server of the config file', () => {
  const profiles = (sandbox: Sandbox, names: readonly string[]) =>
    `profiles:\n${names.map((name) => `  ${name}: {api: {base_url: "${sandbox.url}", key_file: key}}\n`).join('')}`;

  test('gives each its mirror, and reports the health of all', { tags: ['full'] }, async () => {
    const sandbox = await startSandbox({ users: 40 });
    const place = placeWith(job('sync', `run: sync, ${everySecond}`));
    const common = `jobs:\n${job('sync', `run: sync, ${everySecond}`)}`;
    writeFileSync(`${place.folder}/key`, sandbox.key, { mode: 0o600 });
    place.configure(`${common}${profiles(sandbox, ['east', 'west'])}  wrong: {api: {concurrency: none}}\n`);
    const worker = startWorker(place, '--all');
    const { url } = JSON.parse(await worker.saying('health and metrics are at')) as { url: string };
    await worker.saying('"profile":"wrong"');
    await Promise.all(['east', 'west'].map((name) => worker.saying(ended(name))));
    const health = await fetch(`${url}/readyz`);
    const wrong = { status: 'not ready', problem: expect.stringContaining('concurrency') as string };
    expect([health.status, await health.json()]).toMatchObject([
      503,
      { profiles: { east: { status: 'ready' }, west: { status: 'ready' }, wrong } },
    ]);
    const alive = await fetch(`${url}/healthz`);
    expect([alive.status, await alive.json()]).toMatchObject([503, { profiles: { wrong } }]);
    const metrics = await (await fetch(`${url}/metrics`)).text();
    for (const name of ['east', 'west']) {
      expect(metrics).toMatch(
        new RegExp(`^admin_mirror_job_runs_total{(?=.*profile="${name}")(?=.*outcome="complete")`, 'm'),
      );
    }
    worker.child.kill('SIGTERM');
    expect(await worker.code).toBe(0);
  });

  test('is not healthy if TZ names no time zone and a server has jobs without one', async () => {
    const sandbox = await startSandbox({ users: 4 });
    const place = placeWith('');
    writeFileSync(`${place.folder}/key`, sandbox.key, { mode: 0o600 });
    place.environment['TZ'] = 'Foo/Bar';
    const own = '    jobs: [{name: list, run: sync, cron: "@yearly"}]\n';
    const west = `  west:\n    api: {base_url: "${sandbox.url}", key_file: key}\n${own}`;
    place.configure(`jobs:\n${job('sync', 'run: sync, cron: "@yearly"')}${profiles(sandbox, ['east'])}${west}`);
    const worker = startWorker(place, '--all');
    const { url } = JSON.parse(await worker.saying('health and metrics are at')) as { url: string };
    await worker.saying('"profile":"west","advice":"Give the job a timezone');
    await worker.saying('"profile":"east","jobs":["sync"]');
    const problem = expect.stringContaining('TZ is "Foo/Bar"') as string;
    for (const path of ['healthz', 'readyz']) {
      const health = await fetch(`${url}/${path}`);
      expect([health.status, await health.json()]).toMatchObject([503, { profiles: { west: { problem } } }]);
    }
    worker.child.kill('SIGTERM');
    expect(await worker.code).toBe(0);
  });
});
