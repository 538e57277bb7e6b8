/** What clerks write into sheets, and what `bulk plan` makes of it. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { BatchReport } from '../../src/bulk/report.ts';
import type { ReviewRow } from '../../src/bulk/review.ts';
import { newUser } from '../support/bulk.ts';
import { type Exchange } from '../support/dialogue.ts';
import { invoke } from '../support/invoke.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

async function world() {
  const sandbox = await startSandbox({ users: 3, emails: 0 });
  const folder = temporaryFolder();
  const environment = {
    ADMIN_MIRROR_BASE_URL: sandbox.url,
    ADMIN_MIRROR_API_KEY: sandbox.key,
    ADMIN_MIRROR_BULK_MAX_ROW: 'off',
  };
  const run = (args: readonly string[], more: { terminal?: number; answers?: readonly Exchange[] } = {}) =>
    invoke(['bulk', ...args], { folder, environment, ...more });
  /** Plans the text as a file, with more flags, and with answers typed on a terminal if given. */
  const plan = async (
    text: string,
    flags: readonly string[] = [],
    answers?: readonly Exchange[],
    action = 'balance',
  ) => {
    writeFileSync(join(folder, 'sheet.csv'), text);
    const terminal = answers === undefined ? {} : { terminal: 100, answers };
    const done = await run(['plan', action, 'sheet.csv', '--json', ...flags], terminal);
    const report =
      done.stdout === ''
        ? undefined
        : (JSON.parse(done.stdout) as BatchReport & { readonly plan?: readonly ReviewRow[] });
    return { ...done, report, problems: report?.problems ?? [], warnings: report?.warnings ?? [] };
  };
  const users = Array.from({ length: 3 }, () => newUser(sandbox, 100));
  const [user = 0] = users;
  return { sandbox, folder, run, plan, user, users };
}

describe('Amounts with decimal commas', () => {
  const fifty = (user: number): string => `user_id;type;amount\n${`${user};add;7,50\n`.repeat(50)}`;

  test('are a problem of the whole file if nobody can be asked, and it names the flag', async () => {
    const { plan, run, user } = await world();
    const { code, report, problems } = await plan(fifty(user));
    expect(code).toBe(2);
    expect(report?.counts).toMatchObject({ planned: 0, invalid: 50 });
    const problem =
      '50 amounts are written with separators, and nothing says what they are: give --decimal comma to have "7,50" read as 7.50; or write plain numbers, as 1234.56';
    const others = Array.from({ length: 49 }, (_, at) => at + 3);
    expect(problems).toEqual([
      { row: 2, column: 'amount', problem },
      ...others.map((row) => ({ row, column: null, problem: `the file was not read: ${problem}` })),
    ]);
    const { stdout } = await run(['plan', 'balance', 'sheet.csv']);
    expect(stdout.match(/^invalid .*$/gm)).toEqual([
      `invalid   row 2, amount: ${problem}`,
      `invalid   49 rows: the file was not read: ${problem} (rows 3, 4, 5, 6, 7, …)`,
    ]);
  });
});

test.each([
  ['delete', 'user_id,type,amount,description', '"type", "amount" are those of "balance", and this is "delete"'],
  ['update', 'user_id,Subject,content', '"subject", "content" are those of "email", and this is "update"'],
])('A sheet for another action is refused by %s, which needs none of its columns', async (action, header, words) => {
  const { plan, user } = await world();
  const { code, report } = await plan(`${header}\n${user},add,5,x\n`, [], undefined, action);
  expect(code).toBe(2);
  expect(report?.problems[0]).toMatchObject({ row: 1, problem: expect.stringContaining(words) as string });
  expect(report?.counts).toMatchObject({ planned: 0, invalid: 1 });
});

describe('Text that looks like the mark of a row', () => {
  test.each([
    ['balance', 'user_id,type,amount,description', 'add,5,Team:blue bonus', 'description'],
    ['balance', 'user_id,type,amount,description', 'add,5,refund am:k3vq7x2mzpda', 'description'],
    ['notify', 'user_id,type,icon,message', 'success,bx bx-gift,TEAM:BLUE won', 'message'],
    ['email', 'user_id,subject,content', 'Team:blue,<p>Hello</p>', 'subject'],
  ])('is refused before anything is planned: %s, %s, %s', async (action, header, cells, column) => {
    const { plan, user } = await world();
    const { code, problems } = await plan(`${header}\n${user},${cells}\n`, [], undefined, action);
    expect(code).toBe(2);
    expect(problems).toEqual([
      {
        row: 2,
        column,
        problem: expect.stringContaining('could be taken for the mark by which a row is found again') as string,
      },
    ]);
  });
});

describe('Rows', () => {
  test('are counted as Excel shows them, with line breaks in cells and blank rows, in plan and results', async () => {
    const { plan, run, folder, user } = await world();
    const text = `user_id,type,amount,description\n${user},add,5,"two\nlines\n"\n\n${user},add,oops,x\n`;
    const { report, problems } = await plan(text);
    expect(problems).toMatchObject([{ row: 4, column: 'amount' }]);
    await run(['results', report?.batch ?? '', '-o', 'out']);
    const written = readFileSync(join(folder, 'out/unprocessed.csv'), 'utf8');
    expect(written).toMatch(/^\d+,add,5,"two\nlines\n",2,planned/m);
    expect(written).toMatch(/^\d+,add,oops,x,4,invalid/m);
  });
});

describe('Results', () => {
  async function written() {
    const { folder, run, plan, user } = await world();
    const { report } = await plan(`user_id,type,amount,description\n${user},add,5,x\n`);
    const results = (...flags: string[]) => run(['results', report?.batch ?? '', '-o', 'out', ...flags]);
    expect((await results()).code).toBe(0);
    const path = (name: string): string => join(folder, 'out', name);
    return { results, path, text: (name: string): string => readFileSync(path(name), 'utf8') };
  }

  test('replace files that nobody has changed, and restore missing ones', async () => {
    const { results, path, text } = await written();
    const before = text('unprocessed.csv');
    rmSync(path('unprocessed.csv'));
    writeFileSync(path('notes.txt'), 'mine');
    expect((await results()).code).toBe(0);
    expect([text('unprocessed.csv'), text('notes.txt')]).toEqual([before, 'mine']);
  });

  test.each(['applied.csv', 'unprocessed.csv'])('do not replace %s if it was changed', async (name) => {
    const { results, path, text } = await written();
    const changed = text(name).replace(',', ', ');
    writeFileSync(path(name), changed);
    const others = ['applied.csv', 'manifest.json'].filter((each) => each !== name).map(text);
    const { code, stderr } = await results();
    expect(code).toBe(2);
    expect(stderr).toContain(name);
    expect(stderr).toContain('nothing was written\nName another folder with -o, or replace');
    expect(text(name)).toBe(changed);
    expect(['applied.csv', 'manifest.json'].filter((each) => each !== name).map(text)).toEqual(others);
    expect((await results('--force')).code).toBe(0);
    expect(text(name)).not.toBe(changed);
  });
});

describe('words that programs write for an empty cell', () => {
  const after =
    'Programs write that for an empty cell, and it would be sent as text: empty the cell if nothing is meant';
  const plan = async (text: string, action: string) => {
    const { sandbox, plan } = await world();
    const email_verified_at = '2026-03-11T00:00:00.000000Z';
    sandbox.control.update('users', 5, { username: 'none', email_verified_at });
    sandbox.control.update('users', 6, { username: 'u6', email_verified_at });
    sandbox.control.insert('users', { id: 7 });
    return plan(text, [], undefined, action);
  };

  test('are counted for each column before consent, and noted at their rows', async () => {
    const text = readFileSync(join(import.meta.dirname, '../fixtures/update-nulls.csv'), 'utf8');
    const { warnings, problems } = await plan(text, 'update');
    expect(warnings).toEqual([
      `first_name: 3 cells say NULL or the like, first in row 2. ${after}`,
      `last_name: 3 cells say NULL or the like, first in row 2. ${after}`,
      `language: 2 cells say NULL or the like, first in row 2. ${after}`,
    ]);
    expect(problems.map(({ row, column }) => [row, column])).toEqual([
      [2, 'language'],
      [4, 'language'],
    ]);
  });
});
