import { readFileSync, renameSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { openBackend } from '../../src/journal/open.ts';
import { openJournalOver } from '../../src/journal/journal.ts';
import { journalKind } from '../../src/journal/schema.ts';
import { openJournal, openJournalForReading } from '../support/journal-file.ts';
import { systemClock, timestampOf } from '../../src/model/time.ts';
import { newestVersion } from '../../src/store/file-kind.ts';
import type { StoreLocks } from '../../src/store/lock.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { textsIn } from '../support/forget.ts';
import { anna, newBatch, newIntent, newJournal } from '../support/journal.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { journalContract, type Opened } from './contract.ts';

async function openedAt(file: string): Promise<Opened> {
  const { journal } = await newJournal(undefined, file);
  return {
    journal,
    again: async () => (await newJournal(undefined, file)).journal,
    tamper: async (statement) => {
      const database = new SqliteDatabase(file);
      database.pragma('foreign_keys = OFF');
      database.exec(statement);
      database.close();
    },
    bytesOf: async (texts) => textsIn(file, texts),
  };
}

/** A file as the first version of this program made it. */
function fileOfFirstVersion(): string {
  const file = `${temporaryFolder()}/journal.db`;
  const database = new SqliteDatabase(file);
  database.exec(readFileSync(new URL('journal-version-1.sql', import.meta.url), 'utf8'));
  database.exec("INSERT INTO journal_migrations (version, applied_at) VALUES (1, '2026-03-11T10:20:00.000000Z')");
  database.pragma(`application_id = ${journalKind.applicationId}`);
  database.pragma('user_version = 1');
  database.close();
  return file;
}

describe('a journal in an SQLite file', () => {
  journalContract(() => openedAt(`${temporaryFolder()}/journal.db`));
});

/** Every table with its columns, every index and every trigger. */
function shapeOf(file: string): unknown {
  const database = new SqliteDatabase(file, { readonly: true });
  const objects = database.prepare('SELECT type, name, tbl_name FROM sqlite_schema ORDER BY type, name').all();
  const columns = database.prepare(
    `SELECT s.name AS "table", c.* FROM sqlite_schema s, pragma_table_xinfo(s.name) c WHERE s.type = 'table' ORDER BY s.name, c.cid`,
  );
  const shape = { objects, columns: columns.all() };
  database.close();
  return shape;
}

describe('a journal of the first version', () => {
  test('has the tables of a new one once it is opened, and records each migration', async () => {
    const [older, newer] = [fileOfFirstVersion(), `${temporaryFolder()}/journal.db`];
    for (const file of [older, newer]) await (await openJournal(file, anna)).close();
    expect(shapeOf(older)).toEqual(shapeOf(newer));
    const database = new SqliteDatabase(older, { readonly: true });
    const versions = database.prepare('SELECT version FROM journal_migrations').pluck().all();
    database.close();
    expect(versions).toEqual(Array.from({ length: newestVersion(journalKind) }, (_, at) => at + 1));
  });

  journalContract(() => openedAt(fileOfFirstVersion()));
});

describe('a journal that is open for reading', () => {
  test('is read as it was at one moment, whatever others do meanwhile', async () => {
    const { journal, file } = await newJournal();
    await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 8)]);
    const reading = await openJournalForReading(file);
    onTestFinished(() => reading.close());
    const head = await reading.head();
    const seen = reading.atOneMoment(async function* (frozen) {
      yield await frozen.head();
      await journal.move({ batch: 'one', row: 3, from: 'planned', to: 'blocked' });
      yield await frozen.head();
      yield (await frozen.intent('one', 3))?.state;
      yield (await frozen.verifyChain()).head;
      yield [...(await frozen.rowsAfter('one', 0))];
    });
    expect(await Array.fromAsync<unknown>(seen)).toEqual([head, head, 'planned', head, []]);
    expect((await reading.head())?.step).toBe((head?.step ?? 0) + 1);
    expect(await reading.rowsAfter('one', head?.step ?? 0)).toEqual(new Set([3]));
  });
});

const golden = new URL('golden-journal.sql', import.meta.url);

describe('a new journal', () => {
  test('has the golden schema', async () => {
    const { file } = await newJournal();
    const database = new SqliteDatabase(file, { readonly: true });
    const statements = database
      .prepare<[], string>('SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid')
      .pluck()
      .all();
    database.close();
    const schema = `${statements.join(';\n\n')};\n`;
    // A deliberate change of the schema is a migration: UPDATE_DOCS=1 writes the file again.
    if (process.env['UPDATE_DOCS'] === '1') writeFileSync(golden, schema);
    expect(schema).toBe(readFileSync(golden, 'utf8'));
  });

  test('is private and records its migrations', async () => {
    const { journal, file } = await newJournal();
    await journal.addBatch(newBatch(), []);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(`${file}-wal`).mode & 0o777).toBe(0o600);
    const database = new SqliteDatabase(file, { readonly: true });
    expect(database.pragma('user_version', { simple: true })).toBe(newestVersion(journalKind));
    expect(database.prepare('SELECT version FROM journal_migrations').pluck().all()).toEqual([10, 11, 12]);
    expect(database.pragma('journal_mode', { simple: true })).toBe('wal');
    database.close();
  });

  test('writes each step to the disk before it continues', async () => {
    const pragma = vi.spyOn(SqliteDatabase.prototype, 'pragma');
    onTestFinished(() => pragma.mockRestore());
    await newJournal();
    expect(pragma.mock.calls.map(([words]) => words)).toEqual(expect.arrayContaining(['synchronous = FULL']));
    expect(pragma.mock.calls.map(([words]) => words)).not.toContain('synchronous = NORMAL');
  });

  test('is refused and left unchanged if a newer version, or the mirror, made the file', async () => {
    const file = `${temporaryFolder()}/journal.db`;
    openMirrorFile(file).close();
    const before = readFileSync(file);
    await expect(openJournal(file, anna)).rejects.toThrow(/not a journal made by this program/);
    expect(readFileSync(file)).toEqual(before);
    const { file: newer, journal } = await newJournal();
    await journal.close();
    const database = new SqliteDatabase(newer);
    database.pragma(`user_version = ${newestVersion(journalKind) + 1}`);
    database.close();
    await expect(openJournal(newer, anna)).rejects.toThrow(
      new RegExp(`version ${newestVersion(journalKind) + 1}.*left it as it is`),
    );
  });

  test('is not created by opening for reading', async () => {
    const file = `${temporaryFolder()}/journal.db`;
    await expect(openJournalForReading(file)).rejects.toThrow(/there is no journal/);
    expect(() => statSync(file)).toThrow(/ENOENT/);
  });
});

test('a journal whose file was removed or replaced records no step', async () => {
  const { journal, file } = await newJournal();
  await journal.addBatch(newBatch(), [newIntent(2, 7)]);
  renameSync(file, `${file}.away`);
  await expect(journal.setBatchState('one', 'stopped')).rejects.toThrow(/was removed, cut or replaced/);
  await (await openJournal(file, anna)).close();
  await expect(journal.setBatchState('one', 'stopped')).rejects.toThrow(/was removed, cut or replaced/);
  renameSync(`${file}.away`, file);
});

test('the error names the removed file, not its lock, if the file goes away between the checks of a step', async () => {
  const file = `${temporaryFolder()}/journal.db`;
  const backend = openBackend(file, systemClock);
  let beforeGuard = () => {};
  const guard: StoreLocks['guard'] = (connection) => {
    beforeGuard();
    return backend.locks.guard(connection);
  };
  const journal = await openJournalOver({ ...backend, locks: { ...backend.locks, guard } }, anna);
  onTestFinished(() => journal.close());
  await journal.addBatch(newBatch(), [newIntent(2, 7)]);
  await journal.acquireLock('one');
  beforeGuard = () => renameSync(file, `${file}.away`);
  await expect(journal.setBatchState('one', 'stopped')).rejects.toThrow(/was removed, cut or replaced/);
  renameSync(`${file}.away`, file);
});

test('a file that loses its end takes no step, and one that VACUUM made smaller does', async () => {
  const { journal, file } = await newJournal();
  await journal.addBatch(
    newBatch({ rows: 2_000 }),
    Array.from({ length: 2_000 }, (_, at) => newIntent(at + 2, at)),
  );
  const other = new SqliteDatabase(file);
  other.pragma('wal_checkpoint(TRUNCATE)');
  await journal.setBatchState('one', 'stopped');
  const before = statSync(file).size;
  other.exec('PRAGMA foreign_keys = OFF; DELETE FROM journal_intents; VACUUM');
  other.pragma('wal_checkpoint(TRUNCATE)');
  other.close();
  expect(statSync(file).size).toBeLessThan(before / 2);
  await journal.setBatchState('one', 'done');
  truncateSync(file, Math.floor(statSync(file).size / 2));
  for (const state of ['stopped', 'done'] as const) {
    await expect(journal.setBatchState('one', state)).rejects.toThrow(/was removed, cut or replaced/);
  }
});

test('a step waits for the transaction of another process without blocking the thread', async () => {
  const { journal, file } = await newJournal();
  await journal.addBatch(newBatch(), []);
  const other = new SqliteDatabase(file);
  onTestFinished(() => void other.close());
  other.exec('BEGIN IMMEDIATE');
  let ended = false;
  const step = journal.setBatchState('one', 'stopped').finally(() => {
    ended = true;
  });
  // If the thread were blocked, this line would not be reached.
  await new Promise((resolve) => setImmediate(resolve));
  expect(ended).toBe(false);
  other.exec('COMMIT');
  await step;
  expect((await journal.batch('one'))?.state).toBe('stopped');
});

describe('a journal from before the chain', () => {
  /** A file as version 4 made it, with a stopped batch, a write by hand, and steps. */
  function olderFile(): string {
    const file = fileOfFirstVersion();
    const database = new SqliteDatabase(file);
    for (const migration of journalKind.upgrades?.slice(0, 3) ?? []) {
      if (typeof migration === 'function') migration(database);
      else for (const statement of migration) database.exec(statement);
    }
    const [first, second] = ['2026-03-11T10:00:00.000000Z', '2026-03-12T10:00:00.000000Z'];
    database.exec(`
      INSERT INTO journal_batches (batch, action, state, hash, rows_digest, rows, net, columns, problems, warnings, server,
        created_at, applied_at) VALUES ('old', 'balance', 'stopped', 'h', 'd', 4, '5.00', '[]', '[]', '[]', '{}', '${first}', '${first}');
      INSERT INTO journal_intents (batch, row, state, subject, user, cells, parameters, claimed_at, evidence) VALUES
        ('old', 2, 'applied', 'user:7', 7, '[]', '{"type":"add","amount":"5.00"}', '${first}', 'token'),
        ('old', 3, 'planned', 'user:8', 8, '["Zoe"]', NULL, '${second}', NULL),
        ('old', 4, 'invalid', NULL, NULL, '[]', NULL, NULL, NULL),
        ('old', 5, 'planned', 'user:9', 9, '[]', NULL, '${second}', NULL);
      INSERT INTO journal_steps (step, at, batch, row, kind, note) VALUES
        (1, '${first}', 'old', NULL, 'approved', 'by typing 5.00'), (2, '${first}', 'old', 2, 'sending', NULL),
        (5, '${first}', 'old', 2, 'applied', 'Zoe saw it');
      INSERT INTO journal_writes (at, operation, user, body, state) VALUES ('${first}', 'users.update', 7, '{}', 'sending');
      INSERT INTO journal_migrations (version, applied_at) SELECT value, '${first}' FROM json_each('[2, 3, 4]');
    `);
    database.pragma('user_version = 4');
    database.close();
    return file;
  }

  test('is chained when it is opened: its steps keep their numbers, and its records are sealed', async () => {
    const { journal, tamper } = await openedAt(olderFile());
    const steps = await Array.fromAsync(journal.audit({}));
    expect(steps.map(({ step, kind, actor }) => [step, kind, actor.name])).toEqual([
      [1, 'approved', 'unknown'],
      [2, 'sending', 'unknown'],
      [5, 'applied', 'unknown'],
      [6, 'migrated', 'admin-mirror'],
      [7, 'migrated', 'admin-mirror'],
    ]);
    expect(await journal.verifyChain()).toMatchObject({ status: 'whole', steps: 5, problems: [] });
    await journal.claim('old', { repeatsSince: timestampOf(0), daySince: timestampOf(0) }, () => []);
    await journal.move({ batch: 'old', row: 3, from: 'planned', to: 'sending' });
    await journal.endWrite(1, { state: 'done', httpStatus: 200, answer: '{}', problem: null });
    await journal.forget({ id: 8, addresses: [], texts: ['Zoe'] });
    expect(await journal.verifyChain()).toMatchObject({ status: 'whole', problems: [] });
    await tamper("UPDATE journal_intents SET evidence = 'person' WHERE row = 2");
    expect((await journal.verifyChain()).problems).toEqual(['row 2 of batch old was altered']);
  });

  test.each([
    ['UPDATE journal_intents SET claimed_at = NULL WHERE row = 5', /the consent to row 5/],
    ["UPDATE journal_intents SET claimed_at = '2026-01-01' WHERE row = 4", /the consent to row 4/],
    ["UPDATE journal_intents SET claimed_at = '2026-01-01' WHERE row = 2", /the consent to row 2/],
    ["UPDATE journal_steps SET note = 'x' WHERE step = 1", /step 1 was altered/],
    ['DELETE FROM journal_writes', /write 1 by hand was removed/],
  ])('shows that it was altered after that: %s', async (statement, problem) => {
    const { journal, tamper } = await openedAt(olderFile());
    await tamper(statement);
    expect((await journal.verifyChain()).problems.join()).toMatch(problem);
  });
});
