import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { finished, runCli, startCli } from '../support/cli.ts';
import { insertRows, mirrorFile } from '../support/mirror-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function mirror(): string {
  return mirrorFile((database) => {
    insertRows(database, 'users', [
      { id: 1n, username: '=a', balance: 12.5, data: '{"big":12345678901234567890}' },
      { id: 2n, username: 'b', balance: null },
    ]);
  });
}

const select = 'SELECT id, username, balance FROM users ORDER BY id';

function query(args: readonly string[], input?: string) {
  const options = { folder: temporaryFolder(), ...(input === undefined ? {} : { input }) };
  return runCli(['query', '--db', mirror(), ...args], options);
}

describe('query', () => {
  test.each([
    [[], 'id  username  balance\n--  --------  -------\n 1  =a           12.5\n 2  b\n'],
    [['--format', 'csv'], `id,username,balance\n1,'=a,12.5\n2,b,\n`],
    [['--format', 'tsv'], `id\tusername\tbalance\n1\t'=a\t12.5\n2\tb\t\n`],
    [['--format', 'jsonl'], '{"id":1,"username":"=a","balance":12.5}\n{"id":2,"username":"b","balance":null}\n'],
    [
      ['--format', 'json'],
      '[\n  {"id":1,"username":"=a","balance":12.5},\n  {"id":2,"username":"b","balance":null}\n]\n',
    ],
    [['--json'], '[\n  {"id":1,"username":"=a","balance":12.5},\n  {"id":2,"username":"b","balance":null}\n]\n'],
  ])('prints rows with %o', async (flags, stdout) => {
    expect(await query([select, ...flags])).toEqual({ code: 0, stdout, stderr: '' });
  });

  test('of nothing prints a heading, or an empty array', async () => {
    expect((await query(['SELECT id FROM coupons'])).stdout).toBe('id\n--\n');
    expect((await query(['SELECT id FROM coupons', '--json'])).stdout).toBe('[]\n');
  });

  test('keeps the digits of stored JSON', async () => {
    expect((await query(['SELECT data FROM users WHERE id = 1', '--format', 'jsonl'])).stdout).toBe(
      '{"data":{"big":12345678901234567890}}\n',
    );
  });

  test.each([[[]], [['-']]])('reads the SQL from standard input: %o', async (args) => {
    expect((await query([...args, '--format', 'csv'], 'SELECT count(*) AS users\nFROM users;\n')).stdout).toBe(
      'users\n2\n',
    );
  });

  test.each([
    ['DELETE FROM users', 'only statements that read are run here; this one begins with DELETE'],
    ['PRAGMA query_only = OFF', 'begins with PRAGMA'],
    ['SELECT 1; DROP TABLE users', 'the SQL holds more than one statement'],
    ['SELECT usrname FROM users', 'no such column: usrname\nDid you mean "username"?'],
    ['', 'there is no SQL to run'],
  ])('refuses %o', async (sql, message) => {
    expect(await query([sql])).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(message) });
  });

  test('without a mirror says to make one', async () => {
    const result = await runCli(['query', 'SELECT 1', '--db', 'none.db'], { folder: temporaryFolder() });
    expect(result).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('Run `admin-mirror sync` first'),
    });
  });
});

const endless = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n';

test.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('%s stops a query on its way', async (signal, code) => {
  const child = startCli(['query', endless, '--format', 'csv', '--db', mirror()], { folder: temporaryFolder() });
  await once(child.stdout, 'readable');
  child.kill(signal);
  const result = await finished(child);
  expect(result).toMatchObject({ code, stderr: `error: stopped by ${signal}\n` });
});

test('a query whose reader has gone ends quietly', async () => {
  const child = startCli(['query', endless, '--format', 'table', '--db', mirror()], { folder: temporaryFolder() });
  await once(child.stdout, 'readable');
  child.stdout.destroy();
  let stderr = '';
  child.stderr.on('data', (text) => (stderr += String(text)));
  const [code] = (await once(child, 'close')) as [number | null];
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
});
