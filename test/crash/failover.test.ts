// @module-tag full
/**
 * Money over a failover: the sender is paused, cut off or left with an older database, and another process continues.
 * Nothing is ever paid twice, or counts as not applied although it was made.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { MirrorsJournalMemory } from '../../src/store/journal-memory.ts';
import { noRules } from '../../src/journal/approval.ts';
import { openJournalOver } from '../../src/journal/journal.ts';
import { openSharedBackend } from '../../src/journal/postgres.ts';
import type { Journal } from '../../src/journal/port.ts';
import { parseDatabaseAddress, type SharedStore } from '../../src/model/address.ts';
import { LockHeldError } from '../../src/model/errors.ts';
import { hourMs, systemClock } from '../../src/model/time.ts';
import { bulkClient, intentsOf, newUser, plan, send, sendsTo, sheetOf } from '../support/bulk.ts';
import { bulkWorld, creditFile, made } from '../support/bulk-cli.ts';
import { bundleOf } from '../support/command-file.ts';
import { startWorker, wayTo } from '../support/fleet.ts';
import { invoke } from '../support/invoke.ts';
import { startPostgres } from '../support/postgres.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { anna } from '../support/journal.ts';
import { sharedStores, storeOf } from '../support/shared.ts';
import { startSandbox } from '../support/sandbox.ts';
import type { PauseTask } from './pause-child.ts';

const newSharedStore = sharedStores();
const leaseMs = 2_000;
const sendMarginMs = 500;
const childFile = bundleOf(fileURLToPath(new URL('pause-child.ts', import.meta.url)));

async function journalIn(store: SharedStore): Promise<Journal> {
  const journal = await openJournalOver(await openSharedBackend(store, systemClock), anna, noRules);
  onTestFinished(() => journal.close());
  return journal;
}

/** A batch of two rows in its own store, and what a second machine needs to take it over. */
async function planned() {
  const sandbox = await startSandbox({ users: 2, emails: 2 });
  const { store, database } = await newSharedStore();
  const short = { ...store, leaseMs };
  const journal = await journalIn(short);
  const client = bulkClient(sandbox);
  const users = [newUser(sandbox, 10), newUser(sandbox, 10)];
  const { batch } = await plan(journal, client, sheetOf(users.map((user) => [user, 'add', '5', ''])));
  /** Continues as soon as the lock has expired. */
  const takeOver = async (clock = systemClock) => {
    for (;;) {
      try {
        return await send(journal, client, batch, { sendMarginMs, clock });
      } catch (error) {
        if (!(error instanceof LockHeldError)) throw error;
        await wait(50);
      }
    }
  };
  /** The final states, long after everything is over: each row was made at most once, and its state says so. */
  const verdict = async () => {
    const later = { now: () => Date.now() + hourMs };
    await takeOver(later);
    const states = (await intentsOf(journal, batch)).map(({ state }) => state);
    return users.map((user, at) => `${states[at]} ${sendsTo(sandbox, user)}`);
  };
  return { sandbox, store: short, database, journal, client, batch, takeOver, verdict };
}

type Planned = Awaited<ReturnType<typeof planned>>;

async function startChild({ sandbox, store, database, batch }: Planned, pauseAt: number) {
  const task: PauseTask = {
    url: sandbox.url,
    key: sandbox.key,
    database: { url: database.url, password: database.password },
    schema: store.schema,
    leaseMs,
    sendMarginMs,
    batch,
    pauseAt,
  };
  const child = spawn(process.execPath, [await childFile, JSON.stringify(task)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const lines: string[] = [];
  const paused = new Promise<boolean>((resolve) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(line);
      if (line === 'paused') resolve(true);
    });
    child.on('close', () => resolve(false));
  });
  const ended = new Promise<{ readonly names: readonly string[]; readonly end: string }>((resolve) => {
    child.on('close', () => resolve(JSON.parse(lines.at(-1) ?? '{}')));
  });
  return { child, paused, ended };
}

describe('a sender', () => {
  // proves: failover
  test('that is paused for longer than its lock at any moment pays nothing twice, and no made row counts as not applied', async () => {
    const first = await planned();
    const { names, end } = await (await startChild(first, 0)).ended;
    expect([end, await first.verdict()]).toEqual(['complete', ['applied 1', 'applied 1']]);
    const from = names.indexOf('before acquireLock') + 2;
    const all = Array.from({ length: names.length - from }, (_, at) => from + at + 1);
    const step = Math.max(1, Math.floor(all.length / 6));
    const ends = await Promise.all(
      all
        .filter((_, at) => at % step === 0)
        .map(async (pauseAt) => {
          const world = await planned();
          const { child, paused, ended } = await startChild(world, pauseAt);
          if (await paused) await world.takeOver();
          child.kill('SIGCONT');
          const { end: childEnd } = await ended;
          return [names[pauseAt - 1], childEnd, ...(await world.verdict())];
        }),
    );
    for (const [name, , ...rows] of ends) {
      for (const row of rows)
        expect([name, row]).toEqual([name, expect.stringMatching(/^(?:applied 1|not_applied 0)$/)]);
    }
    // Once it has sent something, its outcome is unknown here.
    const lost = ends.filter(([, childEnd]) => childEnd === 'LockHeldError' || childEnd === 'OutcomeUnknownError');
    expect(lost.length).toBeGreaterThan(3);
  });

  test('that loses the database with a request under way is replaced by one that pays nothing twice', async () => {
    const world = await planned();
    const { sandbox, store, database, batch, takeOver, verdict } = world;
    const way = await wayTo(database);
    const address = parseDatabaseAddress(way.url);
    if (address === undefined) throw new Error(`${way.url} is not an address`);
    const journal = await journalIn({ ...store, address });
    const client = bulkClient(sandbox);
    const underWay = Promise.withResolvers<void>();
    const cutting: Journal['move'] = (...given) => {
      if (given[0].to === 'acknowledged') {
        way.cut();
        underWay.resolve();
      }
      return journal.move(...given);
    };
    const cut = send({ ...journal, move: cutting }, client, batch, { sendMarginMs }).then(
      ({ error }) => error?.name ?? 'complete',
      (error: unknown) => (error instanceof Error ? error.name : String(error)),
    );
    await underWay.promise;
    await takeOver();
    way.heal();
    expect(await cut).toBe('OutcomeUnknownError');
    expect(await verdict()).toEqual(['applied 1', 'applied 1']);
  });
});

describe('a database', () => {
  test('that is killed and restarted during a batch has each row once', async () => {
    const server = await startPostgres();
    onTestFinished(() => server.remove());
    const database = await server.database();
    const sandbox = await startSandbox({ users: 2, emails: 2 });
    const journal = await journalIn(storeOf(database, 'mirror'));
    const client = bulkClient(sandbox);
    const users = Array.from({ length: 6 }, () => newUser(sandbox, 10));
    const { batch } = await plan(journal, client, sheetOf(users.map((user) => [user, 'add', '5', ''])));
    let moves = 0;
    const restarted: Promise<void>[] = [];
    const shaken: Journal = {
      ...journal,
      move: (...given) => {
        moves += 1;
        // Once before a row is recorded as sending, and once before a made one is recorded.
        if (moves === 3 || moves === 8) restarted.push(server.stop('kill').then(() => server.start()));
        return journal.move(...given);
      },
    };
    await send(shaken, client, batch).catch(() => {});
    await Promise.all(restarted);
    expect(restarted.length).toBeGreaterThan(0);
    const later = { now: () => Date.now() + hourMs };
    await send(journal, client, batch, { clock: later });
    const states = (await intentsOf(journal, batch)).map(({ state }) => state);
    expect(users.map((user, at) => `${states[at]} ${sendsTo(sandbox, user)}`)).toEqual(users.map(() => 'applied 1'));
  });

  test('that comes back an hour older is noticed by machines that have seen more, and elsewhere by the marks on the server', async () => {
    const server = await startPostgres();
    onTestFinished(() => server.remove());
    const database = await server.database();
    // Marks on the server count for thirty days.
    const sandbox = await startSandbox({ users: 5, emails: 5, now: Date.now() });
    const world = { ...(await bulkWorld()), sandbox };
    const environment = {
      ADMIN_MIRROR_BASE_URL: sandbox.url,
      ADMIN_MIRROR_API_KEY: sandbox.key,
      ADMIN_MIRROR_STORE_SHARED: database.url,
      ADMIN_MIRROR_STORE_SHARED_PASSWORD: database.password,
    };
    const machine = (folder: string) => (args: readonly string[]) => invoke(args, { folder, environment });
    const [sender, watcher, stranger] = [machine(world.folder), temporaryFolder(), temporaryFolder()];
    for (const here of [sender, machine(watcher), machine(stranger)]) expect((await here(['sync'])).code).toBe(0);
    const early = creditFile(world, 1, '3', 'early.csv');
    expect((await sender(['bulk', 'run', 'balance', early.name, '--yes'])).code).toBe(0);

    await server.stop('fast');
    const copy = join(server.folder, 'copy');
    spawnSync('cp', ['-a', join(server.folder, 'data'), copy]);
    await server.start();
    const late = creditFile(world, 1, '5', 'late.csv');
    expect((await sender(['bulk', 'run', 'balance', late.name, '--yes'])).code).toBe(0);
    // A worker on another machine looks from time to time, and never sends.
    mkdirSync(join(watcher, 'config'));
    writeFileSync(join(watcher, 'config/admin-mirror.yaml'), 'jobs:\n  - {name: sync, run: sync, cron: "@yearly"}\n');
    const worker = startWorker({ folder: watcher, environment: { ...environment, ...anyPort } });
    await worker.saying('the worker has started');
    await expect.poll(() => remembered(watcher)).toMatchObject({ seen: true });
    worker.child.kill('SIGTERM');
    await worker.code;

    await server.stop('fast');
    rmSync(join(server.folder, 'data'), { recursive: true });
    spawnSync('cp', ['-a', copy, join(server.folder, 'data')]);
    await server.start();
    const text = readFileSync(join(world.folder, late.name), 'utf8');
    for (const folder of [world.folder, watcher, stranger]) {
      writeFileSync(join(folder, late.name), text);
      const again = await machine(folder)(['bulk', 'run', 'balance', late.name, '--yes']);
      expect([again.code === 0, made(sandbox)]).toEqual([false, 2]);
      expect(again.stderr).toMatch(
        folder === stranger ? /older than the server/ : /older than the mirror: it lacks step \d+/,
      );
    }
  });
});

const anyPort = { ADMIN_MIRROR_WORKER_LISTEN: '127.0.0.1:0' };

function remembered(folder: string): unknown {
  const memory = new MirrorsJournalMemory(join(folder, 'data/mirror.db'));
  try {
    return memory.recall();
  } finally {
    memory.close();
  }
}
