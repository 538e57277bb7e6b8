/** Whole plans on the terminal, in JSON and as a sheet, and results as sheets. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { describe, expect, test } from 'vitest';
import type { BatchReport } from '../../src/bulk/report.ts';
import { readSheet } from '../../src/bulk/sheet/sheet.ts';
import type { WholePlan } from '../../src/cli/bulk/words.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { newUser } from '../support/bulk.ts';
import { invoke, type Invocation } from '../support/invoke.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

type Whole = BatchReport & WholePlan;
type Cells = readonly (string | number)[];

async function world() {
  const sandbox = await startSandbox({ users: 5, emails: 5 });
  const folder = temporaryFolder();
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  const bulk = async (args: readonly string[], more: Invocation = {}) => {
    const done = await invoke(['bulk', ...args], { folder, environment, ...more });
    return { ...done, json: () => JSON.parse(done.stdout) as Whole };
  };
  const file = (rows: readonly Cells[], head = 'user_id,type,amount,description'): string => {
    writeFileSync(join(folder, 'credit.csv'), [head, ...rows.map((cells) => cells.join(','))].join('\n'));
    return 'credit.csv';
  };
  const csv = (name: string): Record<string, string>[] =>
    parse(readFileSync(join(folder, name)), { bom: true, columns: true });
  const xlsx = async (name: string): Promise<Record<string, string>[]> => {
    const sheet = await readSheet(join(folder, name), { signal: new AbortController().signal });
    return [...sheet.rows].map(({ cells }) =>
      Object.fromEntries(sheet.columns.map((column, at) => [column, cells[at]?.raw ?? ''])),
    );
  };
  return { sandbox, folder, environment, bulk, file, csv, xlsx };
}

function userWith({ control }: Sandbox, balance: number, fields: Record<string, string | null>): number {
  const id = Number(
    control.insert('users', { balance, email_verified_at: '2026-01-01T00:00:00.000000Z', ...fields })['id'],
  );
  control.setRelated('users', id, 'balance_transactions', []);
  return id;
}

/** Eight small rows, a much larger one, one of a banned user and one of a user with an unverified email. */
async function mixed() {
  const made = await world();
  const { sandbox, file } = made;
  const small = Array.from({ length: 8 }, (_, at) => userWith(sandbox, 10, { username: `small${at}` }));
  const large = userWith(sandbox, 0, { username: 'large', email: 'large@mail.example' });
  const banned = userWith(sandbox, 1, { username: 'banned', status: 'banned' });
  const unverified = userWith(sandbox, 1, { username: 'new', email_verified_at: null });
  const rows: Cells[] = [
    ...small.map((id): Cells => [id, 'add', '5', 'x']),
    [banned, 'add', '5', 'x'],
    [large, 'add', '500', 'x'],
    [unverified, 'remove', '4', '-5'],
  ];
  return { ...made, name: file(rows), large, banned, unverified };
}

const largest = ['the largest change', 'more than 10 times the median of 5.00'];

describe('A plan', () => {
  test('has every row with its user and its notes in --json, and again in status --rows', async () => {
    const { bulk, name, large, banned, unverified } = await mixed();
    const plan = (await bulk(['plan', 'balance', name, '--json'])).json();
    expect(plan.look_at).toEqual([11, 10, 12]);
    expect(plan.plan).toHaveLength(11);
    expect(plan.plan[9]).toEqual({
      row: 11,
      state: 'planned',
      user_id: large,
      username: 'large',
      email: 'large@mail.example',
      before: '0.00',
      after: '500.00',
      change: '500.00',
      notes: largest,
      problem: null,
    });
    expect(plan.plan.filter(({ notes }) => notes.length > 0).map(({ user_id, notes }) => [user_id, notes])).toEqual([
      [banned, ['the status of the user is "banned"']],
      [large, largest],
      [unverified, ['the email is not verified', `the balance of user ${unverified} would be -3.00`]],
    ]);
    const status = await bulk(['status', plan.batch, '--rows', '--json']);
    expect(status.json()).toMatchObject(plan);
    expect((await bulk(['status', plan.batch, '--json'])).json()).not.toHaveProperty('plan');
    const sent = (await bulk(['apply', plan.batch, '--approve', plan.hash, '--json'])).json();
    expect(sent).not.toHaveProperty('plan');
    const after = (await bulk(['status', plan.batch, '--rows', '--json'])).json();
    expect(after.plan[9]).toMatchObject({ state: 'applied', before: '0.00', after: '500.00' });
  });

  test('is printed whole, rows with notes first', async () => {
    const { sandbox, bulk, file } = await world();
    const users = Array.from({ length: 60 }, () => newUser(sandbox, 1));
    const name = file(users.map((id) => [id, 'add', id === users[40] ? 100 : 1, 'x']));
    const { stdout } = await bulk(['plan', 'balance', name]);
    expect(stdout.split('\n').filter((line) => / add \d/.test(line))).toHaveLength(60);
    expect(stdout).toMatch(
      /^look at {3}row 42, user \d+ \S+, 1.00 → 101.00: the largest change; more than 10 times the median of 1.00\nlook at {3}60 rows: the email is not verified \(rows 42, 2, 3, 4, 5, …\)\n\n/,
    );
    expect(stdout).toMatch(/\n *row +user +username +email +what +before +after +state +note\n/);
  });

  test.each(['csv', 'xlsx'] as const)('as .%s has every row, rows with notes first', async (format) => {
    const { bulk, name, large, banned, unverified, csv, xlsx, folder } = await mixed();
    const sheet = `review.${format}`;
    const { code, stdout, stderr } = await bulk(['plan', 'balance', name, '-o', sheet]);
    expect(stdout).not.toContain('\n\n\n');
    expect([code, stderr]).toEqual([0, expect.stringContaining(`written to ${sheet}`)]);
    expect(stdout).toMatch(/^look at {3}row 11/);
    expect(stdout).not.toMatch(/small0/);
    const rows = format === 'csv' ? csv(sheet) : await xlsx(sheet);
    expect(rows.map((row) => Number(row['user_id'])).slice(0, 3)).toEqual([large, banned, unverified]);
    expect(rows.map((row) => Number(row['_row'])).slice(3)).toEqual([2, 3, 4, 5, 6, 7, 8, 9]);
    expect(rows[0]).toMatchObject({
      _note: largest.join('; '),
      _username: 'large',
      _email: 'large@mail.example',
      _change: format === 'csv' ? '500.00' : '500',
      _state: 'planned',
    });
    // Only values that a spreadsheet would run are escaped.
    expect(rows[2]?.['description']).toBe('-5');
    const again = await bulk(['plan', 'balance', name, '-o', sheet]);
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('already exists')]);
    expect(readdirSync(folder).sort()).toEqual(['credit.csv', 'data', sheet]);
    // Planning the sheet again ignores the columns that the review added.
    expect((await bulk(['plan', 'balance', sheet, '--json'])).json()).toMatchObject({ rows: 11, net: '541.00' });
  });
});

describe('Results', () => {
  test.each(['csv', 'xlsx'] as const)(
    'as .%s name token, user, time and transaction, and plan refuses their applied rows',
    async (format) => {
      const { sandbox, bulk, file, csv, xlsx, folder } = await world();
      const user = newUser(sandbox, 10);
      const run = await bulk(['run', 'balance', file([[user, 'add', '2.50', 'Grüße']]), '--yes', '--json']);
      const { batch } = run.json();
      expect((await bulk(['results', batch, '-o', 'out', '--format', format])).code).toBe(0);
      const name = `out/applied.${format}`;
      const [row] = format === 'csv' ? csv(name) : await xlsx(name);
      const [transaction] = sandbox.control.related('users', user, 'balance_transactions');
      expect(row).toMatchObject({
        _state: 'applied',
        _discrepancy: '',
        _user_id: String(user),
        _transaction_id: String(transaction?.['id']),
        description: 'Grüße',
      });
      expect(row?.['_token']).toMatch(/^am:[a-z2-7]{12}$/);
      expect(row?.['_sent_at']).not.toBe('');
      const mark = format === 'csv' ? Buffer.from('\uFEFF') : Buffer.from('PK\u0003');
      expect(readFileSync(join(folder, name)).subarray(0, 3)).toEqual(mark);
      const again = await bulk(['plan', 'balance', name, '--json']);
      expect([again.code, again.json().problems]).toEqual([
        2,
        [{ row: 2, column: '_state', problem: expect.stringContaining('this row is applied') as string }],
      ]);
    },
  );
});
