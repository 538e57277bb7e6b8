/** What every journal does, whatever database holds it. */
import { describe, expect, test } from 'vitest';
import type { ClaimView, IntentState, Journal } from '../../src/journal/port.ts';
import { timestampOf } from '../../src/model/time.ts';
import { newBatch, newIntent } from '../support/journal.ts';

/** A journal that nothing was ever written to. The test that opened it need not close it. */
export interface Opened {
  readonly journal: Journal;
  /** Another connection to the same journal, as another process has one. */
  readonly again: () => Promise<Journal>;
  /** Which of the texts stand anywhere in what the database keeps on the disk. */
  readonly bytesOf: (texts: readonly string[]) => Promise<string[]>;
}

const always = { repeatsSince: timestampOf(0), daySince: timestampOf(0) };

function statesOf(journal: Journal, batch = 'one'): Promise<IntentState[]> {
  return Array.fromAsync(journal.intents(batch), ({ state }) => state);
}

/** Somebody consents to the batch, whatever the journal knows. */
async function claim(journal: Journal, batch = 'one'): Promise<void> {
  await journal.claim(batch, always, () => []);
}

async function send(journal: Journal, row: number, batch = 'one'): Promise<boolean> {
  if ((await journal.intent(batch, row))?.claimedAt === null) await claim(journal, batch);
  return journal.move({ batch, row, from: 'planned', to: 'sending' });
}

/** @param open a new journal of the kind that is tested */
export function journalContract(open: () => Promise<Opened>): void {
  describe('a row', () => {
    test('is open for its user once, whatever the batch', async () => {
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

    test('is sent only once somebody has consented to it, whatever the program thinks', async () => {
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

    test('goes on only from the state that it is in', async () => {
      const { journal } = await open();
      await journal.addBatch(newBatch(), [newIntent(2, 7)]);
      await expect(journal.move({ batch: 'one', row: 2, from: 'sending', to: 'applied' })).rejects.toThrow(
        /is not sending/,
      );
      expect(await statesOf(journal)).toEqual(['planned']);
    });

    test('that was left sending is unknown, and what waited for a user who is free is planned again', async () => {
      const { journal } = await open();
      await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 7), newIntent(4, 8)]);
      await send(journal, 2);
      for (const row of [3, 4]) await journal.move({ batch: 'one', row, from: 'planned', to: 'blocked' });
      expect(await journal.takeUp('one')).toEqual({ interrupted: 1, freed: 1 });
      expect(await statesOf(journal)).toEqual(['unknown', 'blocked', 'planned']);
      expect((await journal.steps('one')).at(-1)).toMatchObject({ row: 2, kind: 'unknown' });
    });

    test('keeps what each step brings, and every step with its time', async () => {
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
        ['sending', null],
        ['acknowledged', 'x'],
      ]);
    });

    test('is taken back once, and again only where that did not happen', async () => {
      const { journal } = await open();
      await journal.addBatch(newBatch(), [newIntent(2, 7)]);
      const undo = { undoOfRow: 2 };
      await journal.addBatch(newBatch({ batch: 'undo', undoOf: 'one' }), [newIntent(2, 7, undo)]);
      expect(await journal.undoneRows('one')).toEqual(new Map([[2, 'undo']]));
      await expect(
        journal.addBatch(newBatch({ batch: 'more', undoOf: 'one' }), [newIntent(2, 7, undo)]),
      ).rejects.toThrow(/being taken back by another batch/);
      await journal.move({ batch: 'undo', row: 2, from: 'planned', to: 'skipped' });
      await journal.addBatch(newBatch({ batch: 'more', undoOf: 'one' }), [newIntent(2, 7, undo)]);
      expect(await journal.undoneRows('one')).toEqual(new Map([[2, 'more']]));
    });
  });

  describe('a batch', () => {
    test('is stored whole or not at all', async () => {
      const { journal } = await open();
      await expect(journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(2, 8)])).rejects.toThrow(/unique/i);
      expect(await journal.batches()).toEqual([]);
    });

    test('is found again by its file or its rows once somebody consented to it', async () => {
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

    test('is in the hands of one process', async () => {
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

  test('a person is taken out, and no byte is left, while amounts, outcomes and tokens stay', async () => {
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
    // What was approved of the person can no longer go out as it was approved.
    expect(await statesOf(journal)).toEqual(['unknown', 'skipped', 'planned']);
  });

  describe('steps side by side', () => {
    const no = (): never => {
      throw new Error('no');
    };

    test('keep out of the transactions of each other', async () => {
      const { journal } = await open();
      const rows = Array.from({ length: 20 }, (_, at) => at + 2);
      await journal.addBatch(
        newBatch(),
        rows.map((row) => newIntent(row, row)),
      );
      await journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 99)]);
      await claim(journal);
      const before = await journal.lastStep();
      // Each row is sent while a claim that comes to nothing is under way.
      const sent = await Promise.all(
        rows.map(async (row) => {
          const refused = journal.claim('two', always, no).catch(String);
          const moved = await journal.move({ batch: 'one', row, from: 'planned', to: 'sending' });
          return [moved, await refused];
        }),
      );
      expect(sent).toEqual(rows.map(() => [true, 'Error: no']));
      expect(new Set(await statesOf(journal))).toEqual(new Set(['sending']));
      expect(await journal.lastStep()).toBe(before + rows.length);
      expect((await journal.claimable('two')).map(({ claimedAt }) => claimedAt)).toEqual([null]);
    });

    test('open one row of a subject, whichever comes first', async () => {
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

    test('of several people let one of them claim what all of them want to send', async () => {
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

  test('rows come whole and in order, however many there are, while steps are taken', async () => {
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
    expect(await Array.fromAsync(journal.notedIntents('one'), ({ row, notes }) => [row, notes])).toEqual([
      [7, ['look']],
    ]);
    expect(await Array.fromAsync(journal.changes('one'), ({ subject }) => subject)).toHaveLength(rows.length);
    expect(await Array.fromAsync(journal.parameters('one'), ({ parameters }) => parameters?.['amount'])).toEqual(
      rows.map(() => '5.00'),
    );
    expect(await journal.counts('one')).toEqual({ planned: rows.length - 5, sending: 5 });
  });

  test('what was sent by hand is on record with its end, and is found by whoever would do the same', async () => {
    const { journal } = await open();
    const write = { operation: 'users.update-balance', user: 7, body: '{}', fingerprint: 'print-2' };
    const first = await journal.beginWrite(write);
    const second = await journal.beginWrite({ ...write, fingerprint: 'print-3' });
    const gone = { state: 'refused', httpStatus: 404, answer: 'x'.repeat(20_000), problem: 'no such user' } as const;
    await journal.endWrite(second, gone);
    expect(await journal.writes(5)).toMatchObject([
      { write: second, state: 'refused', httpStatus: 404, problem: 'no such user' },
      { write: first, state: 'sending', httpStatus: null },
    ]);
    expect(await journal.writes(1)).toHaveLength(1);
    await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 7)]);
    const { repeats } = await journal.claimView(newBatch(), await journal.claimable('one'), always);
    expect(repeats).toMatchObject([{ fingerprint: 'print-2', batch: null, row: null, state: 'sending' }]);
  });

  test('a journal that is older than the server says so of the batch until it is reconciled', async () => {
    const { journal } = await open();
    await journal.addBatch(newBatch(), [newIntent(2, 7)]);
    const view = async () => (await journal.claimView(newBatch({ batch: 'two' }), [], always)).behind?.behind;
    expect(await view()).toBeUndefined();
    await journal.setBehind('one', 'row 2 stands there');
    expect([await view(), (await journal.batch('one'))?.behind]).toEqual(['row 2 stands there', 'row 2 stands there']);
    await journal.setBehind('one', null);
    expect(await view()).toBeUndefined();
    expect((await journal.steps('one')).map(({ kind }) => kind)).toEqual(['behind', 'reconciled']);
  });

  test('a token is known once its row was claimed', async () => {
    const { journal } = await open();
    await journal.addBatch(newBatch(), [newIntent(2, 7, { token: 'am:abcdefghijkl' })]);
    expect(await journal.knowsToken('print-2', 'am:abcdefghijkl')).toBe(false);
    await claim(journal);
    expect(await journal.knowsToken('print-2', 'am:abcdefghijkl')).toBe(true);
    expect(await journal.knowsToken('print-3', 'am:abcdefghijkl')).toBe(false);
  });
}
