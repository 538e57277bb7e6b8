// @module-tag full
/** `store copy` moves everything or nothing from the files to PostgreSQL. Never are both in use. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import type { KyselyPlugin } from 'kysely';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openJournal } from '../support/journal-file.ts';
import { moveStore, type MoveTarget } from '../../src/journal/move-store.ts';
import { openMove } from '../../src/journal/open-move.ts';
import { openJournal as openShared } from '../../src/journal/open.ts';
import { Releases } from '../../src/model/releases.ts';
import { systemClock } from '../../src/model/time.ts';
import { readSettings, settingsFrom } from '../../src/settings/settings.ts';
import { openWorkerStore, workerToMove } from '../../src/worker/store/sqlite.ts';
import { bulkWorld, creditFile, made } from '../support/bulk-cli.ts';
import { anna, newBatch, newIntent } from '../support/journal.ts';
import { newAccount, newPeople } from '../support/people.ts';
import { temporaryDatabase } from '../support/postgres.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const actor = { ...anna, host: 'desk' };

/** A folder with a journal of rows in many states, accounts and job runs, and settings that name an empty database. */
async function usedFolder() {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'data'));
  const database = await temporaryDatabase();
  const environment = {
    ADMIN_MIRROR_STORE_SHARED: database.url,
    ADMIN_MIRROR_STORE_SHARED_PASSWORD: database.password,
  };
  const settings = settingsFrom(readSettings({ flags: [], environment, folder }));
  const file = join(folder, 'data/journal.db');
  const journal = await openJournal(file, actor);
  await journal.addBatch(newBatch({ rows: 1_203 }), [
    ...Array.from({ length: 1_200 }, (_, at) => newIntent(at + 2, at + 100)),
    newIntent(2_000, 7, { cells: ['ü', '"', '\\'], problem: 'looks odd', notes: ['odd'] }),
    newIntent(2_001, 8),
    newIntent(2_002, 9, { state: 'invalid', token: null, fingerprint: null }),
  ]);
  const always = { repeatsSince: '2026-01-01T00:00:00.000000Z', daySince: '2026-01-01T00:00:00.000000Z' } as never;
  await journal.claim('one', always, () => [{ kind: 'consented', note: 'by typing 5.00' }]);
  await journal.move({
    batch: 'one',
    row: 2_000,
    from: 'planned',
    to: 'sending',
    fields: { body: '{}', before: '1.00' },
  });
  await journal.move({
    batch: 'one',
    row: 2_000,
    from: 'sending',
    to: 'applied',
    fields: { recordId: '9' },
    note: 'it is',
  });
  await journal.move({ batch: 'one', row: 2_001, from: 'planned', to: 'sending' });
  const write = await journal.beginWrite({ operation: 'users.update', user: 7, body: '{}', fingerprint: null });
  await journal.endWrite(write, { state: 'done', httpStatus: 200, answer: '{}', problem: null });
  const { people } = await newPeople(systemClock, file);
  await people.add(newAccount('bert', { password: 'hash' }));
  const worker = openWorkerStore(join(folder, 'data/mirror.worker.db'));
  await worker.adoptJobs([{ name: 'sync', cron: '0 3 * * *', timezone: 'UTC' }]);
  await worker.beginRun({ run: 'r1', job: 'sync', cause: 'by_hand', occurrence: null, attempt: 1, command: 'c' });
  await worker.endRun('r1', { outcome: 'complete', exitCode: 0, problem: null, report: { requests: 7 } });
  await worker.close();
  const head = await journal.head();
  await journal.close();
  await people.close();
  const sides = async () => {
    const releases = new Releases();
    onTestFinished(() => releases.close());
    const worker = workerToMove(join(folder, 'data/mirror.worker.db'), systemClock);
    return openMove(settings, worker, systemClock, releases);
  };
  return {
    folder,
    file,
    database,
    head,
    sides,
    /** The value in the file where the id of the journal belongs. */
    identity: (): string => {
      const opened = new SqliteDatabase(file);
      const id = opened.prepare<[], string>('SELECT id FROM journal_identity').pluck().get() ?? '';
      opened.close();
      return id;
    },
    setIdentity: (id: string): void => {
      const opened = new SqliteDatabase(file);
      opened.prepare('UPDATE journal_identity SET id = ?').run(id);
      opened.close();
    },
    inUse: async () => {
      const opened = await openJournal(file, actor);
      await opened.setBatchState('one', 'stopped');
      await opened.close();
    },
    /** The journal as another machine opens it. */
    shared: async () => {
      const releases = new Releases();
      onTestFinished(() => releases.close());
      return openShared(
        { ...settings, store: { ...settings.store, journal: join(folder, 'none.db') } },
        actor,
        systemClock,
        releases,
      );
    },
    sharedId: async () =>
      String((await database.query('select id from admin_mirror_store.journal_identity')).rows[0]?.['id']),
  };
}

/** The target with a database that fails at the statement that matches the pattern. */
function failingAt(target: MoveTarget, pattern: RegExp): MoveTarget {
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => {
      if (pattern.test(JSON.stringify(node))) throw new Error('killed');
      return node;
    },
    transformResult: async ({ result }) => result,
  };
  return { ...target, db: target.db.withPlugin(plugin) };
}

describe('store copy', () => {
  // proves: moved-journal
  test('moves every row to the database, with the chain, and leaves only that in use', async () => {
    const used = await usedFolder();
    const { source, target } = await used.sides();
    const id = used.identity();
    const there = await moveStore(source, target, actor, systemClock);
    expect(there).toMatchObject({
      journal: id,
      head: { step: (used.head?.step ?? 0) + 1 },
      rows: { journal_intents: 1_203, journal_writes: 1, people_accounts: 1, worker_jobs: 1, worker_runs: 1 },
    });
    expect(await used.sharedId()).toBe(id);
    await expect(openJournal(used.file, actor)).rejects.toThrow(/was moved to postgresql:.*and is closed here/);
    await expect(moveStore(source, target, actor, systemClock)).rejects.toThrow(/was already moved to/);
    // Sequences of the database continue.
    const journal = await used.shared();
    expect(await journal.beginWrite({ operation: 'users.update', user: 7, body: '{}', fingerprint: null })).toBe(2);
    expect(await journal.verifyChain()).toMatchObject({ status: 'whole', problems: [] });
  });

  test.each([
    ['as it begins', /journal_batches.*InsertQueryNode|InsertQueryNode.*journal_batches/],
    ['among the rows', /InsertQueryNode.*journal_steps|journal_steps.*InsertQueryNode/],
    ['at its end', /update journal_identity/],
  ])('that fails %s leaves the source in use and the target empty', async (_, pattern) => {
    const used = await usedFolder();
    const { source, target } = await used.sides();
    const id = used.identity();
    await expect(moveStore(source, failingAt(target, pattern), actor, systemClock)).rejects.toThrow('killed');
    expect(used.identity()).toBe(id);
    await used.inUse();
    expect((await used.database.query('select count(*)::int as n from admin_mirror_store.journal_steps')).rows).toEqual(
      [{ n: 0 }],
    );
    expect(await moveStore(source, target, actor, systemClock)).toMatchObject({ journal: id });
  });

  test('continues after a kill, and nobody can use the source in between', async () => {
    const used = await usedFolder();
    const { source, target } = await used.sides();
    const id = used.identity();
    const marked = JSON.stringify({ moved: 'moving', id, to: target.name });
    // Killed before the database had everything.
    used.setIdentity(marked);
    await expect(used.inUse()).rejects.toThrow(/is being moved to postgresql:/);
    expect((await moveStore(source, target, actor, systemClock)).journal).toBe(id);
    // Killed once the database had everything.
    used.setIdentity(marked);
    expect((await moveStore(source, target, actor, systemClock)).journal).toBe(id);
    expect(JSON.parse(used.identity())).toEqual({ moved: 'moved', id, to: target.name });
  });

  test('completes after a kill, even if other machines already used the database', async () => {
    const used = await usedFolder();
    const { source, target } = await used.sides();
    const marked = JSON.stringify({ moved: 'moving', id: used.identity(), to: target.name });
    await moveStore(source, target, actor, systemClock);
    used.setIdentity(marked);
    const elsewhere = await used.shared();
    await elsewhere.setBatchState('one', 'stopped');
    const head = await elsewhere.head();
    expect(await moveStore(source, target, actor, systemClock)).toMatchObject({ head });
    expect(JSON.parse(used.identity())).toMatchObject({ moved: 'moved' });
  });

  test('twice at once copies once, and one journal is in use', async () => {
    const used = await usedFolder();
    const id = used.identity();
    const [one, other] = [await used.sides(), await used.sides()];
    const ends = await Promise.allSettled(
      [one, other].map(({ source, target }) => moveStore(source, target, actor, systemClock)),
    );
    expect(ends.filter(({ status }) => status === 'fulfilled')).not.toEqual([]);
    expect([await used.sharedId(), JSON.parse(used.identity())]).toEqual([
      id,
      { moved: 'moved', id, to: one.target.name },
    ]);
    const { rows } = await used.database.query("select 1 from admin_mirror_store.journal_steps where kind = 'moved'");
    expect(rows).toHaveLength(1);
    expect(await (await used.shared()).verifyChain()).toMatchObject({ status: 'whole' });
  });

  test('refuses a target that is not empty, and a source that is in use or was altered', async () => {
    const used = await usedFolder();
    const { source, target } = await used.sides();
    const holder = await openJournal(used.file, actor);
    await holder.acquireLock('one');
    await expect(moveStore(source, target, actor, systemClock)).rejects.toMatchObject({ exitCode: 7 });
    await holder.releaseLock('one');
    await holder.close();
    await used.database.query("insert into admin_mirror_store.worker_jobs values ('x', '', '', '')");
    await expect(moveStore(source, target, actor, systemClock)).rejects.toThrow(
      /is not empty: it has rows in worker_jobs/,
    );
    await used.database.query('delete from admin_mirror_store.worker_jobs');
    const opened = new SqliteDatabase(used.file);
    opened.exec("UPDATE journal_intents SET parameters = '{}' WHERE row = 5");
    opened.close();
    await expect(moveStore(source, target, actor, systemClock)).rejects.toThrow(/was changed by other means.*row 5/);
    await used.inUse();
  });

  test('as a command carries over what was paid, and the files are refused afterwards', async () => {
    const world = await bulkWorld();
    const database = await temporaryDatabase();
    const { name } = creditFile(world, 2);
    expect((await world.bulk(['run', 'balance', name, '--yes'])).code).toBe(0);
    const environment = {
      ...world.environment,
      ADMIN_MIRROR_STORE_SHARED: database.url,
      ADMIN_MIRROR_STORE_SHARED_PASSWORD: database.password,
    };
    expect((await world.command(['store', 'copy'])).stderr).toContain('store.shared is not set');
    const copied = await world.command(['store', 'copy'], { environment });
    expect([copied.code, copied.stdout]).toEqual([0, expect.stringMatching(/rows in \d+ tables\nchain whole/)]);
    const again = await world.bulk(['run', 'balance', name, '--yes'], { environment });
    expect([again.code, again.stderr, made(world.sandbox)]).toEqual([2, expect.stringMatching(/before/), 2]);
    expect((await world.command(['audit', '--verify'], { environment })).code).toBe(0);
    const left = await world.bulk(['status']);
    expect([left.code, left.stderr]).toEqual([2, expect.stringMatching(/was moved to postgresql:/)]);
    writeFileSync(join(world.folder, 'jobs.yaml'), 'jobs:\n  - name: sync\n    run: sync\n    cron: "0 3 * * *"\n');
    const config = { ...world.environment, ADMIN_MIRROR_CONFIG: join(world.folder, 'jobs.yaml') };
    const worker = await world.command(['schedule', '--once', 'sync'], { environment: config });
    expect([worker.code, worker.stderr]).toEqual([2, expect.stringMatching(/was moved to a shared store/)]);
  });
});
