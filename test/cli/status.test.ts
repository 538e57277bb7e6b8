import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { resourceNames, type ResourceName } from '../../src/model/resources.ts';
import { systemClock, timestampOf } from '../../src/model/time.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import type { MirrorStatus } from '../../src/mirror/open-status.ts';
import type { SandboxOptions } from '../support/bent/sandbox.ts';
import { rememberJournal } from '../../src/bulk/journal-memory.ts';
import { MirrorsJournalMemory } from '../../src/store/journal-memory.ts';
import { everything } from '../../src/model/era.ts';
import { workerFileOf } from '../../src/worker/open-store.ts';
import { openWorkerStore } from '../../src/worker/store/sqlite.ts';
import { runCli } from '../support/cli.ts';
import { invoke } from '../support/invoke.ts';
import { newBatch, newIntent, newJournal } from '../support/journal.ts';
import { operator } from '../support/people.ts';
import { mirroredFolder, sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A mirror of a sandbox under its usual name, and its `status`. */
async function mirrored(options: SandboxOptions = {}) {
  const { sandbox, folder } = await mirroredFolder(options, { pageSize: 100 });
  return {
    sandbox,
    folder,
    status: async () => (await runCli(['status', '--verbose'], { folder })).stdout,
    json: async () => JSON.parse((await runCli(['status', '--json'], { folder })).stdout) as MirrorStatus,
  };
}

describe('status', () => {
  test('shows the server, and the measured capabilities of each list', async () => {
    const { sandbox, status, json } = await mirrored({ behaviour: { page_max: 40, rate_limit: 5_000 } });
    const text = await status();
    expect(text).toContain(`\nthe server at ${sandbox.url}\n`);
    expect(text).toMatch(
      /\n {2}users {5}pages of 40, in order, date ranges in YYYY-MM-DD, without their last day \(measured 2026-03-11\)\n/,
    );
    expect(text).toMatch(/\n {2}coupons {3}pages of 40, /);
    expect(text).not.toContain('drift');
    const { server, resources, drift } = await json();
    expect(server).toEqual({ address: sandbox.url });
    expect(resources.emails.capabilities).toMatchObject({
      page_size: 40,
      ranges: 'YYYY-MM-DD',
      day_bounds: 'next_day',
      ordered: true,
    });
    expect(drift).toEqual([]);
  });

  test('without --verbose says only how fresh the mirror is, what is wrong and what runs next', async () => {
    const { folder } = await mirrored();
    const environment = { ADMIN_MIRROR_WORKER_MAX_STALENESS: '4000d' };
    const { stdout } = await runCli(['status'], { folder, environment });
    expect(stdout).toMatch(
      /^fresh as of .*\n {2}users +[\d,]+ {2}2026-03-11T.*\n {2}packages .*\n {2}emails .*\n {2}coupons .*\n$/,
    );
    expect(stdout).not.toMatch(/window|measured|last runs|events/);
  });

  test('lists schema drift, a line per resource and kind', async () => {
    const { status, json } = await mirrored({ behaviour: { unknown_fields: 1 } });
    const text = await status();
    expect(text).toMatch(/\ndrift: how records differ from the API's reference\n/);
    expect(text).toMatch(/\n {2}coupons {3}unknown fields, kept in _extra: \w+, \w+/);
    // Reported once, and not again among the events.
    expect(text).not.toMatch(/surprises/);
    const { drift, events } = await json();
    expect(drift.length).toBeGreaterThan(4);
    expect(events).toEqual(drift.slice(0, 20));
  });
});

describe('status --check', () => {
  const fresh = { ADMIN_MIRROR_WORKER_MAX_STALENESS: '4000d' };

  test('ends with 0 if nothing is wrong, and says how fresh the mirror is', async () => {
    const { folder } = await mirrored();
    const found = await invoke(['status', '--check'], { folder, environment: fresh });
    expect(found).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^nothing is wrong: fresh as of 2026-03-11T/),
    });
  });

  test('ends with 5 if a resource was never read', async () => {
    const sandbox = await startSandbox();
    const folder = temporaryFolder();
    const environment = { ...fresh, ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
    await invoke(['sync', 'users'], { folder, environment });
    expect(await invoke(['status', '--check'], { folder, environment })).toMatchObject({
      code: 5,
      stdout: expect.stringMatching(/never read whole: packages, emails, coupons/),
    });
  });

  test('ends with 5 if the mirror is too old, with a command that can be pasted', async () => {
    const { folder } = await mirrored();
    const { code, stdout } = await invoke(['status', '--check', '--db', 'data/mirror.db'], { folder });
    expect(code).toBe(5);
    expect(stdout).toMatch(
      /^the mirror is older than the 26h of worker\.max_staleness: users, packages, emails, coupons\n/,
    );
    expect(stdout).toContain('`npx admin-mirror --db data/mirror.db sync`');
  });

  test('ends with 5 after a failed run, and gives the reason', async () => {
    const { folder, sandbox } = await mirrored();
    await sandbox.close();
    const { report } = await sync(sandbox, join(folder, 'data/mirror.db'));
    expect(report.status).toBe('failed');
    expect(Object.values(report.resources).map(({ status }) => status)).toEqual([
      'failed',
      'failed',
      'failed',
      'failed',
    ]);
    const { code, stdout } = await invoke(['status', '--check'], { folder, environment: fresh });
    expect(code).toBe(5);
    expect(stdout).toMatch(/^the last sync, of .*, failed\n {2}GET .*the connection was refused/);
    expect(stdout).toMatch(/Next: `npx admin-mirror doctor`/);
  });

  /** Leaves the mirror as a sync does whose process ends in the middle of these resources; returns its store. */
  function beginSync(file: string, run: string, resources: readonly ResourceName[] = resourceNames) {
    const store = openMirrorStore(file);
    store.acquireLock('sync', run);
    store.beginRun(run, 'sync', resources);
    for (const resource of resources) {
      const [window] = store.windows(resource);
      if (window === undefined) store.resetWindows(resource, [everything]);
      else store.beginWalk(run, window);
    }
    return store;
  }

  test('ends with 5 after a run that was killed, with 0 while it runs', async () => {
    const { folder, file, sandbox } = await mirroredFolder();
    const check = () => invoke(['status', '--check'], { folder, environment: fresh });
    const store = beginSync(file, 'first', ['users']);
    expect(await check()).toMatchObject({ code: 0 });
    store.releaseLock('sync', 'first');
    store.close();
    const { code, stdout } = await check();
    expect(code).toBe(5);
    expect(stdout).toMatch(
      /^the last sync, of [^,]+, was killed or could not write its end\n {2}so a sync ended before it had read everything: 1 part of users is not up to date\n {2}Next: `npx admin-mirror sync`/,
    );
    const again = beginSync(file, 'second', ['coupons']);
    // Another run has begun. Until it ends, the one before it counts.
    expect(await check()).toMatchObject({
      code: 5,
      stdout: expect.stringMatching(/^the last sync, of [^,]+, was killed/),
    });
    again.close();
    await sync(sandbox, file, { resources: ['coupons'] });
    expect(await check()).toMatchObject({
      code: 5,
      stdout: expect.stringMatching(/^a sync ended before it had read everything: 1 part of users is/),
    });
    await sync(sandbox, file);
    expect(await check()).toMatchObject({ code: 0 });
  });

  test('ends with 5 if no run has read the mirror whole, whether one is running or not', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'data'));
    const store = beginSync(join(folder, 'data/mirror.db'), 'first');
    const check = () => invoke(['status', '--check'], { folder, environment: fresh });
    const running = await check();
    expect(running).toMatchObject({
      code: 5,
      stdout: 'never read whole: users, packages, emails, coupons\n  Next: wait for the sync that is running\n',
    });
    store.releaseLock('sync', 'first');
    store.close();
    const { code, stdout } = await check();
    expect(code).toBe(5);
    expect(stdout).toMatch(
      /^the last sync, of [^,]+, was killed or could not write its end\n {2}so never read whole: users, packages, emails, coupons\n/,
    );
  });

  test('ends with 5 after a job that failed or was killed, whether a worker runs or not, and with 0 once it is complete', async () => {
    const { folder, file } = await mirroredFolder();
    const config = 'jobs: [{ name: tables, run: export, cron: "15 2 * * *", all: true, output: "exports/{date}" }]';
    writeFileSync(join(folder, 'settings.yaml'), config, { mode: 0o600 });
    const check = () => invoke(['status', '--check', '--config', 'settings.yaml'], { folder, environment: fresh });
    const run = { job: 'tables', cause: 'by_hand', occurrence: null, attempt: 1, command: 'export' } as const;
    const store = openWorkerStore(workerFileOf(file));
    await store.adoptJobs([{ name: 'tables', cron: '15 2 * * *', timezone: 'UTC' }]);
    await store.beginRun({ ...run, run: 'r1' });
    expect(await check()).toMatchObject({ code: 0 });
    await store.endRun('r1', { outcome: 'failed', exitCode: 4, problem: null, report: null });
    const { code, stdout } = await check();
    expect(code).toBe(5);
    expect(stdout).toMatch(/^tables ended with exit code 4: the server could not be reached, since \S+\n {2}Next: /);
    await store.beginRun({ ...run, run: 'r2' });
    await store.endRun('r2', { outcome: 'complete', exitCode: 0, problem: null, report: null });
    expect(await check()).toMatchObject({ code: 0 });
    await store.beginRun({ ...run, run: 'r3' });
    await store.close();
    expect(await check()).toMatchObject({
      code: 5,
      stdout: expect.stringMatching(/^tables ended because the worker died, since \S+\n/),
    });
    const shown = await invoke(['status', '--config', 'settings.yaml'], { folder, environment: fresh });
    expect(shown.stdout).toMatch(/\n {2}tables {2}killed\n/);
  });

  test('tells an outage once, with what follows from it, until its cause is over', async () => {
    const { folder, sandbox, file } = await mirroredFolder({ users: 300 }, { pageSize: 20, windowPages: 3 });
    const config = 'jobs: [{ name: nightly, run: sync, cron: "15 2 * * *" }]';
    writeFileSync(join(folder, 'settings.yaml'), config, { mode: 0o600 });
    const store = openWorkerStore(workerFileOf(file));
    await store.adoptJobs([{ name: 'nightly', cron: '15 2 * * *', timezone: 'UTC' }]);
    await store.close();
    const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
    const constants = { api: { attempts: 2, pageSize: 20 }, sync: { windowPages: 3 } };
    const run = (words: readonly string[], more = {}) =>
      runCli([...words, '--config', 'settings.yaml'], { folder, environment: { ...environment, ...more }, constants });
    const check = async () => {
      const { stdout } = await run(['status', '--check', '--json'], fresh);
      return (
        JSON.parse(stdout) as { problems: readonly { code: string; effects?: readonly { code: string }[] }[] }
      ).problems.map(({ code, effects = [] }) => [code, ...effects.map((each) => each.code)]);
    };
    const pages = { path: /users\?paginate=\d+&page=\d+&.*date=2024/ };
    sandbox.control.faultNext({ fault: 'error_502', times: 10_000, match: pages });
    await run(['sync', '--full', '--quiet']);
    expect(await check()).toEqual([['server_failed']]);
    sandbox.control.setBehaviour({ read_error_500: 1 });
    await run(['schedule', '--once', 'nightly']);
    expect(await check()).toEqual([['server_unreachable', 'server_failed', 'not_read', 'last_run']]);
    sandbox.control.clearFaults();
    sandbox.control.setBehaviour({ read_error_500: 0 });
    expect((await sync(sandbox, file, { pageSize: 20, windowPages: 3, clock: systemClock })).report.status).toBe(
      'complete',
    );
    expect(await check()).toEqual([]);
  });

  test('a list that failed in no window of its own stays a problem after a sync of another one', async () => {
    const { folder, file } = await mirroredFolder();
    const store = openMirrorStore(file, systemClock);
    const end = { requests: 1, live: 0, server_total: null, fresh_as_of: null };
    const run = (name: string, resources: Partial<Record<ResourceName, 'complete' | 'failed'>>) => {
      const found = Object.entries(resources) as [ResourceName, 'complete' | 'failed'][];
      const names = found.map(([resource]) => resource);
      store.beginRun(name, 'sync', names, operator);
      for (const [resource, status] of found) {
        store.finishResource(name, resource, {
          ...end,
          status,
          problem: status === 'failed' ? 'GET emails: 500' : null,
        });
      }
      const status = found.some(([, each]) => each === 'failed') ? 'partial' : 'complete';
      store.finishRun(name, { status, requests: 1, retries: 0, answers: {}, problem: null });
    };
    const check = async () => (await invoke(['status', '--check'], { folder, environment: fresh })).stdout;
    run('first', { users: 'complete', emails: 'failed' });
    expect(await check()).toMatch(/the last sync, of .*, was partial\n {2}GET emails: 500\n/);
    run('second', { users: 'complete' });
    expect(await check()).toMatch(/was partial\n {2}GET emails: 500\n/);
    run('third', { emails: 'complete' });
    expect(await check()).toMatch(/^nothing is wrong/);
    store.close();
  });

  // proves: status-check
  test('ends with 5 if windows are unsettled, once per reason', async () => {
    const sandbox = await startSandbox();
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'data'));
    const file = join(folder, 'data/mirror.db');
    await sync(sandbox, file, { pageSize: 100 });
    for (let id = 1; id <= 55; id += 1) sandbox.control.remove('users', id);
    await sync(sandbox, file);
    const { code, stdout } = await invoke(['status', '--check'], { folder, environment: fresh });
    expect(code).toBe(5);
    expect(stdout).toMatch(
      /^many records disappeared from the server at once, and were kept here: 1 part of users is not up to date\n {2}55 of 60 records .*\n {2}Next: look at the server.*\n$/,
    );
  });

  test.each([
    [['sending', 'unknown'], '1 unknown'],
    [['sending', 'unknown', 'needs_human'], '1 in need of a person'],
  ] as const)(
    'ends with 8 if the outcome of a bulk row is unknown, whatever else is wrong: %j',
    async (states, words) => {
      const { folder } = await mirrored();
      const { journal } = await newJournal(undefined, join(folder, 'data/journal.db'));
      await journal.addBatch(newBatch({ batch: 'b-1' }), [newIntent(2, 1)]);
      await journal.claim('b-1', { repeatsSince: timestampOf(0), daySince: timestampOf(0) }, () => []);
      for (const [at, to] of states.entries()) {
        await journal.move({ batch: 'b-1', row: 2, from: states[at - 1] ?? 'planned', to });
      }
      await journal.close();
      const { code, stdout } = await invoke(['status', '--check'], { folder });
      expect(code).toBe(8);
      expect(stdout).toMatch(
        new RegExp(`^batch b-1 has rows whose outcome is not known: ${words}\n.*\`npx admin-mirror bulk resume b-1\``),
      );
    },
  );

  test('ends with 2 if the journal that money was sent by is lost, older than the mirror or damaged, and doctor says what to do', async () => {
    const { folder, file } = await mirroredFolder();
    const check = () => invoke(['status', '--check'], { folder, environment: fresh });
    const { journal } = await newJournal(undefined, join(folder, 'data/journal.db'));
    await journal.addBatch(newBatch({ batch: 'b-1' }), [newIntent(2, 1)]);
    const memory = new MirrorsJournalMemory(file);
    await rememberJournal({ journal, memory, clock: systemClock }, 'b-1');
    memory.close();
    await journal.close();
    expect(await check()).toMatchObject({ code: 0 });
    const newest = new MirrorsJournalMemory(file);
    const known = newest.recall();
    newest.remember({ ...known, journal: journal.id, step: 999, hash: 'x', batch: 'b-2', at: timestampOf(0) }, known);
    expect(await check()).toMatchObject({
      code: 2,
      stdout: expect.stringMatching(/^this journal is older than the mirror: it lacks step 999/) as string,
    });
    if (known !== null) newest.remember(known, newest.recall());
    newest.close();
    rmSync(join(folder, 'data/journal.db'));
    expect(await check()).toMatchObject({
      code: 2,
      stdout: expect.stringMatching(
        /^there is no journal at .*, by which batch b-1 was sent on .*\n {2}Next: `npx admin-mirror doctor`/,
      ),
    });
    // A snapshot comes without it.
    await invoke(['snapshot', 'copy.db'], { folder });
    expect(await invoke(['status', '--check', '--db', 'copy.db'], { folder, environment: fresh })).toMatchObject({
      code: 0,
    });
    const { stdout } = await invoke(['doctor'], { folder });
    expect(stdout).toMatch(/journal +there is no journal at [^]*reconcile --adopt/);
    writeFileSync(join(folder, 'data/journal.db'), '');
    expect(await check()).toMatchObject({ code: 2, stdout: expect.stringMatching(/^there is no journal at /) });
    writeFileSync(join(folder, 'data/journal.db'), 'no database at all');
    expect(await check()).toMatchObject({ code: 2, stdout: expect.stringMatching(/not an SQLite database/) });
  });

  test('ends with 2 if there is no mirror', async () => {
    expect(await invoke(['status', '--check'])).toMatchObject({ code: 2, stdout: '' });
  });
});
