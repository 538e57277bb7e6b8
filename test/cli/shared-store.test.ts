// @module-tag full
/** Journal, accounts, jobs and alerts in PostgreSQL, used by commands on two machines. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { BatchReport } from '../../src/bulk/report.ts';
import { dayMs, minuteMs, systemClock } from '../../src/model/time.ts';
import { newUser } from '../support/bulk.ts';
import { bulkWorld, creditFile, csv, made } from '../support/bulk-cli.ts';
import { spawnCli } from '../support/cli.ts';
import { startConsole } from '../support/console.ts';
import { fleetOver, withClock } from '../support/fleet.ts';
import { invoke } from '../support/invoke.ts';
import { atPort, openLine } from '../support/line.ts';
import { temporaryDatabase } from '../support/postgres.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const password = 'tulip-Anchor 9 rivers';

const config = `bulk:
  approval:
    balance: {}
jobs:
  - name: sync
    run: sync
    cron: "0 3 * * *"
`;

/** A sandbox, and a folder whose settings name an empty database. */
async function sharedWorld(text = config) {
  const world = await bulkWorld();
  const database = await temporaryDatabase();
  const secrets = temporaryFolder();
  writeFileSync(join(secrets, 'password'), `${database.password}\n`, { mode: 0o600 });
  const environment = {
    ...world.environment,
    ADMIN_MIRROR_STORE_SHARED: database.url,
    ADMIN_MIRROR_STORE_SHARED_PASSWORD_FILE: join(secrets, 'password'),
  };
  /** A machine; another one unless a folder is given. */
  const machine = (folder = temporaryFolder()) => {
    mkdirSync(join(folder, 'config'), { recursive: true });
    writeFileSync(join(folder, 'config/admin-mirror.yaml'), text);
    return (args: readonly string[], more: Parameters<typeof invoke>[1] | object = {}) =>
      invoke(args, { folder, environment, ...more });
  };
  return { ...world, environment, database, machine, here: machine(world.folder) };
}

/** A way to the database that ends for good, after some messages to it since `isBegun`. */
async function lineTo(address: string) {
  const { hostname: host, port } = new URL(address);
  let left = Infinity;
  let isEnded = false;
  let isBegun = (): boolean => false;
  const line = await openLine({ host, port: Number(port) }, (end) => {
    if (isEnded) end();
    const toServer = (): boolean => {
      if (isBegun()) left -= 1;
      isEnded ||= left < 0;
      if (isEnded) line.endAll();
      return !isEnded;
    };
    return { toServer };
  });
  return {
    url: atPort(address, line.port),
    isEnded: () => isEnded,
    endAfter: (messages: number, since: () => boolean) => {
      left = messages;
      isBegun = since;
    },
  };
}

describe('with store.shared', () => {
  test('people, batches, approvals and jobs are recorded in the database for every machine', async () => {
    const world = await sharedWorld();
    const { here, machine, sandbox, folder, database } = world;
    const there = machine();
    const json = async (run: typeof here, ...args: readonly string[]) => {
      const { stdout, stderr } = await run([...args, '--json']);
      expect(stderr).not.toContain('error');
      return JSON.parse(stdout) as Record<string, unknown>;
    };
    expect((await here(['doctor'])).stdout).toMatch(
      /shared store +postgresql:\/\/\S+, schema admin_mirror_store, .*nothing there yet/,
    );
    const added = await here(['people', 'add', 'bert', '--role', 'approver', '--no-os-user'], {
      input: `${password}\n`,
    });
    expect([added.code, added.stderr]).toEqual([0, expect.not.stringContaining('error')]);
    const { name } = creditFile(world, 2);
    const plan = await json(here, 'bulk', 'plan', 'balance', name);
    const [batch, hash] = [String(plan['batch']), String(plan['hash'])];
    expect((await here(['bulk', 'apply', batch, '--approve', hash])).stderr).toContain(
      'must be approved by another person',
    );
    expect((await here(['bulk', 'submit', batch])).code).toBe(0);
    // Another person on another machine.
    const approved = await there(['bulk', 'approve', batch, '--as', 'bert'], { input: `${password}\n` });
    expect([approved.code, made(sandbox)]).toEqual([0, 0]);
    expect((await there(['bulk', 'apply', batch, '--approve', hash])).code).toBe(0);
    expect(made(sandbox)).toBe(2);
    const again = await here(['bulk', 'run', 'balance', name, '--yes']);
    expect([again.code, again.stderr, made(sandbox)]).toEqual([2, expect.stringMatching(/sent before|out before/), 2]);
    expect((await here(['bulk', 'rehearse'])).code).toBe(2);

    expect((await here(['audit', '--verify'])).stdout).toMatch(/whole/);
    expect((await here(['schedule', '--once', 'sync'])).code).toBe(0);
    const status = await json(here, 'status');
    expect(status).toMatchObject({
      shared_store: { address: database.url },
      jobs: [{ job: 'sync', running_since: null }],
    });
    const runs = await database.query('select job, cause, outcome from admin_mirror_store.worker_runs');
    expect(runs.rows).toEqual([{ job: 'sync', cause: 'by_hand', outcome: 'complete' }]);
    expect((await here(['status'])).stdout).toContain(`journal, jobs and alerts are in ${database.url}`);
    expect((await here(['doctor'])).stdout).toMatch(
      /shared store +postgresql:\/\/\S+, schema admin_mirror_store, PostgreSQL \d/,
    );
    const shown = await here(['config']);
    expect(shown.stdout).toContain(database.url);
    for (const said of [shown, await here(['config', '--json'])]) expect(said.stdout).not.toContain(database.password);
    // Nothing is written to local files.
    for (const file of ['journal.db', 'mirror.worker.db']) expect(existsSync(join(folder, 'data', file))).toBe(false);
  });

  test('that is gone at any moment after a payment was made ends apply with 8, and says what to do', async () => {
    const goneAfter = async (messages: number) => {
      const world = await sharedWorld('{}');
      const { here, sandbox, environment, database } = world;
      const line = await lineTo(database.url);
      const name = creditFile(world, 1).name;
      const planned = await here(['bulk', 'plan', 'balance', name, '--json']);
      const { batch, hash } = JSON.parse(planned.stdout) as BatchReport;
      line.endAfter(messages, () => made(sandbox) > 0);
      const through = { environment: { ...environment, ADMIN_MIRROR_STORE_SHARED: line.url } };
      const { code, stderr } = await here(['bulk', 'apply', batch, '--approve', hash, '--json'], through);
      return { isEnded: line.isEnded(), code, advice: stderr.includes(`bulk resume ${batch}`) };
    };
    const ends = await Promise.all(Array.from({ length: 36 }, (_, at) => goneAfter(at)));
    for (const { isEnded, code, advice } of ends) expect([code, advice]).toEqual(isEnded ? [8, true] : [0, false]);
  });

  test('a rehearsal writes nothing to the database', async () => {
    const world = await sharedWorld('');
    const { name } = creditFile(world, 1);
    await world.here(['sync']);
    const rehearsed = await world.here(['bulk', 'run', 'balance', name, '--rehearse']);
    expect([rehearsed.code, rehearsed.stderr]).toEqual([0, expect.anything()]);
    const { rows } = await world.database.query("select to_regclass('admin_mirror_store.journal_batches') as made");
    expect(rows).toEqual([{ made: null }]);
  });

  test('a journal that was left in its file is refused until it is moved', async () => {
    const world = await sharedWorld('');
    const { name } = creditFile(world, 1);
    expect((await world.bulk(['plan', 'balance', name])).code).toBe(0);
    const { code, stderr } = await world.here(['bulk', 'status']);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/has records that were never moved there/)]);
    expect(stderr).toContain('admin-mirror store copy');
  });

  test('a missing database is named, and status still shows the mirror', async () => {
    const world = await sharedWorld();
    expect((await world.here(['sync'])).code).toBe(0);
    const environment = { ...world.environment, ADMIN_MIRROR_STORE_SHARED: `${world.database.url}_away` };
    const away = (args: readonly string[]) => world.here(args, { environment });
    const { code, stdout } = await away(['status', '--json', '--check']);
    expect(code).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject({
      problems: expect.arrayContaining([
        expect.objectContaining({ code: 'shared_store', problem: expect.stringMatching(/there is no such database/) }),
      ]),
      resources: { users: { live: expect.any(Number) } },
    });
    // Whether a worker runs is not known.
    expect((await away(['status'])).stdout).not.toMatch(/no worker|not run yet/);
    const planned = await away(['bulk', 'status']);
    expect([planned.code, planned.stderr]).toEqual([2, expect.stringContaining('there is no such database (3D000)')]);
    expect(planned.stderr).not.toContain(world.database.password);
  });

  test('an account that was made on another machine can sign in to the console', async () => {
    const database = await temporaryDatabase();
    const environment = {
      ADMIN_MIRROR_STORE_SHARED: database.url,
      ADMIN_MIRROR_STORE_SHARED_PASSWORD: database.password,
    };
    const { browser, people } = await startConsole({ environment, clock: systemClock });
    const { post, get } = await browser('nobody', null);
    const folder = temporaryFolder();
    const made = await invoke(['people', 'add', 'anna', '--role', 'maker'], {
      folder,
      environment,
      input: `${password}\n`,
    });
    expect(made.code).toBe(0);
    expect((await people.accounts()).map(({ name }) => name)).toEqual(['anna', 'root']);
    const refused = await post('/sign-in', { name: 'anna', password: 'wrong' });
    expect(refused.status).not.toBe(303);
    const { status, headers } = await post('/sign-in', { name: 'anna', password });
    expect(status).toBe(303);
    const cookie = headers.get('set-cookie')?.split(';')[0] ?? '';
    expect((await get('/', { cookie })).status).toBe(200);
    expect(existsSync(join(folder, 'data/journal.db'))).toBe(false);
    expect(await people.sessions.list('anna')).toHaveLength(1);
  });
});

describe('machines whose clocks differ by minutes or days', () => {
  /** Processes with a wrong clock; the server's clock is right. */
  async function apart(limits: string) {
    const sandbox = await startSandbox({ users: 5, emails: 5, now: Date.now() });
    const database = await temporaryDatabase();
    const { machine } = fleetOver(database, `bulk: {${limits}}\njobs: [{name: sync, run: sync, cron: "@yearly"}]\n`);
    const file = (name: string, user: number, amount: string) => ({
      name,
      text: `${csv}${user},add,${amount},Credit\n`,
    });
    const at = (aheadMs: number) => {
      const { folder, environment } = withClock(machine(), aheadMs);
      const server = {
        ADMIN_MIRROR_BASE_URL: sandbox.url,
        ADMIN_MIRROR_API_KEY: sandbox.key,
      };
      return (args: readonly string[], sheet?: ReturnType<typeof file>) => {
        if (sheet !== undefined) writeFileSync(join(folder, sheet.name), sheet.text);
        return spawnCli(args, { folder, environment: { ...environment, ...server } });
      };
    };
    return { sandbox, file, at };
  }
  const run = (name: string) => ['bulk', 'run', 'balance', name, '--yes'];

  test.each([
    [-2 * dayMs, 0],
    [0, 2 * dayMs],
    [-20 * minuteMs, 20 * minuteMs],
  ])('share one limit per day, and pay nobody twice (%i and %i ms)', async (first, second) => {
    const { sandbox, file, at } = await apart('max_day: 10, again_within: 10m');
    const [one, other] = [at(first), at(second)];
    const [user, another] = [newUser(sandbox, 10), newUser(sandbox, 10)];
    expect((await one(run('a.csv'), file('a.csv', user, '6'))).code).toBe(0);
    const again = await other(run('b.csv'), file('b.csv', user, '6.00'));
    expect([again.code, again.stderr]).toEqual([2, expect.stringMatching(/sent before|10/)]);
    const much = await other(run('c.csv'), file('c.csv', another, '6'));
    expect([much.code, much.stderr]).toEqual([2, expect.stringContaining('max_day')]);
    expect(made(sandbox)).toBe(1);
  });

  test('are warned by doctor and status', async () => {
    const { file, at } = await apart('max_day: 10');
    const wrong = at(20 * minuteMs);
    expect((await wrong(['bulk', 'plan', 'balance', 'a.csv'], file('a.csv', 1, '6'))).code).toBe(0);
    expect((await wrong(['doctor'])).stdout).toContain("the database's clock is 20 min behind this machine's");
    const right = at(0);
    expect((await right(['doctor'])).stdout).not.toContain("the database's clock");
    await wrong(['schedule', '--once', 'sync']);
    expect((await wrong(['status'])).stdout).toContain("jobs and batches use, is 20 min behind this machine's");
  });

  test("count no row as not applied before bulk.settle_after has passed by the database's clock", async () => {
    const { sandbox, file, at } = await apart('settle_after: 10m');
    const [one, other] = [at(-20 * minuteMs), at(20 * minuteMs)];
    sandbox.control.faultNext({ fault: 'reset_before', match: { method: 'PUT' } });
    const lost = await one([...run('a.csv'), '--json'], file('a.csv', newUser(sandbox, 10), '6'));
    const { batch } = JSON.parse(lost.stdout) as BatchReport;
    const resumed = await other(['bulk', 'resume', batch, '--json']);
    const { counts } = JSON.parse(resumed.stdout) as BatchReport;
    expect([lost.code, resumed.code, counts]).toEqual([8, 8, expect.objectContaining({ unknown: 1 })]);
  });
});
