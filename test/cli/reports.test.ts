import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { invoke } from '../support/invoke.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const header = [
  '-- title: Mine',
  '-- description: Users of one language.',
  '-- parameter: language | text | required | which',
  '-- column: id | integer | the user',
  '-- needs: users',
];
const mine = [...header, 'SELECT id FROM users WHERE language = :language ORDER BY id;'].join('\n');

/** A folder with a mirror of five users and these custom reports. */
function folderWith(files: Readonly<Record<string, string>> = {}) {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config/reports'), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, 'config/reports', name), text);
  const file = mirrorFile((database) => insertRows(database, 'users', madeUpUsers(5)));
  return {
    folder,
    run: (...args: string[]) => invoke([...args, '--db', file], { folder }),
  };
}

describe('reports', () => {
  test('lists the reports with their parameters', async () => {
    const { run } = folderWith({ 'mine.sql': mine });
    const { code, stdout, stderr } = await run('reports');
    expect([code, stderr]).toEqual([0, '']);
    const lines = stdout.trimEnd().split('\n');
    expect(lines).toHaveLength(28);
    expect(lines.find((line) => line.startsWith('mine '))).toMatch(/^mine +Mine +language=… {2}\(your own\)$/);
    expect(lines.find((line) => line.startsWith('top-balances'))).toMatch(/^top-balances +Largest balances +limit=20$/);
  });

  test('--json prints one document, with broken reports', async () => {
    const { run } = folderWith({ 'mine.sql': mine, 'broken.sql': 'SELECT 1' });
    const { stdout } = await run('reports', '--json');
    const { reports, broken } = JSON.parse(stdout) as {
      reports: { name: string; parameters: unknown; needs: unknown }[];
      broken: { name: string; problems: string[] }[];
    };
    expect(reports).toHaveLength(28);
    expect(reports.find(({ name }) => name === 'mine')).toMatchObject({
      origin: 'own',
      parameters: [{ name: 'language', type: 'text', required: true, default: null, meaning: 'which' }],
      needs: [{ table: 'users', include: null, keys: [] }],
    });
    expect(broken.map(({ name, problems }) => [name, problems.length])).toEqual([['broken', 4]]);
  });

  test('names the nearest match of an unknown report', async () => {
    const { code, stderr } = await folderWith().run('reports', 'top-balance');
    expect(code).toBe(2);
    expect(stderr).toMatch(/there is no report "top-balance"\nDid you mean "top-balances"\?/);
  });
});

describe('export report:NAME', () => {
  test('exports to standard output, or to a file with a report of it', async () => {
    const { run, folder } = folderWith({ 'mine.sql': mine });
    const out = await run('export', 'report:mine', '--param', 'language=en');
    expect(out).toEqual({ code: 0, stdout: 'id\n1\n4\n', stderr: '' });
    const file = ['-o', 'out.jsonl', '--format', 'jsonl', '--order', 'id DESC', '--json'];
    const { stdout } = await run('export', 'report:mine', '--param', 'language=en', ...file);
    expect(JSON.parse(stdout)).toMatchObject({ rows: 2, format: 'jsonl' });
    expect(readFileSync(join(folder, 'out.jsonl'), 'utf8')).toBe('{"id":4}\n{"id":1}\n');
  });

  test('prints its assumptions on standard error', async () => {
    const { stdout, stderr } = await folderWith().run(
      'export',
      'report:subscribers',
      '--param',
      'subscribed=0',
      '--columns',
      'id',
    );
    expect(stdout).toBe('id\n1\n3\n5\n');
    expect(stderr).toMatch(/^assumed: is_subscribed = 0 means subscribed; .*--param subscribed=0/);
  });

  test('prefers your own report to a shipped one, and says so', async () => {
    const { run } = folderWith({ 'top-balances.sql': mine });
    const { stdout, stderr } = await run('export', 'report:top-balances', '--param', 'language=de');
    expect(stdout).toBe('id\n2\n5\n');
    expect(stderr).toMatch(/report top-balances is your own \(.*top-balances\.sql\) and replaces/);
  });

  test.each([
    [['report:mine'], /needs the parameter "language": which\nGive it with --param language=…/],
    [['report:mine', '--param', 'langage=en'], /has no parameter "langage"\nDid you mean "language"\?/],
    [['report:mine', '--param', 'language'], /It must be name=value/],
    [['report:mine', '--param', 'language=a', '--param', 'language=b'], /"language" is given twice/],
    [
      ['report:top-balances', '--param', 'limit=many'],
      /limit of report top-balances is "many"\nIt must be a whole number/,
    ],
    [['report:top-balances', '--columns', 'blance'], /no column "blance"\nDid you mean "balance"\?/],
    [['report:top-balances', '--meta'], /--meta is for tables and views/],
    [['report:top-balances', '--sql', 'SELECT 1'], /--sql replaces the table/],
    [['users', '--param', 'a=b'], /--param is for reports/],
  ])('refuses wrong flags or parameters: %j', async (args, words) => {
    const { code, stdout, stderr } = await folderWith({ 'mine.sql': mine }).run('export', ...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(words);
  });

  test('says which include to set if its tables are not mirrored', async () => {
    const { code, stderr } = await folderWith().run('export', 'report:unpaid');
    expect(code).toBe(2);
    expect(stderr).toMatch(/report unpaid needs payments of users, which the mirror does not hold yet\n/);
    expect(stderr).toMatch(/Add payments to the setting resources\.users\.include/);
  });
});

describe('doctor', () => {
  interface Check {
    readonly name: string;
    readonly state: string;
    readonly finding: string;
  }

  async function reportChecks(run: ReturnType<typeof folderWith>['run']) {
    const { code, stdout } = await run('doctor', '--json');
    const { checks } = JSON.parse(stdout) as { checks: Check[] };
    return {
      code,
      found: checks.filter(({ name }) => name === 'reports').map(({ state, finding }) => `${state}: ${finding}`),
    };
  }

  test('accepts the shipped reports, and says what those that cannot run need', async () => {
    const { found } = await reportChecks(folderWith().run);
    expect(found).toEqual([
      'ok: 13 of 27 can be run; for 14 more: Add balance_transactions, orders, and payments to the setting ' +
        'resources.users.include.',
    ]);
  });

  test('finds every report that contradicts its header, and checks the others', async () => {
    const { run } = folderWith({
      'mine.sql': mine,
      'no-header.sql': 'SELECT 1',
      'more-columns.sql': mine.replace('SELECT id', 'SELECT id, email'),
      'no-parameter.sql': mine.replace(':language', "'en'"),
      'strange-parameter.sql': mine.replace(':language', ':lang'),
      'strange-column.sql': mine.replace('WHERE', 'WHERE nobody = 1 AND'),
      'writes.sql': [...header, 'DELETE FROM users'].join('\n'),
      'two.sql': `${mine} SELECT 1`,
      'unknown-table.sql': mine.replace('needs: users', 'needs: usrs'),
      'Bad Name.sql': mine,
      'notes.txt': 'no report',
    });
    const { code, found } = await reportChecks(run);
    expect(code).toBe(2);
    const of = (name: string) => found.find((each) => each.includes(`/${name}`))?.replace(/^(\w+): .*?\.sql: /, '$1: ');
    expect(of('no-header.sql')).toMatch(/^fail: the header has no title; .*no needs$/);
    expect(of('more-columns.sql')).toMatch(
      /^fail: the SQL returns the column email, which the header does not declare/,
    );
    expect(of('no-parameter.sql')).toMatch(/^fail: the parameter language is declared but never used/);
    expect(of('strange-parameter.sql')).toMatch(/^fail: the SQL has :lang, .*; the parameter language is declared/);
    expect(of('strange-column.sql')).toMatch(/^fail: SQLite refused the SQL: no such column: nobody/);
    expect(of('writes.sql')).toMatch(/^fail: only statements that read/);
    expect(of('two.sql')).toMatch(/^fail: the SQL holds more than one statement/);
    expect(of('unknown-table.sql')).toMatch(/^fail: it needs usrs, which the mirror does not have/);
    expect(of('Bad Name.sql')).toMatch(/^fail: "Bad Name" is not the name of a report/);
    expect(found.filter((each) => each.startsWith('fail'))).toHaveLength(9);
    expect(found.find((each) => each.startsWith('ok'))).toMatch(/^ok: 14 of 37 can be run; for 14 more/);
  });
});
