import { expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { mirrorFile } from '../support/mirror-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test('schema explains every table, even without a mirror', async () => {
  const { code, stdout, stderr } = await runCli(['schema'], { folder: temporaryFolder() });
  expect(code).toBe(0);
  expect(stdout).toMatch(/^users table: /);
  expect(stdout).toMatch(/^ {2}balance +REAL +document +money/m);
  expect(stdout).toMatch(/^ {2}_extra +TEXT \(JSON\) +null +mirror/m);
  expect(stdout).toMatch(/^mirror_freshness view: /m);
  expect(stdout).toMatch(/^ {2}example: SELECT /m);
  expect(stdout).not.toContain('not in this file');
  expect(stderr).toContain('admin-mirror sync');
});

test('schema --json is one document', async () => {
  const file = mirrorFile();
  const { stdout } = await runCli(['schema', 'emails', '--json', '--db', file], { folder: temporaryFolder() });
  expect(JSON.parse(stdout)).toMatchObject({
    file,
    tables: [
      {
        name: 'emails',
        kind: 'table',
        in_file: true,
        columns: expect.arrayContaining([
          {
            name: 'scheduled_at',
            type: 'TEXT',
            nullable: true,
            source: 'document',
            in_file: true,
            meaning: expect.stringContaining('ISO 8601'),
          },
        ]),
      },
    ],
  });
});

test('schema of an unknown table names the nearest match', async () => {
  expect(await runCli(['schema', 'pakages'], { folder: temporaryFolder() })).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining('there is no table or view "pakages"\nDid you mean "packages"?'),
  });
});

test('schema names the setting that adds a table of related records', async () => {
  expect(await runCli(['schema', 'user_orders', '--db', mirrorFile()], { folder: temporaryFolder() })).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('Add orders to resources.users.include'),
  });
});
