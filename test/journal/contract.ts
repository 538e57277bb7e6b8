/** What every journal does, in any database. */
import { describe, expect, test } from 'vitest';
import type { ClaimView, IntentState, Journal } from '../../src/journal/port.ts';
import { timestampOf } from '../../src/model/time.ts';
import { anna, newBatch, newIntent } from '../support/journal.ts';

/** A new journal. The test that opened it need not close it. */
export interface Opened {
  readonly journal: Journal;
  /** Another connection to the same journal, like that of another process. */
  readonly again: () => Promise<Journal>;
  /** Runs the statement outside the program, like somebody who can write the database. */
  readonly tamper: (statement: string) => Promise<void>;
  /** Which of the texts are anywhere in the database's files. */
  readonly bytesOf: (texts: readonly string[]) => Promise<string[]>;
}

const always = { repeatsSince: timestampOf(0), daySince: timestampOf(0) };

function statesOf(journal: Journal, batch = 'one'): Promise<IntentState[]> {
  return Array.fromAsync(journal.intents(batch), ({ state }) => state);
}

/** Claims the batch, whatever the journal knows. */
async function claim(journal: Journal, batch = 'one'): Promise<void> {
  await journal.claim(batch, always, () => []);
}

async function send(journal: Journal, row: number, batch = 'one'): Promise<boolean> {
  if ((await journal.intent(batch, row))?.claimedAt === null) await claim(journal, batch);
  return journal.move({ batch, row, from: 'planned', to: 'sending' });
}

/** @param open opens a new journal of the tested kind */
export function journalContract(open: () => Promise<Opened>): void {
  describe('a row', () => {
    // proves: one-open-row
    test('is the only open row of its user, in all batches', async () => {
      const { journal } = await open();
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

    test('is sent only once it was claimed, whatever the program asks', async () => {
      const { journal } = await open();
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

    test('takes its step together with others, and one that may not be taken keeps none of them back', async () => {
      const { journal, again } = await open();
      await journal.addBatch(
        newBatch(),
        [2, 3, 4, 5].map((row) => newIntent(row, row === 5 ? 2 : row)),
      );
      await claim(journal);
      const ends = await Promise.allSettled([
        ...[2, 3, 5].map((row) => send(journal, row)),
        journal.move({ batch: 'one', row: 4, from: 'sending', to: 'applied' }),
        send(journal, 4),
      ]);
      expect(ends.map((end) => (end.status === 'fulfilled' ? end.value : String(end.reason)))).toEqual([
        true,
        true,
        false,
        expect.stringMatching(/row 4 of batch one is not sending/),
        true,
      ]);
      expect(await statesOf(await again())).toEqual(['sending', 'sending', 'sending', 'planned']);
      expect((await journal.verifyChain()).problems).toEqual([]);
    });

    test('that was left sending becomes unknown, and a blocked row is planned again if its user is free', async () => {
      const { journal } = await open();
      await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 7), newIntent(4, 8)]);
      await send(journal, 2);
      for (const row of [3, 4]) await journal.move({ batch: 'one', row, from: 'planned', to: 'blocked' });
      await journal.takeUp('one');
      expect(await statesOf(journal)).toEqual(['unknown', 'blocked', 'planned']);
      expect((await journal.steps('one')).slice(-2)).toMatchObject([
        { row: 2, kind: 'unknown' },
        { row: 4, kind: 'planned' },
      ]);
    });

    test('that is discarded is skipped, or not applied if it was sent before, and its batch is done unless a row is open', async () => {
      const { journal } = await open();
      await journal.addBatch(
        newBatch(),
        [2, 3, 4, 5].map((row) => newIntent(row, row)),
      );
      await send(journal, 2);
      await journal.move({ batch: 'one', row: 2, from: 'sending', to: 'unknown' });
      await journal.move({ batch: 'one', row: 3, from: 'planned', to: 'sending' });
      await journal.move({ batch: 'one', row: 3, from: 'sending', to: 'unknown' });
      await journal.move({ batch: 'one', row: 3, from: 'unknown', to: 'planned', fields: { evidence: 'person' } });
      await journal.move({ batch: 'one', row: 4, from: 'planned', to: 'blocked' });
      await journal.discard('one', 'wrong month');
      expect(await statesOf(journal)).toEqual(['unknown', 'not_applied', 'skipped', 'skipped']);
      expect((await journal.intent('one', 5))?.problem).toBe('a person discarded it: wrong month');
      expect(await journal.batch('one')).toMatchObject({ state: 'stopped', finishedAt: null });
      expect((await journal.steps('one')).at(-1)).toMatchObject({ row: null, kind: 'discarded', note: 'wrong month' });
      await journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 7)]);
      await journal.discard('two', 'not wanted');
      expect(await journal.batch('two')).toMatchObject({ state: 'done', appliedAt: null });
      expect(await journal.verifyChain()).toMatchObject({ status: 'whole', problems: [] });
    });

    test('keeps the fields of each step, and all steps', async () => {
      const { journal } = await open();
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
        ['added', null],
        ['claimed', null],
        ['sending', null],
        ['acknowledged', 'x'],
      ]);
    });

    test('is reversed once, and again only if the first reversal was not sent', async () => {
      const { journal } = await open();
      await journal.addBatch(newBatch(), [newIntent(2, 7)]);
      const undo = { undoOfRow: 2 };
      await journal.addBatch(newBatch({ batch: 'undo', undoOf: 'one' }), [newIntent(2, 7, undo)]);
      expect(await journal.reversals('one')).toEqual([{ batch: 'undo', rows: 1, applied: 0 }]);
      expect(await journal.reversals('undo')).toEqual([]);
      const plans = await journal.plansOf('balance', 'f1', 'd1');
      expect(plans.map(({ batch }) => batch)).toContain('undo');
      expect(await journal.plansOf('balance', 'f2', 'd1')).toEqual([]);
      expect(await journal.undoneRows('one')).toEqual(new Map([[2, { batch: 'undo', row: 2, state: 'planned' }]]));
      await expect(
        journal.addBatch(newBatch({ batch: 'more', undoOf: 'one' }), [newIntent(2, 7, undo)]),
      ).rejects.toThrow(/being taken back by another batch/);
      await journal.move({ batch: 'undo', row: 2, from: 'planned', to: 'skipped' });
      await journal.addBatch(newBatch({ batch: 'more', undoOf: 'one' }), [newIntent(2, 7, undo)]);
      expect(await journal.undoneRows('one')).toEqual(new Map([[2, { batch: 'more', row: 2, state: 'planned' }]]));
    });
  });

  test('texts with characters that a database cannot hold are kept without these', async () => {
    const { journal } = await open();
    const awkward = 'a\0b\ud800c';
    const whole = (text: string | null | undefined) => text?.replaceAll(/[\0\u{FFFD}\ud800]/gu, '?');
    const fields = { cells: [awkward], parameters: { description: awkward }, problem: awkward, plannedEmail: awkward };
    const texts = { file: awkward, againReason: awkward, warnings: [awkward] };
    await journal.addBatch(newBatch(texts), [newIntent(2, 7, fields)]);
    await claim(journal);
    await journal.move({ batch: 'one', row: 2, from: 'planned', to: 'sending', fields: { body: awkward } });
    await journal.move({
      batch: 'one',
      row: 2,
      from: 'sending',
      to: 'unknown',
      fields: { answer: awkward },
      note: awkward,
    });
    await journal.setBehind('one', awkward);
    const write = await journal.beginWrite({ operation: 'users.update', user: 7, body: awkward, fingerprint: null });
    await journal.endWrite(write, { state: 'done', httpStatus: 200, answer: awkward, problem: awkward });
    const intent = await journal.intent('one', 2);
    expect([intent?.body, intent?.answer, intent?.plannedEmail].map(whole)).toEqual(['a?b?c', 'a?b?c', 'a?b?c']);
    expect(intent?.cells).toEqual([awkward]);
    expect(await journal.verifyChain()).toMatchObject({ status: 'whole', problems: [] });
  });

  describe('a batch', () => {
    test('is found by its file or its rows once it was claimed', async () => {
      const { journal } = await open();
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

    test('is locked by one process at a time', async () => {
      const { journal, again } = await open();
      await journal.acquireLock('one');
      const other = await again();
      await expect(other.acquireLock('one')).rejects.toThrow(/in other hands: process/);
      await other.acquireLock('two');
      await journal.releaseLock('one');
      await other.acquireLock('one');
      await other.close();
    });
  });

  test('a forgotten person leaves no byte, while amounts, outcomes and tokens stay', async () => {
    const { journal, bytesOf } = await open();
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
    expect(await bytesOf(texts)).toEqual(texts);
    await journal.forget({ id: 7, addresses: ['zq@quill.example'], texts });
    expect(await bytesOf(texts)).toEqual([]);
    expect(await journal.intent('one', 2)).toMatchObject({ state: 'unknown', token, user: 7 });
    expect((await journal.intent('one', 2))?.parameters).toMatchObject({ type: 'add', amount: '5.00' });
    expect((await journal.intent('one', 2))?.body).toContain(token);
    expect(await journal.intent('one', 2)).toMatchObject({ plannedBefore: '0.00', plannedAfter: '5.00' });
    // Planned rows of the person can no longer be sent as approved.
    expect(await statesOf(journal)).toEqual(['unknown', 'skipped', 'planned']);
  });

  test('a forgotten person leaves no fingerprint of texts, but fingerprints of payments stay', async () => {
    const { journal, bytesOf } = await open();
    const [paid, said, byHand, stranger] = [
      'balance user:7 add 5.00',
      'ab12'.repeat(6),
      'cd34'.repeat(6),
      'ef56'.repeat(6),
    ];
    await journal.addBatch(newBatch(), [
      newIntent(2, 7, { fingerprint: paid, plannedEmail: 'zq@quill.example' }),
      newIntent(3, 7, { fingerprint: said, cells: ['zq@quill.example', 'Hello'] }),
      newIntent(4, 8, { fingerprint: stranger }),
    ]);
    const body = '{"title":"Hello Zephyrine"}';
    await journal.beginWrite({ operation: 'users.notify', user: 7, body, fingerprint: byHand });
    await journal.forget({ id: 7, addresses: ['zq@quill.example'], texts: ['zq@quill.example', 'Zephyrine'] });
    expect(await bytesOf([paid, said, byHand, stranger])).toEqual([paid, stranger]);
    expect((await journal.verifyChain()).problems).toEqual([]);
  });

  test('a response that is recorded after a person was forgotten does not bring the person back', async () => {
    const { journal, bytesOf } = await open();
    await journal.addBatch(newBatch({ action: 'update' }), [newIntent(2, 7, { plannedEmail: 'zq@quill.example' })]);
    await claim(journal);
    await journal.move({ batch: 'one', row: 2, from: 'planned', to: 'sending' });
    await journal.move({ batch: 'one', row: 2, from: 'sending', to: 'unknown' });
    const body = '{"first_name":"Zephyrine"}';
    const write = await journal.beginWrite({ operation: 'users.update', user: 7, body, fingerprint: null });
    const texts = ['Zephyrine', 'zq@quill.example'];
    await journal.forget({ id: 7, addresses: ['zq@quill.example'], texts });
    const said = { answer: '{"id":7,"first_name":"Zephyrine","balance":"5.00"}', problem: 'Zephyrine is taken' };
    await journal.endWrite(write, { state: 'unknown', httpStatus: 500, ...said });
    const fields = {
      after: body,
      answer: said.answer,
      problem: 'the fields are neither as they were nor as the row says',
    };
    await journal.move({ batch: 'one', row: 2, from: 'unknown', to: 'needs_human', fields });
    expect(await bytesOf(texts)).toEqual([]);
    expect((await journal.writes(1))[0]).toMatchObject({ state: 'unknown', httpStatus: 500 });
    expect(await journal.intent('one', 2)).toMatchObject({ state: 'needs_human', problem: fields.problem });
    expect((await journal.verifyChain()).problems).toEqual([]);
    // A write that begins afterwards is recorded in full.
    const next = await journal.beginWrite({ operation: 'users.update', user: 7, body, fingerprint: null });
    await journal.endWrite(next, { state: 'done', httpStatus: 200, answer: said.answer, problem: null });
    expect(await bytesOf(texts)).toEqual(['Zephyrine']);
  });

  describe('steps side by side', () => {
    const no = (): never => {
      throw new Error('no');
    };

    test('do not get into each other’s transactions', async () => {
      const { journal } = await open();
      const rows = Array.from({ length: 20 }, (_, at) => at + 2);
      await journal.addBatch(
        newBatch(),
        rows.map((row) => newIntent(row, row)),
      );
      await journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 99)]);
      await claim(journal);
      const before = (await journal.head())?.step ?? 0;
      // Each row is sent while a claim that will be refused is under way.
      const sent = await Promise.all(
        rows.map(async (row) => {
          const refused = journal.claim('two', always, no).catch(String);
          const moved = await journal.move({ batch: 'one', row, from: 'planned', to: 'sending' });
          return [moved, await refused];
        }),
      );
      expect(sent).toEqual(rows.map(() => [true, 'Error: no']));
      expect(new Set(await statesOf(journal))).toEqual(new Set(['sending']));
      expect((await journal.head())?.step).toBe(before + rows.length);
      expect((await journal.claimable('two')).map(({ claimedAt }) => claimedAt)).toEqual([null]);
    });

    test('open one row of a subject, the first one', async () => {
      const { journal, again } = await open();
      const rows = [2, 3, 4, 5];
      await journal.addBatch(
        newBatch(),
        rows.map((row) => newIntent(row, 7)),
      );
      await claim(journal);
      const other = await again();
      const sent = await Promise.all(
        rows.map((row, at) =>
          (at % 2 === 0 ? journal : other).move({ batch: 'one', row, from: 'planned', to: 'sending' }),
        ),
      );
      expect(sent.filter(Boolean)).toHaveLength(1);
      expect((await statesOf(journal)).filter((state) => state === 'sending')).toHaveLength(1);
    });

    test('of several people let only one of them claim the same rows', async () => {
      const { journal, again } = await open();
      const names = ['one', 'two', 'three', 'four'];
      const people = [journal, await again(), journal, await again()];
      for (const batch of names) await journal.addBatch(newBatch({ batch, fileHash: batch }), [newIntent(2, 7)]);
      const refuse = ({ repeats, like }: ClaimView) => (repeats.length + like.length > 0 ? no() : []);
      const ends = await Promise.all(
        people.map((person, at) => person.claim(names[at] ?? '', always, refuse).then(() => 'claimed', String)),
      );
      expect(ends.sort()).toEqual(['Error: no', 'Error: no', 'Error: no', 'claimed']);
      const claimed = await Promise.all(names.map((batch) => journal.claimable(batch)));
      expect(claimed.flat().filter(({ claimedAt }) => claimedAt !== null)).toHaveLength(1);
    });
  });

  test('many rows are read completely and in order while steps are taken', async () => {
    const { journal } = await open();
    const rows = Array.from({ length: 2_500 }, (_, at) => at + 2);
    await journal.addBatch(
      newBatch(),
      rows.map((row) => newIntent(row, row, { notes: row === 7 ? ['look'] : [] })),
    );
    await claim(journal);
    const seen: number[] = [];
    for await (const { row } of journal.intents('one', ['planned'])) {
      seen.push(row);
      if (row % 500 === 0) await journal.move({ batch: 'one', row, from: 'planned', to: 'sending' });
    }
    expect(seen).toEqual(rows);
    expect(await Array.fromAsync(journal.views('one', true), ({ row, notes }) => [row, notes])).toEqual([
      [7, ['look']],
    ]);
    expect(await Array.fromAsync(journal.views('one'), ({ row }) => row)).toEqual(rows);
    expect(await Array.fromAsync(journal.views('one'), ({ parameters }) => parameters?.['amount'])).toEqual(
      rows.map(() => '5.00'),
    );
    expect(await journal.counts('one')).toEqual({ planned: rows.length - 5, sending: 5 });
  });

  test('a write by hand is recorded with its end, and found by a row that does the same', async () => {
    const { journal } = await open();
    const write = { operation: 'users.update-balance', user: 7, body: '{}', fingerprint: 'print-2' };
    const first = await journal.beginWrite(write);
    const second = await journal.beginWrite({ ...write, fingerprint: 'print-3' });
    const third = await journal.beginWrite({ ...write, fingerprint: 'print-3' });
    const gone = { state: 'refused', httpStatus: 404, answer: 'x'.repeat(20_000), problem: 'no such user' } as const;
    await journal.endWrite(second, gone);
    // The user was read after this one was refused.
    await journal.endWrite(third, { ...gone, state: 'not_made' });
    expect(await journal.writes(5)).toMatchObject([
      { write: third, state: 'not_made' },
      { write: second, state: 'refused', httpStatus: 404, problem: 'no such user' },
      { write: first, state: 'sending', httpStatus: null },
    ]);
    expect(await journal.writes(1)).toHaveLength(1);
    await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 7)]);
    const { repeats } = await journal.claimView(newBatch(), await journal.claimable('one'), always);
    expect(repeats).toMatchObject([
      { fingerprint: 'print-2', batch: null, row: null, state: 'sending' },
      { fingerprint: 'print-3', batch: null, row: null, state: 'refused' },
    ]);
  });

  test('a repetition has a later time on record, even if the clock stands still', async () => {
    const { journal } = await open();
    await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 8)]);
    await claim(journal);
    await journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 7)]);
    await claim(journal, 'two');
    const fingerprint = (await journal.claimable('one'))[0]?.fingerprint ?? null;
    await journal.beginWrite({ operation: 'users.update-balance', user: 7, body: '{}', fingerprint });
    const times = (await journal.claimView(newBatch({ batch: 'new' }), await journal.claimable('one'), always)).repeats;
    const ofUser = times.filter((each) => each.fingerprint === fingerprint).map(({ claimedAt }) => claimedAt);
    expect(ofUser).toHaveLength(3);
    expect(new Set(ofUser)).toHaveLength(3);
    expect(ofUser).toEqual(ofUser.toSorted());
    expect((await journal.verifyChain()).problems).toEqual([]);
  });

  test('a person is not forgotten while a batch with a row of theirs is being sent', async () => {
    const { journal } = await open();
    await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 8)]);
    await journal.acquireLock('one');
    const person = { id: 7, addresses: [], texts: [] };
    await expect(journal.forget(person)).rejects.toMatchObject({
      exitCode: 7,
      message: expect.stringMatching(/^batch one, which has rows of user 7, is being sent: process/),
    });
    expect((await journal.intent('one', 2))?.state).toBe('planned');
    await journal.forget({ id: 9, addresses: [], texts: [] });
    await journal.releaseLock('one');
    await journal.forget(person);
    expect((await journal.intent('one', 2))?.state).toBe('skipped');
  });

  test('adopted rows are applied, and found by rows that do the same', async () => {
    const { journal } = await open();
    const at = timestampOf(Date.UTC(2026, 2, 10));
    const fields = { evidence: 'token', recordId: '78', sentAt: at, claimedAt: at } as const;
    await journal.adopt(newBatch({ batch: 'found' }), [{ intent: newIntent(2, 7), state: 'applied', fields }]);
    expect(await journal.batch('found')).toMatchObject({ state: 'done', rows: 1 });
    expect(await journal.intent('found', 2)).toMatchObject({ state: 'applied', evidence: 'token', claimedAt: at });
    expect((await journal.people('found')).planned).toEqual([anna]);
    await journal.addBatch(newBatch({ rowsDigest: 'other', fileHash: 'other' }), [newIntent(2, 7)]);
    const { repeats } = await journal.claimView(newBatch(), await journal.claimable('one'), always);
    expect(repeats).toMatchObject([{ batch: 'found', row: 2, at, state: 'applied', found: true }]);
  });

  test('an adopted row needs a person only if no other row of its user is open, and then its batch is stopped', async () => {
    const { journal } = await open();
    const at = timestampOf(Date.UTC(2026, 2, 10));
    const fields = { evidence: 'token', sentAt: at, claimedAt: at, discrepancy: 'over_applied' } as const;
    const row = (number: number, user: number) =>
      ({ intent: newIntent(number, user), state: 'needs_human', fields }) as const;
    await journal.adopt(newBatch({ batch: 'found', rows: 3 }), [row(2, 7), row(3, 7), row(4, 8)]);
    expect(await journal.batch('found')).toMatchObject({ state: 'stopped', finishedAt: null });
    await journal.adopt(newBatch({ batch: 'more', rows: 1 }), [row(2, 8)]);
    expect(await journal.batch('more')).toMatchObject({ state: 'done' });
    const states = async (batch: string) =>
      (await Array.fromAsync(journal.intents(batch))).map(({ state, discrepancy }) => `${state} ${discrepancy}`);
    expect([await states('found'), await states('more')]).toEqual([
      ['needs_human over_applied', 'applied over_applied', 'needs_human over_applied'],
      ['applied over_applied'],
    ]);
    expect(await journal.verifyChain()).toMatchObject({ status: 'whole', problems: [] });
  });

  test('a step is found by its hash, and a gap is reported until a person accepts the journal', async () => {
    const { journal, tamper, bytesOf } = await open();
    expect(await journal.gap()).toBeNull();
    for (const batch of ['one', 'two', 'three']) await journal.addBatch(newBatch({ batch }), []);
    const head = await journal.head();
    expect(await journal.hasStep({ step: 3, hash: head?.hash ?? '' })).toBe(true);
    expect(await journal.hasStep({ step: 2, hash: head?.hash ?? '' })).toBe(false);
    expect(await journal.hasStep({ step: 4, hash: head?.hash ?? '' })).toBe(false);
    expect(await journal.gap()).toBeNull();
    await tamper('DELETE FROM journal_steps WHERE step = 2');
    expect(await journal.gap()).toBe(3);
    await journal.accept('it is gone for good', head ?? null);
    expect(await journal.gap()).toBeNull();
    const instead = [`{"instead":{"hash":"${head?.hash}","step":3}}`, '{"instead":null}'];
    expect(await bytesOf(instead)).toEqual(instead.slice(0, 1));
    await journal.accept('nobody knows of it', null);
    expect(await bytesOf(instead)).toEqual(instead);
    await journal.addBatch(newBatch({ batch: 'four' }), []);
    await journal.addBatch(newBatch({ batch: 'five' }), []);
    await tamper('DELETE FROM journal_steps WHERE step = 6');
    expect(await journal.gap()).toBe(7);
  });

  describe('the chain', () => {
    const carla = { ...anna, name: 'carla', account: 'carla' };

    /** A journal with steps of many kinds: claims, rows sent, blocked and applied, writes by hand, adoptions. */
    async function usedJournal(): Promise<Opened> {
      const opened = await open();
      const { journal } = opened;
      await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 7), newIntent(4, 8), newIntent(5, 9)]);
      await journal.addBatch(newBatch({ batch: 'two', againReason: 'April, too' }), [newIntent(2, 10)]);
      await journal.claim('one', always, () => [{ kind: 'consented', note: 'by typing 5.00' }]);
      await send(journal, 2);
      await journal.move({ batch: 'one', row: 3, from: 'planned', to: 'blocked' });
      await journal.takeUp('one');
      const fields = { httpStatus: 200, evidence: 'token', recordId: '77', before: '0.00', after: '5.00' } as const;
      await journal.move({ batch: 'one', row: 2, from: 'unknown', to: 'applied', fields, note: 'it is there' });
      await journal.takeUp('one');
      await claim(journal);
      await journal.setBehind('one', 'row 2 stands there');
      await journal.setBehind('one', null);
      const write = { operation: 'users.update', user: 8, body: '{"first_name":"Zephyrine"}', fingerprint: null };
      const number = await journal.by(carla).beginWrite(write);
      await journal.by(carla).endWrite(number, { state: 'done', httpStatus: 200, answer: '{}', problem: null });
      await journal.setBatchState('one', 'stopped');
      const made = timestampOf(Date.UTC(2026, 2, 10));
      const found = { evidence: 'token', recordId: '78', sentAt: made, claimedAt: made } as const;
      await journal.adopt(newBatch({ batch: 'found', rows: 2 }), [
        { intent: newIntent(2, 11), state: 'applied', fields: found },
        { intent: newIntent(3, 11), state: 'applied', fields: found },
      ]);
      await journal.addBatch(newBatch({ batch: 'planned' }), [newIntent(2, 12), newIntent(3, 13)]);
      await journal.move({ batch: 'planned', row: 2, from: 'planned', to: 'applied', fields: found });
      await claim(journal, 'planned');
      await journal.accept('it is gone for good', null);
      return opened;
    }

    test('is whole after steps of every kind, and its head is the newest step', async () => {
      const { journal, again } = await usedJournal();
      const { status, steps, head, problems } = await journal.verifyChain();
      expect({ status, problems }).toEqual({ status: 'whole', problems: [] });
      expect(head).toEqual(await journal.head());
      expect(head?.step).toBe(steps);
      await (await again()).setBatchState('one', 'done');
      expect(await journal.verifyChain(head?.hash)).toMatchObject({ status: 'whole', steps: steps + 1 });
    });

    // proves: chain-forgets
    test('stays whole when a person is forgotten, and keeps no text or salt that confirms a guess', async () => {
      const { journal, bytesOf } = await usedJournal();
      const before = await journal.head();
      await journal.by(carla).addBatch(newBatch({ batch: 'three' }), [newIntent(2, 8, { cells: ['Zephyrine'] })]);
      await journal.move({ batch: 'one', row: 4, from: 'planned', to: 'blocked', note: 'Zephyrine asked' });
      const salts = /[0-9a-f]{32}/;
      await journal.forget({ id: 8, addresses: [], texts: ['Zephyrine'] });
      expect(await bytesOf(['Zephyrine'])).toEqual([]);
      expect(await journal.verifyChain(before?.hash)).toMatchObject({ status: 'whole', problems: [] });
      expect(await statesOf(journal, 'three')).toEqual(['skipped']);
      expect(salts.test(JSON.stringify(await Array.fromAsync(journal.audit({}))))).toBe(false);
    });

    test.each([
      [
        'a state',
        "UPDATE journal_intents SET state = 'rejected' WHERE row = 2 AND batch = 'one'",
        /row 2 of batch one/,
      ],
      ['an amount', `UPDATE journal_intents SET parameters = '{}' WHERE row = 5`, /row 5 of batch one/],
      ['a response', "UPDATE journal_intents SET answer = 'x' WHERE row = 4", /row 4 of batch one/],
      ['a consent', "UPDATE journal_intents SET claimed_at = '2026-01-01' WHERE row = 4", /the consent to row 4/],
      ['a row', 'DELETE FROM journal_intents WHERE row = 4', /there are 3 of 4/],
      ['a plan', "UPDATE journal_batches SET hash = 'h2' WHERE batch = 'two'", /batch two was altered/],
      ['a write', 'UPDATE journal_writes SET "user" = 9', /write 1 by hand was altered/],
      ['writes', 'DELETE FROM journal_writes', /write 1 by hand was removed/],
      [
        'who did it',
        `UPDATE journal_steps SET actor = replace(actor, 'anna', 'bob') WHERE step = 3`,
        /step 3 was altered/,
      ],
      ['a reason', "UPDATE journal_steps SET note = 'May, too' WHERE kind = 'again'", /its note was changed/],
      ['a step', 'DELETE FROM journal_steps WHERE step = 4', /step 5 does not follow/],
      ['the first', 'DELETE FROM journal_steps WHERE step = 1', /step 2 does not follow/],
      ['the journal', "UPDATE journal_identity SET id = 'other'", /step 1 does not follow/],
    ])('shows that %s was altered outside the program', async (_, statement, problem) => {
      const { journal, tamper } = await usedJournal();
      await tamper(statement);
      const { status, problems } = await journal.verifyChain();
      expect(status).toBe('broken');
      expect(problems.join('\n')).toMatch(problem);
    });

    test.each([
      ['a row that waits', "UPDATE journal_intents SET parameters = '{}' WHERE row = 2", /row 2 of batch three was/],
      [
        'a row that is out',
        `UPDATE journal_intents SET cells = '["Zephyrine 2"]' WHERE row = 3`,
        /row 3 of batch three was/,
      ],
      ['a plan', "UPDATE journal_batches SET file = 'Zephyrine 2' WHERE batch = 'three'", /batch three was altered/],
      ['a write', `UPDATE journal_writes SET body = '"Zephyrine 2"'`, /write \d by hand was altered/],
      ['a reason', "UPDATE journal_steps SET note = 'Zephyrine 2' WHERE note = 'Zephyrine 1'", /its note was changed/],
    ])('shows that %s was altered even if a person was forgotten since', async (_, statement, problem) => {
      const { journal, tamper } = await usedJournal();
      const rows = [
        newIntent(2, 8, { cells: ['Zephyrine 1'] }),
        newIntent(3, 8, { cells: ['Zephyrine 1'], state: 'invalid' }),
      ];
      await journal.addBatch(newBatch({ batch: 'three', file: 'Zephyrine 1' }), rows);
      await journal.move({ batch: 'one', row: 4, from: 'planned', to: 'blocked', note: 'Zephyrine 1' });
      await tamper(statement);
      await journal.forget({ id: 8, addresses: [], texts: ['Zephyrine'] });
      expect((await journal.verifyChain()).problems.join('\n')).toMatch(problem);
    });

    test('shows by a known head that the newest steps were removed', async () => {
      const { journal, tamper } = await usedJournal();
      const head = await journal.head();
      await journal.addBatch(newBatch({ batch: 'three' }), []);
      const newest = await journal.head();
      await tamper("DELETE FROM journal_batches WHERE batch = 'three'");
      await tamper("DELETE FROM journal_steps WHERE batch = 'three'");
      expect(await journal.verifyChain(head?.hash)).toMatchObject({ status: 'whole' });
      const { status, problems } = await journal.verifyChain(newest?.hash);
      expect([status, problems.join()]).toEqual(['broken', expect.stringMatching(/steps were removed/)]);
    });
  });

  describe('the record of who did what', () => {
    async function entries(journal: Journal, filter: Parameters<Journal['audit']>[0]) {
      return Array.fromAsync(journal.audit(filter));
    }

    test('says who did what for a user, who consented, and what proves it', async () => {
      const { journal } = await open();
      const bob = { ...anna, name: 'bob' };
      await journal.addBatch(newBatch(), [newIntent(2, 42), newIntent(3, 7)]);
      await journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 8)]);
      await journal.by(bob).claim('one', always, () => [{ kind: 'consented', note: 'by typing 5.00' }]);
      await journal.by(bob).move({ batch: 'one', row: 2, from: 'planned', to: 'sending' });
      const fields = { evidence: 'token', recordId: '77' } as const;
      await journal.by(bob).move({ batch: 'one', row: 2, from: 'sending', to: 'unknown' });
      await journal.by(bob).move({ batch: 'one', row: 2, from: 'unknown', to: 'applied', fields });
      const found = await entries(journal, { user: 42 });
      expect(found.map(({ kind, actor, row }) => [kind, actor.name, row])).toEqual([
        ['added', 'anna', null],
        ['consented', 'bob', null],
        ['claimed', 'bob', null],
        ['sending', 'bob', 2],
        ['unknown', 'bob', 2],
        ['applied', 'bob', 2],
      ]);
      expect(found.at(-1)).toMatchObject({
        user: 42,
        action: 'balance',
        type: 'add',
        amount: '5.00',
        state: 'applied',
        evidence: 'token',
        recordId: '77',
      });
      const reversed = await Array.fromAsync(journal.audit({ user: 42 }, 'desc'));
      expect(reversed.reverse()).toEqual(found);
      expect(await entries(journal, { person: 'anna' })).toHaveLength(2);
      expect(await entries(journal, { person: 'bob@office', batch: 'one' })).toHaveLength(5);
      expect(await entries(journal, { batch: 'two' })).toHaveLength(1);
    });

    test('has writes by hand, and can be limited to a time and a user', async () => {
      const { journal } = await open();
      const body = '{"type":"add","amount":12.5}';
      const write = { operation: 'users.update-balance', user: 42, body, fingerprint: null };
      const number = await journal.beginWrite(write);
      await journal.endWrite(number, { state: 'done', httpStatus: 200, answer: null, problem: null });
      const [begun, ended, ...more] = await entries(journal, { user: 42 });
      expect(more).toEqual([]);
      expect(begun).toMatchObject({
        kind: 'write',
        user: 42,
        type: 'add',
        amount: '12.5',
        action: 'users.update-balance',
      });
      expect(ended).toMatchObject({ kind: 'write_ended', state: 'done' });
      const at = begun?.at ?? timestampOf(0);
      expect(await entries(journal, { since: at })).toHaveLength(2);
      expect(await entries(journal, { until: at })).toEqual([]);
      expect(await entries(journal, { user: 43 })).toEqual([]);
    });
  });
}
