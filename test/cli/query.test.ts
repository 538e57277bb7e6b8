import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { finished, runCli, startCli } from '../support/cli.ts';
import { invoke } from '../support/invoke.ts';
import { insertRows, mirrorFile } from '../support/mirror-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { sample, soonMs } from '../support/part.ts';

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
  test.each(
    sample(
      [
        [[], 'id  username  balance\n--  --------  -------\n 1  =a           12.5\n 2  b\n'],
        [['--format', 'csv'], `id,username,balance\n1,'=a,12.5\n2,b,\n`],
        [['--format', 'tsv'], `id\tusername\tbalance\n1\t'=a\t12.5\n2\tb\t\n`],
        [['--format', 'jsonl'], '{"id":1,"username":"=a","balance":12.5}\n{"id":2,"username":"b","balance":null}\n'],
        [
          ['--format', 'json'],
          '[\n  {"id":1,"username":"=a","balance":12.5},\n  {"id":2,"username":"b","balance":null}\n]\n',
        ],
        [['--json'], '[\n  {"id":1,"username":"=a","balance":12.5},\n  {"id":2,"username":"b","balance":null}\n]\n'],
      ],
      2,
    ),
  )('prints rows with %o', async (flags, stdout) => {
    expect(await query([select, ...flags])).toEqual({ code: 0, stdout, stderr: '' });
  });

  test.each(sample([[[]], [['-']]], 1))('reads the SQL from standard input: %o', async (args) => {
    expect((await query([...args, '--format', 'csv'], 'SELECT count(*) AS users\nFROM users;\n')).stdout).toBe(
      'users\n2\n',
    );
  });

  test.each(
    sample(
      [
        ['DELETE FROM users', 'only statements that read are run here; this one begins with DELETE'],
        ['PRAGMA query_only = OFF', 'begins with PRAGMA'],
        ['SELECT 1; DROP TABLE users', 'the SQL holds more than one statement'],
        ['SELECT usrname FROM users', 'no such column: usrname\nDid you mean "username"?'],
        ['', 'there is no SQL to run'],
      ],
      2,
    ),
  )('refuses %o', async (sql, message) => {
    expect(await query([sql])).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(message) });
  });
});

const endless = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n';

const signals = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const;
test.each(sample(signals, 1))('%s stops a query that is printing rows', async (signal, code) => {
  const child = startCli(['query', endless, '--format', 'csv', '--db', mirror()], { folder: temporaryFolder() });
  await once(child.stdout, 'readable');
  child.kill(signal);
  const result = await finished(child);
  expect(result).toMatchObject({ code, stderr: `stopped by ${signal}\n` });
});

const silent = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n';

test('Ctrl+C stops at once a query that never prints a row', async () => {
  const child = startCli(['query', silent, '--format', 'csv', '--db', mirror()], { folder: temporaryFolder() });
  // The header is printed before the statement starts.
  await once(child.stdout, 'readable');
  const stopped = performance.now();
  child.kill('SIGINT');
  expect(await finished(child)).toMatchObject({ code: 130, stderr: 'stopped by SIGINT\n' });
  expect(performance.now() - stopped).toBeLessThan(soonMs);
});

const counts = 'SELECT username, count(*) AS users FROM users GROUP BY 1 ORDER BY 1';

describe('query --chart', () => {
  test('writes an SVG file, which is always the same', { tags: 'full' }, async () => {
    const folder = temporaryFolder();
    const draw = () => runCli(['query', counts, '--chart', 'out.svg', '--db', mirror()], { folder });
    expect(await draw()).toEqual({ code: 0, stdout: '', stderr: 'drawn to out.svg\n' });
    const first = readFileSync(join(folder, 'out.svg'), 'utf8');
    expect(first).toMatch(/^<\?xml .*<\/svg>\n$/s);
    await draw();
    expect(readFileSync(join(folder, 'out.svg'), 'utf8')).toBe(first);
  });

  test('writes no file if the result cannot be drawn, and keeps an existing one', { tags: 'full' }, async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'old.svg'), 'old');
    const draw = (file: string) =>
      runCli(['query', 'SELECT username FROM users', '--chart', file, '--db', mirror()], { folder });
    expect(await draw('new.svg')).toMatchObject({ code: 2, stderr: expect.stringContaining('no column') });
    expect(await draw('old.svg')).toMatchObject({ code: 2 });
    expect(readdirSync(folder)).toEqual(['old.svg']);
    expect(readFileSync(join(folder, 'old.svg'), 'utf8')).toBe('old');
  });

  test.each([[['--chart', 'out.png'], '"out.png" does not end in .svg']])('refuses %j', async (flags, message) => {
    expect(await query([counts, ...flags])).toMatchObject({ code: 2, stderr: expect.stringContaining(message) });
  });
});

test('a table on a terminal cuts long text to fit, but not numbers', async () => {
  const sql = `SELECT 1234567890123 AS n, '${'text '.repeat(30)}' AS t, '${'more '.repeat(30)}' AS m`;
  const { stdout } = await invoke(['query', '--db', mirror(), sql], { terminal: 60, folder: temporaryFolder() });
  const [, , row = ''] = stdout.split('\n');
  expect(row).toMatch(/^1234567890123 {2}text .*… {2}more .*…$/);
  expect(row).toHaveLength(60);
});
