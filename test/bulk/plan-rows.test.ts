import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Action, KnownUser } from '../../src/bulk/action.ts';
import { balance } from '../../src/bulk/actions/balance.ts';
import { create } from '../../src/bulk/actions/create.ts';
import { notify } from '../../src/bulk/actions/messages.ts';
import { claimableRows, planHash, planRows, rowsDigest } from '../../src/bulk/plan-rows.ts';
import { readRows } from '../../src/bulk/read-rows.ts';
import { keyText, type UserKey } from '../../src/bulk/row-reader.ts';
import type { Money } from '../../src/model/money.ts';
import { columns, sheetOf } from '../support/bulk.ts';

const { signal } = new AbortController();

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

async function planned(rows: readonly Cells[], headers: readonly string[] = columns, maxRow?: string) {
  const read = readRows(sheetOf(rows, headers), balance, { decimals: 2, mark: null, allowForce: false });
  const plan = await planRows(balance, read.rows, new Map(users), { maxRow: maxRow as Money | undefined }, signal);
  return { ...plan, claimed: claimableRows(plan.rows) };
}

describe('a row', () => {
  const good: readonly (readonly [Cells, string | null, string | null])[] = [
    [[1, 'add', '12.50'], '10.00', '22.50'],
    [[1, 'Remove', '4'], '10.00', '6.00'],
    [[1, 'set', '0'], '10.00', '0.00'],
    [[2, 'add', '0.20'], '0.10', '0.30'],
    [[1, 'add', '5', 'why', '10'], '10.00', '15.00'],
  ];
  test.each(good)('%j goes from %s to %s', async (cells, before, after) => {
    const { rows, problems } = await planned([cells]);
    expect(problems).toEqual([]);
    expect(rows).toMatchObject([{ row: 2, state: 'planned', plannedBefore: before, plannedAfter: after }]);
  });

  const wrong: readonly (readonly [Cells, string | null, RegExp])[] = [
    [['', 'add', '1'], 'user_id', /empty/],
    [['x', 'add', '1'], 'user_id', /"x" is not a user id/],
    [[0, 'add', '1'], 'user_id', /not a user id/],
    [[9, 'add', '1'], 'user_id', /there is no user 9/],
    [['9007199254740993', 'add', '1'], 'user_id', /user 9007199254740993 has an id above .* but not changed/],
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
  test.each(wrong)('%j is invalid for its column %s', async (cells, column, problem) => {
    const { rows, problems } = await planned([cells]);
    expect(rows).toMatchObject([{ state: 'invalid', fingerprint: null, parameters: null }]);
    expect(problems).toEqual([{ row: 2, column, problem: expect.stringMatching(problem) as string }]);
  });

  test('starts from the balance that the last valid row of the same user left', async () => {
    const { rows, net } = await planned([
      [1, 'add', '5'],
      [1, 'add', '1.005'],
      [1, 'remove', '20'],
      [1, 'set', '3'],
    ]);
    expect(rows.map(({ plannedBefore, plannedAfter }) => [plannedBefore, plannedAfter])).toEqual([
      ['10.00', '15.00'],
      [null, null],
      ['15.00', '-5.00'],
      ['-5.00', '3.00'],
    ]);
    // From 10 to 3.
    expect(net).toBe('-7.00');
  });

  test('gets a warning if it leaves a balance below zero or repeats another row', async () => {
    const { warnings, problems } = await planned([
      [1, 'remove', '11'],
      [2, 'add', '1', 'x'],
      [2, 'add', '1', 'x'],
      [2, 'add', '1', 'y'],
    ]);
    expect(problems).toEqual([]);
    // Another description does not make it another payment.
    expect(warnings).toEqual([
      'row 2: the balance of user 1 would be -1.00',
      'row 4 does the same as row 3',
      'row 5 does the same as row 3',
    ]);
  });

  test('is invalid if it changes a balance by more than the cap; a set counts by its change', async () => {
    const rows: Cells[] = [
      [1, 'add', '5.01'],
      [1, 'set', '14'],
      [2, 'set', '6'],
    ];
    const { problems } = await planned(rows, columns, '5');
    expect(problems.map(({ row, column }) => [row, column])).toEqual([
      [2, 'amount'],
      [4, 'amount'],
    ]);
  });
});

describe('the total', () => {
  test('is the planned change of all balances, exact to the last decimal', async () => {
    const { net } = await planned([
      [1, 'add', '0.10'],
      [1, 'add', '0.20'],
      [2, 'remove', '0.05'],
      [2, 'set', '1'],
    ]);
    expect(net).toBe('1.20');
  });
});

describe('the header', () => {
  test('may have the columns of a result file, which are ignored', async () => {
    const names = ['user_id', 'type', 'amount', '_row', '_state', '_problem'];
    const { problems, rows } = await planned([[1, 'add', '1', 7, 'rejected', 'busy']], names);
    expect(problems).toEqual([]);
    expect(rows).toMatchObject([{ state: 'planned' }]);
  });
});

describe('the hash of a plan', () => {
  const server = { address: 'http://x', keyMark: 'abcd', owner: '1' };
  const hashOf = async (rows: readonly Cells[], more = {}): Promise<string> =>
    planHash(
      { action: 'balance', title: 't', fileHash: 'f', server, undoOf: null, ...more },
      (await planned(rows)).rows,
    );
  const one: Cells = [1, 'add', '5', 'x'];

  test('is the same for the same plan', async () => {
    expect(await hashOf([one])).toBe(await hashOf([one]));
  });

  test.each([
    ['amount', [[1, 'add', '5.01', 'x']], {}],
    ['user', [[2, 'add', '5', 'x']], {}],
    ['description', [[1, 'add', '5', 'y']], {}],
    ['row more', [one, one], {}],
    ['title', [one], { title: 'u' }],
    ['file', [one], { fileHash: 'g' }],
    ['server', [one], { server: { ...server, address: 'http://y' } }],
    ['owner of the key', [one], { server: { ...server, owner: '2' } }],
  ] as const)('changes with another %s', async (_, rows, more) => {
    expect(await hashOf(rows, more)).not.toBe(await hashOf([one]));
  });

  test('stands beside a digest of rows that does not depend on their order', async () => {
    const two: Cells = [2, 'add', '5', 'x'];
    expect(rowsDigest((await planned([one, two])).claimed)).toBe(rowsDigest((await planned([two, one])).claimed));
    expect(rowsDigest((await planned([one])).claimed)).not.toBe(rowsDigest((await planned([one, two])).claimed));
  });
});

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** The plan of rows of any action, with users found by these keys. */
async function plannedOf(
  action: Action,
  headers: readonly string[],
  rows: readonly Cells[],
  known: readonly (readonly [UserKey, KnownUser | string])[],
) {
  const read = readRows(sheetOf(rows, headers), action, { decimals: 2, mark: null, allowForce: false });
  const own = new Map(known.map(([key, found]) => [keyText(key), found]));
  const plan = await planRows(action, read.rows, own, { maxRow: undefined }, signal);
  return { ...plan, claimed: claimableRows(plan.rows), users: own };
}

const zoe: KnownUser = {
  id: 7,
  email: 'zoe@x.example',
  username: 'zoe',
  balance: '10.00' as Money,
  fields: { status: 'suspended', email_verified_at: null },
};
const notesOfZoe = ['the status of the user is "suspended"', 'the email is not verified'];
const parametersOf = (amount: string) => ({ type: 'remove', amount, description: null, expected_balance: null });

describe('a plan keeps', () => {
  test('the user, the parameters, the notes and the fingerprint of each row', async () => {
    const key = { column: 'email', value: 'Zoe@x.example' } as const;
    const plan = await plannedOf(
      balance,
      ['email', 'type', 'amount'],
      [
        ['Zoe@x.example', 'remove', '12'],
        ['zoe@X.example', 'remove', '12.00'],
        ['zoe@x.example', 'remove', '1.001'],
        ['zoe@x.example', 'remove', '300'],
      ],
      [[key, zoe]],
    );
    const about = {
      subject: 'user:7',
      user: 7,
      key: 'email:zoe@x.example',
      plannedEmail: 'zoe@x.example',
      plannedUsername: 'zoe',
      problem: null,
      undoOfRow: null,
      state: 'planned',
    };
    expect(plan.rows.map(({ token: _token, ...row }) => row)).toEqual([
      {
        ...about,
        row: 2,
        cells: ['Zoe@x.example', 'remove', '12'],
        fingerprint: 'balance user:7 remove 12.00',
        parameters: parametersOf('12.00'),
        plannedBefore: '10.00',
        plannedAfter: '-2.00',
        notes: [...notesOfZoe, 'the balance of user 7 would be -2.00'],
      },
      {
        ...about,
        row: 3,
        cells: ['zoe@X.example', 'remove', '12.00'],
        fingerprint: 'balance user:7 remove 12.00',
        parameters: parametersOf('12.00'),
        plannedBefore: '-2.00',
        plannedAfter: '-14.00',
        notes: [...notesOfZoe, 'the balance of user 7 would be -14.00', 'does the same as row 2'],
      },
      {
        ...about,
        row: 4,
        state: 'invalid',
        cells: ['zoe@x.example', 'remove', '1.001'],
        subject: null,
        fingerprint: null,
        parameters: null,
        plannedBefore: null,
        plannedAfter: null,
        problem: 'amount: "1.001" has 3 decimal places; at most 2 are allowed',
        notes: [],
      },
      {
        ...about,
        row: 5,
        cells: ['zoe@x.example', 'remove', '300'],
        fingerprint: 'balance user:7 remove 300.00',
        parameters: parametersOf('300.00'),
        plannedBefore: '-14.00',
        plannedAfter: '-314.00',
        notes: [
          'the largest change',
          'more than 10 times the median of 12.00',
          ...notesOfZoe,
          'the balance of user 7 would be -314.00',
        ],
      },
    ]);
    const claimed = (row: number, amount: string, plannedBefore: string, plannedAfter: string) => ({
      row,
      user: 7,
      fingerprint: `balance user:7 remove ${amount}`,
      plannedBefore,
      plannedAfter,
      claimedAt: null,
    });
    expect(plan.claimed).toEqual([
      claimed(2, '12.00', '10.00', '-2.00'),
      claimed(3, '12.00', '-2.00', '-14.00'),
      claimed(5, '300.00', '-14.00', '-314.00'),
    ]);
    expect(plan.net).toBe('-324.00');
  });

  test('the user and a hashed fingerprint for a row that moves no money, but no amounts', async () => {
    const headers = ['user_id', 'type', 'icon', 'message', 'url'];
    const words = ['success', 'bx', 'Hello Zoe', ''];
    const key = { column: 'user_id', value: '7' } as const;
    const { rows, claimed, net, warnings, problems } = await plannedOf(
      notify,
      headers,
      [
        [7, ...words],
        [7, ...words],
        [8, ...words],
      ],
      [
        [key, zoe],
        [
          { ...key, value: '8' },
          { ...zoe, id: 8, fields: {} },
        ],
      ],
    );
    const print = (user: number): string =>
      sha256(JSON.stringify(['notify', `user:${user}`, '["success","bx","Hello Zoe",null]'])).slice(0, 24);
    expect(
      rows.map(({ fingerprint, plannedBefore, plannedAfter, notes }) => [
        fingerprint,
        plannedBefore,
        plannedAfter,
        notes,
      ]),
    ).toEqual([
      [print(7), null, null, notesOfZoe],
      [print(7), null, null, [...notesOfZoe, 'does the same as row 2']],
      [print(8), null, null, []],
    ]);
    expect(claimed.map(({ fingerprint }) => fingerprint)).toEqual([print(7), print(7), print(8)]);
    expect({ net, warnings, problems }).toEqual({
      net: '0.00',
      warnings: ['row 3 does the same as row 2'],
      problems: [],
    });
  });

  test('a limited number of warnings, and their count', async () => {
    const rows = Array.from({ length: 53 }, (): Cells => [2, 'remove', '1']);
    const { warnings } = await planned(rows);
    expect(warnings.slice(49)).toEqual(['row 27: the balance of user 2 would be -25.90', 'and 55 more like these']);
  });
});

describe('a row that creates a user', () => {
  const headers = ['first_name', 'last_name', 'username', 'email', 'language'];
  const anna = ['Anna', 'Lind', 'anna', 'Anna@x.example', 'en'];

  test('has no user yet, and is identified by its email address', async () => {
    const { rows, claimed, net, users: after } = await plannedOf(create, headers, [anna], []);
    const [row] = rows;
    expect(row).toMatchObject({ state: 'planned', subject: 'new:anna@x.example', user: null, key: null, notes: [] });
    expect(row).toMatchObject({
      plannedEmail: null,
      plannedUsername: null,
      plannedBefore: null,
      plannedAfter: null,
      problem: null,
    });
    const identity = create.identity(row?.parameters as Parameters<typeof create.identity>[0]);
    const print = sha256(JSON.stringify(['create', 'new:anna@x.example', identity])).slice(0, 24);
    expect([row?.fingerprint, claimed]).toEqual([
      print,
      [{ row: 2, user: null, fingerprint: print, plannedBefore: null, plannedAfter: null, claimedAt: null }],
    ]);
    expect([net, after.size]).toEqual(['0.00', 0]);
  });

  test.each([
    ['email', 'anna@x.example'],
    ['username', 'ANNA'],
  ] as const)('is invalid if a user has the %s already, and is not assigned to that user', async (column, value) => {
    const known = { ...zoe, [column]: value };
    const { rows, problems, claimed } = await plannedOf(create, headers, [anna], [[{ column, value }, known]]);
    expect(problems).toEqual([
      { row: 2, column, problem: expect.stringMatching(/^user 7 has the .* already$/) as string },
    ]);
    expect(rows).toMatchObject([
      {
        state: 'invalid',
        user: null,
        subject: null,
        fingerprint: null,
        plannedEmail: null,
        plannedUsername: null,
        notes: [],
      },
    ]);
    expect(claimed).toEqual([]);
  });

  test('is invalid if an earlier row creates a user with the same email or user name, in any case', async () => {
    const { problems } = await plannedOf(
      create,
      headers,
      [
        anna,
        ['Bo', 'Berg', 'bo', 'anna@X.example', 'en'],
        ['Cy', 'Craig', 'Anna', 'cy@x.example', 'en'],
        // An invalid row reserves no name.
        ['Di', 'Dahl', 'di', 'no address', 'en'],
        ['Di', 'Dahl', 'di', 'di@x.example', 'en'],
      ],
      [],
    );
    expect(problems).toEqual([
      { row: 3, column: 'email', problem: 'row 2 makes a user with the same' },
      { row: 4, column: 'username', problem: 'row 2 makes a user with the same' },
      { row: 5, column: 'email', problem: expect.stringContaining('is not an email address') as string },
    ]);
  });
});
