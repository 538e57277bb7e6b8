import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { journalKind } from '../../src/journal/schema.ts';
import { openJournal, openJournalForReading } from '../support/journal-file.ts';
import { newestVersion } from '../../src/store/file-kind.ts';
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

describe('a journal in an SQLite file', () => {
  journalContract(() => openedAt(`${temporaryFolder()}/journal.db`));
});

describe('a journal that is looked at', () => {
  test('is read as it is at one moment, whatever others do meanwhile', async () => {
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
    // A deliberate change of the schema is a migration: UPDATE_DOCS=1 writes the file anew.
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
    expect(database.prepare('SELECT version FROM journal_migrations').pluck().all()).toEqual([10]);
    expect(database.pragma('journal_mode', { simple: true })).toBe('wal');
    database.close();
  });

  test('brings each step to the disk before it goes on', async () => {
    const pragma = vi.spyOn(SqliteDatabase.prototype, 'pragma');
    onTestFinished(() => pragma.mockRestore());
    await newJournal();
    expect(pragma.mock.calls.map(([words]) => words)).toEqual(expect.arrayContaining(['synchronous = FULL']));
    expect(pragma.mock.calls.map(([words]) => words)).not.toContain('synchronous = NORMAL');
  });

  test('is refused and left as it is where a newer version, or the mirror, made the file', async () => {
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

  test('is not made by looking for one', async () => {
    const file = `${temporaryFolder()}/journal.db`;
    await expect(openJournalForReading(file)).rejects.toThrow(/there is no journal/);
    expect(() => statSync(file)).toThrow(/ENOENT/);
  });
});

test('a file that was put in the place of the journal takes no step, and neither does one that is gone', async () => {
  const { journal, file } = await newJournal();
  await journal.addBatch(newBatch(), [newIntent(2, 7)]);
  renameSync(file, `${file}.away`);
  await expect(journal.setBatchState('one', 'stopped')).rejects.toThrow(/was removed, emptied or replaced/);
  await (await openJournal(file, anna)).close();
  await expect(journal.setBatchState('one', 'stopped')).rejects.toThrow(/was removed, emptied or replaced/);
  renameSync(`${file}.away`, file);
});

test('a step waits for the transaction of another process, and keeps nothing else waiting', async () => {
  const { journal, file } = await newJournal();
  await journal.addBatch(newBatch(), []);
  const other = new SqliteDatabase(file);
  onTestFinished(() => void other.close());
  other.exec('BEGIN IMMEDIATE');
  let ended = false;
  const step = journal.setBatchState('one', 'stopped').finally(() => {
    ended = true;
  });
  // Were the thread held, nothing could end what it waits for.
  await new Promise((resolve) => setImmediate(resolve));
  expect(ended).toBe(false);
  other.exec('COMMIT');
  await step;
  expect((await journal.batch('one'))?.state).toBe('stopped');
});
