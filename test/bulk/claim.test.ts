import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  batchOf,
  checkClaimable,
  checkFile,
  checkNotRepeated,
  checkServer,
  decideClaim,
  doneBefore,
  earlierClock,
  repeatLines,
  termsOf,
} from '../../src/bulk/claim.ts';
import type { Client } from '../../src/api/operations.ts';
import type { Batch, ClaimView, ClaimedRow, SentRow } from '../../src/journal/port.ts';
import type { ApprovalPolicy } from '../../src/model/approval.ts';
import { OperatorError } from '../../src/model/errors.ts';
import { type Money, noCaps } from '../../src/model/money.ts';
import { dayMs, minuteMs, timestampOf } from '../../src/model/time.ts';
import { anna, newBatch, newIntent, newJournal, policyOf } from '../support/journal.ts';
import { newAccount, newPeople } from '../support/people.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const at = (minute: number) => timestampOf(Date.UTC(2026, 2, 11, 10, minute));

/** A row of another batch, claimed and sent at these minutes. */
function sent(batch: string, claimed: number, minute: number): SentRow {
  const done = { row: 2, at: at(minute), claimedAt: at(claimed), state: 'applied', found: false } as const;
  return { fingerprint: 'balance user:7 add 5.00', batch, ...done };
}

function check(claimed: number | null, repeats: readonly SentRow[]): void {
  const row = { row: 2, user: 7, fingerprint: 'balance user:7 add 5.00', plannedBefore: '0.00', plannedAfter: '5.00' };
  const rows = [{ ...row, claimedAt: claimed === null ? null : at(claimed) }];
  const view = { rows, repeats, like: [], claimedToday: [], behind: undefined, overApplied: undefined };
  checkNotRepeated(view, { fileHash: null, undoOf: null }, { reason: null });
}

describe('a row that is claimed', () => {
  test('is refused if anything did the same', () => {
    expect(() => check(null, [sent('one', 1, 2)])).toThrow(/this change was sent before/);
    expect(() => check(null, [])).not.toThrow();
  });

  test('for the second time is refused for rows that were claimed since, not for those known then', () => {
    expect(() => check(5, [sent('known', 1, 2)])).not.toThrow();
    expect(() => check(5, [sent('at the same time', 5, 7)])).not.toThrow();
    expect(() => check(5, [sent('since', 6, 7)])).toThrow(/this change was sent before/);
  });
});

const fingerprint = 'balance user:7 add 5.00';
const planned: ClaimedRow = {
  row: 2,
  user: 7,
  fingerprint,
  plannedBefore: '0.00',
  plannedAfter: '5.00',
  claimedAt: null,
};
const clear: ClaimView = {
  rows: [planned],
  repeats: [],
  like: [],
  claimedToday: [],
  behind: undefined,
  overApplied: undefined,
};
const batch = {
  batch: 'two',
  state: 'planned',
  fileHash: 'f2',
  undoOf: null,
  againReason: null,
  appliedAt: null,
} as const;
const consent = { caps: noCaps, again: { reason: null }, approved: 'by typing 5.00' };
const again = { ...consent, again: { reason: 'it is meant' } };
const batchNamed = (fields: object) => ({ ...newBatch(), ...fields }) as unknown as Batch;

/** What is thrown: exit code, message and advice. */
function refusal(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof OperatorError) return [error.exitCode, error.message, error.advice ?? ''].join(' | ');
    throw error;
  }
  return 'none';
}

describe('a claim', () => {
  test('records how it was consented to, and the reason to send it again', () => {
    expect(decideClaim(clear, batch, consent)).toEqual([{ kind: 'consented', note: 'by typing 5.00' }]);
    expect(decideClaim(clear, batch, again)).toEqual([
      { kind: 'again', note: 'it is meant' },
      { kind: 'consented', note: 'by typing 5.00' },
    ]);
    expect(decideClaim(clear, { ...batch, state: 'stopped' }, { ...consent, approved: null })).toEqual([]);
  });

  test('takes the reason that was given for the plan, until the batch was first sent', () => {
    const seen = { ...clear, repeats: [sent('one', 1, 2)] };
    const meant = { ...batch, againReason: 'planned so' };
    expect(decideClaim(seen, meant, consent)).toContainEqual({ kind: 'again', note: 'planned so' });
    expect(decideClaim(seen, meant, again)).toContainEqual({ kind: 'again', note: 'it is meant' });
    const later = () => decideClaim(seen, { ...meant, state: 'stopped' }, { ...consent, approved: null });
    expect(refusal(later)).toMatch(/this change was sent before/);
  });

  test('is refused if the batch was ended meanwhile, and does not say that it was approved', () => {
    const ended = { ...batch, state: 'done' as const, appliedAt: null };
    expect(refusal(() => decideClaim(clear, ended, consent))).toMatch(
      /batch two was ended meanwhile: somebody discarded it or found its rows on the server; nothing was sent/,
    );
  });

  test('is refused while the journal is behind the server or a row was made twice, whatever reason is given', () => {
    const behind = { ...clear, behind: batchNamed({ batch: 'one', behind: 'row 2 stands there' }) };
    expect(refusal(() => decideClaim(behind, batch, again))).toMatch(
      /^8 \| .* older than the server: row 2 stands there/,
    );
    const twice = { ...clear, overApplied: { batch: 'one', row: 4 } };
    expect(refusal(() => decideClaim(twice, batch, again))).toMatch(/^8 \| row 4 of batch one was made more than once/);
  });

  test('keeps to the bounds, unless the batch reverses rows', () => {
    const bounded = { ...consent, caps: { ...noCaps, maxDay: '9.00' as Money } };
    const seen = { ...clear, claimedToday: [planned] };
    expect(refusal(() => decideClaim(seen, batch, bounded))).toMatch(/bulk.max_day allows \(9.00\); nothing was sent/);
    expect(refusal(() => decideClaim(seen, { ...batch, undoOf: 'one' }, bounded))).toBe('none');
  });

  test('that reverses rows is refused only for rows that were found on the server or may still be made, and if no reason is given', () => {
    const back = { ...batch, undoOf: 'one' };
    const seen = { ...clear, repeats: [sent('three', 1, 2)], like: [batchNamed({})] };
    expect(refusal(() => decideClaim(seen, back, consent))).toBe('none');
    const found = { ...clear, repeats: [{ ...sent('three', 1, 2), found: true }] };
    expect(refusal(() => decideClaim(found, back, consent))).toMatch(
      /1 row was sent before; nothing was sent now \|[^|]*Look at these users on the server\. To send it/,
    );
    expect(refusal(() => decideClaim(found, back, again))).toBe('none');
    const late = { ...clear, repeats: [{ ...sent('three', 1, 2), state: 'not_applied' as const }] };
    expect(refusal(() => decideClaim(late, back, consent))).toMatch(
      /was sent and not found \(a late write may still appear/,
    );
  });

  test('is refused for a file or rows that were sent, but not for rows that were claimed before', () => {
    const other = { batch: 'one', createdAt: at(1), appliedAt: null, fileHash: 'f1' };
    const refused = (like: object, fileHash: string | null = 'f2', rows = [planned, { ...planned, row: 3 }]) =>
      refusal(() => decideClaim({ ...clear, rows, like: [batchNamed(like)] }, { ...batch, fileHash }, consent));
    expect(refused(other)).toMatch(/the same rows were sent before, on 2026-03-11 10:01 UTC as batch one/);
    expect(refused({ ...other, appliedAt: at(5) })).toMatch(/sent before, on 2026-03-11 10:05/);
    expect(refused({ ...other, fileHash: 'f2' })).toMatch(/\| this file was sent before/);
    expect(refused({ ...other, fileHash: null }, null)).toMatch(/\| the same rows were sent before/);
    // Nobody need have written one row into a file.
    expect(refused({ ...other, fileHash: 'f2' }, 'f2', [planned])).toMatch(/\| this change was sent before/);
    const claimed = { ...planned, claimedAt: at(9) };
    expect(refused(other, 'f2', [claimed])).toBe('none');
    expect(refused(other, 'f2', [claimed, planned])).toMatch(/sent before/);
  });
});

describe('rows that were sent before', () => {
  const lineOf = (fields: Partial<SentRow>, row: Partial<ClaimedRow> = {}) =>
    repeatLines({ rows: [{ ...planned, ...row }], repeats: [{ ...sent('one', 1, 2), ...fields }] });

  test('are named with their outcome; of several, the last one is named', () => {
    const where = 'on 2026-03-11 10:02 UTC, row 2 of batch one';
    expect(lineOf({})).toEqual([`row 2: the same for user 7 was applied ${where}`]);
    expect(lineOf({}, { user: null })).toEqual([`row 2: the same for the new user was applied ${where}`]);
    expect(lineOf({ state: 'unknown' })).toEqual([`row 2: the same for user 7 may have been made ${where}`]);
    expect(lineOf({ batch: null, row: null, state: 'done' })).toEqual([
      'row 2: the same for user 7 was applied on 2026-03-11 10:02 UTC, by hand',
    ]);
    const both = { rows: [planned], repeats: [sent('one', 1, 2), sent('three', 1, 7)] };
    expect(repeatLines(both)[0]).toMatch(/10:07 UTC, row 2 of batch three/);
    expect(lineOf({ fingerprint: 'another' })).toEqual([]);
    expect(lineOf({}, { fingerprint: null })).toEqual([]);
  });

  test('are looked for within the time of the settings, and the day is the last 24 hours', () => {
    const now = Date.UTC(2026, 2, 11);
    expect(termsOf({ againWithinMs: 5 * dayMs }, { now: () => now })).toEqual({
      repeatsSince: '2026-03-06T00:00:00.000000Z',
      daySince: '2026-03-10T00:00:00.000000Z',
    });
  });

  test('are looked for by the clock of the server if this one is more than a minute ahead', () => {
    const by = (serverAheadMs?: number) => {
      const counters = { ...(serverAheadMs !== undefined && { serverAheadMs }) } as Client['counters'];
      return earlierClock({ clock: { now: () => 10 * dayMs }, client: { counters } }).now();
    };
    expect([by(), by(-minuteMs), by(-minuteMs - 1), by(-dayMs), by(dayMs)]).toEqual([
      10 * dayMs,
      10 * dayMs,
      10 * dayMs - minuteMs - 1,
      9 * dayMs,
      10 * dayMs,
    ]);
  });

  test('are named for a write by hand that does the same, the last one only', async () => {
    let now = at(1);
    const clock = { now: () => Date.parse(now) };
    const { journal } = await newJournal(clock);
    const done = () => doneBefore(journal, fingerprint, { againWithinMs: dayMs }, clock);
    expect(await done()).toBeNull();
    for (const [minute, state] of [
      [2, 'done'],
      [3, 'refused'],
      [4, 'done'],
    ] as const) {
      now = at(minute);
      const body = { operation: 'users.update-balance', user: 7, body: '{"type":"add","amount":5}' };
      const write = await journal.beginWrite({ ...body, fingerprint });
      await journal.endWrite(write, { state, httpStatus: 200, answer: '{}', problem: null });
    }
    expect(await done()).toBe('the same was applied on 2026-03-11 10:04 UTC, by hand');
    expect(await doneBefore(journal, 'another', { againWithinMs: dayMs }, clock)).toBeNull();
  });
});

describe('before anybody is asked to consent', () => {
  const rules = { caps: noCaps, againWithinMs: dayMs };
  const none = { ...rules, again: { reason: null } };
  const clock = { now: () => Date.UTC(2026, 2, 11) };
  const row = (user = 7) => newIntent(2, user, { fingerprint });

  async function world(policy?: ApprovalPolicy) {
    const approval = policy === undefined ? {} : { balance: policy };
    const { journal, file } = await newJournal(clock, undefined, { approval, caps: null });
    const { people } = await newPeople(clock, file);
    await people.add(newAccount('bert', { roles: ['approver'], password: 'hash' }));
    const check = async (name: string, consent: Parameters<typeof checkClaimable>[2] = none) => {
      const found = await batchOf(journal, name);
      return checkClaimable(journal, found, consent, clock).then(
        () => 'none',
        (error: OperatorError) => error.message,
      );
    };
    return { journal, bert: journal.by({ ...anna, name: 'web', account: 'bert' }), check };
  }

  test('rows that were sent before are refused, unless a reason was given now or for the plan', async () => {
    const { journal, check } = await world();
    await journal.addBatch(newBatch(), [row()]);
    expect(await check('one')).toBe('none');
    await journal.claim('one', termsOf(rules, clock), () => []);
    await journal.addBatch(newBatch({ batch: 'two', hash: 'h2', fileHash: 'f2', rowsDigest: 'd2' }), [row()]);
    expect(await check('two')).toMatch(/this change was sent before/);
    expect(await check('two', { ...none, again: { reason: 'it is meant' } })).toBe('none');
    const meant = { batch: 'three', hash: 'h3', fileHash: 'f3', rowsDigest: 'd3', againReason: 'planned so' };
    await journal.addBatch(newBatch(meant), [row()]);
    expect(await check('three')).toBe('none');
  });

  test('a batch is refused if another person must approve it first, and a new reason needs a new approval', async () => {
    const { journal, bert, check } = await world(policyOf());
    await journal.addBatch(newBatch(), [row()]);
    expect(await check('one')).toMatch(/must be approved by another person/);
    await journal.submit('one', { note: null, again: null });
    await bert.approve('one', (await journal.approval('one'))?.hash ?? '');
    expect(await check('one')).toBe('none');
    expect(await check('one', { ...none, again: { reason: 'it is meant' } })).toMatch(/must be approved/);
  });
});

describe('a batch is sent only', () => {
  test('if its file has not changed since the plan; a file that is gone is no problem', () => {
    const folder = temporaryFolder();
    const path = `${folder}/credit.csv`;
    const of = (fields: Partial<Batch>) => batchNamed({ file: 'credit.csv', fileHash: 'f1', ...fields });
    const check = (fields: Partial<Batch>, from: string | null = path) => refusal(() => checkFile(of(fields), from));
    expect(check({})).toBe('none');
    writeFileSync(path, 'user_id,amount');
    expect(check({})).toMatch(/^2 \| credit.csv has changed since the batch was planned from it; nothing was sent/);
    expect(check({ fileHash: createHash('sha256').update('user_id,amount').digest('hex') })).toBe('none');
    for (const fields of [{ file: null }, { fileHash: null }]) expect(check(fields)).toBe('none');
    expect(check({}, null)).toBe('none');
    mkdirSync(`${folder}/folder`);
    expect(check({}, `${folder}/folder`)).not.toBe('none');
  });

  test('to the server that it was planned for, with a key of the same user', async () => {
    const owned = (id: number | null) => ({
      address: 'http://127.0.0.1:1',
      keyMark: 'abcd',
      auth: () => Promise.resolve({ body: id === null ? {} : { id } }) as never,
    });
    const signal = new AbortController().signal;
    const check = async (server: Partial<Batch['server']>, client: Partial<ReturnType<typeof owned>> = {}) => {
      const found = batchNamed({ server: { address: 'http://127.0.0.1:1', keyMark: 'abcd', owner: '1', ...server } });
      return checkServer(found, { ...owned(1), ...client }, signal).then(
        () => 'none',
        (error: OperatorError) => error.message,
      );
    };
    expect(await check({})).toBe('none');
    // Another key of the same user is fine.
    expect(await check({ keyMark: 'other' })).toBe('none');
    expect(await check({ owner: '2' })).toMatch(/with the key of another user; nothing was sent/);
    expect(await check({ address: 'http://127.0.0.1:2' })).toMatch(
      /was planned for http:\/\/127.0.0.1:2, but the address here is/,
    );
    // If the owner of a key is unknown, it must be the same key.
    expect(await check({ owner: null })).toBe('none');
    expect(await check({ owner: null, keyMark: 'other' })).toMatch(/key of another user/);
    expect(await check({}, owned(null))).toBe('none');
    expect(await check({ keyMark: 'other' }, owned(null))).toMatch(/key of another user/);
  });
});
