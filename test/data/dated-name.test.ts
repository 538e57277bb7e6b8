import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { datedName, keepNewest } from '../../src/cli/files.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const moment = Date.parse('2026-03-11T23:05:09.999Z');

test.each([
  ['users.csv', 'users.csv'],
  ['users-{date}.csv', 'users-2026-03-11.csv'],
  ['{date}/{date}_{time}.csv', '2026-03-11/2026-03-11_230509.csv'],
  ['{day}.csv', '{day}.csv'],
])('%s becomes %s, with the time in UTC', (pattern, name) => {
  expect(datedName(pattern, moment)).toBe(name);
});

describe('keepNewest', () => {
  const pattern = 'users-{date}.csv';

  function folderWith(names: readonly string[]): string {
    const folder = temporaryFolder();
    for (const name of names) writeFileSync(join(folder, name), '');
    return folder;
  }

  // proves: keep
  test('removes older files that match the pattern, and nothing else', async () => {
    const made = ['users-2026-03-08.csv', 'users-2026-03-09.csv', 'users-2026-03-10.csv', 'users-2026-03-11.csv'];
    const others = [
      'users.csv',
      'users-2026-03-01.csv.bak',
      'users-20260301.csv',
      'xusers-2026-03-01.csv',
      'users-2026-03-01xcsv',
    ];
    const folder = folderWith([...made, ...others]);
    mkdirSync(join(folder, 'users-2020-01-01.csv'));
    symlinkSync(join(folder, 'users.csv'), join(folder, 'users-2020-01-02.csv'));
    const written = join(folder, 'users-2026-03-11.csv');
    const result = await keepNewest({ pattern: join(folder, pattern), written, keep: 2, of: 'files' });
    expect(result).toEqual({
      removed: [join(folder, 'users-2026-03-09.csv'), join(folder, 'users-2026-03-08.csv')],
      failed: [],
    });
    expect(readdirSync(folder).sort()).toEqual(
      [...made.slice(2), ...others, 'users-2020-01-01.csv', 'users-2020-01-02.csv'].sort(),
    );
  });

  test('never removes the new file, even if newer ones exist because a clock was ahead', async () => {
    const folder = folderWith(['users-2026-03-11.csv', 'users-2027-01-01.csv', 'users-2027-01-02.csv']);
    const written = join(folder, 'users-2026-03-11.csv');
    await keepNewest({ pattern: join(folder, pattern), written, keep: 1, of: 'files' });
    expect(readdirSync(folder)).toEqual(['users-2026-03-11.csv']);
  });
});
