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

function statesOf(journal: Journal, batch = 'one'): Promise<IntentState[]> {
  return Array.fromAsync(journal.intents(batch), ({ state }) => state);
}

/** Somebody consents to the batch, whatever the journal knows. */
async function claim(journal: Journal, batch = 'one'): Promise<void> {
  await journal.claim(batch, always, () => []);
}

const always = { repeatsSince: timestampOf(0), daySince: timestampOf(0) };

async function send(journal: Journal, row: number, batch = 'one'): Promise<boolean> {
  if ((await journal.intent(batch, row))?.claimedAt === null) await claim(journal, batch);
  return await journal.move({ batch, row, from: 'planned', to: 'sending' });
}

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
    expect(database.pragma('user_version', { simple: true })).toBe(journalVersion);
    expect(database.prepare('SELECT version FROM journal_migrations').pluck().all()).toEqual([1, 2, 3, 4]);
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
    await expect(openJournal(file)).rejects.toThrow(/not a journal made by this program/);
    expect(readFileSync(file)).toEqual(before);
    const { file: newer, journal } = await newJournal();
    await journal.close();
    const database = new SqliteDatabase(newer);
    database.pragma(`user_version = ${journalVersion + 1}`);
    database.close();
    await expect(openJournal(newer)).rejects.toThrow(new RegExp(`version ${journalVersion + 1}.*left it as it is`));
  });

  test('is not made by looking for one', async () => {
    const file = `${temporaryFolder()}/journal.db`;
    await expect(openJournalForReading(file)).rejects.toThrow(/there is no journal/);
    expect(() => statSync(file)).toThrow(/ENOENT/);
  });
});

describe('a row', () => {
  test('is open for its user once, whatever the batch', async () => {
    const { journal } = await newJournal();
    await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 7), newIntent(4, 8)]);
    await journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 7)]);
    expect(await send(journal, 2)).toBe(true);
    expect(await journal.openRow('user:7')).toEqual({ batch: 'one', row: 2, state: 'sending' });
    expect(await send(journal, 3)).toBe(false);
    expect(await send(journal, 2, 'two')).toBe(false);
    expect(await send(journal, 4)).toBe(true);
    expect(await statesOf(journal)).toEqual(['sending', 'planned', 'sending']);
    await journal.move({ batch: 'one', row: 2, from: 'sending', to: 'unknown' });
    expect(await send(journal, 2, 'two')).toBe(false);
    await journal.move({ batch: 'one', row: 2, from: 'unknown', to: 'applied' });
    expect(await send(journal, 2, 'two')).toBe(true);
  });

  test('is sent only once somebody has consented to it, whatever the program thinks', async () => {
    const { journal } = await newJournal();
    await journal.addBatch(newBatch(), [newIntent(2, 7)]);
    const sending = { batch: 'one', row: 2, from: 'planned', to: 'sending' } as const;
    await expect(journal.move(sending)).rejects.toThrow(/not claimed/);
    const refused = journal.claim('one', always, () => {
      throw new Error('no');
    });
    await expect(refused).rejects.toThrow(/no/);
    await expect(journal.move(sending)).rejects.toThrow(/not claimed/);
    await claim(journal);
    expect(await journal.move(sending)).toBe(true);
  });

  test('goes on only from the state that it is in', async () => {
    const { journal } = await newJournal();
    await journal.addBatch(newBatch(), [newIntent(2, 7)]);
    await expect(journal.move({ batch: 'one', row: 2, from: 'sending', to: 'applied' })).rejects.toThrow(
      /is not sending/,
    );
    expect(await statesOf(journal)).toEqual(['planned']);
  });

  test('that was left sending is unknown, and what waited for a user who is free is planned again', async () => {
    const { journal } = await newJournal();
    await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 7), newIntent(4, 8)]);
    await send(journal, 2);
    for (const row of [3, 4]) await journal.move({ batch: 'one', row, from: 'planned', to: 'blocked' });
    expect(await journal.takeUp('one')).toEqual({ interrupted: 1, freed: 1 });
    expect(await statesOf(journal)).toEqual(['unknown', 'blocked', 'planned']);
    expect((await journal.steps('one')).at(-1)).toMatchObject({ row: 2, kind: 'unknown' });
  });

  test('keeps what each step brings, and every step with its time', async () => {
    const { journal } = await newJournal();
    await journal.addBatch(newBatch(), [newIntent(2, 7)]);
    await claim(journal);
    const fields = { body: '{"amount":5.00}', seenBefore: { balance: '1.00' }, before: '1.00' };
    await journal.move({ batch: 'one', row: 2, from: 'planned', to: 'sending', fields });
    await journal.move({
      batch: 'one',
      row: 2,
      from: 'sending',
      to: 'acknowledged',
      fields: { httpStatus: 200 },
      note: 'x',
    });
    expect(await journal.intent('one', 2)).toMatchObject({
      ...fields,
      state: 'acknowledged',
      attempts: 1,
      httpStatus: 200,
    });
    expect((await journal.steps('one')).map(({ kind, note }) => [kind, note])).toEqual([
      ['sending', null],
      ['acknowledged', 'x'],
    ]);
  });

  test('is taken back once, and again only where that did not happen', async () => {
    const { journal } = await newJournal();
    await journal.addBatch(newBatch(), [newIntent(2, 7)]);
    const undo = { undoOfRow: 2 };
    await journal.addBatch(newBatch({ batch: 'undo', undoOf: 'one' }), [newIntent(2, 7, undo)]);
    expect(await journal.undoneRows('one')).toEqual(new Map([[2, 'undo']]));
    await expect(journal.addBatch(newBatch({ batch: 'more', undoOf: 'one' }), [newIntent(2, 7, undo)])).rejects.toThrow(
      /being taken back by another batch/,
    );
    await journal.move({ batch: 'undo', row: 2, from: 'planned', to: 'skipped' });
    await journal.addBatch(newBatch({ batch: 'more', undoOf: 'one' }), [newIntent(2, 7, undo)]);
    expect(await journal.undoneRows('one')).toEqual(new Map([[2, 'more']]));
  });
});

describe('a batch', () => {
  test('is stored whole or not at all', async () => {
    const { journal } = await newJournal();
    await expect(journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(2, 8)])).rejects.toThrow(/UNIQUE/);
    expect(await journal.batches()).toEqual([]);
  });

  test('is found again by its file or its rows once somebody consented to it', async () => {
    const { journal } = await newJournal();
    await journal.addBatch(newBatch(), [newIntent(2, 7)]);
    const view = async (fileHash: string, rowsDigest: string) =>
      await journal.claimView({ batch: 'new', fileHash, rowsDigest }, await journal.claimable('two'), always);
    const found = async (fileHash: string, rowsDigest: string) =>
      (await view(fileHash, rowsDigest)).like.map(({ batch }) => batch);
    expect(await found('f1', 'other')).toEqual([]);
    await claim(journal);
    expect(await found('f1', 'other')).toEqual(['one']);
    expect(await found('other', 'd1')).toEqual(['one']);
    expect(await found('other', 'other')).toEqual([]);
    await journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 7), newIntent(3, 7)]);
    expect((await view('other', 'other')).repeats).toMatchObject([{ fingerprint: 'print-2', batch: 'one', row: 2 }]);
  });

  test('is in the hands of one process', async () => {
    const { journal, file } = await newJournal();
    await journal.acquireLock('one');
    const other = await openJournal(file);
    await expect(other.acquireLock('one')).rejects.toThrow(/in other hands: process/);
    await other.acquireLock('two');
    await journal.releaseLock('one');
    await other.acquireLock('one');
    await other.close();
  });
});

test('a person is taken out, and no byte is left, while amounts, outcomes and tokens stay', async () => {
  const { journal, file } = await newJournal();
  const cells = ['zq@quill.example', 'add', '5.00', 'For Zephyrine'];
  const parameters = { type: 'add', amount: '5.00', description: 'For Zephyrine' };
  const token = 'am:abcdefghijkl';
  await journal.addBatch(newBatch({ warnings: ['row 2: zq@quill.example has two rows'] }), [
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
  await claim(journal);
  const body = `{"type":"add","amount":5.00,"description":"For Zephyrine ${token}"}`;
  const seenBefore = { found: true, email: 'zq@quill.example', balance: '1.00' };
  await journal.move({ batch: 'one', row: 2, from: 'planned', to: 'sending', fields: { body, seenBefore } });
  await journal.move({
    batch: 'one',
    row: 2,
    from: 'sending',
    to: 'unknown',
    fields: { answer: '{"email":"zq@quill.example"}' },
    note: 'Zephyrine again',
  });
  const write = await journal.beginWrite({
    operation: 'users.update',
    user: 7,
    body: '{"first_name":"Zephyrine"}',
    fingerprint: null,
  });
  await journal.endWrite(write, { state: 'done', httpStatus: 200, answer: '{"name":"Zephyrine"}', problem: null });
  const texts = ['Zephyrine', 'zq@quill.example', 'banned'];
  expect(textsIn(file, texts)).toEqual(texts);
  await journal.forget({ id: 7, addresses: ['zq@quill.example'], texts });
  expect(textsIn(file, texts)).toEqual([]);
  expect(await journal.intent('one', 2)).toMatchObject({ state: 'unknown', token, user: 7 });
  expect((await journal.intent('one', 2))?.parameters).toMatchObject({ type: 'add', amount: '5.00' });
  expect((await journal.intent('one', 2))?.body).toContain(token);
  expect(await journal.intent('one', 2)).toMatchObject({ plannedBefore: '0.00', plannedAfter: '5.00' });
  // What was approved of the person can no longer go out as it was approved.
  expect(await statesOf(journal)).toEqual(['unknown', 'skipped', 'planned']);
});
