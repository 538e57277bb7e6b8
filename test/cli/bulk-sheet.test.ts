/** What clerks write into sheets, and what `bulk plan` makes of it. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { BatchReport } from '../../src/bulk/report.ts';
import type { ReviewRow } from '../../src/bulk/review.ts';
import { newUser } from '../support/bulk.ts';
import { enter, type Exchange } from '../support/dialogue.ts';
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

  test.each([
    ['user_id,type,amount', ['add,"1,234.56"', 'add,"1,234.56"', 'add,"2,000.10"']],
    ['user_id,type,amount', ['add,"1,234.56"', 'add,5', 'add,6']],
    ['user_id,typ,amount', ['add,"1,234.56"', 'add,5', 'add,6']],
    ['user_id,type,amount', ['add,"1,234.56"', 'add,"1.234,56"', 'add,6']],
    ['user_id,type,amount', ['add,5', 'ad,6', 'add,1e3']],
    ['user_id,type,amount,_state', ['add,5,', 'add,6,applied', 'add,7,planned']],
  ])('%s %j: the rows that count as invalid are those that the problems name', async (header, rows) => {
    const { plan, users } = await world();
    const text = rows.map((row, at) => `${users[at]},${row}\n`).join('');
    const { report, problems } = await plan(`${header}\n${text}`);
    const named = new Set(problems.map(({ row }) => row).filter((row) => row > 1));
    expect(named.size).toBe(report?.counts.invalid);
    const invalid = report?.plan?.filter(({ state }) => state === 'invalid').map(({ row }) => row);
    expect(named).toEqual(new Set(invalid));
  });

  test('are read with --decimal comma', async () => {
    const { plan, user } = await world();
    const { code, report } = await plan(fifty(user), ['--decimal', 'comma']);
    expect({ code, net: report?.net }).toEqual({ code: 0, net: '375.00' });
  });

  test('are asked about once on a terminal, and read as the person says', async () => {
    const { plan, user } = await world();
    const yes = await plan(fifty(user), [], [['Is that 7.50?', enter]]);
    expect({ code: yes.code, net: yes.report?.net }).toEqual({ code: 0, net: '375.00' });
    expect(yes.stderr).toContain('The amount of row 2 is "7,50" (and 49 more like it).');
    const no = await plan(fifty(user), [], [['Is that 7.50?', 'n']]);
    expect({ code: no.code, stdout: no.stdout }).toEqual({ code: 2, stdout: '' });
    expect(no.stderr).toContain('the amounts in the file are not clear; nothing was planned');
  });

  test('are read together with thousands points and whole numbers', async () => {
    const { plan, user } = await world();
    const text = `user_id;type;amount\n${user};add;1.234\n${user};add;7,50\n${user};add;5\n`;
    const { report } = await plan(text, [], [['Is that 7.50?', enter]]);
    expect(report?.net).toBe('1246.50');
  });

  test('are problems of their rows, without a question, if no single mark explains all amounts', async () => {
    const { plan, user } = await world();
    const { code, problems } = await plan(`user_id;type;amount\n${user};add;8.25\n${user};add;7,50\n`, [], []);
    expect(code).toBe(2);
    expect(problems).toMatchObject([{ row: 3, column: 'amount' }]);
  });

  test('that may be thousands are not accepted by just pressing Enter', async () => {
    const { plan, user } = await world();
    const text = `user_id;type;amount\n${user};add;1,234\n`;
    expect((await plan(text)).problems[0]?.problem).toContain('--decimal point to have "1,234" read as 1234.00');
    const { code, stdout } = await plan(text, [], [['Is that 1234.00?', enter]]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });

  test('are not asked about with --yes', async () => {
    const { folder, run, user, sandbox } = await world();
    writeFileSync(join(folder, 'sheet.csv'), fifty(user));
    const { code, stderr } = await run(['run', 'balance', 'sheet.csv', '--yes'], { terminal: 100 });
    expect(code).toBe(2);
    expect(stderr).toContain('give --decimal comma');
    expect(sandbox.control.ledger()).toEqual([]);
  });
});

test('An amount with one decimal place is planned with two', async () => {
  const { plan, user } = await world();
  const { code, report } = await plan(`user_id,type,amount\n${user},add,8666.4\n`);
  expect({ code, net: report?.net, warnings: report?.warnings }).toEqual({ code: 0, net: '8666.40', warnings: [] });
});

describe('Columns', () => {
  test('that are unknown are named once and skipped, whatever they hold', async () => {
    const { plan, user } = await world();
    const { code, problems, warnings } = await plan(
      `user_id,type,amount,note,Team,note\n${user},add,5,#N/A,blue,x\n${user},add,6,=1+1,red,\n`,
    );
    expect({ code, problems }).toEqual({ code: 0, problems: [] });
    expect(warnings).toEqual(['unknown columns were skipped: "note", "Team"']);
  });

  test.each([
    ['user_id,type,ammount', 'unknown column "ammount". Did you mean "amount"?'],
    ['user_id,type,amount,descripton', 'unknown column "descripton". Did you mean "description"?'],
    ['user_id,type,amount,Expected Balance', 'Did you mean "expected_balance"?'],
    ['user_id,type,amount,desc', 'Did you mean "description"?'],
    ['user_id,type,amount,amounts', 'Did you mean "amount"?'],
    ['usr_id,type,amount', 'Did you mean "user_id"?'],
    ['user_id,type,betrag', 'the column "amount" is missing'],
  ])('that look like typos, or are missing, are an error: %s', async (header, problem) => {
    const { plan, user } = await world();
    const { code, problems } = await plan(`${header}\n${user},add,5,x\n`);
    expect(code).toBe(2);
    expect(problems.map((each) => each.problem).join('\n')).toContain(problem);
  });

  test.each(['name', 'balance', 'account', 'time', 'email address', 'comment'])(
    'that do not look like a typo of a missing one are skipped: %s',
    async (header) => {
      const { plan, user } = await world();
      const { code, warnings } = await plan(`user_id,type,amount,${header}\n${user},add,5,x\n`);
      expect({ code, warnings }).toEqual({ code: 0, warnings: [`unknown column was skipped: "${header}"`] });
    },
  );
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

  test('does not include a colon at the end of a word', async () => {
    const { plan, user } = await world();
    const text = `user_id,type,amount,description\n${user},add,5,"Team: blue, 10am: late"\n`;
    expect((await plan(text)).code).toBe(0);
  });
});

describe('Rows', () => {
  test('are counted as Excel shows them, with line breaks in cells and blank rows, in plan and results', async () => {
    const { plan, run, folder, user } = await world();
    const text = `user_id,type,amount,description\n${user},add,5,"two\nlines\n"\n\n${user},add,oops,x\n`;
    const { report, problems, warnings } = await plan(text);
    expect(problems).toMatchObject([{ row: 4, column: 'amount' }]);
    expect(warnings).toEqual(['1 blank row between others']);
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

  test.each(['applied.csv', 'unprocessed.csv', 'manifest.json'])(
    'do not replace %s if it was changed',
    async (name) => {
      const { results, path, text } = await written();
      const changed = text(name).replace(/,|"rows": 1/, (each) => (each === ',' ? ', ' : '"rows": 2'));
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
    },
  );

  test('are written again if the manifest is missing', async () => {
    const { results, path } = await written();
    rmSync(path('manifest.json'));
    rmSync(path('unknown.csv'));
    expect((await results()).code).toBe(0);
    expect((await results()).code).toBe(0);
  });

  test('do not replace files that they did not write', async () => {
    const { folder, run, plan, user } = await world();
    const { report } = await plan(`user_id,type,amount\n${user},add,5\n`);
    mkdirSync(join(folder, 'out'));
    writeFileSync(join(folder, 'out/unknown.csv'), 'my own list\n');
    const { code, stderr } = await run(['results', report?.batch ?? '', '-o', 'out']);
    expect(code).toBe(2);
    expect(stderr).toMatch(/error: unknown.csv in \S+out is not as `bulk results` wrote it/);
    expect(readdirSync(join(folder, 'out'))).toEqual(['unknown.csv']);
  });
});

describe('a cell that is made to keep the machine busy', () => {
  const header = 'user_id,type,amount,description\n';
  const blanks = ' '.repeat(80_000);
  test.each([
    ['in a row', `${header}7,add,5,é${blanks}é\n`],
    ['in the header', `user_id,type,amount,é${blanks}é\n7,add,5,x\n`],
  ])('is refused for its length before anything else looks at it: %s', async (_, text) => {
    const { plan } = await world();
    const { code, stderr } = await plan(text);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/has more than 32767 characters/)]);
  });

  test('is a problem of its row if it is within the limit', async () => {
    const { plan } = await world();
    const { code, stdout } = await plan(`${header}7,add,5,${'a'.repeat(32_000)}\n`);
    expect([code, stdout]).toEqual([2, expect.stringMatching(/it has 32000 characters/)]);
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
      `first_name: 3 cells say "NULL", "nan", "undefined", first in row 2. ${after}`,
      `last_name: 3 cells say "\\N", "None", "(null)", first in row 2. ${after}`,
      `language: 2 cells say "NULL", "null", first in row 2. ${after}`,
    ]);
    expect(problems.map(({ row, column }) => [row, column])).toEqual([
      [2, 'language'],
      [4, 'language'],
    ]);
  });

  test('are counted in descriptions and in the names of users, too', async () => {
    const { code, warnings, report } = await plan(
      'username,type,amount,description\nNone,add,5,NaN\nu6,add,5,Nancy\n',
      'balance',
    );
    expect([code, warnings]).toEqual([
      0,
      [
        `description: 1 cell says "NaN", first in row 2. ${after}`,
        `username: 1 cell says "None", first in row 2. ${after}`,
      ],
    ]);
    expect(report).toMatchObject({
      plan: [{ notes: ['description is the text "NaN"', 'username is the text "None"'] }, { notes: [] }],
    });
  });
});

test('An OpenDocument sheet is refused with advice, whatever its name', async () => {
  const { folder, run } = await world();
  const head = Buffer.from(
    'PK\u0003\u0004'.padEnd(30, '\0') + 'mimetypeapplication/vnd.oasis.opendocument.spreadsheet',
  );
  for (const name of ['sheet.ods', 'sheet.xlsx', 'sheet.csv']) {
    writeFileSync(join(folder, name), head);
    const { code, stderr } = await run(['plan', 'balance', name]);
    expect(code).toBe(2);
    expect(stderr).toContain(`${name} cannot be read: it is an OpenDocument spreadsheet (.ods)`);
    expect(stderr).toContain('In LibreOffice, save it as Excel 2007-365 (.xlsx)');
  }
});

test('A user with an invalid id makes only its own row invalid', async () => {
  const { plan, sandbox, user } = await world();
  sandbox.control.insert('users', { id: 0, username: 'system' });
  const { report } = await plan(
    `username,type,amount\nsystem,add,5\n${String(sandbox.control.get('users', user)?.['username'])},add,5\n`,
  );
  expect(report?.counts).toMatchObject({ planned: 1, invalid: 1 });
});
