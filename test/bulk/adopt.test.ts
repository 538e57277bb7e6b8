/** What a journal adopts of what the server shows, finding by finding. */
import { describe, expect, test } from 'vitest';
import { adopt, checkSettled } from '../../src/bulk/adopt.ts';
import type { Finding } from '../../src/bulk/differences.ts';
import { planHash } from '../../src/bulk/plan-rows.ts';
import { summaryOf } from '../../src/bulk/report.ts';
import type { IntentState } from '../../src/journal/port.ts';
import { hourMs, minuteMs, type Timestamp, timestampOf } from '../../src/model/time.ts';
import { openJournal } from '../support/journal-file.ts';
import { anna, newBatch, newIntent, newJournal, moveTo } from '../support/journal.ts';
import { sandboxNow } from '../support/sandbox.ts';

const at = (ms: number): Timestamp => timestampOf(sandboxNow + ms);
const tokenOf = (row: number) => newIntent(row, row).token ?? '';
const server = { address: 'http://127.0.0.1:1', keyMark: 'abcd', owner: '1' };

/** A journal with a batch of rows (from 2 on) in these states, and a server that tells the owner of the key. */
async function world(states: readonly IntentState[] = [], undoOf: string | null = null) {
  const clock = { now: () => sandboxNow };
  const { journal, file } = await newJournal(clock);
  const rows = states.map((_, index) =>
    newIntent(index + 2, index + 2, { undoOfRow: undoOf === null ? null : index + 2 }),
  );
  await journal.addBatch(newBatch({ undoOf }), rows);
  await journal.acquireLock('one');
  if (states.some((state) => state !== 'planned')) {
    await journal.claim('one', { repeatsSince: timestampOf(0), daySince: timestampOf(0) }, () => []);
  }
  for (const [index, state] of states.entries()) await moveTo(journal, index + 2, state);
  await journal.releaseLock('one');
  const client = {
    address: server.address,
    keyMark: server.keyMark,
    auth: () => Promise.resolve({ body: { id: 1 } }),
  } as never;
  const ports = { journal, client, clock, signal: new AbortController().signal, memory: null };
  const take = (findings: readonly Finding[], problems: readonly string[] = [], over: object = {}) =>
    adopt({ ...ports, ...over }, { findings, problems } as unknown as Parameters<typeof adopt>[1]);
  const intents = (batch: string | null) => Array.fromAsync(journal.intents(batch ?? ''));
  const statesNow = async () => (await intents('one')).map(({ state }) => state);
  const notes = async () => (await Array.fromAsync(journal.audit({}))).map(({ note }) => note);
  return { journal, file, ports, take, intents, notes, states: statesNow };
}

function unknown(user: number, fields: Partial<Finding> = {}): Finding {
  return {
    kind: 'unknown',
    user_id: user,
    batch: null,
    row: null,
    state: null,
    type: null,
    amount: null,
    token: tokenOf(user),
    times: 1,
    server_type: 'add',
    server_amount: '5.00',
    server_before: '10.00',
    record_id: String(user + 100),
    at: at(-hourMs),
    note: 'the journal does not know this mark',
    ...fields,
  };
}

/** A finding about a row of the batch. */
function known(row: number, kind: Finding['kind'], fields: Partial<Finding> = {}): Finding {
  return { ...unknown(row), kind, batch: 'one', row, state: 'rejected', note: 'it was made', ...fields };
}

describe('marks that the journal does not know', () => {
  test('become rows of a new batch, sorted by the time they were made, then by user', async () => {
    const { take, intents, journal } = await world();
    const found = [
      unknown(9, { at: null }),
      unknown(8, { server_type: 'remove', server_amount: '3.00', server_before: null, at: at(hourMs) }),
      unknown(7, { server_type: 'set', server_amount: '20.00', server_before: '15.00', times: 2 }),
      unknown(6),
      unknown(5, { server_type: 'set', server_amount: '4.00', server_before: null, at: null }),
      unknown(10, { server_amount: '0.50', server_before: null, at: null }),
    ];
    const { batch, ...end } = await take(found);
    expect(end).toMatchObject({ rows: 6, recorded: 0, problems: [] });
    const stored = await journal.batch(batch ?? '');
    expect(stored).toMatchObject({
      action: 'balance',
      state: 'stopped',
      file: null,
      fileHash: null,
      // 5 - 3 + 5 + 5 + 0.5. How much a `set` changed an unknown balance, nobody knows.
      net: '12.50',
      rows: 6,
      columns: ['user_id', 'type', 'amount'],
      problems: [],
      warnings: ['adopted: these rows were found on the server, and were not sent from this journal'],
      server,
      undoOf: null,
    });
    const rows = await intents(batch);
    const asPlanned = rows.map((each) => ({ ...each, state: 'planned' as const }));
    expect(stored?.hash).toBe(
      planHash({ action: 'balance', title: 'Found on the server', fileHash: null, server, undoOf: null }, asPlanned),
    );
    expect(rows.map(({ row, user, plannedAfter, sentAt }) => [row, user, plannedAfter, sentAt])).toEqual([
      [2, 5, null, at(0)],
      [3, 9, '15.00', at(0)],
      [4, 10, null, at(0)],
      [5, 6, '15.00', at(-hourMs)],
      [6, 7, '20.00', at(-hourMs)],
      [7, 8, null, at(0)],
    ]);
    const [, , , plain, twice] = rows;
    expect(plain).toMatchObject({
      state: 'applied',
      subject: 'user:6',
      token: tokenOf(6),
      parameters: { type: 'add', amount: '5.00' },
      cells: ['6', 'add', '5.00'],
      plannedBefore: '10.00',
      before: '10.00',
      after: '15.00',
      notes: [],
      evidence: 'token',
      recordId: '106',
      claimedAt: at(0),
      discrepancy: null,
      problem: null,
    });
    expect(twice).toMatchObject({
      state: 'needs_human',
      discrepancy: 'over_applied',
      problem: 'the journal does not know this mark',
    });
  });

  test('and that were made more than once need a person, and stay as repeated', async () => {
    const { take, journal, intents } = await world();
    const found = unknown(7, { times: 3, note: 'the journal does not know this mark, made 3 times' });
    const { batch, rows, recorded, left } = await take([unknown(6), found]);
    expect([rows, recorded]).toEqual([2, 0]);
    expect(left).toEqual([
      {
        ...found,
        kind: 'repeated',
        batch,
        row: 3,
        state: 'needs_human',
        type: 'add',
        amount: '5.00',
        note: 'adopted: the journal does not know this mark, made 3 times',
      },
    ]);
    expect((await intents(batch)).map(({ state, discrepancy }) => [state, discrepancy])).toEqual([
      ['applied', null],
      ['needs_human', 'over_applied'],
    ]);
    expect(await journal.batch(batch ?? '')).toMatchObject({ state: 'stopped', finishedAt: null });
    expect((await journal.verifyChain()).problems).toEqual([]);
  });

  test('and that were made more than once at one user wait for each other', async () => {
    const { take, intents, states, ports } = await world(['unknown']);
    const twice = { times: 2, user_id: 9 };
    const { batch, left } = await take([
      unknown(9, twice),
      { ...unknown(10, twice), at: at(0) },
      unknown(2, { times: 2, token: tokenOf(11) }),
    ]);
    expect(left.map(({ kind, row, state }) => [kind, row, state])).toEqual([
      ['repeated', 3, 'needs_human'],
      ['repeated', 4, 'applied'],
      // This user has an open row in another batch.
      ['repeated', 2, 'applied'],
    ]);
    const adopted = await intents(batch);
    expect(adopted.map(({ discrepancy }) => discrepancy)).toEqual(Array(3).fill('over_applied'));
    expect(await states()).toEqual(['unknown']);
    // Once the first is settled, the next one needs the person.
    const [open] = adopted.filter(({ state }) => state === 'needs_human');
    if (open === undefined) throw new Error('no row needs a person');
    const fields = { discrepancy: null } as const;
    await ports.journal.move({ batch: open.batch, row: open.row, from: 'needs_human', to: 'applied', fields });
    const again = await take(left.filter(({ row }) => row !== 3));
    expect(again.left.map(({ row, state }) => [row, state])).toEqual([
      [4, 'needs_human'],
      [2, 'applied'],
    ]);
  });

  test('are left if their amount or direction is not shown, and the journal stays marked as behind', async () => {
    const { take, journal, states } = await world(['planned']);
    await journal.setBehind('one', 'row 2 stands there');
    const [one, two] = [unknown(7, { server_type: null }), unknown(8, { server_amount: null })];
    expect(await take([one, two], ['page 3 could not be read'])).toEqual({
      batch: null,
      rows: 0,
      recorded: 0,
      left: [one, two],
      problems: ['page 3 could not be read', '2 marks stand at changes whose amount or direction is not shown'],
    });
    const { batch, left, problems } = await take([unknown(9), one]);
    expect([left, problems]).toEqual([[one], ['1 mark stands at a change whose amount or direction is not shown']]);
    expect((await journal.batch(batch ?? ''))?.net).toBe('5.00');
    expect([(await journal.batch('one'))?.behind, await states()]).toEqual(['row 2 stands there', ['planned']]);
  });
});

describe('a journal that was compared with all users', () => {
  test('may send again, and is accepted with a note of what was adopted', async () => {
    const { take, journal, notes, ports } = await world(['rejected']);
    await journal.addBatch(newBatch({ batch: 'two' }), []);
    await journal.setBehind('one', 'row 2 stands there');
    let remembered: object = { journal: 'another', step: 9, hash: 'h9', batch: null, at: at(0), seen: true };
    const memory = { recall: () => remembered, remember: (each: object) => void (remembered = each), close: () => {} };
    await take([unknown(9), known(2, 'unrecorded')], [], { memory });
    expect((await journal.batch('one'))?.behind).toBeNull();
    expect(await notes()).toContain('all users were looked at, 1 row adopted, 1 recorded');
    expect(remembered).toMatchObject({ journal: ports.journal.id });
    const steps = (await Array.fromAsync(journal.audit({}))).map(({ kind, batch }) => `${kind} ${batch ?? ''}`);
    expect(steps.filter((each) => each.startsWith('reconciled'))).toEqual(['reconciled one']);
  });

  test('stays marked as behind if something could not be read', async () => {
    const { take, journal } = await world(['rejected']);
    await journal.setBehind('one', 'row 2 stands there');
    expect((await take([], ['page 3 could not be read'])).problems).toEqual(['page 3 could not be read']);
    expect((await journal.batch('one'))?.behind).toBe('row 2 stands there');
  });
});

describe('a row that the journal knows', () => {
  test.each<[IntentState, Finding['kind'], Partial<Finding>, IntentState]>([
    ['rejected', 'unrecorded', {}, 'applied'],
    ['skipped', 'unrecorded', {}, 'applied'],
    ['planned', 'unrecorded', {}, 'applied'],
    ['blocked', 'unrecorded', {}, 'applied'],
    ['unknown', 'unsettled', {}, 'applied'],
    ['sending', 'unsettled', {}, 'applied'],
    ['applied', 'repeated', { times: 2, state: 'applied' }, 'needs_human'],
  ])('and has %s is recorded if the server shows it: %s', async (state, kind, fields, to) => {
    const { take, states, journal, intents } = await world([state]);
    const finding = known(2, kind, fields);
    const end = await take([finding]);
    const isTwice = to === 'needs_human';
    // A person still has to take back what was too much.
    const left = isTwice ? [{ ...finding, state: to }] : [];
    expect([end.batch, end.rows, end.recorded, end.left]).toEqual([null, 0, isTwice ? 0 : 1, left]);
    expect(await states()).toEqual([to]);
    expect((await intents('one'))[0]).toMatchObject({
      evidence: 'token',
      recordId: '102',
      discrepancy: isTwice ? 'over_applied' : null,
      problem: isTwice ? 'it was made' : null,
    });
    expect((await journal.steps('one')).map(({ note }) => note)).toContain('adopted: it was made');
    const batch = await journal.batch('one');
    if (batch === undefined) throw new Error('the batch is gone');
    const { state: now, discarded } = await summaryOf(journal, batch);
    expect([now, discarded]).toEqual([isTwice ? 'stopped' : 'done', false]);
    expect(await journal.lockOwner('one')).toBeUndefined();
  });

  test.each<[IntentState, Finding['kind'], Partial<Finding>]>([
    ['unknown', 'unsettled', { times: 0 }],
    ['needs_human', 'repeated', { times: 2, state: 'needs_human' }],
    ['applied', 'missing', {}],
    ['applied', 'amount', {}],
    ['applied', 'other_user', {}],
    ['rejected', 'unrecorded', { batch: null }],
  ])('and has %s is left as it is if the finding is: %s %j', async (state, kind, fields) => {
    const { take, states } = await world([state]);
    const finding = known(2, kind, fields);
    const end = await take([finding]);
    expect([end.recorded, end.left, await states()]).toEqual([0, [finding], [state]]);
  });

  test('and that waits for another row of its user is recorded, too', async () => {
    const { take, journal, states } = await world(['blocked']);
    const other = newBatch({ batch: 'two', hash: 'h2', fileHash: 'f2', rowsDigest: 'd2' });
    await journal.addBatch(other, [newIntent(5, 2)]);
    await journal.claim('two', { repeatsSince: timestampOf(0), daySince: timestampOf(0) }, () => []);
    await journal.move({ batch: 'two', row: 5, from: 'planned', to: 'sending' });
    expect((await take([known(2, 'unrecorded')])).recorded).toBe(1);
    expect(await states()).toEqual(['applied']);
  });

  test('and that was sent without it counts as sent when it was made, but not later than now', async () => {
    const sentAt = async (shown: string | null) => {
      const { take, intents } = await world(['planned']);
      await take([known(2, 'unrecorded', { at: shown })]);
      const [row] = await intents('one');
      expect(row?.claimedAt).toBe(at(0));
      return row?.sentAt;
    };
    expect(await sentAt(at(-hourMs))).toBe(at(-hourMs));
    expect(await sentAt(at(hourMs))).toBe(at(0));
    expect(await sentAt(null)).toBe(at(0));
    const claimed = await world(['rejected']);
    const [before] = await claimed.intents('one');
    await claimed.take([known(2, 'unrecorded', { at: at(-hourMs) })]);
    expect((await claimed.intents('one'))[0]).toMatchObject({ claimedAt: before?.claimedAt, sentAt: before?.sentAt });
  });

  test('and that reverses another row makes a later reversal of the same row be skipped', async () => {
    const { take, states, journal } = await world(['not_applied'], 'paid');
    const other = newBatch({ batch: 'two', hash: 'h2', fileHash: 'f2', rowsDigest: 'd2', undoOf: 'paid' });
    await journal.addBatch(other, [newIntent(5, 2, { undoOfRow: 2 })]);
    await take([known(2, 'unrecorded', { state: 'not_applied' })]);
    expect([await states(), (await journal.intent('two', 5))?.state]).toEqual([['applied'], 'skipped']);
  });

  test('is left as it is while another process holds the lock of its batch or of one that reverses the same row', async () => {
    const { take, states, journal, file } = await world(['not_applied'], 'paid');
    const other = newBatch({ batch: 'two', hash: 'h2', fileHash: 'f2', rowsDigest: 'd2', undoOf: 'paid' });
    await journal.addBatch(other, [newIntent(5, 2, { undoOfRow: 2 })]);
    const elsewhere = await openJournal(file, anna);
    await elsewhere.acquireLock('two');
    const finding = known(2, 'unrecorded', { state: 'not_applied' });
    expect(await take([finding])).toMatchObject({ recorded: 0, left: [finding] });
    await elsewhere.acquireLock('one');
    await expect(take([finding])).rejects.toThrow(/in other hands/);
    expect(await states()).toEqual(['not_applied']);
    await elsewhere.close();
  });
});

test('nothing is adopted while a request that the journal does not know may still be made late', async () => {
  const { ports } = await world(['rejected']);
  const settled = (ms: number | null) => {
    const newest = { journal: ports.journal.id, step: 1_000, hash: 'h', batch: null, seen: true, at: at(-(ms ?? 0)) };
    const memory = { recall: () => (ms === null ? null : newest), remember: () => true, close: () => {} };
    return checkSettled({ ...ports, memory } as unknown as typeof ports, 10 * minuteMs);
  };
  await settled(null);
  await settled(10 * minuteMs);
  await expect(settled(10 * minuteMs - 1)).rejects.toMatchObject({
    exitCode: 5,
    message: expect.stringMatching(
      /^a request that this journal does not know was sent at \S{19}, and its write/,
    ) as string,
    advice: `Wait until ${at(1).slice(0, 19)} (bulk.settle_after), then adopt.`,
  });
});
