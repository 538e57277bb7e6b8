import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test, vi } from 'vitest';
import { finished, runCli, startCli } from '../support/cli.ts';
import { invoke } from '../support/invoke.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { sample } from '../support/part.ts';

function mirror(users = 3): string {
  return mirrorFile((database) => insertRows(database, 'users', madeUpUsers(users)));
}

const rows = 'id,balance\n1,0\n2,0.37\n3,0.74\n';

describe('export', () => {
  test.each([[[]], [['-o', '-']]])('writes only to standard output: %o', async (args) => {
    const folder = temporaryFolder();
    const result = await runCli(['export', 'users', '--columns', 'id,balance', ...args, '--db', mirror()], { folder });
    expect(result).toEqual({ code: 0, stdout: rows, stderr: '' });
    expect(readdirSync(folder)).toEqual([]);
  });

  test('replaces an older file and says how many rows it wrote', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'users.csv'), 'old');
    const args = ['export', 'users', '--columns', 'id, balance', '-o', 'users.csv', '--db', mirror()];
    expect(await runCli(args, { folder })).toEqual({ code: 0, stdout: '', stderr: '3 rows written to users.csv\n' });
    expect(readFileSync(join(folder, 'users.csv'), 'utf8')).toBe(rows);
    expect(await runCli([...args, '--quiet'], { folder })).toEqual({ code: 0, stdout: '', stderr: '' });
  });

  test('reports with --json', async () => {
    const folder = temporaryFolder();
    const args = [
      'export',
      'users',
      '--format',
      'jsonl',
      '--columns',
      'id',
      '--gzip',
      '-o',
      'u.gz',
      '--db',
      mirror(),
      '--json',
    ];
    const { code, stdout, stderr } = await runCli(args, { folder });
    const file = readFileSync(join(folder, 'u.gz'));
    // The worker logs each line of standard error as a warning.
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toEqual({
      file: join(folder, 'u.gz'),
      format: 'jsonl',
      compression: 'gzip',
      rows: 3,
      bytes: file.length,
      cursor: expect.stringMatching(/^[0-9a-f]{12}\.[0-9a-f]{12}\.3$/),
    });
    expect(gunzipSync(file).toString()).toBe('{"id":1}\n{"id":2}\n{"id":3}\n');
  });

  test('takes a condition, an order, or a query instead of a table', async () => {
    const folder = temporaryFolder();
    const file = mirror();
    const table = ['export', 'users', '--columns', 'id', '--where', 'balance > 0', '--order', 'id DESC', '--db', file];
    expect((await runCli(table, { folder })).stdout).toBe('id\n3\n2\n');
    const sql = [
      'export',
      '--sql',
      'SELECT max(id) AS "most, ever" FROM users',
      '--format',
      'tsv',
      '--bom',
      '--db',
      file,
    ];
    expect((await runCli(sql, { folder })).stdout).toBe('\uFEFF"most, ever"\n3\n');
  });

  const refused = [
    [['usrs'], 'the mirror has no table or view "usrs"\nDid you mean "users"?'],
    [['users', '--columns', 'id,emial'], 'table users has no column "emial"\nDid you mean "email"?'],
    [['users', '--columns', 'id,,email'], '--columns has an empty name'],
    [['users', '--format', 'xml'], 'csv, tsv, json, jsonl'],
    [['users', '--where', '1) OR (1'], '--where closes a parenthesis that it does not open'],
    [['users', '--order', 'statsu'], 'no such column: statsu'],
    [['--sql', 'DELETE FROM users'], 'only statements that read are run here'],
    [['--sql', 'SELECT json(username) FROM users'], 'SQLite refused the SQL: malformed JSON'],
    [['users', '--sql', 'SELECT 1'], '--sql replaces the table'],
    [['--sql', 'SELECT 1', '--where', '1'], 'cannot be used with option'],
    [[], 'nothing to export was named'],
    [['users', '--bom', '--format', 'jsonl'], '--bom is for csv and tsv'],
    [['--format', 'jsonl', '--sql', 'SELECT id, id FROM users'], 'two columns are called "id"'],
  ] as const;
  test.each(sample(refused, 7))('refuses %o and leaves the file unchanged', async (args, message) => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'out.csv'), 'old');
    const result = await runCli(['export', ...args, '-o', 'out.csv', '--db', mirror()], { folder });
    expect(result).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(message) });
    expect(readFileSync(join(folder, 'out.csv'), 'utf8')).toBe('old');
    expect(readdirSync(folder)).toEqual(['out.csv']);
  });

  test('never replaces any other file of ours, of whatever server', async () => {
    const folder = temporaryFolder();
    const config = [
      'network: {ca_file: ca.pem}',
      'serve: {tls: [tls.pem, tls.key]}',
      'api: {base_url: "https://{profile}.example.com"}',
      'profiles:',
      '  east: {api: {key_file: east-key}}',
      '  west: {api: {key_file: west-key}, store: {mirror: w/mirror.db}}',
    ];
    writeFileSync(join(folder, 'set.yaml'), config.join('\n'), { mode: 0o600 });
    const workers = ['mirror.worker.db', 'mirror.worker.db-wal', 'mirror.db.owner-1'];
    const own = [
      ...workers.map((name) => `data/east/${name}`),
      'data/west/journal.db',
      'ca.pem',
      'tls.key',
      'set.yaml',
      'east-key',
      'west-key',
      'w/mirror.db-wal',
    ];
    for (const name of own) {
      const args = ['--config', 'set.yaml', '--profile', 'east'];
      const { code, stderr } = await invoke(['export', '--sql', 'SELECT 1', '--format', 'csv', '-o', name, ...args], {
        folder,
      });
      expect([name, code, stderr]).toEqual([name, 2, expect.stringContaining("is one of admin-mirror's own files")]);
    }
  });

  test('never replaces the settings or the key, and refuses the name of a folder', async () => {
    const folder = temporaryFolder();
    const files = { 'set.yaml': 'api:\n  key_file: key.csv\n', '.env': '# nothing\n', 'key.csv': 'a-key-of-ours' };
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o600 });
    const run = (name: string) =>
      runCli(['export', 'users', '--format', 'csv', '-o', name, '--db', mirror(), '--config', 'set.yaml'], { folder });
    for (const [name, text] of Object.entries(files)) {
      expect((await run(name)).stderr).toContain("is one of admin-mirror's own files");
      expect(readFileSync(join(folder, name), 'utf8')).toBe(text);
    }
    expect(await run('out/')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('out/ is the name of a folder'),
    });
    expect(await run('')).toMatchObject({ code: 2, stderr: expect.stringContaining('the name of the file is empty') });
    expect(readdirSync(folder).toSorted()).toEqual(Object.keys(files).toSorted());
  });
});

describe('an export that is interrupted', () => {
  const endless = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n';

  async function underWay() {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'out.csv'), 'old');
    const child = startCli(['export', '--sql', endless, '-o', 'out.csv', '--db', mirror()], { folder });
    await vi.waitFor(() => expect(readdirSync(folder)).toHaveLength(2), { timeout: 50_000, interval: 20 });
    return { folder, child };
  }

  test.each(
    sample(
      [
        ['SIGINT', 130],
        ['SIGTERM', 143],
      ] as const,
      1,
    ),
  )('by %s leaves the old file', async (signal, code) => {
    const { folder, child } = await underWay();
    child.kill(signal);
    expect(await finished(child)).toMatchObject({
      code,
      stderr: `stopped by ${signal}\nNothing was written: a file appears whole or not at all.\n`,
    });
    expect(readFileSync(join(folder, 'out.csv'), 'utf8')).toBe('old');
    expect(readdirSync(folder)).toEqual(['out.csv']);
  });

  test('by SIGKILL leaves the old file, and the next export removes the partial one', async () => {
    const { folder, child } = await underWay();
    child.kill('SIGKILL');
    await finished(child);
    expect(readFileSync(join(folder, 'out.csv'), 'utf8')).toBe('old');
    expect(readdirSync(folder)).toHaveLength(2);
    expect((await runCli(['export', 'users', '-o', 'out.csv', '--db', mirror()], { folder })).code).toBe(0);
    expect(readdirSync(folder)).toEqual(['out.csv', 'out.csv.manifest.json']);
    const manifest = JSON.parse(readFileSync(join(folder, 'out.csv.manifest.json'), 'utf8')) as object;
    const sha256 = createHash('sha256')
      .update(readFileSync(join(folder, 'out.csv')))
      .digest('hex');
    expect(manifest).toMatchObject({
      complete: expect.any(Boolean),
      journal_head: null,
      files: [{ file: 'out.csv', sha256 }],
    });
  });
});
