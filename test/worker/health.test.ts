import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect, createServer } from 'node:net';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { silentLog } from '../../src/model/log.ts';
import { Secret } from '../../src/model/secret.ts';
import { hourMs, systemClock, timestampOf } from '../../src/model/time.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { openWorkerStore } from '../../src/worker/store/sqlite.ts';
import { openHealthServer, pagesOf } from '../../src/worker/health-server.ts';
import type { Watch } from '../../src/worker/watch.ts';
import { sectionOf, tableRows } from '../support/documents.ts';
import { sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { healthIn, startWatch, type WatchTry, watchedFrom } from '../support/watched.ts';
import { soonMs } from '../support/part.ts';
import { listening } from '../support/listening.ts';

/** The clock of a sync that ends when the watch starts. */
const clock = { now: () => watchedFrom };

async function mirrored(): Promise<string> {
  const files = temporaryFolder();
  const sandbox = await startSandbox();
  await sync(sandbox, `${files}/mirror.db`, { clock });
  return files;
}

const pagesOfOne = (watch: Watch) => pagesOf({ watches: new Map([['p', watch]]), troubles: new Map() });

async function serving(more: WatchTry = {}) {
  const watched = await startWatch(more);
  const server = await openHealthServer({ host: '127.0.0.1', port: 0 }, pagesOfOne(watched.watch()), silentLog);
  onTestFinished(() => server.close());
  const get = async (path: string, method = 'GET') => {
    const answer = await fetch(`${server.url}${path}`, { method });
    return { status: answer.status, headers: answer.headers, body: await answer.text() };
  };
  return { ...watched, get, url: server.url };
}

describe('/healthz', () => {
  test('is 200 while the mirror is fresh enough and 503 after that, with the age of each resource', async () => {
    const { get, pass } = await serving({ files: await mirrored() });
    pass(25 * hourMs);
    const fresh = await get('/healthz');
    expect(fresh.status).toBe(200);
    const users = { fresh_as_of: timestampOf(watchedFrom), is_fresh: true };
    expect(JSON.parse(fresh.body)).toMatchObject({
      status: 'good',
      profiles: {
        p: { status: 'ok', staleness_seconds: 90_000, max_staleness_seconds: 93_600, resources: { users } },
      },
    });
    pass(2 * hourMs);
    const stale = await get('/healthz');
    expect(stale.status).toBe(503);
    expect(JSON.parse(stale.body)).toMatchObject({
      status: 'bad',
      profiles: { p: { status: 'stale', resources: { emails: { is_fresh: false } } } },
    });
  });

  test('is 200 without a mirror for as long as a mirror may be old', async () => {
    const { get, pass } = await serving();
    pass(25 * hourMs);
    expect((await get('/healthz')).status).toBe(200);
    pass(2 * hourMs);
    expect((await get('/healthz')).status).toBe(503);
  });
});

describe('/readyz', () => {
  test('is 503 without the lock or with a file problem, and 200 otherwise', async () => {
    const files = temporaryFolder();
    const store = openWorkerStore(`${files}/mirror.worker.db`);
    onTestFinished(() => store.close());
    const { get, trouble } = await serving({ files, store });
    expect(await get('/readyz')).toMatchObject({
      status: 503,
      body: expect.stringContaining('does not hold the lock'),
    });
    await store.acquireScheduler('w1');
    expect(await get('/readyz')).toMatchObject({ status: 200 });
    trouble('could not write: the disk is full');
    expect(await get('/readyz')).toMatchObject({ status: 503, body: expect.stringContaining('the disk is full') });
    trouble(null);
    expect(await get('/readyz')).toMatchObject({ status: 200 });
    mkdirSync(`${files}/mirror.db`);
    expect(await get('/readyz')).toMatchObject({ status: 503, body: expect.stringContaining('mirror.db') });
  });
});

describe('/metrics', () => {
  test('have the runs of jobs, the records, the staleness, the open rows and the problems', async () => {
    const { get, end, pass } = await serving({ files: await mirrored() });
    await end('complete', 0);
    await end('partial', 5);
    pass(hourMs);
    const { body, headers } = await get('/metrics');
    expect(headers.get('content-type')).toContain('version=0.0.4');
    for (const line of [
      'admin_mirror_job_runs_total{job="sync",outcome="complete"} 1',
      'admin_mirror_job_runs_total{job="sync",outcome="partial"} 1',
      'admin_mirror_records{resource="users"} 60',
      'admin_mirror_server_records{resource="emails"} 90',
      'admin_mirror_staleness_seconds{resource="packages"} 3600',
      'admin_mirror_fresh 1',
      'admin_mirror_batch_rows_open{state="unknown"} 0',
      'admin_mirror_problems{code="job_failed"} 1',
      'admin_mirror_file_readable{file="mirror"} 1',
      'admin_mirror_build_info{version="1.2.3"} 1',
    ]) {
      expect(body.split('\n')).toContain(line);
    }
  });

  test('respond without waiting if the mirror is locked, missing or not a mirror', async () => {
    const files = await mirrored();
    const { get } = await serving({ files });
    const readable = async () => {
      return /^admin_mirror_file_readable\{file="mirror"\} (\d)$/m.exec((await get('/metrics')).body)?.[1];
    };
    const locker = new SqliteDatabase(`${files}/mirror.db`);
    onTestFinished(() => void locker.close());
    locker.pragma('locking_mode = EXCLUSIVE');
    locker.exec('BEGIN EXCLUSIVE');
    const begin = performance.now();
    expect(await readable()).toBe('0');
    expect(performance.now() - begin).toBeLessThan(soonMs);
    locker.close();
    expect(await readable()).toBe('1');
    rmSync(`${files}/mirror.db`);
    writeFileSync(`${files}/mirror.db`, 'no database at all, but of some length');
    expect(await readable()).toBe('0');
    rmSync(`${files}/mirror.db`);
    expect(await readable()).toBe('1');
  });
});

test('every metric is listed in docs/worker.md, and no other', async () => {
  const { get } = await serving();
  const made = [...(await get('/metrics')).body.matchAll(/^# TYPE admin_mirror_(\w+) /gm)].map(([, name]) => name);
  const shown = tableRows(sectionOf('docs/worker.md', 'Metrics')).flatMap(([cell = '']) =>
    [...cell.matchAll(/`([a-z_]+)`/g)].map(([, name]) => name),
  );
  expect(new Set(shown)).toEqual(new Set(made));
});

describe('the server', () => {
  test('responds to HEAD without a body, to other methods with 405, to other paths with 404', async () => {
    const { get } = await serving();
    expect(await get('/healthz', 'HEAD')).toMatchObject({ status: 200, body: '' });
    const posted = await get('/metrics', 'POST');
    expect(posted.status).toBe(405);
    expect(posted.headers.get('allow')).toBe('GET, HEAD');
    expect((await get('/metricsx')).status).toBe(404);
    expect((await get('/__proto__')).status).toBe(404);
    expect((await get('/healthz?x=1')).status).toBe(200);
  });

  // proves: rebinding
  test.each([
    ['evil.example', 403],
    ['evil.example:9464', 403],
    ['127.0.0.1.evil.example', 403],
    ['localhost@evil.example', 403],
    [':', 403],
    ['localhost:1', 200],
    ['127.0.0.1', 200],
    ['[::1]:9464', 200],
  ])('without a token, a request that was sent to %s gets %i', async (host, status) => {
    const { url } = await serving();
    for (const path of ['/healthz', '/metrics']) {
      const [answer] = (await once(request(`${url}${path}`, { headers: { host } }).end(), 'response')) as [
        IncomingMessage,
      ];
      answer.resume();
      expect({ path, status: answer.statusCode }).toEqual({ path, status });
    }
  });

  test('says how to set another port if this one is taken', async () => {
    const port = Number(new URL(await listening(createServer())).port);
    await expect(openHealthServer({ host: '127.0.0.1', port }, {}, silentLog)).rejects.toMatchObject({
      exitCode: 2,
      message: `the worker cannot listen on 127.0.0.1:${port} (worker.listen): another program already listens there`,
      advice: expect.stringContaining('ADMIN_MIRROR_WORKER_LISTEN'),
    });
  });
});

describe('the health of the files', () => {
  test('counts windows in which deletions were refused, until they are settled', async () => {
    const files = temporaryFolder();
    const sandbox = await startSandbox({ users: 200 });
    const file = `${files}/mirror.db`;
    const health = healthIn(files, systemClock);
    const heldBack = async () => {
      const look = await health.mirror();
      return 'found' in look ? look.found.resources.map((each) => each.heldBack) : look;
    };
    expect(await health.mirror()).toEqual({ absent: true });
    await sync(sandbox, file);
    expect(await heldBack()).toEqual([0, 0, 0, 0]);
    for (let id = 20; id < 200; id += 1) sandbox.control.remove('users', id);
    sandbox.control.setClock(sandbox.control.now() + hourMs);
    expect((await sync(sandbox, file)).report.status).toBe('partial');
    expect(await heldBack()).toEqual([1, 0, 0, 0]);
    sandbox.control.setClock(sandbox.control.now() + hourMs);
    await sync(sandbox, file, { allowDeletions: true });
    expect(await heldBack()).toEqual([0, 0, 0, 0]);
  });
});

describe('a slow connection', () => {
  // proves: slow-health
  test('does not block others, however many there are', async () => {
    const { get, url } = await serving();
    const { port } = new URL(url);
    const slow = Array.from({ length: 200 }, () => connect(Number(port), '127.0.0.1', () => {}));
    for (const socket of slow) socket.on('error', () => {}).write('GET /healthz HTTP/1.1\r\nHost: a\r\n');
    onTestFinished(() => slow.forEach((socket) => socket.destroy()));
    await Promise.all(slow.map((socket) => once(socket, 'connect')));
    const asked = performance.now();
    expect((await get('/healthz')).status).toBe(200);
    expect(performance.now() - asked).toBeLessThan(soonMs);
  });
});

describe('a token', () => {
  const token = new Secret('0123456789abcdef0123');

  // proves: health-token
  test('is required on every path if one is set', async () => {
    const watched = await startWatch({});
    const server = await openHealthServer(
      { host: '127.0.0.1', port: 0 },
      pagesOfOne(watched.watch()),
      silentLog,
      token,
    );
    onTestFinished(() => server.close());
    const status = async (path: string, authorization: string) =>
      (await fetch(`${server.url}${path}`, { headers: { authorization } })).status;
    for (const path of ['/healthz', '/readyz', '/metrics', '/other']) {
      expect(await status(path, '')).toBe(401);
      expect(await status(path, 'Bearer 0123456789abcdef0124')).toBe(401);
      expect(await status(path, `Bearer ${token.reveal().slice(1)}`)).toBe(401);
    }
    expect(await status('/healthz', `Bearer ${token.reveal()}`)).toBe(200);
  });

  test.each([
    ['0.0.0.0:9464', undefined, /needs a token/],
    ['[::]:9464', undefined, /needs a token/],
    ['panel.example:9464', undefined, /needs a token/],
    ['127.0.0.1:9464', 'short', /too short/],
    ['0.0.0.0:9464', token.reveal(), /^$/],
    ['[::1]:9464', undefined, /^$/],
    ['localhost:9464', undefined, /^$/],
  ])('is checked in the settings: listening on %s with %s gives %s', (listen, given, problem) => {
    const environment = { ADMIN_MIRROR_WORKER_LISTEN: listen, ADMIN_MIRROR_WORKER_TOKEN: given };
    const { problems } = readSettings({ flags: [], environment, folder: temporaryFolder() });
    expect(problems.map(({ message }) => message).join()).toMatch(problem);
  });
});
