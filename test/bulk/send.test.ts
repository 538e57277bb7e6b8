import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { Client } from '../../src/api/operations.ts';
import { resolveRow } from '../../src/bulk/resolve.ts';
import type { SendingEnd } from '../../src/bulk/send-batch.ts';
import { FileError } from '../../src/model/errors.ts';
import { minuteMs } from '../../src/model/time.ts';
import type { Behaviour, Fault, Sandbox } from '../support/bent/sandbox.ts';
import type { Batch, IntentState, Journal } from '../../src/journal/port.ts';
import {
  bulkClient,
  intentsOf,
  madeWith,
  newUser,
  plan,
  send,
  sendsTo,
  type SendTry,
  sheetOf,
} from '../support/bulk.ts';
import { expectAccounted } from '../support/bulk-invariants.ts';
import { newJournal } from '../support/journal.ts';
import { startSandbox } from '../support/sandbox.ts';
import { behindProxy } from '../support/altering-proxy.ts';
import { sample } from '../support/part.ts';

type Cells = readonly (string | number)[];

interface World {
  readonly sandbox: Sandbox;
  readonly journal: Journal;
  readonly client: Client;
  readonly users: readonly number[];
  readonly batch: string;
  readonly go: (tried?: SendTry) => Promise<SendingEnd>;
  readonly states: () => Promise<IntentState[]>;
  readonly balance: (at: number) => unknown;
}

interface Setting {
  readonly behaviour?: Partial<Behaviour>;
  /** Users with a balance of 100. */
  readonly users?: number;
  /** The rows, made from the users' ids; by default `add 12.50` to each. */
  readonly rows?: (users: readonly number[]) => readonly Cells[];
}

async function planned({ behaviour = {}, users: count = 1, rows }: Setting = {}): Promise<World> {
  const sandbox = await startSandbox({ users: 5, emails: 5, behaviour: { late_commit_ms: 60_000, ...behaviour } });
  const { journal } = await newJournal({ now: () => Date.now() });
  const client = bulkClient(sandbox);
  const users = Array.from({ length: count }, () => newUser(sandbox, 100));
  const cells = rows?.(users) ?? users.map((user) => [user, 'add', '12.50', `Credit ${user}`]);
  const { batch } = await plan(journal, client, sheetOf(cells));
  return {
    sandbox,
    journal,
    client,
    users,
    batch,
    go: (tried) => send(journal, client, batch, tried),
    states: async () => (await intentsOf(journal, batch)).map(({ state }) => state),
    balance: (at) => sandbox.control.get('users', users[at] ?? 0)?.['balance'],
  };
}

function failNext(sandbox: Sandbox, user: number | undefined, fault: Fault, times = 1): void {
  sandbox.control.faultNext({ fault, times, match: { method: 'PUT', path: `/users/${user}/` } });
}

const writes = (sandbox: Sandbox): number => sandbox.control.ledger().length;

describe('a batch without faults', () => {
  test.each(['shown', 'hidden'] as const)(
    'is verified on a server that calculates with doubles (transactions: %s)',
    async (transactions) => {
      const rows = (users: readonly number[]): Cells[] => users.map((user) => [user, 'add', '0.2']);
      const { sandbox, journal, client, batch, users } = await planned({ users: 2, rows, behaviour: { transactions } });
      const doubles: Client = {
        ...client,
        getUser: async (...given) => {
          const found = await client.getUser(...given);
          const sum = (key: string, value: unknown) => (key === 'balance' && value === 0.3 ? 0.1 + 0.2 : value);
          return { ...found, body: JSON.parse(JSON.stringify(found.body), sum) as unknown };
        },
      };
      for (const user of users) sandbox.control.update('users', user, { balance: 0.1 });
      const { report, error } = await send(journal, doubles, batch);
      expect([error, report.counts.applied, report.discrepancies]).toEqual([null, 2, 0]);
      expect((await intentsOf(journal, batch)).map(({ after }) => after)).toEqual(['0.30', '0.30']);
    },
  );

  test('is sent row by row and verified by the token of each row', async () => {
    const { sandbox, journal, batch, go, states, balance } = await planned({ users: 3 });
    expect(await go()).toMatchObject({ stop: null, error: null });
    expect(await states()).toEqual(['applied', 'applied', 'applied']);
    expect([0, 1, 2].map(balance)).toEqual([112.5, 112.5, 112.5]);
    expect(await journal.batch(batch)).toMatchObject({ state: 'done', net: '37.50' });
    for (const intent of await intentsOf(journal, batch)) {
      expect(intent).toMatchObject({
        before: '100.00',
        after: '112.50',
        httpStatus: 200,
        evidence: 'token',
        attempts: 1,
      });
      expect(intent.body).toBe(`{"type":"add","amount":12.50,"description":"Credit ${intent.user} ${intent.token}"}`);
      expect(madeWith(sandbox, intent.token)).toBe(1);
    }
  });

  // proves: recorded-first
  test('records each row as sending, with balance and body, before its request is sent', async () => {
    const { sandbox, journal, client, batch } = await planned({ users: 2 });
    const seen: unknown[] = [];
    const watching: Client = {
      ...client,
      sendExactly: async (operation, user, body, signal) => {
        const [intent] = (await intentsOf(journal, batch)).filter((each) => each.user === user);
        seen.push(intent?.state, intent?.body === body, intent?.before, intent?.seenBefore !== null);
        return client.sendExactly(operation, user, body, signal);
      },
    };
    await send(journal, watching, batch);
    expect(seen).toEqual(['sending', true, '100.00', true, 'sending', true, '100.00', true]);
    expect(writes(sandbox)).toBe(2);
  });

  test('keeps its lock until the last request under way has ended, even if the journal cannot be read on', async () => {
    const { journal, client, batch, users, states } = await planned({ users: 3 });
    const seen: string[] = [];
    const failed = Promise.withResolvers<void>();
    const torn: Journal = {
      ...journal,
      intents: async function* (...given) {
        let left = 2;
        for await (const each of journal.intents(...given)) {
          if ((left -= 1) >= 0) yield each;
          else {
            failed.resolve();
            throw new FileError('the store is away');
          }
        }
        return undefined;
      },
      releaseLock: (name) => (seen.push('released'), journal.releaseLock(name)),
    };
    const slow: Client = {
      ...client,
      sendExactly: async (operation, user, ...given) => {
        if (user === users[1]) await failed.promise.then(() => setImmediate());
        const response = await client.sendExactly(operation, user, ...given);
        seen.push('answered');
        return response;
      },
    };
    const { stop } = await send(torn, slow, batch, { concurrency: 2 });
    expect([seen, stop?.message]).toEqual([
      ['answered', 'answered', 'released'],
      expect.stringContaining('the store is away'),
    ]);
    expect(await states()).toEqual(['applied', 'applied', 'planned']);
  });
});

describe('a lost response', () => {
  const lost: readonly Fault[] = [
    'commit_reset',
    'commit_500',
    'commit_html',
    'commit_truncated',
    'commit_hang',
    'commit_empty',
  ];
  test.each(sample(lost, 2))('(%s) of a write that was made is settled by its token', async (fault) => {
    const { sandbox, users, go, states } = await planned();
    failNext(sandbox, users[0], fault);
    expect((await go()).error).toBeNull();
    expect(await states()).toEqual(['applied']);
    expect(writes(sandbox)).toBe(1);
  });

  test('(commit_refused) does not count as a failure only because the server says so', async () => {
    const { sandbox, users, go, states } = await planned();
    failNext(sandbox, users[0], 'commit_refused');
    expect((await go()).error).toBeNull();
    expect(await states()).toEqual(['applied']);
  });

  const nothing: readonly Fault[] = ['reset_before', 'hang', 'error_500', 'error_502', 'html', 'redirect'];
  test.each(sample(nothing, 2))(
    '(%s) of a write that was not made stays unknown, then becomes not applied, and is never sent again',
    async (fault) => {
      const { sandbox, journal, batch, users, go, states } = await planned();
      failNext(sandbox, users[0], fault);
      const first = await go();
      expect(await states()).toEqual(['unknown']);
      await expectAccounted(sandbox, journal, batch, first, fault);
      const early = await go();
      expect([early.error?.exitCode, ...(await states())]).toEqual([8, 'unknown']);
      const later = { now: () => Date.now() + 11 * minuteMs };
      const settled = await go({ clock: later });
      expect([settled.error?.exitCode, ...(await states())]).toEqual([5, 'not_applied']);
      expect((await go({ clock: later })).error?.exitCode).toBe(5);
      expect((await intentsOf(journal, batch))[0]?.problem).toMatch(
        /two looks agree: the balance is 100.00, as it was before/,
      );
      await expectAccounted(sandbox, journal, batch, settled, fault);
    },
  );

  test('of a write that is made late stays unknown until the write is there, however often it is looked for', async () => {
    const { sandbox, users, go, states } = await planned();
    failNext(sandbox, users[0], 'commit_late');
    await go();
    expect([(await go()).error?.exitCode, ...(await states())]).toEqual([8, 'unknown']);
    sandbox.control.commitLate();
    expect([(await go()).error, ...(await states())]).toEqual([null, 'applied']);
  });

  test.each(['commit_refused', 'commit_reset'] as const)(
    'is not settled by an older response from a cache: after %s it stays unknown and is not sent again',
    async (fault) => {
      const { sandbox, journal, batch, users, go, states } = await planned();
      sandbox.control.setBehaviour({ cache_seconds: 3_000, cache_obeys: false });
      failNext(sandbox, users[0], fault);
      const sleep = async (ms: number): Promise<void> => sandbox.control.advanceClock(ms);
      await go({ sleep });
      sandbox.control.advanceClock(20 * minuteMs);
      const { error } = await go({ settleAfterMs: 0, sleep });
      expect([error?.exitCode, ...(await states())]).toEqual([8, 'unknown']);
      expect(error?.advice).toContain('a cache in front of the server');
      const found = (await journal.batch(batch)) as Batch;
      await resolveRow(journal, found, { row: 2, outcome: 'not_applied', resend: true, reason: 'not in the panel' });
      expect((await go({ sleep })).error?.message).toMatch(/a response that was 12\d\d s old/);
      expect([await states(), writes(sandbox)]).toEqual([['planned'], 1]);
      sandbox.control.setBehaviour({ cache_seconds: 0 });
      expect([(await go()).error, ...(await states())]).toEqual([null, 'applied']);
    },
  );

  test('proves nothing by a refusal while the server finds no users, and is settled later', async () => {
    const { sandbox, users, go, states } = await planned({ behaviour: { transactions: 'hidden' } });
    failNext(sandbox, users[0], 'commit_refused');
    expect((await go()).error?.exitCode).toBe(8);
    expect(await states()).toEqual(['unknown']);
    sandbox.control.setBehaviour({ missing_users: true });
    expect([(await go()).error?.exitCode, ...(await states())]).toEqual([8, 'unknown']);
    sandbox.control.setBehaviour({ missing_users: false, transactions: 'shown' });
    expect([(await go()).error, ...(await states())]).toEqual([null, 'applied']);
  });

  test('does not occur near or after the end of the lock, because nothing is sent', async () => {
    const { sandbox, journal, client, batch, users, go, states } = await planned();
    for (const left of [9_999, 0]) {
      const short: Journal = { ...journal, lockRemainingMs: () => left };
      expect((await send(short, client, batch)).error?.message).toMatch(/too late; nothing was sent/);
      expect([await states(), sendsTo(sandbox, users[0] ?? 0)]).toEqual([['planned'], 0]);
    }
    expect([(await go()).error, ...(await states())]).toEqual([null, 'applied']);
  });

  test('does not occur after a delay of more than half of bulk.settle_after, because nothing is sent', async () => {
    const { sandbox, go, states } = await planned();
    let held = 0;
    // A delay between the record and the request, as if the machine slept.
    const memory = {
      recall: () => null,
      remember: () => ((held += 6 * minuteMs), true),
      isCopy: () => false,
      close: () => {},
    };
    const { error } = await go({ memory, clock: { now: () => Date.now() + held } });
    expect(error?.message).toMatch(/too late; nothing was sent/);
    expect([error?.exitCode, await states(), writes(sandbox)]).toEqual([4, ['planned'], 0]);
    expect([(await go()).error, writes(sandbox)]).toEqual([null, 1]);
  });

  test('blocks the later rows of its user, in other batches, too, until it is settled', async () => {
    const rows = ([a = 0, b = 0]: readonly number[]): Cells[] => [
      [b, 'add', '1', 'first'],
      [a, 'add', '2', 'second'],
      [a, 'add', '3', 'third'],
    ];
    const { sandbox, journal, client, users, go, states } = await planned({ users: 2, rows });
    const other = await plan(journal, client, sheetOf([[users[0] ?? 0, 'add', '4', 'fourth']]));
    failNext(sandbox, users[0], 'commit_late');
    await go();
    expect(await states()).toEqual(['applied', 'unknown', 'blocked']);
    await send(journal, client, other.batch);
    expect(await intentsOf(journal, other.batch)).toMatchObject([
      { state: 'blocked', problem: expect.stringMatching(/row 3/) as string },
    ]);
    sandbox.control.commitLate();
    expect((await go()).error).toBeNull();
    expect(await states()).toEqual(['applied', 'applied', 'applied']);
    expect((await send(journal, client, other.batch)).error).toBeNull();
  });

  test('needs a person if no transactions are shown, and never counts as applied', async () => {
    const { sandbox, users, go, states } = await planned({ behaviour: { transactions: 'hidden' } });
    failNext(sandbox, users[0], 'commit_reset');
    expect([(await go()).error?.exitCode, ...(await states())]).toEqual([8, 'unknown']);
    expect([(await go({ settleAfterMs: 0 })).error?.exitCode, ...(await states())]).toEqual([8, 'needs_human']);
  });
});

describe('success', () => {
  test('without shown transactions counts as applied if the balance agrees, with that as evidence', async () => {
    const { journal, batch, go } = await planned({ behaviour: { transactions: 'hidden' } });
    expect((await go()).error).toBeNull();
    expect(await intentsOf(journal, batch)).toMatchObject([{ state: 'applied', evidence: 'balance' }]);
  });

  test('is checked, too: a write that a proxy made twice stops the batch, with the command to reverse it', async () => {
    const { sandbox, users, go, states } = await planned({ users: 3 });
    failNext(sandbox, users[1], 'commit_twice');
    const { stop, error } = await go();
    expect(await states()).toEqual(['applied', 'needs_human', 'planned']);
    expect(error).toBe(stop);
    expect(error?.exitCode).toBe(8);
    expect(error?.message).toMatch(/row 3 was over-applied: made 2 times/);
    expect(error?.advice).toContain(`users update-balance ${users[1]} --type remove --amount 12.50 `);
  });

  test('is found to be made twice even if the tokens are cut off', async () => {
    const { sandbox, users, go, states } = await planned({ behaviour: { description_max: 6 } });
    failNext(sandbox, users[0], 'commit_twice');
    await go({ settleAfterMs: 0 });
    expect(await states()).toEqual(['needs_human']);
  });
});

describe('a refusal', () => {
  test('of one row is recorded with the reason of the server, and the others are sent', async () => {
    const rows = (users: readonly number[]): Cells[] =>
      users.map((user, at) => [user, 'remove', at === 1 ? 500 : 5, 'x']);
    const { journal, batch, go, states } = await planned({
      users: 3,
      rows,
      behaviour: { negative_balance: 'refused' },
    });
    expect((await go()).error?.exitCode).toBe(5);
    expect(await states()).toEqual(['applied', 'rejected', 'applied']);
    expect((await intentsOf(journal, batch))[1]).toMatchObject({
      httpStatus: 422,
      problem: expect.stringMatching(/balance of the user is too low/) as string,
    });
  });
});

describe('a row that was sent and not made', () => {
  const rows = ([a = 0, b = 0]: readonly number[]): Cells[] => [
    [b, 'add', '1', 'goes alone'],
    [a, 'add', '2', 'lost'],
    [a, 'set', '50', 'rests on it'],
    [b, 'add', '3', 'of somebody else'],
  ];

  async function notMade() {
    const made = await planned({ users: 2, rows });
    const { sandbox, journal, users, batch, go, states } = made;
    failNext(sandbox, users[0], 'reset_before');
    await go();
    const { error } = await go({ settleAfterMs: 0 });
    const decide = async (resend: boolean): Promise<unknown> => {
      const found = await journal.batch(batch);
      if (found === undefined) throw new Error('the batch is gone');
      return resolveRow(journal, found, { row: 3, outcome: 'not_applied', resend, reason: 'not in the panel' });
    };
    expect(await states()).toEqual(['applied', 'not_applied', 'blocked', 'applied']);
    return { ...made, error, decide };
  }

  // proves: in-order
  test('holds back the later rows of its user until it is sent again, so that they go out in the order of the sheet', async () => {
    const { journal, batch, error, go, states, decide, balance } = await notMade();
    expect(error).toMatchObject({
      exitCode: 5,
      advice: expect.stringMatching(
        /Row 3 holds back 1 later row of its user.*--row 3 --not-applied --resend/s,
      ) as string,
    });
    expect((await journal.intent(batch, 4))?.problem).toMatch(
      /row 3, an earlier row of the same user, was sent and not made: send it again or close it/,
    );
    // However often somebody goes on without a decision.
    await go({ settleAfterMs: 0 });
    expect(await states()).toEqual(['applied', 'not_applied', 'blocked', 'applied']);
    await decide(true);
    expect(await states()).toEqual(['applied', 'planned', 'planned', 'applied']);
    expect((await go()).error).toBeNull();
    expect(await states()).toEqual(['applied', 'applied', 'applied', 'applied']);
    expect(balance(0)).toBe(50);
  });

  test('is closed by a person, once, and then lets the later rows go', async () => {
    const { journal, batch, go, states, decide } = await notMade();
    expect(await decide(false)).toBe('not_applied');
    expect(await journal.intent(batch, 3)).toMatchObject({
      evidence: 'person',
      problem: 'a person decided: not in the panel',
    });
    await expect(decide(false)).rejects.toThrow(/row 3 is not applied: there is nothing to decide/);
    await go();
    // The balance is not the one of the plan, so `set` is not sent.
    expect(await states()).toEqual(['applied', 'not_applied', 'skipped', 'applied']);
    expect((await journal.batch(batch))?.state).toBe('done');
  });

  test('because the server refused it holds them back, too, but no row of another batch', async () => {
    const refusedFirst = ([a = 0, b = 0]: readonly number[]): Cells[] => [
      [b, 'add', '1', 'goes alone'],
      [a, 'remove', '500', 'too much'],
      [a, 'add', '5', 'waits'],
    ];
    const behaviour = { negative_balance: 'refused' } as const;
    const { journal, client, users, go, states, balance } = await planned({ users: 2, rows: refusedFirst, behaviour });
    const other = await plan(journal, client, sheetOf([[users[0] ?? 0, 'add', '4', 'of another batch']]));
    expect((await go()).error?.exitCode).toBe(5);
    expect(await states()).toEqual(['applied', 'rejected', 'blocked']);
    expect((await send(journal, client, other.batch)).error).toBeNull();
    expect(balance(0)).toBe(104);
  });
});

describe('a list that lags and shows transactions that a single user does not', () => {
  test.each([
    ['commit_429', 'needs_human'],
    ['commit_refused', 'needs_human'],
    ['commit_reset', 'needs_human'],
    [null, 'applied'],
  ] as const)('never makes a row that was made count as not applied: %s', async (fault, end) => {
    const { sandbox, journal, client: direct, batch, users, states } = await planned();
    sandbox.control.setBehaviour({ retry_after_seconds: 0 });
    const kept = new Map<string, string>();
    const lagging = await behindProxy(sandbox, ({ method, path, body }) => {
      if (method !== 'GET') return {};
      const { data } = JSON.parse(body) as { data: Record<string, unknown> };
      if (path.includes(`/users/${users[0]}?`))
        return { body: JSON.stringify({ data: { ...data, balance_transactions: undefined } }) };
      kept.set(path, kept.get(path) ?? body);
      return { body: kept.get(path) ?? '' };
    });
    const client = bulkClient(lagging);
    if (fault !== null) failNext(sandbox, users[0], fault);
    await send(journal, { ...client, address: direct.address }, batch);
    await send(journal, { ...client, address: direct.address }, batch, { settleAfterMs: 0 });
    expect([await states(), writes(sandbox)]).toEqual([[end], 1]);
  });
});

describe('a server that asks to come back later', () => {
  test.each(['too_many', 'error_503'] as const)('(%s) is given its time, and the row is sent again', async (fault) => {
    const { sandbox, journal, batch, users, go, states } = await planned({ users: 2 });
    sandbox.control.setBehaviour({ retry_after_seconds: 0 });
    failNext(sandbox, users[0], fault, 2);
    const waits: number[] = [];
    expect((await go({ onEvent: (event) => event.kind === 'wait' && waits.push(event.ms) })).error).toBeNull();
    expect(waits).toEqual([0, 0]);
    expect(await states()).toEqual(['applied', 'applied']);
    expect((await intentsOf(journal, batch))[0]?.attempts).toBe(3);
    expect(writes(sandbox)).toBe(2);
  });

  test('only in the page of a proxy is not believed, because the write may still be made', async () => {
    const { sandbox, journal, client: direct, batch, users, states } = await planned({ users: 1 });
    const isWrite = (path: string): boolean => path.endsWith('/update-balance');
    const page = { status: 503, headers: { 'retry-after': '0', 'content-type': 'text/html' } };
    const gateway = await behindProxy(
      sandbox,
      ({ path }) => (isWrite(path) ? { ...page, body: '<html><h1>Error 503 Backend fetch failed</h1></html>' } : {}),
      (path) => (isWrite(path) ? '/api/v1/nothing' : path),
    );
    const client = bulkClient(gateway);
    expect((await send(journal, { ...client, address: direct.address }, batch)).error?.exitCode).toBe(8);
    expect(await states()).toEqual(['unknown']);
    const [row] = await intentsOf(journal, batch);
    expect(row).toMatchObject({ attempts: 1, httpStatus: 503 });
    // The server makes the write later.
    const headers = { authorization: `Bearer ${sandbox.key}`, 'content-type': 'application/json' };
    const path = `/api/v1/users/${users[0]}/update-balance`;
    await fetch(`${sandbox.url}${path}`, { method: 'PUT', headers, body: row?.body ?? '' });
    expect((await send(journal, { ...client, address: direct.address }, batch)).error).toBeNull();
    expect([await states(), writes(sandbox)]).toEqual([['applied'], 1]);
  });
});

describe('a row is not sent any more', () => {
  type Change = (sandbox: Sandbox, user: number) => void;
  const changes: readonly (readonly [string, Cells, Change, RegExp])[] = [
    [
      'whose balance is not the expected one',
      ['add', '5', 'x', '100'],
      ({ control }, user) => control.update('users', user, { balance: 99 }),
      /is 99.00, and the row expects 100.00/,
    ],
    [
      'that sets a balance that was another in the plan',
      ['set', '5', 'x'],
      ({ control }, user) => control.update('users', user, { balance: 99 }),
      /is 99.00, and was 100.00 in the plan/,
    ],
    [
      'whose user is gone',
      ['add', '5', 'x'],
      ({ control }, user) => control.remove('users', user),
      /not there any more/,
    ],
  ];
  test.each(changes)('%s', async (_, cells, change, problem) => {
    const { sandbox, journal, batch, users, go } = await planned({ rows: ([user = 0]) => [[user, ...cells]] });
    change(sandbox, users[0] ?? 0);
    expect((await go()).error?.exitCode).toBe(5);
    expect(await intentsOf(journal, batch)).toMatchObject([
      { state: 'skipped', problem: expect.stringMatching(problem) as string, attempts: 0 },
    ]);
    expect(writes(sandbox)).toBe(0);
  });

  test('whose user has another email now', async () => {
    const sandbox = await startSandbox({ users: 5, emails: 5 });
    const { journal } = await newJournal();
    const client = bulkClient(sandbox);
    const user = newUser(sandbox, 10);
    sandbox.control.update('users', user, { email: 'anna@one.example' });
    const { batch } = await plan(
      journal,
      client,
      sheetOf([['anna@one.example', 'add', '1']], ['email', 'type', 'amount']),
    );
    sandbox.control.update('users', user, { email: 'anna@two.example' });
    await send(journal, client, batch);
    expect(await intentsOf(journal, batch)).toMatchObject([
      { state: 'skipped', problem: 'the user is no longer known by email:anna@one.example' },
    ]);
  });
});

describe('a balance that others change at any step', () => {
  const faults = [undefined, 'commit_reset', 'reset_before', 'commit_500', 'commit_refused', 'commit_twice'] as const;
  const behaviours: readonly Partial<Behaviour>[] = [
    {},
    { transactions: 'hidden' },
    { description_max: 9 },
    { transactions_delay: 60 },
  ];
  const all = behaviours.flatMap((behaviour) =>
    faults.map((fault) => ({ behaviour, fault, name: JSON.stringify(behaviour) })),
  );

  // proves: evidence
  test.each(sample(all, 2))('is always accounted for: $name, $fault', async ({ behaviour, fault }) => {
    const sandbox = await startSandbox({ users: 5, emails: 5, behaviour });
    const client = bulkClient(sandbox);
    // The change comes at each step of the journal and just before and after each request.
    for (let step = 1; step <= 12; step += 1) {
      // A new journal each time, because a row that was made twice stops all other batches.
      const { journal } = await newJournal({ now: () => Date.now() });
      const user = newUser(sandbox, 100);
      let moment = 0;
      const outside = (): void => {
        moment += 1;
        if (moment === step)
          sandbox.control.update('users', user, {
            balance: Number(sandbox.control.get('users', user)?.['balance']) + 7,
          });
      };
      const around =
        <A extends unknown[], T>(call: (...given: A) => Promise<T>) =>
        async (...given: A): Promise<T> => {
          outside();
          return call(...given).finally(outside);
        };
      const watched = new Proxy(journal, {
        get: (target, name, receiver) => {
          if (name === 'move') outside();
          return Reflect.get(target, name, receiver) as unknown;
        },
      });
      const { batch } = await plan(journal, client, sheetOf([[user, 'add', '12.50', `Credit ${user}`]]));
      if (fault !== undefined) failNext(sandbox, user, fault);
      const between = {
        ...client,
        getUser: around((...given: Parameters<Client['getUser']>) => client.getUser(...given)),
        sendExactly: around((...given: Parameters<Client['sendExactly']>) => client.sendExactly(...given)),
      };
      const label = `${fault}, changed at step ${step}`;
      await expectAccounted(sandbox, journal, batch, await send(watched, between, batch), label);
      sandbox.control.advanceClock(120_000);
      await expectAccounted(
        sandbox,
        journal,
        batch,
        await send(journal, client, batch, { settleAfterMs: 0 }),
        `${label}, settled`,
      );
      expect(await journal.batches()).toHaveLength(1);
      sandbox.control.clearFaults();
    }
  });
});

describe('a journal that becomes unavailable while a batch is sent', () => {
  const away = new FileError('the shared store is away');

  /** Every step of the journal fails from then on, except its lock. */
  function lost(journal: Journal, isAway: () => boolean): Journal {
    return new Proxy(journal, {
      get: (target, name: keyof Journal) => {
        const step = target[name] as unknown;
        if (typeof step !== 'function') return step;
        return (...given: readonly unknown[]): unknown => {
          const lock = name === 'lockRemainingMs' || name === 'releaseLock';
          if (isAway() && !lock) return name === 'intents' || name === 'resentRows' ? failing() : Promise.reject(away);
          return (step as (...all: readonly unknown[]) => unknown)(...given);
        };
      },
    });
  }

  const failing = (): AsyncIterable<never> & AsyncIterator<never> => {
    const rows = { next: () => Promise.reject(away), [Symbol.asyncIterator]: () => rows };
    return rows;
  };

  test.each([1, 2])('after %i of three rows makes the run say that rows may have been sent', async (made) => {
    const { sandbox, journal, client, batch, go, states } = await planned({ users: 3 });
    const broken = lost(journal, () => sandbox.control.ledger().length >= made);
    const end = {
      exitCode: 8,
      message: expect.stringMatching(/away.*rows may have been sent/),
      advice: expect.stringContaining(`admin-mirror bulk resume ${batch}`),
    };
    await expect(send(broken, client, batch)).rejects.toMatchObject(end);
    expect((await go()).error).toBeNull();
    expect([await states(), sandbox.control.ledger().length]).toEqual([['applied', 'applied', 'applied'], 3]);
  });

  test('after the last row ends the run with 8', async () => {
    const { journal, client, batch } = await planned();
    let ends = false;
    const broken = lost(journal, () => ends);
    const sent = send(broken, client, batch, { onEvent: ({ kind }) => (ends ||= kind === 'row') });
    await expect(sent).rejects.toMatchObject({ exitCode: 8 });
  });
});
