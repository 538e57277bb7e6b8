import { readFileSync, renameSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { type Acting, SharedSteps } from '../../src/journal/database.ts';
import { journalKind } from '../../src/journal/schema.ts';
import { openJournal, openJournalForReading } from '../support/journal-file.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { textsIn } from '../support/forget.ts';
import { anna, commitsIn, newBatch, newIntent, newJournal } from '../support/journal.ts';
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

test.each([
  ['DROP INDEX journal_open_subject', 'removed or altered the unique index journal_open_subject'],
  ['DROP TRIGGER journal_send_needs_claim', 'removed or altered the trigger journal_send_needs_claim'],
  [
    'CREATE TRIGGER t BEFORE UPDATE ON journal_steps BEGIN SELECT RAISE(IGNORE); END',
    'made the trigger t on the table journal_steps',
  ],
])('a journal without what guards its rows is refused: %s', async (statement, words) => {
  const { tamper, again } = await openedAt(`${temporaryFolder()}/journal.db`);
  await tamper(statement);
  await expect(again()).rejects.toThrow(`is damaged: another program has ${words}`);
});

test('steps of rows that are due together wait for the disk once', async () => {
  const { journal, file } = await newJournal();
  const rows = [2, 3, 4, 5, 6, 7, 8, 9];
  await journal.addBatch(
    newBatch(),
    rows.map((row) => newIntent(row, row)),
  );
  const before = commitsIn(file);
  await Promise.all(rows.map((row) => journal.move({ batch: 'one', row, from: 'planned', to: 'skipped' })));
  expect(commitsIn(file) - before).toBe(1);
  expect((await journal.counts('one'))['skipped']).toBe(rows.length);
});

test('a step that may wait goes to the disk with the next one, or when that is asked for, or is lost', async () => {
  const { journal, file } = await newJournal();
  await journal.addBatch(newBatch(), [newIntent(2, 2), newIntent(3, 3), newIntent(4, 4), newIntent(5, 5)]);
  const reading = await openJournalForReading(file);
  onTestFinished(() => reading.close());
  const skip = (row: number) => ({ batch: 'one', row, from: 'planned', to: 'skipped' }) as const;
  const skipped = async () => (await reading.counts('one'))['skipped'] ?? 0;
  const before = commitsIn(file);
  journal.moveLater(skip(2));
  expect(await skipped()).toBe(0);
  await journal.move(skip(3));
  expect([await skipped(), commitsIn(file) - before]).toEqual([2, 1]);
  journal.moveLater(skip(4));
  await journal.flush();
  expect(await skipped()).toBe(3);
  // A step that cannot be taken keeps no other from it, and is told.
  journal.moveLater(skip(4));
  await journal.move(skip(5));
  expect(await skipped()).toBe(4);
  await expect(journal.flush()).rejects.toThrow(/is not planned/);
});

test('a step that may wait begins no transaction, even if one ends meanwhile', async () => {
  const taken: string[][] = [];
  const steps = new SharedSteps(async (work) => {
    taken.push([]);
    await work({} as Acting);
  });
  const note = (name: string) => () => Promise.resolve(void taken.at(-1)?.push(name));
  await steps.take(() => Promise.resolve(steps.takeLater(note('waited'))));
  await new Promise((resolve) => setImmediate(resolve));
  expect(taken).toEqual([[]]);
  await steps.take(note('next'));
  expect(taken).toEqual([[], ['waited', 'next']]);
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
    });
    expect(await Array.fromAsync<unknown>(seen)).toEqual([head, head, 'planned', head]);
    expect((await reading.head())?.step).toBe((head?.step ?? 0) + 1);
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
    // UPDATE_DOCS=1 writes the file again.
    if (process.env['UPDATE_DOCS'] === '1') writeFileSync(golden, schema);
    expect(schema).toBe(readFileSync(golden, 'utf8'));
  });

  test('writes each step to the disk before it continues', async () => {
    const pragma = vi.spyOn(SqliteDatabase.prototype, 'pragma');
    onTestFinished(() => pragma.mockRestore());
    await newJournal();
    expect(pragma.mock.calls.map(([words]) => words)).toEqual(expect.arrayContaining(['synchronous = FULL']));
    expect(pragma.mock.calls.map(([words]) => words)).not.toContain('synchronous = NORMAL');
  });

  test('is refused and left unchanged if another version, or the mirror, made the file', async () => {
    const file = `${temporaryFolder()}/journal.db`;
    openMirrorFile(file).close();
    const before = readFileSync(file);
    await expect(openJournal(file, anna)).rejects.toThrow(/not a journal made by this program/);
    expect(readFileSync(file)).toEqual(before);
    const { file: newer, journal } = await newJournal();
    await journal.close();
    const database = new SqliteDatabase(newer);
    database.pragma(`user_version = ${journalKind.version + 1}`);
    database.close();
    await expect(openJournal(newer, anna)).rejects.toThrow(
      new RegExp(`version ${journalKind.version + 1}.*left it as it is`),
    );
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
