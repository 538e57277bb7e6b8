import { describe, expect, test } from 'vitest';
import { changesOf } from '../../src/bulk/actions/balance-judge.ts';
import { findingsOf, type KnownRow, type SeenChanges, type Span } from '../../src/bulk/differences.ts';

const token = 'am:abcdefghijkl';
const other = 'am:bbbbbbbbbbbb';
const open = { from: null, to: null };

function row(fields: Partial<KnownRow> = {}): KnownRow {
  const own = { batch: 'one', row: 2, user: 7, token, type: 'add', amount: '5.00' } as const;
  return { ...own, state: 'applied', evidence: 'token', ...fields };
}

function changes(...records: readonly Readonly<Record<string, unknown>>[]): SeenChanges {
  return (
    changesOf({ id: 7, balance_transactions: records.map((each, at) => ({ id: at, result: '+', ...each })) }) ??
    'hidden'
  );
}

interface Known {
  /** In the journal, and compared. */
  readonly rows?: readonly KnownRow[];
  /** In the journal, but not compared. */
  readonly others?: readonly KnownRow[];
  readonly span?: Span;
}

function findings(seen: SeenChanges, { rows = [], others = [], span = open }: Known = {}, user = 7) {
  const known = {
    byToken: new Map([...rows, ...others].map((each) => [each.token, each])),
    compared: Map.groupBy(rows, (each) => each.user),
  };
  return findingsOf(user, seen, known, span);
}

const kindsOf = (...given: Parameters<typeof findings>): string[] => findings(...given).map(({ kind }) => kind);

describe('a row', () => {
  const made = { amount: '5.00', description: `Credit ${token}` };

  test.each<[string, KnownRow, SeenChanges, string[]]>([
    ['that stands there once', row(), changes(made), []],
    ['that is not there', row(), changes(), ['missing']],
    ['whose user is gone', row(), 'gone', ['missing']],
    ['whose transactions are hidden', row(), 'hidden', ['not_shown']],
    ['that was never sent, and is hidden', row({ state: 'planned' }), 'hidden', []],
    ['that is there twice', row(), changes(made, made), ['repeated']],
    ['that the server took back in the same words', row(), changes(made, { ...made, result: '-' }), ['amount']],
    ['of another amount', row(), changes({ ...made, amount: 50 }), ['amount']],
    ['in the other direction', row(), changes({ ...made, result: '-' }), ['amount']],
    ['that was rejected, and is there', row({ state: 'rejected' }), changes(made), ['unrecorded']],
    ['that was rejected, and is not', row({ state: 'rejected' }), changes(), []],
    ['whose outcome is open', row({ state: 'unknown' }), changes(), ['unsettled']],
    [
      'whose mark was cut off, known by its balance',
      row({ evidence: 'balance' }),
      changes({ amount: 5, description: 'Credit am:abc' }),
      [],
    ],
    [
      'whose mark was cut off, although it was seen',
      row(),
      changes({ amount: 5, description: 'Credit am:abc' }),
      ['missing'],
    ],
    [
      'that went back by hand',
      row(),
      changes(made, { result: '-', amount: 5, description: `Correction of ${token}, made twice` }),
      [],
    ],
    ['after which another amount went', row(), changes(made, { result: '-', amount: 4, description: 'An order' }), []],
  ])('%s', (_, known, seen, kinds) => {
    expect(kindsOf(seen, { rows: [known] })).toEqual(kinds);
  });

  test('is reported with the first of its transactions', () => {
    const shown = { balance_before_transaction: 10, created_at: '2026-03-11T10:00:00Z' };
    const first = { ...made, ...shown, result: '-', amount: -5, id: 31 };
    expect(findings(changes(first), { rows: [row()] })).toMatchObject([
      {
        kind: 'amount',
        times: 1,
        server_type: 'remove',
        server_amount: '5.00',
        server_before: '10.00',
        record_id: '31',
        at: shown.created_at,
      },
    ]);
    expect(findings(changes(first, made), { rows: [row()] })).toMatchObject([
      {
        kind: 'amount',
        times: 2,
        record_id: '31',
        note: '2 transactions carry its mark, and one of them has its amount and direction',
      },
    ]);
    expect(findings(changes({ ...made, id: 31 }, made, first), { rows: [row()] })).toMatchObject([
      { kind: 'repeated', times: 3, record_id: '31', note: 'it was made 2 times' },
    ]);
    const set = row({ type: 'set', amount: '-4.00' });
    expect(findings(changes({ ...made, result: undefined, type: 'set', amount: -5 }), { rows: [set] })).toMatchObject([
      { kind: 'amount', server_type: 'set', server_amount: '-5.00', server_before: null, at: null },
    ]);
    expect(findings(changes({ ...made, amount: undefined, result: '-' }), { rows: [row()] })).toMatchObject([
      { kind: 'amount', server_amount: null },
    ]);
  });

  describe('that lost its mark', () => {
    const lost = row({ evidence: 'balance' });
    const bare = { amount: 5, description: 'Credit' };

    test('matches one change, not two', () => {
      const rows = [lost, row({ row: 3, token: other, evidence: 'balance' })];
      expect(kindsOf(changes(bare), { rows })).toEqual(['missing']);
      expect(kindsOf(changes(bare, bare), { rows })).toEqual([]);
    });

    test.each([
      ['of another amount', { ...bare, amount: 4 }],
      ['with a part of another mark in one of its texts', { ...bare, note: 'am:zzz' }],
      ['with the mark of another row', { ...bare, description: `Credit ${other}` }],
    ])('does not match a change %s', (_, change) => {
      const others = [row({ row: 3, token: other })];
      expect(kindsOf(changes(change), { rows: [lost], others })).toContain('missing');
    });
  });

  describe('that was made more than once', () => {
    const correction = { result: '-', amount: 5, description: `Correction of ${token}, made 2 times`, id: 41 };
    const told = (seen: SeenChanges, known = row()) =>
      findings(seen, { rows: [known] }).map(({ kind, times, record_id: id, note }) => [kind, times, id, note]);

    test('is no difference if all but one were taken back', () => {
      expect(told(changes(made, made, correction))).toEqual([]);
      expect(told(changes(correction, made, made))).toEqual([]);
      expect(told(changes(made, made, made, { ...correction, amount: 10 }))).toEqual([]);
      expect(told(changes(made, made, correction, { ...correction, id: 42 }))).toEqual([]);
    });

    test('is repeated if fewer were taken back', () => {
      expect(told(changes(made, made, made, correction))).toEqual([
        ['repeated', 2, '0', 'it was made 3 times, and 1 of them was taken back'],
      ]);
      expect(kindsOf(changes(made, made, { ...correction, amount: 4 }), { rows: [row()] })).toEqual(['repeated']);
    });

    test('and is not applied in the journal is to be recorded as made once', () => {
      const seen = changes(made, made, correction);
      const words = 'made 2 times, and 1 of them was taken back';
      expect(told(seen, row({ state: 'rejected' }))).toEqual([
        ['unrecorded', 1, '0', `it was ${words}, and is rejected in the journal`],
      ]);
      expect(told(seen, row({ state: 'needs_human' }))).toEqual([
        ['unsettled', 1, '0', `the journal does not know the outcome; it was ${words}`],
      ]);
      expect(told(changes(made, made, { ...correction, amount: 10 }), row({ state: 'planned' }))).toMatchObject([
        ['unrecorded', 1, '0', expect.anything()],
      ]);
    });

    test('differs if its mark is at another change, too', () => {
      expect(told(changes(made, made, { ...made, amount: 6 }, correction))).toEqual([
        ['amount', 2, '0', '3 transactions carry its mark, and 2 of them have its amount and direction'],
      ]);
      const atEnd = { ...correction, description: `Correction of ${token}` };
      expect(kindsOf(changes(made, made, atEnd), { rows: [row()] })).toEqual([]);
    });

    test('uses up what took it back: no other row was made by it', () => {
      const once = { ...made, description: `Credit ${other}` };
      const rows = [row({ row: 3, token: other }), row()];
      expect(kindsOf(changes(once, made, made, correction), { rows })).toEqual([]);
      const lost = row({ row: 3, token: other, type: 'remove', evidence: 'balance' });
      expect(kindsOf(changes(made, made, correction), { rows: [lost, row()] })).toEqual(['missing']);
      expect(kindsOf(changes(once, made, made, correction), { rows: [row({ row: 3, token: other })] })).toEqual([
        'unknown',
      ]);
    });
  });

  test('that is shown at another user is reported there, if it is compared', () => {
    const elsewhere = row({ user: 8 });
    expect(findings(changes(made), { rows: [elsewhere] })).toMatchObject([
      { kind: 'other_user', user_id: 7, batch: 'one', row: 2, times: 1, note: 'it is shown at user 7' },
    ]);
    expect(kindsOf(changes(made), { others: [elsewhere] })).toEqual([]);
    expect(kindsOf(changes(made), { rows: [row({ user: 8, row: 3, token: other })], others: [elsewhere] })).toEqual([]);
    expect(kindsOf(changes(made), { others: [row()] })).toEqual([]);
  });
});

describe('a mark that the journal does not know', () => {
  const stranger = { amount: 5, description: `Credit ${token}` };

  test('is reported with what the server shows, and how often', () => {
    expect(findings(changes({ ...stranger, id: 31 }))).toEqual([
      {
        kind: 'unknown',
        user_id: 7,
        batch: null,
        row: null,
        state: null,
        type: null,
        amount: null,
        token,
        times: 1,
        server_type: 'add',
        server_amount: '5.00',
        server_before: null,
        record_id: '31',
        at: null,
        note: 'the journal does not know this mark',
      },
    ]);
    expect(findings(changes(stranger, stranger))[0]?.note).toBe('the journal does not know this mark, made 2 times');
    expect(findings(changes(stranger, { ...stranger, amount: 70 }))[0]?.times).toBe(1);
    const back = { ...stranger, result: '-' };
    expect(findings(changes(stranger, back))).toMatchObject([
      { times: 1, note: 'the journal does not know this mark' },
    ]);
  });

  test('counts less what was taken back since, but at least once', () => {
    const back = { result: '-', amount: 5, description: `Correction of ${token}, made 2 times` };
    const told = (...records: readonly Readonly<Record<string, unknown>>[]) =>
      findings(changes(...records)).map(({ kind, times, note }) => [kind, times, note]);
    const note = (words: string) => `the journal does not know this mark, made ${words}`;
    expect(told(stranger, stranger, back)).toEqual([['unknown', 1, note('2 times, and 1 of them was taken back')]]);
    expect(told(stranger, stranger, { ...back, amount: 10 })).toEqual([
      ['unknown', 1, note('2 times, and 2 of them were taken back')],
    ]);
    expect(told(stranger, stranger, stranger, back)).toEqual([
      ['unknown', 2, note('3 times, and 1 of them was taken back')],
    ]);
    expect(told(stranger, back)).toEqual([['unknown', 1, 'the journal does not know this mark']]);
    // Whatever comes first in the list, it was a payment.
    const atEnd = { ...back, description: `Correction of ${token}` };
    expect(findings(changes(atEnd, stranger, stranger))).toMatchObject([
      { times: 1, server_type: 'add', record_id: '1' },
    ]);
    const hidden = { ...stranger, amount: undefined };
    expect(told(hidden, hidden, back)).toEqual([['unknown', 2, note('2 times')]]);
    const nothing = { ...stranger, amount: 0 };
    expect(told(nothing, nothing, back)).toEqual([['unknown', 2, note('2 times')]]);
  });

  test('counts if its time is in the span, both ends included, or is not shown', () => {
    const time = Date.parse('2026-03-11T10:00:00Z');
    const shown = { ...stranger, created_at: '2026-03-11T10:00:00Z' };
    const isNamed = (from: number | null, to: number | null, change: object = shown) =>
      kindsOf(changes({ ...change }), { span: { from, to } }).length === 1;
    expect([isNamed(null, null), isNamed(time, time), isNamed(time, null), isNamed(null, time)]).toEqual(
      Array(4).fill(true),
    );
    expect([isNamed(time + 1, null), isNamed(null, time - 1), isNamed(time + 1, time + 2), isNamed(0, 1)]).toEqual(
      Array(4).fill(false),
    );
    expect(isNamed(0, 1, stranger)).toBe(true);
  });
});

test('a row of another amount is described by one transaction, or by how many carry its mark', () => {
  const odd = { amount: '50.00', description: `Credit ${token}` };
  const note = (...made: readonly object[]) => findings(changes(...(made as [])), { rows: [row()] })[0]?.note;
  expect(note(odd)).toBe('another amount or direction is shown');
  expect(note(odd, odd)).toMatch(/^2 transactions carry its mark, and none of them has its amount and direction/);
});
