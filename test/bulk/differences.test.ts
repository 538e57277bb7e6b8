import { describe, expect, test } from 'vitest';
import { changesOf } from '../../src/bulk/actions/balance-judge.ts';
import { findingsOf, type KnownRow, rowName, type SeenChanges } from '../../src/bulk/differences.ts';

const token = 'am:abcdefghijkl';
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

function kindsOf(known: KnownRow, seen: SeenChanges, user = known.user, takenBack?: KnownRow): string[] {
  const rows = {
    byToken: new Map([[known.token, known]]),
    compared: new Map([[known.user, [known]]]),
    takenBack: new Map(takenBack === undefined ? [] : [[rowName(known.batch, known.row), takenBack]]),
  };
  return findingsOf(user, seen, rows, open).map(({ kind }) => kind);
}

describe('a row', () => {
  const made = { amount: '5.00', description: `Credit ${token}` };

  test.each<[string, KnownRow, SeenChanges, string[]]>([
    ['that stands there once', row(), changes(made), []],
    ['that is not there', row(), changes(), ['missing']],
    ['whose user is gone', row(), 'gone', ['missing']],
    ['whose transactions are hidden', row(), 'hidden', ['not_shown']],
    ['that was never sent, and is hidden', row({ state: 'planned' }), 'hidden', []],
    ['that is there twice', row(), changes(made, made), ['repeated']],
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
      ['reversed'],
    ],
    ['after which another amount went', row(), changes(made, { result: '-', amount: 4, description: 'An order' }), []],
  ])('%s', (_, known, seen, kinds) => {
    expect(kindsOf(known, seen)).toEqual(kinds);
  });

  test('that another batch took back is shown as that', () => {
    expect(kindsOf(row(), changes(made), 7, row({ batch: 'two', type: 'remove' }))).toEqual(['reversed']);
  });

  test('at another user, or that nobody knows, is named there', () => {
    expect(kindsOf(row({ user: 8 }), changes(made), 7)).toEqual(['other_user']);
    expect(kindsOf(row({ user: 8, token: 'am:bbbbbbbbbbbb' }), changes(made), 7)).toEqual(['unknown']);
  });
});
