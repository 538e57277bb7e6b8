import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { invoke } from '../support/invoke.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const magics = { parquet: 'PAR1', xlsx: 'PK' } as const;

function mirror(): string {
  return mirrorFile((database) => insertRows(database, 'users', madeUpUsers(3)));
}

describe('the format of an export', () => {
  test.each([
    ['users.csv', [], 'id\n1\n2\n3\n'],
    ['users.tsv', [], 'id\n1\n2\n3\n'],
    ['users.jsonl', [], '{"id":1}\n{"id":2}\n{"id":3}\n'],
    ['users.json', [], '[\n  {"id":1},\n  {"id":2},\n  {"id":3}\n]\n'],
    ['users-{date}', [], 'id\n1\n2\n3\n'],
    ['new/folder/users.txt', ['--format', 'csv'], 'id\n1\n2\n3\n'],
    ['users.csv', ['--format', 'jsonl'], '{"id":1}\n{"id":2}\n{"id":3}\n'],
  ])('follows the name %s or the flags %j', async (name, flags, text) => {
    const folder = temporaryFolder();
    const args = ['export', 'users', '--columns', 'id', '-o', name, ...flags, '--db', mirror()];
    const written = name.replace('{date}', new Date().toISOString().slice(0, 10));
    expect(await invoke(args, { folder })).toMatchObject({ code: 0, stderr: `3 rows written to ${written}\n` });
    expect(readFileSync(join(folder, written), 'utf8')).toBe(text);
  });

  test.each(['users.txt', 'users.jsn', 'users.csv.bz2', 'users.CVS'])('is not guessed from %s', async (name) => {
    const folder = temporaryFolder();
    expect(await invoke(['export', 'users', '-o', name, '--db', mirror()], { folder })).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/"\.\w+" is not the ending of any format .*\n.*\.csv, .*--format/),
    });
    expect(readdirSync(folder)).toEqual([]);
  });

  test.each(['parquet', 'xlsx'] as const)('may be %s, to a file or a pipe but not to a terminal', async (format) => {
    const folder = temporaryFolder();
    const args = ['export', 'users', '--db', mirror()];
    expect((await invoke([...args, '-o', `users.${format}`], { folder })).code).toBe(0);
    expect(readFileSync(join(folder, `users.${format}`), 'latin1').startsWith(magics[format])).toBe(true);
    const piped = await invoke([...args, '--format', format], { folder });
    expect({ code: piped.code, begins: piped.stdout.startsWith(magics[format]) }).toEqual({ code: 0, begins: true });
    expect(await invoke([...args, '--format', format], { folder, terminal: 80 })).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining(`a terminal cannot show a file of ${format}`),
    });
  });

  test.each([
    ['users.csv.gz', [], gunzipSync],
    ['users', ['--gzip'], gunzipSync],
  ] as const)('is compressed if the name %s or %j says so', async (name, flags, decompress) => {
    const folder = temporaryFolder();
    await invoke(['export', 'users', '--columns', 'id', '-o', name, ...flags, '--db', mirror()], { folder });
    expect(decompress(readFileSync(join(folder, name))).toString()).toBe('id\n1\n2\n3\n');
  });

  test.each([
    [['--format', 'parquet', '--gzip'], '--gzip is for csv, tsv, json and jsonl'],
    [['-o', 'users.xlsx.gz'], '--gzip is for csv, tsv, json and jsonl'],
    [['--format', 'parquet', '--bom'], '--bom is for csv and tsv'],
    [['--keep', '3'], '--keep is for files'],
    [['--keep', '0', '-o', 'users-{date}.csv'], 'A whole number above 0'],
    [['--keep', '3', '-o', 'users.csv'], '--keep needs {date} in the last part of the name'],
    [['--keep', '3', '-o', '{date}/users-{date}.csv'], '--keep needs {date} in the last part of the name'],
    [['--all', '-o', 'out'], 'give either --all or'],
  ])('refuses %j', async (flags, message) => {
    const folder = temporaryFolder();
    const result = await invoke(['export', 'users', ...flags, '--db', mirror()], { folder });
    expect(result).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(message) });
    expect(readdirSync(folder)).toEqual([]);
  });
});

describe('a file name with {date}', () => {
  test("gets today's date, and older files are removed once the new one is written", async () => {
    const folder = temporaryFolder();
    for (const day of ['2020-01-01', '2020-01-02', '2020-01-03']) writeFileSync(join(folder, `u-${day}.csv`), '');
    writeFileSync(join(folder, 'u-2020-01-01.csv.manifest.json'), '');
    const args = ['export', 'users', '-o', 'u-{date}.csv', '--keep', '2', '--json', '--db', mirror()];
    const { code, stdout, stderr } = await invoke(args, { folder });
    const report = JSON.parse(stdout) as { readonly file: string; readonly removed: readonly string[] };
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(report.file).toMatch(/u-\d{4}-\d{2}-\d{2}\.csv$/);
    expect(report.removed.map((path) => path.slice(folder.length + 1))).toEqual([
      'u-2020-01-02.csv',
      'u-2020-01-01.csv',
    ]);
    const name = report.file.slice(folder.length + 1);
    expect(readdirSync(folder).sort()).toEqual(['u-2020-01-03.csv', name, `${name}.manifest.json`]);
  });

  test("must contain the profile if --keep is used with one, so that no other profile's files are removed", async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config/admin-mirror.yaml'), 'profiles:\n  staging: {}\n  production: {}\n');
    const args = ['export', 'users', '--profile', 'staging', '--keep', '1', '--db', mirror()];
    const refused = await invoke([...args, '-o', 'users-{date}.csv'], { folder });
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/does not show that they belong to staging\n.*-o staging\/users-\{date\}\.csv/);
    expect((await invoke([...args, '-o', 'staging/users-{date}.csv'], { folder })).code).toBe(0);
  });

  test('keeps older files if the export fails', async () => {
    const folder = temporaryFolder();
    for (const day of ['2020-01-01', '2020-01-02']) writeFileSync(join(folder, `u-${day}.csv`), '');
    const args = ['export', 'users', '--where', 'nothing > 1', '-o', 'u-{date}.csv', '--keep', '1', '--db', mirror()];
    expect((await invoke(args, { folder })).code).toBe(2);
    expect(readdirSync(folder)).toHaveLength(2);
  });
});

describe('export --all', () => {
  test('writes a folder, and prints its manifest with --json', async () => {
    const folder = temporaryFolder();
    const args = ['export', '--all', '--format', 'parquet', '-o', 'out', '--db', mirror()];
    expect(await invoke(args, { folder })).toEqual({
      code: 0,
      stdout: '',
      stderr: '9 files with 3 rows written to out\n',
    });
    const { stdout, stderr } = await invoke([...args, '--json'], { folder });
    expect(JSON.parse(stdout)).toEqual(JSON.parse(readFileSync(join(folder, 'out', 'manifest.json'), 'utf8')));
    expect(stderr).toBe('');
  });

  test('keeps as many dated folders as requested', async () => {
    const folder = temporaryFolder();
    const file = mirror();
    for (const day of ['2020-01-01', '2020-01-02'])
      await invoke(['export', '--all', '-o', day, '--db', file], { folder });
    const { code, stderr } = await invoke(['export', '--all', '-o', '{date}', '--keep', '2', '--db', file], { folder });
    expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining('removed 2020-01-01\n') });
    expect(readdirSync(folder)).toHaveLength(2);
    expect(readdirSync(folder)).toContain('2020-01-02');
  });

  test.each([
    [[], 'no folder was named'],
    [['-o', '-'], 'no folder was named'],
    [['-o', 'out', '--sql', 'SELECT 1'], 'cannot be used with option'],
    [['-o', 'out', '--where', 'id = 1'], 'cannot be used with option'],
    [['-o', 'out', '--as-of', '2026-01-01'], 'cannot be used with option'],
  ])('refuses %j', async (flags, message) => {
    const result = await invoke(['export', '--all', ...flags, '--db', mirror()]);
    expect(result).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(message) });
  });
});
