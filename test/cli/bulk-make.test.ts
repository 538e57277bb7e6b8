import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { actionNames } from '../../src/bulk/actions.ts';
import { readSheet } from '../../src/bulk/sheet/sheet.ts';
import { invoke } from '../support/invoke.ts';
import { insertRows, mirrorFile } from '../support/mirror-file.ts';
import { sample } from '../support/part.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const { signal } = new AbortController();

function users(count: number): string {
  return mirrorFile((database) =>
    insertRows(
      database,
      'users',
      Array.from({ length: count }, (_, at) => ({
        id: BigInt(at + 1),
        username: `user.${at + 1}`,
        email: `user.${at + 1}@mail.example`,
        first_name: 'Anna',
        last_name: at === 1 ? '=Max' : 'Lind',
        status: 'active',
        balance: at + 0.1,
        created_at: '2026-03-11T10:00:00.000000Z',
      })),
    ),
  );
}

describe('bulk template', () => {
  test.each(actionNames)('writes a file for %s that plan accepts', async (action) => {
    const sandbox = await startSandbox();
    const folder = temporaryFolder();
    const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
    for (const file of ['rows.csv', 'rows.tsv', 'rows.jsonl']) {
      expect(await invoke(['bulk', 'template', action, '-o', file], { folder })).toMatchObject({ code: 0, stdout: '' });
      const plan = await invoke(['bulk', 'plan', action, file, '--json'], { folder, environment });
      expect(JSON.parse(plan.stdout)).toMatchObject({ action, problems: [] });
      expect(plan.code).toBe(0);
    }
    const { stdout } = await invoke(['bulk', 'template', action], { folder });
    expect(stdout).toBe(readFileSync(join(folder, 'rows.csv'), 'utf8'));
  });
});

describe('bulk select', () => {
  const select = (sql: string, ...more: string[]) => {
    const folder = temporaryFolder();
    const args = ['bulk', 'select', 'balance', '--db', users(30), '--sql', sql, '-o', 'credit.csv', ...more];
    return { folder, result: invoke(args, { folder }), file: join(folder, 'credit.csv') };
  };

  test('writes the rows of the query exactly, and prints their total', async () => {
    const sql =
      "SELECT id AS user_id, 'add' AS type, balance AS amount, 'Outage' AS description FROM users WHERE id < 4";
    const { result, file } = select(sql);
    const { code, stdout, stderr } = await result;
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
    expect(stderr).toContain('3 rows written to credit.csv, add 3.30\n');
    expect(readFileSync(file, 'utf8')).toBe(
      'user_id,type,amount,description\n1,add,0.1,Outage\n2,add,1.1,Outage\n3,add,2.1,Outage\n',
    );
    expect((await readSheet(file, { signal })).rows).toHaveLength(3);
  });

  test.each([
    ['an unknown column', "SELECT id AS user, 'add' AS type, 5 AS amount FROM users", 'unknown column "user"'],
    ['no key', "SELECT 'add' AS type, 5 AS amount FROM users", 'one of the columns "user_id"'],
    ['a float', "SELECT id AS user_id, 'add' AS type, 0.1 + 0.2 AS amount FROM users", '0.30000000000000004'],
    ['another word', "SELECT id AS user_id, 'give' AS type, 5 AS amount FROM users", '"give" is none of'],
    ['nothing', "SELECT id AS user_id, 'add' AS type, 5 AS amount FROM users WHERE 0", 'found no rows'],
    ['a formula', "SELECT id AS user_id, 'add' AS type, 5 AS amount, last_name AS description FROM users", 'formula'],
    ['a write', 'DELETE FROM users', 'only statements that read'],
  ])('refuses %s and writes nothing', async (_, sql, words) => {
    const { result, file } = select(sql);
    const { code, stderr } = await result;
    expect(code).toBe(2);
    expect(stderr).toContain(words);
    expect(existsSync(file)).toBe(false);
  });
});

describe('bulk run --rehearse', () => {
  const rehearse = async (action: string, text: string, ...more: string[]) => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'rows.csv'), text);
    const db = users(30);
    const before = statSync(db).mtimeMs;
    const temporary = temporaryFolder();
    vi.stubEnv('TMPDIR', temporary);
    const result = await invoke(['bulk', 'run', action, 'rows.csv', '--rehearse', '--db', db, ...more], { folder });
    expect(readdirSync(folder)).toEqual(['rows.csv']);
    expect(readdirSync(temporary)).toEqual([]);
    expect(readdirSync(dirname(db)).filter((name) => name.includes('rehearsal'))).toEqual([]);
    expect(statSync(db).mtimeMs).toBe(before);
    return result;
  };
  afterEach(() => void vi.unstubAllEnvs());

  // proves: rehearsal-server
  test('needs no server, shows the outcome of each row, and leaves nothing behind', async () => {
    const { code, stdout } = await rehearse(
      'balance',
      'email,type,amount\nuser.1@mail.example,add,5\nuser.2@mail.example,remove,0.10\nuser.1@mail.example,add,1.25\n',
    );
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ +2 +1 +user.1 .* 0\.10 +5\.10 +applied/m);
    expect(stdout).toMatch(/^ +4 +1 +user.1 .* 5\.10 +6\.35 +applied/m);
    expect(stdout).toContain('applied   net 6.15, gross 6.35, 2 users\nplanned   net 6.15, gross 6.35, 2 users\n');
    expect(stdout).toContain('Nothing was sent to the server, and nothing of it is kept.');
    expect(stdout).toContain('2 users of the mirror');
  });

  const sheets = [
    ['notify', 'user_id,type,icon,message\n1,success,bx bx-gift,Hello\n'],
    ['email', 'user_id,subject,content\n1,Hello,<p>Hello</p>\n'],
    ['create', 'first_name,last_name,username,email\nEva,Berg,eva,eva@mail.example\n'],
    ['update', 'user_id,first_name\n1,Eva\n'],
    ['delete', 'user_id\n1\n'],
  ] as const;
  test.each(sample(sheets, 1))('of %s is reported with --json like a run', async (action, text) => {
    const { code, stdout } = await rehearse(action, text, '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ action, state: 'done', counts: { applied: 1 }, rehearsal: true });
  });

  test('refuses more rows than a batch may have before it opens the mirror', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'rows.csv'), 'user_id,type,amount\n1,add,5\n2,add,5\n');
    const environment = { ADMIN_MIRROR_BULK_MAX_ROWS: '1' };
    const { code, stderr } = await invoke(['bulk', 'run', 'balance', 'rows.csv', '--rehearse'], {
      folder,
      environment,
    });
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('there are 2 rows, more than bulk.max_rows allows (1)'),
    ]);
  });
});
