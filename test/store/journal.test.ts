import { readFileSync, statSync, writeFileSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { IntentState, Journal } from '../../src/journal/port.ts';
import { openJournal, openJournalForReading } from '../../src/journal/journal.ts';
import { timestampOf } from '../../src/model/time.ts';
import { journalVersion } from '../../src/journal/schema.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { textsIn } from '../support/forget.ts';
import { newBatch, newIntent, newJournal } from '../support/journal.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const golden = new URL('golden-journal.sql', import.meta.url);

function statesOf(journal: Journal, batch = 'one'): IntentState[] {
  return [...journal.intents(batch)].map(({ state }) => state);
}

/** Somebody consents to the batch, whatever the journal knows. */
function claim(journal: Journal, batch = 'one'): void {
  journal.claim(batch, always, () => []);
}

const always = { repeatsSince: timestampOf(0), daySince: timestampOf(0) };

function send(journal: Journal, row: number, batch = 'one'): boolean {
  if (journal.intent(batch, row)?.claimedAt === null) claim(journal, batch);
  return journal.move({ batch, row, from: 'planned', to: 'sending' });
}

describe('a new journal', () => {
  test('has the golden schema', () => {
    const { file } = newJournal();
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

  test('is private and records its migrations', () => {
    const { journal, file } = newJournal();
    journal.addBatch(newBatch(), []);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(`${file}-wal`).mode & 0o777).toBe(0o600);
    const database = new SqliteDatabase(file, { readonly: true });
    expect(database.pragma('user_version', { simple: true })).toBe(journalVersion);
    expect(database.prepare('SELECT version FROM journal_migrations').pluck().all()).toEqual([1, 2, 3]);
    expect(database.pragma('journal_mode', { simple: true })).toBe('wal');
    database.close();
  });

  test('brings each step to the disk before it goes on', () => {
    const pragma = vi.spyOn(SqliteDatabase.prototype, 'pragma');
    onTestFinished(() => pragma.mockRestore());
    newJournal();
    expect(pragma.mock.calls.map(([words]) => words)).toEqual(expect.arrayContaining(['synchronous = FULL']));
    expect(pragma.mock.calls.map(([words]) => words)).not.toContain('synchronous = NORMAL');
  });

  test('is refused and left as it is where a newer version, or the mirror, made the file', () => {
    const file = `${temporaryFolder()}/journal.db`;
    openMirrorFile(file).close();
    const before = readFileSync(file);
    expect(() => openJournal(file)).toThrow(/not a journal made by this program/);
    expect(readFileSync(file)).toEqual(before);
    const { file: newer, journal } = newJournal();
    journal.close();
    const database = new SqliteDatabase(newer);
    database.pragma(`user_version = ${journalVersion + 1}`);
    database.close();
    expect(() => openJournal(newer)).toThrow(new RegExp(`version ${journalVersion + 1}.*left it as it is`));
  });

  test('is not made by looking for one', () => {
    const file = `${temporaryFolder()}/journal.db`;
    expect(() => openJournalForReading(file)).toThrow(/there is no journal/);
    expect(() => statSync(file)).toThrow(/ENOENT/);
  });
});

describe('a row', () => {
  test('is open for its user once, whatever the batch', () => {
    const { journal } = newJournal();
    journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 7), newIntent(4, 8)]);
    journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 7)]);
    expect(send(journal, 2)).toBe(true);
    expect(journal.openRow('user:7')).toEqual({ batch: 'one', row: 2, state: 'sending' });
    expect(send(journal, 3)).toBe(false);
    expect(send(journal, 2, 'two')).toBe(false);
    expect(send(journal, 4)).toBe(true);
    expect(statesOf(journal)).toEqual(['sending', 'planned', 'sending']);
    journal.move({ batch: 'one', row: 2, from: 'sending', to: 'unknown' });
    expect(send(journal, 2, 'two')).toBe(false);
    journal.move({ batch: 'one', row: 2, from: 'unknown', to: 'applied' });
    expect(send(journal, 2, 'two')).toBe(true);
  });

  test('is sent only once somebody has consented to it, whatever the program thinks', () => {
    const { journal } = newJournal();
    journal.addBatch(newBatch(), [newIntent(2, 7)]);
    const sending = { batch: 'one', row: 2, from: 'planned', to: 'sending' } as const;
    expect(() => journal.move(sending)).toThrow(/not claimed/);
    expect(() =>
      journal.claim('one', always, () => {
        throw new Error('no');
      }),
    ).toThrow(/no/);
    expect(() => journal.move(sending)).toThrow(/not claimed/);
    claim(journal);
    expect(journal.move(sending)).toBe(true);
  });

  test('goes on only from the state that it is in', () => {
    const { journal } = newJournal();
    journal.addBatch(newBatch(), [newIntent(2, 7)]);
    expect(() => journal.move({ batch: 'one', row: 2, from: 'sending', to: 'applied' })).toThrow(/is not sending/);
    expect(statesOf(journal)).toEqual(['planned']);
  });

  test('that was left sending is unknown, and what waited for a user who is free is planned again', () => {
    const { journal } = newJournal();
    journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 7), newIntent(4, 8)]);
    send(journal, 2);
    for (const row of [3, 4]) journal.move({ batch: 'one', row, from: 'planned', to: 'blocked' });
    expect(journal.takeUp('one')).toEqual({ interrupted: 1, freed: 1 });
    expect(statesOf(journal)).toEqual(['unknown', 'blocked', 'planned']);
    expect(journal.steps('one').at(-1)).toMatchObject({ row: 2, kind: 'unknown' });
  });

  test('keeps what each step brings, and every step with its time', () => {
    const { journal } = newJournal();
    journal.addBatch(newBatch(), [newIntent(2, 7)]);
    claim(journal);
    const fields = { body: '{"amount":5.00}', seenBefore: { balance: '1.00' }, before: '1.00' };
    journal.move({ batch: 'one', row: 2, from: 'planned', to: 'sending', fields });
    journal.move({ batch: 'one', row: 2, from: 'sending', to: 'acknowledged', fields: { httpStatus: 200 }, note: 'x' });
    expect(journal.intent('one', 2)).toMatchObject({ ...fields, state: 'acknowledged', attempts: 1, httpStatus: 200 });
    expect(journal.steps('one').map(({ kind, note }) => [kind, note])).toEqual([
      ['sending', null],
      ['acknowledged', 'x'],
    ]);
  });

  test('is taken back once, and again only where that did not happen', () => {
    const { journal } = newJournal();
    journal.addBatch(newBatch(), [newIntent(2, 7)]);
    const undo = { undoOfRow: 2 };
    journal.addBatch(newBatch({ batch: 'undo', undoOf: 'one' }), [newIntent(2, 7, undo)]);
    expect(journal.undoneRows('one')).toEqual(new Map([[2, 'undo']]));
    expect(() => journal.addBatch(newBatch({ batch: 'more', undoOf: 'one' }), [newIntent(2, 7, undo)])).toThrow(
      /being taken back by another batch/,
    );
    journal.move({ batch: 'undo', row: 2, from: 'planned', to: 'skipped' });
    journal.addBatch(newBatch({ batch: 'more', undoOf: 'one' }), [newIntent(2, 7, undo)]);
    expect(journal.undoneRows('one')).toEqual(new Map([[2, 'more']]));
  });
});

describe('a batch', () => {
  test('is stored whole or not at all', () => {
    const { journal } = newJournal();
    expect(() => journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(2, 8)])).toThrow(/UNIQUE/);
    expect(journal.batches()).toEqual([]);
  });

  test('is found again by its file or its rows once somebody consented to it', () => {
    const { journal } = newJournal();
    journal.addBatch(newBatch(), [newIntent(2, 7)]);
    const view = (fileHash: string, rowsDigest: string) =>
      journal.claimView({ batch: 'new', fileHash, rowsDigest }, journal.claimable('two'), always);
    const found = (fileHash: string, rowsDigest: string) => view(fileHash, rowsDigest).like.map(({ batch }) => batch);
    expect(found('f1', 'other')).toEqual([]);
    claim(journal);
    expect(found('f1', 'other')).toEqual(['one']);
    expect(found('other', 'd1')).toEqual(['one']);
    expect(found('other', 'other')).toEqual([]);
    journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 7), newIntent(3, 7)]);
    expect(view('other', 'other').repeats).toMatchObject([{ fingerprint: 'print-2', batch: 'one', row: 2 }]);
  });

  test('is in the hands of one process', () => {
    const { journal, file } = newJournal();
    journal.acquireLock('one');
    const other = openJournal(file);
    expect(() => other.acquireLock('one')).toThrow(/in other hands: process/);
    other.acquireLock('two');
    journal.releaseLock('one');
    other.acquireLock('one');
    other.close();
  });
});

test('a person is taken out, and no byte is left, while amounts, outcomes and tokens stay', () => {
  const { journal, file } = newJournal();
  const cells = ['zq@quill.example', 'add', '5.00', 'For Zephyrine'];
  const parameters = { type: 'add', amount: '5.00', description: 'For Zephyrine' };
  const token = 'am:abcdefghijkl';
  journal.addBatch(newBatch({ warnings: ['row 2: zq@quill.example has two rows'] }), [
    newIntent(2, 7, {
      cells,
      parameters,
      token,
      notes: ['the status of the user is "banned"'],
      plannedUsername: 'Zephyrine',
    }),
    newIntent(3, 7, { cells, parameters, plannedAfter: 'zq@quill.example, balance 1.00' }),
    newIntent(4, 8, { cells: ['8', 'add', '1', 'from Zephyrine'] }),
  ]);
  claim(journal);
  const body = `{"type":"add","amount":5.00,"description":"For Zephyrine ${token}"}`;
  const seenBefore = { found: true, email: 'zq@quill.example', balance: '1.00' };
  journal.move({ batch: 'one', row: 2, from: 'planned', to: 'sending', fields: { body, seenBefore } });
  journal.move({
    batch: 'one',
    row: 2,
    from: 'sending',
    to: 'unknown',
    fields: { answer: '{"email":"zq@quill.example"}' },
    note: 'Zephyrine again',
  });
  const write = journal.beginWrite({
    operation: 'users.update',
    user: 7,
    body: '{"first_name":"Zephyrine"}',
    fingerprint: null,
  });
  journal.endWrite(write, { state: 'done', httpStatus: 200, answer: '{"name":"Zephyrine"}', problem: null });
  const texts = ['Zephyrine', 'zq@quill.example', 'banned'];
  expect(textsIn(file, texts)).toEqual(texts);
  journal.forget({ id: 7, addresses: ['zq@quill.example'], texts });
  expect(textsIn(file, texts)).toEqual([]);
  expect(journal.intent('one', 2)).toMatchObject({ state: 'unknown', token, user: 7 });
  expect(journal.intent('one', 2)?.parameters).toMatchObject({ type: 'add', amount: '5.00' });
  expect(journal.intent('one', 2)?.body).toContain(token);
  expect(journal.intent('one', 2)).toMatchObject({ plannedBefore: '0.00', plannedAfter: '5.00' });
  // What was approved of the person can no longer go out as it was approved.
  expect(statesOf(journal)).toEqual(['unknown', 'skipped', 'planned']);
});
