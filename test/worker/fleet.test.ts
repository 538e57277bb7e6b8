// @module-tag full
/** Several workers for one server, with real processes, a real PostgreSQL and a lease of a few seconds. */
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { dayMs, minuteMs, secondMs } from '../../src/model/time.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { spawnCli } from '../support/cli.ts';
import { fleetOver, type Machine, startWorker, wayTo, withClock } from '../support/fleet.ts';
import { temporaryDatabase, type TestDatabase } from '../support/postgres.ts';
import { startSandbox } from '../support/sandbox.ts';

const config = (cron: string) => `store: {shared_lease: 3s}
jobs:
  - {name: sync, run: sync, timezone: UTC, cron: "${cron}"}
  - {name: publish, run: publish, timezone: UTC, after: sync, cron: "${cron}"}
`;

async function world(cron: string) {
  const sandbox = await startSandbox({ users: 300 });
  const database = await temporaryDatabase();
  const { machine } = fleetOver(database, config(cron));
  const there = (url?: string): Machine => {
    const { folder, environment } = machine(url);
    return { folder, environment: { ...environment, ...serverOf(sandbox) } };
  };
  return { sandbox, database, there };
}

const serverOf = ({ url, key }: Sandbox) => ({ ADMIN_MIRROR_BASE_URL: url, ADMIN_MIRROR_API_KEY: key });

/** The first-seen times of rows: a restored mirror keeps them, one that reads the server again does not. */
function firstSeen({ folder }: Machine): unknown[] {
  const mirror = new SqliteDatabase(`${folder}/data/mirror.db`, { readonly: true });
  const rows = mirror.prepare('SELECT id, _first_seen_at FROM users ORDER BY id').raw().all();
  mirror.close();
  return rows;
}

/** The status of a page of the worker's health. */
async function statusOf({ lines }: ReturnType<typeof startWorker>, page: string): Promise<number | undefined> {
  const url = lines.map(({ line }) => / are at (\S+)$/.exec(line.msg)?.[1]).find((each) => each !== undefined);
  return (await fetch(`${url}/${page}`)).status;
}

async function runsIn(database: TestDatabase) {
  const { rows } = await database.query(
    'select run, job, occurrence, outcome from admin_mirror_store.worker_runs order by number',
  );
  return rows as {
    readonly run: string;
    readonly job: string;
    readonly occurrence: string;
    readonly outcome: string;
  }[];
}

describe('several workers', () => {
  test.each([
    { first: 20 * minuteMs, second: 0 },
    { first: -dayMs, second: 0 },
    { first: 0, second: dayMs },
    { first: 2 * secondMs, second: -20 * minuteMs },
  ])('whose clocks are wrong by $first and $second ms run each job once, at its time', async ({ first, second }) => {
    const { there, database } = await world('*/2 * * * * *');
    const one = startWorker(withClock(there(), first));
    await one.saying('publish is complete');
    const other = startWorker(withClock(there(), second));
    await other.saying('another worker is active');
    one.child.kill('SIGKILL');
    await other.saying('publish is complete');
    const runs = (await runsIn(database)).filter(({ outcome }) => outcome === 'complete');
    for (const { occurrence } of runs) expect(Math.abs(Date.parse(occurrence) - Date.now())).toBeLessThan(minuteMs);
    const times = runs.map(({ job, occurrence }) => `${job} ${occurrence}`);
    expect(new Set(times).size).toBe(times.length);
  });

  test('have one active and the others waiting; one that dies or ends is replaced by one that restores the mirror', async () => {
    const { there } = await world('*/2 * * * * *');
    const first = startWorker(there());
    await first.saying('publish is complete');
    const second = startWorker(there());
    await second.saying('another worker is active');
    expect(await Promise.all(['healthz', 'readyz'].map((page) => statusOf(second, page)))).toEqual([200, 200]);
    const seen = firstSeen(first.machine);

    first.child.kill('SIGKILL');
    await second.saying('the mirror was restored from what was published');
    await second.saying('publish is complete');
    expect(firstSeen(second.machine)).toEqual(seen);
    expect((await spawnCli(['status'], second.machine)).stdout).toContain(
      `the worker: process ${second.child.pid} on `,
    );

    const third = startWorker(there());
    await third.saying('another worker is active');
    second.child.kill('SIGTERM');
    expect(await second.code).toBe(0);
    await third.saying('the worker has started');
    third.child.kill('SIGTERM');
    expect(await third.code).toBe(0);
  });

  test('stop what they run and write nothing more if they were cut off or paused and then replaced', async () => {
    const { there, database, sandbox } = await world('*/5 * * * * *');
    const way = await wayTo(database);
    const first = startWorker(there(way.url));
    await first.saying('the worker has started');
    const second = startWorker(there());
    await second.saying('another worker is active');
    // This sync does not end by itself.
    sandbox.control.setBehaviour({ latency: 60_000 });
    await expect.poll(() => runsIn(database)).toContainEqual(expect.objectContaining({ job: 'sync', outcome: null }));

    way.cut();
    await first.saying('stopped by SIGTERM');
    await second.saying('the worker has started');
    await second.saying('sync begins');
    way.heal();
    await first.saying('this worker is no longer active');
    await first.saying('another worker is active');

    second.child.kill('SIGSTOP');
    const before = first.lines.length;
    await expect
      .poll(() => first.lines.slice(before).some(({ line }) => line.msg === 'the worker has started'))
      .toBe(true);
    second.child.kill('SIGCONT');
    await second.saying('this worker is no longer active');
    await second.saying('another worker is active');
    const killed = (await runsIn(database)).filter(({ outcome }) => outcome === 'killed');
    expect(killed.map(({ job }) => job)).toEqual(['sync', 'sync']);
  });

  test('are neither healthy nor ready, and say why, if they cannot start on their turn', async () => {
    const { there, database } = await world('*/2 * * * * *');
    const first = startWorker(there());
    await first.saying('publish is complete');
    const second = startWorker(there());
    await second.saying('another worker is active');
    expect(await statusOf(second, 'readyz')).toBe(200);
    first.child.kill('SIGKILL');
    await first.code;
    await database.query('update mirror.mirror_publication set version = version + 1');
    await second.saying('and this program makes version');
    expect(await Promise.all(['healthz', 'readyz'].map((page) => statusOf(second, page)))).toEqual([503, 503]);
  });
});
