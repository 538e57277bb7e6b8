/** The run of a batch: the first row, waits, reasons to stop, and the report at the end. */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  KeyRefused,
  RefusedInput,
  type Response,
  ServerFailed,
  Unreachable,
  WriteOutcomeUnknown,
} from '../../src/api/errors.ts';
import type { Action } from '../../src/bulk/action.ts';
import { balance } from '../../src/bulk/actions/balance.ts';
import { acceptJournal } from '../../src/bulk/journal-memory.ts';
import { checkSendable, sendBatch } from '../../src/bulk/send-batch.ts';
import type { BulkEvent, SendingPorts } from '../../src/bulk/sending.ts';
import { resolveRow } from '../../src/bulk/resolve.ts';
import type { IntentFields, IntentState, Journal } from '../../src/journal/port.ts';
import { FileError, KeyRefusedError, type OperatorError, UsageError } from '../../src/model/errors.ts';
import { minuteMs, type Timestamp, timestampOf } from '../../src/model/time.ts';
import { openJournal } from '../support/journal-file.ts';
import { defaultOptions, openRules } from '../support/bulk.ts';
import { anna, commitsIn, moveTo, newBatch, newIntent, newJournal, seenAtHundred } from '../support/journal.ts';
import { sandboxNow } from '../support/sandbox.ts';

type Say = (made: () => Response) => Response | Promise<Response>;

const fine: Response = { status: 200, body: {}, raw: '{}' };
const refused = (): Response => {
  throw new RefusedInput('the amount is too large', 422, []);
};
const busy = (waitMs?: number): Say => {
  return () => {
    throw new ServerFailed('come back later', 503, waitMs === undefined ? {} : { waitMs });
  };
};
const lost = (): Response => {
  throw new WriteOutcomeUnknown('the response was lost');
};
const away = (): Response => {
  throw new Unreachable('nobody is there');
};

const invalid = { state: 'invalid', token: null, parameters: null, fingerprint: null, problem: 'it is wrong' } as const;

/** Rows (from 2 on) in these states, for these users, and a server that makes each write unless told otherwise. */
async function world(users: readonly number[], states: readonly IntentState[] = [], last: IntentFields = {}) {
  let now = sandboxNow;
  const clock = { now: () => now };
  const { journal, file } = await newJournal(clock);
  const parameters = { type: 'add', amount: '5.00', description: 'Credit', expected_balance: null } as const;
  const rows = users.map((user, at) =>
    newIntent(at + 2, user, { parameters, fingerprint: `add 5 to ${user}`, ...(states[at] === 'invalid' && invalid) }),
  );
  await journal.addBatch(newBatch({ rows: rows.length }), rows);
  if (states.length > 0) {
    await journal.acquireLock('one');
    await journal.claim('one', { repeatsSince: timestampOf(0), daySince: timestampOf(0) }, () => []);
    const sent = { sentAt: timestampOf(now), answerKind: 'lost' as const, seenBefore: seenAtHundred };
    for (const [at, state] of states.entries()) {
      await moveTo(journal, at + 2, state, (to) => ({ ...(to === 'sending' && sent), ...(to === state && last) }));
    }
    await journal.releaseLock('one');
  }
  const made = new Map<number, object[]>();
  const told = new Map<number, Say[]>();
  const requests: number[] = [];
  const looks: number[] = [];
  let isAway = false;
  const record = (user: number) => {
    const transactions = made.get(user) ?? [];
    return { body: { id: user, balance: 100 + 5 * transactions.length, balance_transactions: transactions } };
  };
  const make = (user: number, description: string): void => {
    const before = made.get(user) ?? [];
    made.set(user, [...before, { id: before.length + 1, amount: 5, result: '+', description }]);
  };
  const client = {
    address: 'http://127.0.0.1:1',
    counters: {},
    keyMark: 'abcd',
    auth: () => Promise.resolve({ body: { id: 1 } }),
    redact: (text: string) => text,
    list: () => Promise.reject(new Unreachable('no list')),
    getUser: (user: number) => {
      looks.push(user);
      return isAway ? Promise.reject(new Unreachable('nobody is there')) : Promise.resolve(record(user));
    },
    sendExactly: async (_operation: string, user: number, body: string): Promise<Response> => {
      requests.push(user);
      const makes = (): Response => {
        make(user, (JSON.parse(body) as { description: string }).description);
        return fine;
      };
      const say = told.get(user)?.shift();
      return say === undefined ? makes() : say(makes);
    },
  };
  const events: BulkEvent[] = [];
  const stop = new AbortController();
  const sleeps: number[] = [];
  const ports = {
    journal,
    memory: null,
    client,
    clock,
    sleep: (ms: number) => {
      sleeps.push(ms);
      now += ms;
      return Promise.resolve();
    },
    signal: stop.signal,
    progress: (event: BulkEvent) => void events.push(event),
  } as unknown as SendingPorts;
  const found = async () => {
    const batch = await journal.batch('one');
    if (batch === undefined) throw new Error('the batch is gone');
    return batch;
  };
  const whole = async (
    over: { readonly reason?: string; readonly [port: string]: unknown } = {},
    options: object = {},
    action: Action = balance,
    sends = true,
  ) => {
    const batch = await found();
    const approved = batch.state === 'planned' ? 'by a test' : null;
    const consent = sends ? { ...openRules, again: { reason: over.reason ?? null }, approved } : null;
    return sendBatch({ ...ports, ...over }, batch, action, { ...defaultOptions, ...options }, consent);
  };
  const go = async (...given: Parameters<typeof whole>) => ({ stop: (await whole(...given)).stop });
  const reconcile = (over: Parameters<typeof whole>[0] = {}) => go(over, {}, balance, false);
  return {
    journal,
    file,
    clock,
    ports,
    client,
    events,
    requests,
    looks,
    sleeps,
    stop,
    whole,
    go,
    reconcile,
    batch: found,
    within: (over: Partial<Journal>, options: object = {}) => go({ journal: { ...journal, ...over } }, options),
    tell: (user: number, ...says: readonly Say[]) => void told.set(user, [...says]),
    make,
    tokenOf: (row: number) => rows[row - 2]?.token ?? '',
    leave: () => void (isAway = true),
    waits: () => events.flatMap((each) => (each.kind === 'wait' ? [each.ms] : [])),
    states: async () => (await Array.fromAsync(journal.intents('one'))).map(({ state }) => state),
    /** A mirror that knows another journal. */
    other: {
      recall: () => ({
        journal: 'other',
        step: 9,
        hash: 'h9',
        batch: 'x',
        at: '2026-03-11T10:20:30.000000Z' as Timestamp,
      }),
      remember: () => true,
      close: () => {},
    },
  };
}

const bug = new TypeError('a bug');
const full = new FileError('the disk is full', { advice: 'Make room.' });
const problemOf = ({ stop }: { readonly stop: OperatorError | null }): string => stop?.message ?? 'none';

describe('a batch', () => {
  test('is claimed, sent row by row with an event for each, and is done', async () => {
    const { go, events, requests, batch, states, journal } = await world([7, 8, 9]);
    expect(await go()).toEqual({ stop: null });
    expect(events).toEqual([
      { kind: 'begin', rows: 3 },
      ...[2, 3, 4].map((row) => ({ kind: 'row', row, state: 'applied' })),
    ]);
    expect([requests, await states()]).toEqual([
      [7, 8, 9],
      ['applied', 'applied', 'applied'],
    ]);
    expect([(await batch()).state, await journal.lockOwner('one')]).toEqual(['done', undefined]);
  });

  test('waits for the disk twice a row: that a row was applied is recorded with the next one', async () => {
    const commitsOf = async (users: readonly number[]) => {
      const { go, file, states } = await world(users);
      const before = commitsIn(file);
      expect(await go({}, { concurrency: 1 })).toEqual({ stop: null });
      expect(new Set(await states())).toEqual(new Set(['applied']));
      return commitsIn(file) - before;
    };
    const users = [1, 2, 3, 4];
    expect((await commitsOf([...users, 5, 6])) - (await commitsOf(users))).toBe(4);
    // Before another row of the same user is sent, the one before it must not be open any more.
    expect((await commitsOf([...users, 4, 4])) - (await commitsOf(users))).toBe(6);
  });

  test('is sent once a person accepts the journal', async () => {
    const { go, other, ports, requests, journal } = await world([7]);
    let known: object = other.recall();
    const memory = { ...other, recall: () => known, remember: (newest: object) => ((known = newest), true) };
    await acceptJournal({ ...ports, memory: memory as never }, 'the old one is gone');
    expect(await go({ memory })).toEqual({ stop: null });
    expect([requests, known]).toEqual([[7], expect.objectContaining({ journal: journal.id })]);
  });
});

describe('a row that was sent by an earlier run', () => {
  test('is settled before more is sent, and rows that waited for it are sent, too', async () => {
    const { go, make, tokenOf, requests, states } = await world([7, 7, 8], ['unknown', 'blocked']);
    make(7, `Credit ${tokenOf(2)}`);
    expect(await go()).toEqual({ stop: null });
    expect([requests, await states()]).toEqual([
      [7, 8],
      ['applied', 'applied', 'applied'],
    ]);
  });

  test('and cannot be looked for ends the run before anything is sent', async () => {
    const { go, leave, requests, states, batch, events } = await world([7, 8], ['unknown']);
    leave();
    expect(problemOf(await go())).toBe('nobody is there');
    expect([requests, await states(), (await batch()).state]).toEqual([[], ['unknown', 'planned'], 'stopped']);
    expect(events).toEqual([]);
  });

  test('and counts as not applied is looked at again', async () => {
    const { go, make, tokenOf, requests, states } = await world([7, 8], ['not_applied']);
    make(7, `Credit ${tokenOf(2)}`);
    expect(await go()).toEqual({ stop: null });
    expect([requests, await states()]).toEqual([[8], ['applied', 'applied']]);
  });
});

describe('the first row', () => {
  test('that is not applied stops the batch', async () => {
    const { go, tell, requests, states } = await world([7, 8, 9]);
    tell(7, refused);
    const { stop } = await go();
    expect([stop?.name, stop?.message]).toEqual([
      'IncompleteError',
      'row 2, which was sent alone before all others, was not applied: the batch was stopped',
    ]);
    expect(stop?.advice).toMatch(/bulk results one.*bulk resume one/);
    expect([requests, await states()]).toEqual([[7], ['rejected', 'planned', 'planned']]);
  });

  test('leaves its part to the next if it is not sent, or if a refusal concerns its own user only', async () => {
    const { go, tell, requests, states } = await world([6, 7, 8, 9]);
    tell(6, refused);
    tell(8, refused);
    const own = {
      ...balance,
      refusedForItself: true,
      failedPrecondition: ({ user }: { user: number | null }) => (user === 7 ? 'it is closed' : null),
    };
    const { stop } = await go({}, {}, own as unknown as Action);
    expect([stop, requests, await states()]).toEqual([null, [6, 8, 9], ['rejected', 'skipped', 'rejected', 'applied']]);
  });

  test('that the server accepts but does not make stops the batch', async () => {
    const { go, tell, requests, states } = await world([7, 8]);
    tell(7, () => fine);
    expect(problemOf(await go({}, { settleAfterMs: 0 }))).toMatch(/^row 2, which was sent alone/);
    expect([requests, await states()]).toEqual([[7], ['not_applied', 'planned']]);
  });

  test('whose outcome is unknown stops the batch, even if a refusal would concern its own user only', async () => {
    const { go, tell, requests, states } = await world([6, 7]);
    tell(6, lost);
    expect(problemOf(await go({}, {}, { ...balance, refusedForItself: true }))).toMatch(
      /^row 2, which was sent alone before all others, is not known to be applied: the batch was stopped$/,
    );
    expect([requests, await states()]).toEqual([[6], ['unknown', 'planned']]);
  });

  test('is no failure if the run is stopped while it waits or is looked at', async () => {
    const { go, tell, stop, requests, states, ports, looks } = await world([7, 8]);
    tell(7, busy(5), busy(5));
    const progress = (event: BulkEvent): void => void (event.kind === 'wait' && stop.abort(new Error('stopped')));
    expect(await go({ progress })).toEqual({ stop: null });
    expect([requests, await states()]).toEqual([[7], ['planned', 'planned']]);
    const again = await world([7, 8]);
    const getUser = () => {
      again.stop.abort(new Error('stopped'));
      return Promise.reject(new Unreachable('broken off'));
    };
    expect(await again.go({ client: { ...again.client, getUser } })).toEqual({ stop: null });
    expect([again.requests, looks.length, ports.signal.aborted]).toEqual([[], 1, true]);
  });

  test('is sent alone, with no other request under way', async () => {
    const { go, requests } = await world([7, 8, 9]);
    let seen = 0;
    const progress = (event: BulkEvent): void =>
      void (event.kind === 'row' && event.row === 2 && (seen = requests.length));
    await go({ progress }, { concurrency: 3 });
    expect(seen).toBe(1);
  });
});

describe('a server that asks to come back later', () => {
  test('is given the time that it asks for, and the row is sent again', async () => {
    const { go, tell, requests, waits, sleeps, events, states } = await world([7, 8]);
    tell(7, busy(0), busy(15 * minuteMs - 1_000));
    expect(await go()).toEqual({ stop: null });
    expect([requests, waits(), await states()]).toEqual([
      [7, 7, 7, 8],
      [0, 15 * minuteMs - 1_000],
      ['applied', 'applied'],
    ]);
    expect(sleeps.slice(0, 2)).toEqual(waits());
    expect(events).toContainEqual({ kind: 'wait', ms: 0, why: 'come back later' });
  });

  test('but made the write does not get it again', async () => {
    const { go, tell, requests, states } = await world([7, 8]);
    tell(7, (made) => {
      made();
      throw new ServerFailed('come back later', 503);
    });
    expect(await go()).toEqual({ stop: null });
    expect([requests, await states()]).toEqual([
      [7, 8],
      ['applied', 'applied'],
    ]);
  });

  /** Asks to come back later. The kept function makes the write afterwards. */
  const putOff =
    (keep: (make: () => unknown) => void): Say =>
    (make) => {
      keep(make);
      throw new ServerFailed('come back later', 503, { waitMs: 0 });
    };

  test('but makes one of two requests leaves the row unknown until the other can no longer be made', async () => {
    for (const isMadeTwice of [false, true]) {
      const { whole, tell, requests, states, ports } = await world([7, 8]);
      const end = async () => (await whole()).error;
      let [first, second] = [() => {}, () => {}] as (() => unknown)[];
      tell(
        7,
        putOff((make) => (first = make)),
        putOff((make) => {
          second = make;
          first?.();
        }),
      );
      expect([(await end())?.exitCode, requests, await states()]).toEqual([8, [7, 7], ['unknown', 'planned']]);
      await ports.sleep(defaultOptions.settleAfterMs - 1_000);
      expect([(await end())?.exitCode, (await states())[0]]).toEqual([8, 'unknown']);
      await ports.sleep(1_000);
      if (isMadeTwice) second?.();
      const later = await end();
      expect((await states())[0]).toBe(isMadeTwice ? 'needs_human' : 'applied');
      expect(later?.advice ?? '').toMatch(isMadeTwice ? /^It was sent 2 times, and more than one/ : /^$/);
    }
  });

  test('but makes the write is not believed again, in this run or the next', async () => {
    const { go, tell, requests, states } = await world([7, 8, 9]);
    tell(
      7,
      putOff((make) => make()),
    );
    tell(8, busy(0));
    tell(9, busy(0));
    expect((await go({}, { maxErrors: 1 })).stop?.message).toMatch(/1 row failed/);
    expect([requests, await states()]).toEqual([
      [7, 8],
      ['applied', 'unknown', 'planned'],
    ]);
    await go();
    expect([requests, await states()]).toEqual([
      [7, 8, 9],
      ['applied', 'unknown', 'unknown'],
    ]);
  });

  test('but makes the write after the row was sent again is found out at the end of the run or by the next one', async () => {
    for (const isLate of [false, true]) {
      const { go, tell, states, journal, batch } = await world([7, 8, 9]);
      let late: () => unknown = () => {};
      tell(
        7,
        putOff((make) => (late = make)),
      );
      tell(8, (make) => {
        if (!isLate) late();
        return make();
      });
      tell(9, lost);
      const ends = [(await go()).stop?.exitCode ?? null, (await states())[0]];
      expect(ends).toEqual(isLate ? [null, 'applied'] : [8, 'needs_human']);
      if (isLate) late();
      expect([(await go()).stop?.exitCode, (await states())[0]]).toEqual([8, 'needs_human']);
      // A person decides that the excess stays. Nobody is asked again.
      await resolveRow(journal, await batch(), { row: 2, outcome: 'applied', resend: false, reason: 'it may keep it' });
      await go();
      expect((await states())[0]).toBe('applied');
    }
  });

  test('without a time is given twice as long each time, up to a quarter of an hour in all', async () => {
    const { go, tell, waits, states, requests } = await world([7, 8]);
    tell(7, ...Array.from({ length: 20 }, () => busy()));
    expect(problemOf(await go())).toBe('come back later');
    expect(waits()).toEqual([1, 1, 2, 4, 8, 16, 32, 64, 128, 256].map((seconds) => seconds * 1_000));
    expect([requests.length, await states()]).toEqual([11, ['planned', 'planned']]);
  });

  test('is tried three times if it cannot be reached', async () => {
    const { go, tell, waits, requests, states } = await world([7, 8]);
    tell(7, away, away, away);
    const { stop } = await go();
    expect([stop?.message, stop?.exitCode, waits(), requests.length]).toEqual([
      'nobody is there',
      4,
      [2_000, 4_000],
      3,
    ]);
    expect(await states()).toEqual(['planned', 'planned']);
    const back = await world([7]);
    back.tell(7, away, busy(3_000), away);
    expect([await back.go(), back.waits()]).toEqual([{ stop: null }, [2_000, 3_000, 4_000]]);
  });

  test('and cannot be reached ends the run with 4, or with 5 once a row was sent', async () => {
    const skipped = await world([7, 8]);
    skipped.tell(8, away, away, away);
    const closed = {
      ...balance,
      failedPrecondition: ({ user }: { user: number | null }) => (user === 7 ? 'it is closed' : null),
    };
    expect((await skipped.go({}, {}, closed)).stop).toMatchObject({ exitCode: 4 });
    const blocked = await world([7, 8]);
    blocked.tell(8, away, away, away);
    const openRow = (subject: string) =>
      Promise.resolve(subject === 'user:7' ? { batch: 'two', row: 5, state: 'unknown' as const } : undefined);
    expect((await blocked.within({ openRow })).stop).toMatchObject({ exitCode: 4 });
    expect(await blocked.states()).toEqual(['blocked', 'planned']);
    const unseen = await world([7, 8]);
    unseen.leave();
    expect((await unseen.go()).stop).toMatchObject({ exitCode: 4 });
    const { go, tell, batch } = await world([7, 8]);
    tell(8, away, away, away);
    expect((await go()).stop).toMatchObject({ name: 'IncompleteError', message: 'nobody is there' });
    expect((await batch()).state).toBe('stopped');
  });
});

describe('a run', () => {
  test('that is asked to stop finishes the row under way and begins no other', async () => {
    const { go, stop, states } = await world([7, 8, 9, 6]);
    const progress = (event: BulkEvent): void =>
      void (event.kind === 'row' && event.row === 3 && stop.abort(new Error('stopped')));
    expect(await go({ progress })).toEqual({ stop: null });
    expect(await states()).toEqual(['applied', 'applied', 'planned', 'planned']);
  });

  test('sends what another journal seems to have sent only with a reason given to the resumed run, not to the first', async () => {
    for (const planned of [{}, { reason: 'it is meant' }]) {
      const { go, make, requests } = await world([7]);
      make(7, 'Credit am:zzzzzzzzzzzz');
      for (const over of [planned, {}]) {
        expect([(await go(over)).stop?.name, requests]).toEqual(['OutcomeUnknownError', []]);
      }
      expect([await go({ reason: 'it is meant' }), requests]).toEqual([{ stop: null }, [7]]);
    }
  });

  test('ends once as many rows failed as allowed, in whatever way', async () => {
    const { go, tell, states } = await world([5, 6, 7, 8, 9]);
    tell(6, refused);
    const some = {
      ...balance,
      failedPrecondition: ({ user }: { user: number | null }) => (user === 7 ? 'it is closed' : null),
    };
    const { stop } = await go({}, { maxErrors: 2 }, some);
    expect([stop?.name, stop?.message, stop?.advice]).toEqual([
      'IncompleteError',
      '2 rows failed, as many as one run may have',
      expect.stringContaining('bulk resume'),
    ]);
    expect(await states()).toEqual(['applied', 'rejected', 'skipped', 'planned', 'planned']);
    const unknown = await world([7, 8, 9]);
    unknown.tell(8, lost);
    expect(problemOf(await unknown.go({}, { maxErrors: 1 }))).toBe('1 row failed, as many as one run may have');
    expect(await unknown.states()).toEqual(['applied', 'unknown', 'planned']);
  });

  test('stops if the key is refused', async () => {
    const { go, tell, requests } = await world([7, 8, 9]);
    tell(8, () => {
      throw new KeyRefused('the key is refused', 401);
    });
    expect((await go()).stop).toBeInstanceOf(KeyRefusedError);
    expect(requests).toEqual([7, 8]);
  });

  test('stops if the mirror comes to know another journal, and says whether anything was sent', async () => {
    const { go, other, requests, states } = await world([7, 8, 9]);
    const memory = { ...other, recall: () => (requests.length === 0 ? null : other.recall()) };
    const { stop } = await go({ memory });
    expect([stop?.name, stop?.message]).toEqual([
      'IncompleteError',
      expect.stringMatching(/this mirror knows another journal.*; nothing more was sent$/),
    ]);
    expect([stop?.advice, stop?.cause, requests, await states()]).toEqual([
      expect.stringContaining('--accept-journal'),
      expect.any(UsageError),
      [7],
      ['applied', 'planned', 'planned'],
    ]);
    const first = await world([7, 8]);
    let recalls = 0;
    const late = { ...other, recall: () => ((recalls += 1) === 1 ? null : other.recall()) };
    expect((await first.go({ memory: late })).stop).toMatchObject({
      name: 'UsageError',
      message: expect.stringMatching(/; nothing was sent$/) as string,
    });
  });

  test('stops if the journal cannot record a row, and says whether anything may have been sent', async () => {
    const { within, journal, requests, states } = await world([7, 8, 9]);
    const failing =
      (row: number, to: IntentState): Journal['move'] =>
      (step) =>
        step.row === row && step.to === to ? Promise.reject(full) : journal.move(step);
    const first = await within({ move: failing(2, 'sending') });
    expect([first.stop?.name, first.stop?.message]).toEqual([
      'IncompleteError',
      'the disk is full. The batch was stopped; nothing was sent',
    ]);
    expect(first.stop?.advice).toBe('Make room. Then continue the batch: `admin-mirror bulk resume one`.');
    expect([first.stop?.cause, requests, await states()]).toEqual([full, [], ['planned', 'planned', 'planned']]);
    const second = await within({ move: failing(2, 'acknowledged') });
    expect([second.stop?.name, second.stop?.message]).toEqual([
      'OutcomeUnknownError',
      'the disk is full. The batch was stopped; rows may have been sent before that',
    ]);
    expect([requests, await states()]).toEqual([[7], ['sending', 'planned', 'planned']]);
  });

  test('counts a row as sent if the journal can no longer show it, and passes a bug on', async () => {
    const { within, journal, stop } = await world([7, 8]);
    const move: Journal['move'] = (step) => (step.to === 'sending' ? Promise.reject(full) : journal.move(step));
    const end = await within({ move, intent: () => Promise.reject(full) });
    expect([end.stop?.name, stop.signal.aborted]).toEqual(['OutcomeUnknownError', false]);
    const gone = await world([7, 8]);
    const lost: Journal['move'] = (step) => (step.to === 'sending' ? Promise.reject(full) : gone.journal.move(step));
    expect((await gone.within({ move: lost, intent: () => Promise.resolve(undefined) })).stop?.name).toBe(
      'IncompleteError',
    );
    const other = await world([7, 8]);
    // Once only, because any other read of the row would show the bug, too.
    const broken = vi.fn<Journal['intent']>((...row) => other.journal.intent(...row)).mockRejectedValueOnce(bug);
    await expect(
      other.within({
        move: (step) => (step.to === 'sending' ? Promise.reject(full) : other.journal.move(step)),
        intent: broken,
      }),
    ).rejects.toThrow(bug);
    await expect((await world([7])).within({ counts: () => Promise.reject(bug) })).rejects.toThrow(bug);
    await expect((await world([7])).within({ openRow: () => Promise.reject(bug) })).rejects.toThrow(bug);
  });

  test('that cannot read its rows or record its end never says that nothing was sent if something may have been', async () => {
    const { journal, within } = await world([7, 8]);
    const intents = (): ReturnType<Journal['intents']> => {
      const rows = journal.intents('one', ['planned']);
      let given = 0;
      const next = () => ((given += 1) > 1 ? Promise.reject(full) : rows.next());
      return { next } as unknown as ReturnType<Journal['intents']>;
    };
    const { stop } = await within({ intents });
    expect([stop?.name, stop?.message]).toEqual([
      'OutcomeUnknownError',
      'the disk is full. The batch was stopped; rows may have been sent before that',
    ]);
    const none = await world([7]);
    const bare = new FileError('the disk is full');
    const failed = await none.within({ intents: () => ({ next: () => Promise.reject(bare) }) as never });
    expect(failed.stop?.advice).toBe('Then continue the batch: `admin-mirror bulk resume one`.');
    expect(problemOf(failed)).toBe('the disk is full. The batch was stopped; nothing was sent');

    const end = { setBatchState: () => Promise.reject(full) };
    expect((await (await world([7])).within(end)).stop).toMatchObject({ name: 'OutcomeUnknownError' });
    const early = await world([7]);
    early.tell(7, refused);
    expect(problemOf(await early.within(end))).toMatch(/^row 2, which was sent alone/);
    await expect((await world([7])).within({ setBatchState: () => Promise.reject(bug) })).rejects.toThrow(bug);
  });
});

describe('rows side by side', () => {
  /** Holds the requests of these users until they are let go. */
  function gates(users: readonly number[]) {
    const open = new Map<number, () => void>();
    const waiting = new Map(users.map((user) => [user, new Promise<void>((resolve) => open.set(user, resolve))]));
    return {
      say:
        (user: number): Say =>
        async (made) => (await waiting.get(user), made()),
      open: (user: number) => open.get(user)?.(),
    };
  }

  test('of one user are sent in the order of the file, while others go on', async () => {
    const { go, tell, requests, states } = await world([5, 6, 6, 7]);
    const { say, open } = gates([6]);
    tell(6, say(6));
    const end = go({}, { concurrency: 3 });
    await expect.poll(() => requests).toEqual([5, 6, 7]);
    open(6);
    expect(await end).toEqual({ stop: null });
    expect([requests, await states()]).toEqual([
      [5, 6, 7, 6],
      ['applied', 'applied', 'applied', 'applied'],
    ]);
    // With many of them, none counts as blocked by an open row of its own batch.
    const many = await world([5, 6, 6, 6, 6, 6]);
    expect(await many.go({}, { concurrency: 3 })).toEqual({ stop: null });
    expect(new Set(await many.states())).toEqual(new Set(['applied']));
  });
});

describe('a run that only looks', () => {
  test('records what it finds, and sends nothing', async () => {
    const { reconcile, make, tokenOf, requests, states, batch, journal } = await world([7, 8], ['unknown', 'applied']);
    await journal.setBehind('one', 'a row was found');
    make(7, `Credit ${tokenOf(2)}`);
    expect(await reconcile()).toEqual({ stop: null });
    expect([requests, await states()]).toEqual([[], ['applied', 'applied']]);
    expect(await batch()).toMatchObject({ state: 'done', behind: null });
    expect(await journal.lockOwner('one')).toBeUndefined();
  });

  test('keeps the journal marked as behind if it did not finish', async () => {
    for (const isStopped of [true, false]) {
      const { reconcile, leave, batch, journal, stop } = await world([7], ['unknown']);
      await journal.setBehind('one', 'a row was found');
      if (isStopped) stop.abort(new Error('stopped'));
      else leave();
      expect(problemOf(await reconcile())).toBe(isStopped ? 'none' : 'nobody is there');
      expect(await batch()).toMatchObject({ state: 'stopped', behind: 'a row was found' });
    }
    const { reconcile, journal } = await world([7], ['applied']);
    const before = (await journal.steps('one')).length;
    await reconcile();
    // If nothing was behind, no step is recorded.
    expect((await journal.steps('one')).slice(before).map(({ kind }) => kind)).not.toContain('reconciled');
  });

  test('leaves a batch that was not approved as it is', async () => {
    const { reconcile, batch, states, ports } = await world([7, 8]);
    const before = await batch();
    expect(await reconcile({ journal: { ...ports.journal, takeUp: () => Promise.reject(bug) } })).toEqual({
      stop: null,
    });
    expect([await batch(), await states()]).toEqual([before, ['planned', 'planned']]);
  });
});

describe('before a total is typed', () => {
  const check = async (
    { ports, batch }: Awaited<ReturnType<typeof world>>,
    over: object = {},
    file: string | null = null,
  ) =>
    checkSendable({ ...ports, rules: openRules, ...over } as never, await batch(), {
      file,
      again: { reason: null },
    });

  test('a batch that may be sent passes the check, and its lock is free', async () => {
    const one = await world([7]);
    const acquireLock = () => Promise.reject(bug);
    await expect(check(one, { journal: { ...one.journal, acquireLock } })).resolves.toBeUndefined();
    expect(await one.journal.lockOwner('one')).toBeUndefined();
  });

  test('the check says why a batch may not be sent', async () => {
    const one = await world([7]);
    await expect(check(one, { memory: one.other })).rejects.toThrow(/knows another journal/);
    await expect(check(one, {}, one.file)).rejects.toThrow(/credit.csv has changed since the batch was planned/);
    await expect(check(one, { client: { ...one.client, address: 'http://127.0.0.1:2' } })).rejects.toThrow(
      /planned for/,
    );
    await expect(check(one, { rules: { ...openRules, caps: { ...openRules.caps, maxRows: 0 } } })).rejects.toThrow(
      /max_rows/,
    );
    await expect(check(await world([7], ['applied']))).rejects.toThrow('batch one was approved before');
    const empty = await world([]);
    await expect(check(empty)).rejects.toThrow('batch one has no valid row');
    const discard = async (one: Awaited<ReturnType<typeof world>>) => {
      await one.journal.acquireLock('one');
      await one.journal.discard('one', 'the wrong sheet');
      await one.journal.releaseLock('one');
      return check(one);
    };
    await expect(discard(await world([7]))).rejects.toThrow('batch one was discarded; nothing was sent');
    await expect(discard(await world([7, 8], ['applied']))).rejects.toThrow('batch one was approved before');
  });

  test('the check names a process that holds the lock, and a lock left by a dead process stops nobody', async () => {
    const one = await world([7]);
    const another = await openJournal(one.file, anna, one.clock);
    onTestFinished(() => another.close());
    await another.acquireLock('one');
    await expect(check(one)).rejects.toMatchObject({ name: 'LockHeldError' });
    const steps: string[] = [];
    const journal = {
      ...one.journal,
      lockOwner: () => Promise.resolve({ pid: 1 }),
      acquireLock: () => Promise.resolve(void steps.push('acquired')),
      releaseLock: () => Promise.resolve(void steps.push('released')),
    };
    await check(one, { journal });
    expect(steps).toEqual(['acquired', 'released']);
  });
});

describe('the report at the end', () => {
  test('says why the run stopped if the journal cannot be read any more, never that nothing was sent', async () => {
    const reading = async (failure: Error, say?: Say): Promise<unknown> => {
      const { journal, whole, tell } = await world([7, 8]);
      if (say !== undefined) tell(7, say);
      let isOver = false;
      const broken: Partial<Journal> = {
        setBatchState: async (...given) => {
          await journal.setBatchState(...given);
          isOver = true;
        },
        batch: (name) => (isOver ? Promise.reject(failure) : journal.batch(name)),
      };
      return whole({ journal: { ...journal, ...broken } });
    };
    const message = 'the disk is full. The batch was stopped; rows may have been sent before that';
    await expect(reading(full)).rejects.toMatchObject({ name: 'OutcomeUnknownError', message });
    await expect(reading(full, refused)).rejects.toMatchObject({
      message,
      advice: expect.stringMatching(/^It ended early: row 2, which was sent alone.*bulk resume one/),
    });
    await expect(reading(bug, refused)).rejects.toBe(bug);
  });

  /** The error of a run that only looks. */
  const errorOf = async (states: readonly IntentState[], isAway = false, last: IntentFields = {}) => {
    const users = states.map((_, at) => at + 10);
    const { whole, leave, make, tokenOf } = await world(users, states, last);
    // Rows that are applied are shown by the server.
    for (const [at, state] of states.entries()) if (state === 'applied') make(at + 10, `Credit ${tokenOf(at + 2)}`);
    if (isAway) leave();
    return (await whole({}, {}, balance, false)).error;
  };

  test.each([
    [['applied', 'planned'], '1 row was not applied'],
    [['applied', 'rejected', 'not_applied'], '2 rows were not applied'],
    [['applied', 'blocked'], '1 row was not applied'],
    [['applied', 'skipped'], '1 row was not applied'],
    [['applied', 'invalid'], '1 row was not applied'],
    [['planned', 'rejected', 'rejected', 'skipped', 'skipped', 'skipped', 'invalid'], '7 rows were not applied'],
  ] as const)('says how many rows were not applied: %j', async (states, message) => {
    const error = await errorOf(states);
    expect(error).toMatchObject({ name: 'IncompleteError', message });
    expect(error?.advice).toMatch(/bulk results one/);
  });

  test('names unknown outcomes before anything else', async () => {
    const error = await errorOf(['unknown', 'unknown', 'planned'], true);
    expect([error?.name, error?.message, error?.cause]).toEqual([
      'OutcomeUnknownError',
      'the outcome of 2 rows is not known',
      expect.objectContaining({ message: 'nobody is there' }),
    ]);
    expect(error?.advice).toMatch(/^It ended early: nobody is there\. Do not send them by other means\..*resume one/);
    const early = await errorOf(['unknown', 'planned']);
    expect([early?.message, early?.cause]).toEqual(['the outcome of 1 row is not known', undefined]);
    expect(early?.advice).toMatch(/^Do not send it/);
  });

  test('keeps the error that stopped the run if that says it already, or if the key was refused', async () => {
    const own = await world([7, 8]);
    const { stop, error } = await own.whole({
      journal: {
        ...own.journal,
        move: (step: Parameters<Journal['move']>[0]) =>
          step.to === 'acknowledged' ? Promise.reject(full) : own.journal.move(step),
      },
    });
    expect([error?.name, error]).toEqual(['OutcomeUnknownError', stop]);
    const { whole, tell, client } = await world([7, 8], ['unknown']);
    tell(8, refused);
    const refusedKey = new KeyRefused('the key is refused', 401);
    const ended = await whole({ client: { ...client, getUser: () => Promise.reject(refusedKey) } });
    expect([ended.report.counts.unknown, ended.error]).toEqual([1, refusedKey]);
    const planned = await world([7, 8]);
    planned.tell(7, away, away, away);
    expect((await planned.whole()).error).toMatchObject({ message: 'nobody is there', exitCode: 4 });
  });

  test('names rows that the balance contradicts if all were applied', async () => {
    const contradicted = { discrepancy: 'balance' } as const;
    const one = await errorOf(['applied'], false, contradicted);
    expect([one?.name, one?.message]).toEqual(['IncompleteError', 'the balance contradicts 1 row that was applied']);
    expect(one?.advice).toMatch(/bulk results one.*_discrepancy/);
    expect((await errorOf(['applied', 'applied'], false, contradicted))?.message).toBe(
      'the balance contradicts 2 rows that were applied',
    );
  });
});
