import { describe, expect, test } from 'vitest';
import type { KnownUser } from '../../src/bulk/action.ts';
import { balance } from '../../src/bulk/actions/balance.ts';
import { Users } from '../../src/bulk/find-users.ts';
import { planHash, planRows, rowsDigest } from '../../src/bulk/plan-rows.ts';
import { readRows } from '../../src/bulk/read-rows.ts';
import { keyText } from '../../src/bulk/row-reader.ts';
import type { Money } from '../../src/model/money.ts';
import { columns, sheetOf } from '../support/bulk.ts';

type Cells = readonly (string | number)[];

function user(id: number, money: string | null): [string, KnownUser] {
  const known = { id, email: `u${id}@x.example`, username: `u${id}`, balance: money as Money | null, fields: {} };
  return [keyText({ column: 'user_id', value: String(id) }), known];
}

const users = new Map<string, KnownUser | string>([
  user(1, '10.00'),
  user(2, '0.10'),
  user(3, null),
  [keyText({ column: 'user_id', value: '9' }), 'there is no user 9'],
]);

function planned(rows: readonly Cells[], headers: readonly string[] = columns, maxRow?: string) {
  const read = readRows(sheetOf(rows, headers), balance, { decimals: 2, mark: null, allowForce: false });
  const plan = planRows(balance, read.rows, new Map(users), { maxRow: maxRow as Money | undefined });
  return { ...plan, rows: [...plan.rows] };
}

describe('a row', () => {
  const good: readonly (readonly [Cells, string | null, string | null])[] = [
    [[1, 'add', '12.50'], '10.00', '22.50'],
    [[1, 'Remove', '4'], '10.00', '6.00'],
    [[1, 'set', '0'], '10.00', '0.00'],
    [[2, 'add', '0.20'], '0.10', '0.30'],
    [[1, 'add', '5', 'why', '10'], '10.00', '15.00'],
  ];
  test.each(good)('%j goes from %s to %s', (cells, before, after) => {
    const { rows, problems } = planned([cells]);
    expect(problems).toEqual([]);
    expect(rows).toMatchObject([{ row: 2, valid: true, before, after }]);
  });

  const wrong: readonly (readonly [Cells, string | null, RegExp])[] = [
    [['', 'add', '1'], 'user_id', /empty/],
    [['x', 'add', '1'], 'user_id', /"x" is no user id/],
    [[0, 'add', '1'], 'user_id', /no user id/],
    [[9, 'add', '1'], 'user_id', /there is no user 9/],
    [
      ['9007199254740993', 'add', '1'],
      'user_id',
      /user 9007199254740993 has an id above .* nothing is written to them/,
    ],
    [[3, 'add', '1'], null, /balance of user 3 cannot be read/],
    [[1, 'give', '1'], 'type', /"give" is none of "add", "remove", "set"/],
    [[1, 'add', ''], 'amount', /empty/],
    [[1, 'add', '1.005'], 'amount', /3 decimal places/],
    [[1, 'add', '1E+05'], 'amount', /scientific/],
    [[1, 'add', '-5'], 'amount', /below zero; say "remove"/],
    [[1, 'remove', '-5'], 'amount', /below zero; say "add"/],
    [[1, 'add', '0'], 'amount', /changes nothing/],
    [[1, 'add', '1', 'x'.repeat(240)], 'description', /240 characters; 239 are the most/],
    [[1, 'add', '1', '', '9.99'], 'expected_balance', /the balance is 10.00, and the row expects 9.99/],
    [[1, 'add', '1', '', 'much'], 'expected_balance', /not an amount/],
  ];
  test.each(wrong)('%j is invalid for its column %s', (cells, column, problem) => {
    const { rows, problems } = planned([cells]);
    expect(rows).toMatchObject([{ valid: false, fingerprint: null, parameters: null }]);
    expect(problems).toEqual([{ row: 2, column, problem: expect.stringMatching(problem) as string }]);
  });

  test('follows on the row before it for the same user, and an invalid one changes nothing', () => {
    const { rows, net } = planned([
      [1, 'add', '5'],
      [1, 'add', '1.005'],
      [1, 'remove', '20'],
      [1, 'set', '3'],
    ]);
    expect(rows.map(({ before, after }) => [before, after])).toEqual([
      ['10.00', '15.00'],
      [null, null],
      ['15.00', '-5.00'],
      ['-5.00', '3.00'],
    ]);
    // 10 became 3.
    expect(net).toBe('-7.00');
  });

  test('is invalid where the mirror has lost its user since it was found there', () => {
    const read = readRows(sheetOf([[1, 'add', '5']], columns), balance, { decimals: 2, mark: null, allowForce: false });
    const lost = new Users(new Map([['user_id:1', 1]]), () => undefined);
    const { problems } = planRows(balance, read.rows, lost, { maxRow: undefined });
    expect(problems).toEqual([{ row: 2, column: 'user_id', problem: expect.stringMatching(/has just lost the user/) }]);
  });

  test('lets go of a user whom no later row names', () => {
    const read = readRows(
      sheetOf(
        [
          [1, 'add', '5'],
          [2, 'add', '1'],
          [1, 'remove', '3'],
        ],
        columns,
      ),
      balance,
      {
        decimals: 2,
        mark: null,
        allowForce: false,
      },
    );
    const own = new Map(users);
    const [one, two] = ['user_id:1', 'user_id:2'];
    const { rows } = planRows(balance, read.rows, own, { maxRow: undefined }, new Set([one]));
    expect([...rows].map(({ before, after }) => [before, after])).toEqual([
      ['10.00', '15.00'],
      ['0.10', '1.10'],
      ['15.00', '12.00'],
    ]);
    expect(own.get(one)).toMatchObject({ balance: '12.00' });
    expect(own.has(two)).toBe(false);
  });

  test('that leaves less than nothing, or does what another does, is pointed out', () => {
    const { warnings, problems } = planned([
      [1, 'remove', '11'],
      [2, 'add', '1', 'x'],
      [2, 'add', '1', 'x'],
      [2, 'add', '1', 'y'],
    ]);
    expect(problems).toEqual([]);
    // What is said of a payment does not make it another one.
    expect(warnings).toEqual([
      'row 2: the balance of user 1 would be -1.00',
      'row 4 does the same as row 3',
      'row 5 does the same as row 3',
    ]);
  });

  test('that changes a balance by more than the cap is invalid, a set by what it changes', () => {
    const rows: Cells[] = [
      [1, 'add', '5.01'],
      [1, 'set', '14'],
      [2, 'set', '6'],
    ];
    const { problems } = planned(rows, columns, '5');
    expect(problems.map(({ row, column }) => [row, column])).toEqual([
      [2, 'amount'],
      [4, 'amount'],
    ]);
  });
});

describe('the sum', () => {
  test('is the planned change of all balances, exact to the last place', () => {
    const { net } = planned([
      [1, 'add', '0.10'],
      [1, 'add', '0.20'],
      [2, 'remove', '0.05'],
      [2, 'set', '1'],
    ]);
    expect(net).toBe('1.20');
  });
});

describe('the header', () => {
  const headers: readonly (readonly [readonly string[], RegExp])[] = [
    [['type', 'amount'], /"user_id", "email", "username" is needed/],
    [['user_id', 'email', 'type', 'amount'], /"user_id", "email" are all there/],
    [['user_id', 'type', 'amount', 'amount'], /more than once/],
    [['user_id', 'type', 'amout'], /unknown column "amout". Did you mean "amount"/],
  ];
  test.each(headers)('%j is refused', (names, problem) => {
    const read = readRows(sheetOf([[1, 'add', '1', '']], names), balance, {
      decimals: 2,
      mark: null,
      allowForce: false,
    });
    expect(read.problems.map((each) => each.problem).join('\n')).toMatch(problem);
  });

  test('may have the columns of a result file, which say nothing', () => {
    const names = ['user_id', 'type', 'amount', '_row', '_state', '_problem'];
    const { problems, rows } = planned([[1, 'add', '1', 7, 'rejected', 'busy']], names);
    expect(problems).toEqual([]);
    expect(rows).toMatchObject([{ valid: true }]);
  });
});

describe('the hash of a plan', () => {
  const server = { address: 'http://x', keyMark: 'abcd', owner: '1' };
  const hashOf = (rows: readonly Cells[], more = {}): string =>
    planHash({ action: 'balance', fileHash: 'f', server, undoOf: null, rows: planned(rows).rows, ...more });
  const one: Cells = [1, 'add', '5', 'x'];

  test('is the same for the same plan', () => {
    expect(hashOf([one])).toBe(hashOf([one]));
  });

  test.each([
    ['amount', [[1, 'add', '5.01', 'x']], {}],
    ['user', [[2, 'add', '5', 'x']], {}],
    ['description', [[1, 'add', '5', 'y']], {}],
    ['row more', [one, one], {}],
    ['file', [one], { fileHash: 'g' }],
    ['server', [one], { server: { ...server, address: 'http://y' } }],
    ['owner of the key', [one], { server: { ...server, owner: '2' } }],
  ] as const)('is another with another %s', (_, rows, more) => {
    expect(hashOf(rows, more)).not.toBe(hashOf([one]));
  });

  test('does not matter for telling that the same rows come in another order', () => {
    const two: Cells = [2, 'add', '5', 'x'];
    expect(rowsDigest(planned([one, two]).claimed)).toBe(rowsDigest(planned([two, one]).claimed));
    expect(rowsDigest(planned([one]).claimed)).not.toBe(rowsDigest(planned([one, two]).claimed));
  });
});
