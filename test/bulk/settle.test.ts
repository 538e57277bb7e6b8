/** How a row that was sent is settled: by looks, by a person, and later by a sync. */
import { describe, expect, test } from 'vitest';
import { NotFound, Unreachable } from '../../src/api/errors.ts';
import type { Counters } from '../../src/api/retry.ts';
import { balance } from '../../src/bulk/actions/balance.ts';
import type { BulkEvent, Sending } from '../../src/bulk/sending.ts';
import { reconcileRows, recordLate, reviewElsewhere, settleAll } from '../../src/bulk/late.ts';
import { discardBatch, resolveRow } from '../../src/bulk/resolve.ts';
import { settleRow, updateBatchState } from '../../src/bulk/settle.ts';
import type { IntentFields, IntentState, Journal } from '../../src/journal/port.ts';
import { minuteMs, systemClock, timestampOf } from '../../src/model/time.ts';
import { defaultOptions } from '../support/bulk.ts';
import { moveTo, newBatch, newIntent, newJournal, seenAtHundred } from '../support/journal.ts';
import { sandboxNow } from '../support/sandbox.ts';

const parameters = { type: 'add', amount: '5.00', description: 'Credit', expected_balance: null } as const;
const tokenOf = (row: number) => newIntent(row, row).token ?? '';
const made = (row: number, amount = 5) => ({ id: row, amount, result: '+', description: `Credit ${tokenOf(row)}` });

/** Another transaction with the token of the row. */
const again = (row: number) => ({ ...made(row), id: row + 1_000 });

/** A batch with a row in each of these states, for users 2, 3 and so on, and a server that shows what `show` says. */
async function world(states: readonly IntentState[], fields: IntentFields = {}, isClaimed = true, sameUser = false) {
  let now = sandboxNow;
  const clock = { now: () => now };
  const { journal } = await newJournal(clock);
  const rows = states.map((_, index) => newIntent(index + 2, sameUser ? 2 : index + 2, { parameters }));
  await journal.addBatch(newBatch(), rows);
  await journal.acquireLock('one');
  if (isClaimed) await journal.claim('one', { repeatsSince: timestampOf(0), daySince: timestampOf(0) }, () => []);
  const sent = { sentAt: timestampOf(now), seenBefore: seenAtHundred, answerKind: 'lost' as const, ...fields };
  for (const [index, state] of states.entries()) {
    await moveTo(journal, index + 2, state, (to) => (to === 'sending' ? sent : {}));
  }
  const users = new Map<number, { balance: unknown; balance_transactions: readonly object[] }>();
  const looks: number[] = [];
  const waits: number[] = [];
  const events: BulkEvent[] = [];
  const counters: Counters = { requests: 0, retries: 0, byStatus: {} };
  const client = {
    counters,
    getUser: (user: number) => {
      looks.push(user);
      const shown = users.get(user);
      if (shown === undefined) return Promise.reject(new Unreachable('nobody is there'));
      return Promise.resolve({ body: { id: user, ...shown } });
    },
  };
  const batch = await journal.batch('one');
  if (batch === undefined) throw new Error('the batch is gone');
  const stop = new AbortController();
  const sending = {
    journal,
    memory: null,
    client,
    clock,
    batch,
    action: balance,
    options: defaultOptions,
    signal: stop.signal,
    sleep: (ms: number) => {
      waits.push(ms);
      return Promise.resolve();
    },
    progress: (event: BulkEvent) => events.push(event),
  } as unknown as Sending;
  const intent = async (row = 2) => {
    const each = await journal.intent('one', row);
    if (each === undefined) throw new Error('the row is gone');
    return each;
  };
  const show = (row: number, amount: unknown, ...transactions: readonly object[]) =>
    void users.set(row, { balance: amount, balance_transactions: transactions });
  const settle = async ({ client: other = client, ...over }: Partial<Record<keyof Sending, unknown>> = {}) =>
    settleRow(
      { ...sending, ...over, client: { counters, ...(other as object) } } as unknown as Sending,
      await intent(),
    );
  const pass = (ms: number) => void (now += ms);
  const statesNow = async () => (await Array.fromAsync(journal.intents('one'))).map(({ state }) => state);
  return {
    journal,
    sending,
    batch,
    intent,
    show,
    settle,
    pass,
    counters,
    looks,
    waits,
    events,
    stop,
    states: statesNow,
  };
}

describe('an open row', () => {
  test('that was made is applied, with its transaction and without a problem', async () => {
    const { show, settle, intent, waits } = await world(['unknown'], { problem: 'the response was lost' });
    show(2, 105, made(2));
    expect(await settle()).toEqual({ state: 'applied', stop: null });
    expect(await intent()).toMatchObject({
      evidence: 'token',
      after: '105.00',
      recordId: '2',
      problem: null,
      discrepancy: null,
    });
    expect(waits).toEqual([]);
  });

  test('that is not found stays unknown until settle_after, and is not applied after two looks that agree', async () => {
    const { show, settle, intent, waits, looks, pass } = await world(['unknown']);
    show(2, 100);
    pass(defaultOptions.settleAfterMs - 1);
    expect(await settle()).toEqual({ state: 'unknown', stop: null });
    expect([waits, looks]).toEqual([[], [2]]);
    pass(1);
    expect(await settle()).toEqual({ state: 'not_applied', stop: null });
    expect([waits, looks]).toEqual([[1_000], [2, 2, 2]]);
    expect(await intent()).toMatchObject({
      recordId: null,
      problem: 'two looks agree: the balance is 100.00, as it was before; no transaction of it is shown',
    });
  });

  test('gets its time from when its request was sent, not from when it was recorded', async () => {
    const { journal, show, settle, pass } = await world(['sending']);
    pass(5 * minuteMs);
    await journal.move({ batch: 'one', row: 2, from: 'sending', to: 'unknown' });
    show(2, 100);
    pass(defaultOptions.settleAfterMs - minuteMs);
    expect(await settle()).toMatchObject({ state: 'unknown' });
    pass(minuteMs);
    expect(await settle()).toMatchObject({ state: 'not_applied' });
  });

  test('gets its full time if the clock was set forward by over a minute since, as the server’s clock shows', async () => {
    const { intent: sent } = await world(['unknown']);
    const seenBefore = { ...((await sent()).seenBefore as object), serverAheadMs: 5_000 };
    for (const [ahead, left] of [
      [5_000, 0],
      [5_001 - minuteMs, 0],
      [4_000 - minuteMs, 1_000],
      [5_000 - 30 * minuteMs, 29 * minuteMs],
      // A clock that was set back adds no wait.
      [5_000 + 30 * minuteMs, 0],
      [undefined, 0],
    ] as const) {
      const { show, settle, pass, counters } = await world(['unknown'], { seenBefore });
      counters.serverAheadMs = ahead;
      show(2, 100);
      pass(defaultOptions.settleAfterMs + left - 1);
      expect([ahead, await settle()]).toEqual([ahead, { state: 'unknown', stop: null }]);
      pass(1);
      expect([ahead, await settle()]).toEqual([ahead, { state: 'not_applied', stop: null }]);
    }
  });

  test('stays unknown if two looks differ, and is applied if the second one finds it', async () => {
    const { show, settle, pass, sending } = await world(['unknown']);
    show(2, 100);
    pass(defaultOptions.settleAfterMs);
    const late = (then: () => void) => ({ ...sending, sleep: () => Promise.resolve(then()) });
    expect(await settle(late(() => show(2, 98, { id: 9, amount: 2, result: '-', description: 'x' })))).toMatchObject({
      state: 'unknown',
    });
    show(2, 100);
    expect(await settle(late(() => show(2, 105, made(2))))).toMatchObject({ state: 'applied' });
  });

  test('that was made twice stops the batch', async () => {
    const { show, settle, intent } = await world(['unknown']);
    show(2, 110, made(2), again(2));
    const { state, stop } = await settle();
    expect([state, stop?.message]).toEqual(['needs_human', expect.stringMatching(/^row 2 was over-applied/)]);
    expect(await intent()).toMatchObject({ discrepancy: 'over_applied', recordId: null });
  });

  test('is left to a person in the end if the server shows another user in place of its own', async () => {
    const { settle, pass, intent } = await world(['unknown']);
    const another = { id: 99, balance: 105, balance_transactions: [made(2)] };
    const client = { getUser: () => Promise.resolve({ body: another }) };
    expect(await settle({ client })).toEqual({ state: 'unknown', stop: null });
    pass(defaultOptions.settleAfterMs);
    expect(await settle({ client })).toEqual({ state: 'needs_human', stop: null });
    expect((await intent()).problem).toMatch(/the server shows another user in place of this one/);
  });

  describe('whose user is not found', () => {
    /** A server that finds only these users, and the requests to it. */
    const finding = (...found: readonly number[]) => {
      const requests: string[] = [];
      const client = {
        getUser: (user: number) => {
          requests.push(`user ${user}`);
          return found.includes(user)
            ? Promise.resolve({ body: { id: user, balance: 100, balance_transactions: [] } })
            : Promise.reject(new NotFound('404'));
        },
        list: () => {
          requests.push('list');
          return Promise.resolve({ records: found.map((id) => ({ id })) });
        },
      };
      return { client, requests };
    };

    test('is rejected after a refusal only if another user is found', async () => {
      const { settle, pass, intent } = await world(['unknown'], { answerKind: 'refused' });
      const nobody = finding();
      expect(await settle({ client: nobody.client })).toEqual({ state: 'unknown', stop: null });
      expect(nobody.requests).toEqual(['user 2', 'list']);
      pass(defaultOptions.settleAfterMs);
      expect(await settle({ client: nobody.client })).toEqual({ state: 'needs_human', stop: null });
      expect((await intent()).problem).toMatch(/neither the user nor anybody else is found: 404/);
      const another = finding(9);
      const { settle: settleAnother } = await world(['unknown'], { answerKind: 'refused' });
      expect(await settleAnother({ client: another.client })).toEqual({ state: 'rejected', stop: null });
      // The last look is there because the user may have come back meanwhile.
      expect(another.requests.slice(0, 4)).toEqual(['user 2', 'list', 'user 9', 'user 2']);
    });

    test('is judged as usual if the server reported success or the user is found', async () => {
      const accepted = finding();
      await (await world(['acknowledged'], { answerKind: 'accepted' })).settle({ client: accepted.client });
      const found = finding(2);
      await (await world(['unknown'], { answerKind: 'refused' })).settle({ client: found.client });
      expect([...accepted.requests, ...found.requests].filter((each) => each === 'list')).toEqual([]);
    });
  });

  test('that a newer journal may have sent gets its time from then, and no response is believed', async () => {
    const { show, settle, pass, sending } = await world(['unknown'], { answerKind: 'refused' });
    show(2, 100);
    pass(30 * minuteMs);
    const sentAt = (ms: number) => ({
      recall: () => ({ journal: 'other', step: 9, hash: 'h', batch: 'one', at: timestampOf(sending.clock.now() - ms) }),
      remember: () => true,
      close: () => {},
    });
    expect(await settle({ memory: sentAt(minuteMs) })).toMatchObject({ state: 'unknown' });
    expect(await settle({ memory: sentAt(20 * minuteMs) })).toMatchObject({ state: 'not_applied' });
    const refused = await world(['unknown'], { answerKind: 'refused' });
    refused.show(2, 100);
    expect(await refused.settle()).toMatchObject({ state: 'rejected' });
    // An older request of the other journal does not shorten the time.
    const soon = await world(['unknown']);
    soon.show(2, 100);
    expect(await soon.settle({ memory: sentAt(20 * minuteMs) })).toMatchObject({ state: 'unknown' });
  });
});

describe('the rows of a batch', () => {
  test('are looked at one after the other, with an event for each', async () => {
    const { show, sending, events, states, looks } = await world(['unknown', 'acknowledged', 'applied', 'needs_human']);
    show(2, 105, made(2));
    show(3, 100);
    show(5, 105, made(5));
    expect(await settleAll(sending)).toBeNull();
    expect([await states(), looks]).toEqual([
      ['applied', 'unknown', 'applied', 'applied'],
      [2, 3, 5],
    ]);
    expect(events).toEqual([
      { kind: 'row', row: 2, state: 'applied' },
      { kind: 'row', row: 3, state: 'unknown' },
      { kind: 'row', row: 5, state: 'applied' },
    ]);
    expect(await settleAll(sending)).toBeNull();
    expect(events).toHaveLength(3);
  });

  test('that count as not applied are looked at again, and no others', async () => {
    const { show, sending, states, looks } = await world([
      'not_applied',
      'rejected',
      'not_applied',
      'not_applied',
      'skipped',
    ]);
    show(2, 105, made(2));
    show(3, 105, made(3));
    show(4, 100);
    show(5, 110, made(5), again(5));
    expect((await settleAll(sending))?.message).toMatch(/row 5 was over-applied/);
    expect([await states(), looks]).toEqual([
      ['applied', 'applied', 'not_applied', 'needs_human', 'skipped'],
      [2, 3, 4, 5],
    ]);
    const away = await world(['not_applied']);
    expect(await settleAll(away.sending)).toBeInstanceOf(Unreachable);
    const bug = { getUser: () => Promise.reject(new TypeError('a bug')) };
    await expect(settleAll({ ...away.sending, client: bug as never })).rejects.toThrow(/a bug/);
  });

  test('are all looked at even if one was made twice, but not after an error', async () => {
    const { show, sending, states } = await world(['needs_human', 'unknown', 'not_applied', 'not_applied']);
    show(2, 110, made(2), again(2));
    show(3, 105, made(3));
    show(4, 110, made(4), again(4));
    show(5, 105, made(5));
    expect((await settleAll(sending))?.message).toMatch(/row 2 was over-applied/);
    expect(await states()).toEqual(['needs_human', 'applied', 'needs_human', 'applied']);
    const away = await world(['unknown', 'not_applied']);
    away.show(3, 105, made(3));
    expect(await settleAll(away.sending)).toBeInstanceOf(Unreachable);
    expect(away.looks).toEqual([2]);
  });

  test('are all looked for by reconcile, and one that was not sent from here counts as claimed now', async () => {
    const { show, sending, states, intent } = await world(['planned'], {}, false);
    show(2, 105, made(2));
    expect(await reconcileRows(sending)).toBeNull();
    expect(await states()).toEqual(['applied']);
    expect((await intent()).claimedAt).toBe(timestampOf(sandboxNow));
    const claimed = await world(['not_applied']);
    const before = (await claimed.intent()).claimedAt;
    claimed.pass(minuteMs);
    claimed.show(2, 105, made(2));
    await reconcileRows(claimed.sending);
    expect(await claimed.intent()).toMatchObject({ state: 'applied', claimedAt: before });
  });

  test('are not looked at if they were made twice and a person decided about them', async () => {
    const { show, sending, looks, journal, batch } = await world(['unknown']);
    show(2, 110, made(2), again(2));
    await settleAll(sending);
    await journal.releaseLock('one');
    await resolveRow(journal, batch, { row: 2, outcome: 'applied', resend: false, reason: 'taken back' });
    looks.length = 0;
    expect([await reconcileRows(sending), looks]).toEqual([null, []]);
  });
});

describe('a row of another batch', () => {
  test('is looked at again, and gives an error if it was made twice', async () => {
    const { sending, show, states, journal } = await world(['not_applied', 'not_applied']);
    await journal.releaseLock('one');
    show(2, 105, made(2));
    show(3, 110, made(3), again(3));
    const elsewhere = (row: number) => reviewElsewhere(sending, { batch: 'one', row, state: 'not_applied' });
    expect(await elsewhere(2)).toBeNull();
    expect((await elsewhere(3))?.message).toMatch(/row 3 was over-applied/);
    expect([await states(), await journal.lockOwner('one')]).toEqual([['applied', 'needs_human'], undefined]);
  });
});

describe('the decision of a person', () => {
  const resolve = async (state: IntentState, over: object = {}) => {
    const { journal, batch, intent } = await world([state]);
    await journal.releaseLock('one');
    const said = { row: 2, outcome: 'applied', resend: false, reason: ' I looked ', ...over } as const;
    const end = await resolveRow(journal, batch, said).catch((error: Error) => error.message);
    const steps = (await journal.steps('one')).filter((step) => step.row === 2);
    return { end, row: await intent(), batch: await journal.batch('one'), steps };
  };
  const again = { outcome: 'not_applied', resend: true } as const;

  test.each(['sending', 'acknowledged', 'unknown', 'needs_human'] as const)(
    'settles a row that is %s',
    async (state) => {
      const { end, row, batch, steps } = await resolve(state);
      expect([end, row.state, row.evidence, row.problem]).toEqual([
        'applied',
        'applied',
        'person',
        'a person decided: I looked',
      ]);
      expect([batch?.state, steps.at(-1)?.note]).toEqual(['done', 'decided by a person: I looked']);
      expect((await resolve(state, { outcome: 'not_applied' })).row.state).toBe('not_applied');
    },
  );

  test.each(['acknowledged', 'unknown', 'needs_human', 'rejected', 'not_applied'] as const)(
    'sends a row that is %s again',
    async (state) => {
      const { end, row, batch } = await resolve(state, again);
      expect([end, row.state, row.evidence, row.problem, row.discrepancy]).toEqual([
        'planned',
        'planned',
        'person',
        null,
        null,
      ]);
      expect(batch?.state).toBe('stopped');
    },
  );

  test.each([
    ['planned', {}, /row 2 is planned: there is nothing to decide/],
    ['applied', again, /row 2 is applied: there is nothing to decide/],
    ['not_applied', {}, /row 2 is not applied: there is nothing to decide/],
    ['unknown', { reason: ' ' }, /a reason is needed/],
    ['unknown', { resend: true }, /what was applied must not be sent again/],
    ['unknown', { row: 9 }, /batch one has no row 9/],
  ] as const)('is refused for a row that is %s: %j', async (state, over, words) => {
    expect((await resolve(state, over)).end).toMatch(words);
  });

  test('lets the next row of the user be sent, and respects the lock', async () => {
    const { journal, batch } = await world(['unknown', 'blocked'], {}, true, true);
    await expect(
      resolveRow(journal, batch, { row: 2, outcome: 'applied', resend: false, reason: 'x' }),
    ).rejects.toThrow(/in other hands/);
    await journal.releaseLock('one');
    await resolveRow(journal, batch, { row: 2, outcome: 'applied', resend: false, reason: 'x' });
    expect([(await journal.intent('one', 3))?.state, (await journal.batch('one'))?.state]).toEqual([
      'planned',
      'stopped',
    ]);
    expect(await journal.lockOwner('one')).toBeUndefined();
  });

  test('is refused if another batch has reversed the row', async () => {
    const { journal, batch } = await world(['unknown']);
    await journal.releaseLock('one');
    const taken: Journal = { ...journal, move: () => Promise.resolve(false) };
    const said = { row: 2, outcome: 'applied', resend: false, reason: 'x' } as const;
    await expect(resolveRow(taken, batch, said)).rejects.toThrow(/was taken back by another batch/);
  });

  test.each([
    [['applied', 'skipped', 'rejected', 'not_applied'], false],
    [['applied', 'planned'], true],
    [['applied', 'blocked'], true],
    [['applied', 'unknown'], true],
    [['needs_human'], true],
  ] as const)('leaves something to do if the rows are %j: %s', async (states, rest) => {
    const { journal } = await world(states);
    await updateBatchState(journal, 'one');
    expect((await journal.batch('one'))?.state).toBe(rest ? 'stopped' : 'done');
  });
});

describe('a batch that a person discards', () => {
  const discard = async (states: readonly IntentState[], reason = ' Kim pays it ', isClaimed = true) => {
    const { journal, batch, intent } = await world(states, {}, isClaimed);
    await journal.releaseLock('one');
    const found = (await journal.batch('one')) ?? batch;
    const problem = await discardBatch(journal, found, reason).catch((error: Error) => error.message);
    const { problem: why } = await intent(states.length + 1);
    return { problem, why, discarded: await journal.wasDiscarded('one'), owner: await journal.lockOwner('one') };
  };

  test.each([
    [['planned'], false],
    [['applied', 'planned'], true],
    [['applied', 'blocked'], true],
    [['planned', 'blocked'], true],
  ] as const)('has its rows skipped, with the reason, if they are %s', async (states, isClaimed) => {
    const end = await discard(states, ' Kim pays it ', isClaimed);
    expect(end).toEqual({
      problem: undefined,
      why: 'a person discarded it: Kim pays it',
      discarded: true,
      owner: undefined,
    });
  });

  test('needs a reason, and a row that is still to be sent unless it was never claimed', async () => {
    expect(await discard(['planned'], ' ')).toMatchObject({ problem: 'a reason is needed', discarded: false });
    expect(await discard(['applied'])).toMatchObject({
      problem: 'batch one has no row that is still to be sent',
      discarded: false,
      owner: undefined,
    });
    // A sheet with only invalid rows makes such a plan.
    const { journal, batch } = await world([], {}, false);
    await journal.releaseLock('one');
    await discardBatch(journal, batch, 'the wrong sheet');
    expect(await journal.wasDiscarded('one')).toBe(true);
  });
});

describe('a transaction that a sync brings', () => {
  const directory = (known: Readonly<Record<number, readonly Readonly<Record<string, unknown>>[]>>) => ({
    transactions: (user: number) => known[user],
  });

  test('is recorded for rows that count as not applied, and for no others', async () => {
    const { journal, intent, states } = await world([
      'not_applied',
      'not_applied',
      'not_applied',
      'unknown',
      'not_applied',
      'not_applied',
    ]);
    await journal.releaseLock('one');
    const other = { ...made(7), amount: 500 };
    const known = directory({ 2: [made(2)], 3: [], 4: [made(4), again(4)], 5: [made(5)], 7: [other] });
    expect(await recordLate({ journal, directory: known, clock: systemClock })).toEqual([
      { batch: 'one', row: 2, state: 'applied' },
      { batch: 'one', row: 4, state: 'needs_human' },
      { batch: 'one', row: 7, state: 'needs_human' },
    ]);
    expect(await states()).toEqual(['applied', 'not_applied', 'needs_human', 'unknown', 'not_applied', 'needs_human']);
    expect((await intent(7)).problem).toMatch(/^the transaction with \S+ has another amount or direction$/);
    expect(await intent(2)).toMatchObject({ evidence: 'token', problem: null, discrepancy: null });
    expect(await intent(4)).toMatchObject({
      discrepancy: 'over_applied',
      problem: expect.stringMatching(/^over-applied/),
    });
    const notes = (await Array.fromAsync(journal.audit({}))).map(({ note }) => note);
    expect(notes).toContainEqual(expect.stringMatching(/^found by a sync: the transaction with/));
    expect(await journal.lockOwner('one')).toBeUndefined();
  });
});
