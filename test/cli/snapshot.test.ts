import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openMirrorFile } from '../../src/store/open.ts';
import { invoke } from '../support/invoke.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';

function filled(users = 5): { readonly folder: string; readonly file: string } {
  const file = mirrorFile((database) => {
    insertRows(database, 'users', madeUpUsers(users));
    database.exec(`INSERT INTO mirror_windows (resource, from_day, to_day, state, fresh_as_of) VALUES
      ('users', '2026-01-01', '2026-02-01', 'settled', '2026-03-11T10:00:00.000000Z')`);
  });
  return { folder: join(file, '..'), file };
}

const snapshot = (folder: string, ...args: string[]) => invoke(['snapshot', ...args, '--db', 'mirror.db'], { folder });

describe('snapshot', () => {
  test('makes a mirror that every reading command accepts, and says how fresh it is', async () => {
    const { folder } = filled();
    const { code, stdout } = await snapshot(folder, 'copy.db', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      file: join(folder, 'copy.db'),
      bytes: statSync(join(folder, 'copy.db')).size,
      fresh_as_of: null,
      resources: {
        users: { rows: 5, fresh_as_of: '2026-03-11T10:00:00.000000Z' },
        packages: { rows: 0, fresh_as_of: null },
        emails: { rows: 0, fresh_as_of: null },
        coupons: { rows: 0, fresh_as_of: null },
      },
    });
    for (const args of [
      ['status'],
      ['query', 'SELECT count(*) FROM users'],
      ['export', 'users'],
      ['schema', 'users'],
    ]) {
      expect((await invoke([...args, '--db', 'copy.db'], { folder })).code).toBe(0);
    }
    expect(
      readdirSync(folder)
        .filter((name) => name.startsWith('copy'))
        .toSorted(),
    ).toEqual(['copy.db', 'copy.db.manifest.json']);
    const manifest: unknown = JSON.parse(readFileSync(join(folder, 'copy.db.manifest.json'), 'utf8'));
    const sha256 = createHash('sha256')
      .update(readFileSync(join(folder, 'copy.db')))
      .digest('hex');
    expect(manifest).toMatchObject({
      program: 'admin-mirror snapshot',
      complete: false,
      fresh_as_of: null,
      resources: { users: { rows: 5 } },
      files: [{ file: 'copy.db', sha256 }],
    });
  });

  test('replaces an earlier snapshot, and nothing else', async () => {
    const { folder, file } = filled();
    expect((await snapshot(folder, 'copy.db')).code).toBe(0);
    expect((await snapshot(folder, 'copy.db')).code).toBe(0);
    writeFileSync(join(folder, 'letter.txt'), 'Dear Anna');
    mkdirSync(join(folder, 'sub'));
    const other = openMirrorFile(join(folder, 'other.db'));
    other.close();
    const bytesOf = (name: string): string => {
      const path = join(folder, name);
      return existsSync(path) && statSync(path).isFile() ? readFileSync(path).toString('hex') : 'no file';
    };
    for (const target of ['mirror.db', 'mirror.db-wal', 'data/journal.db', 'letter.txt', 'sub', 'other.db']) {
      const before = bytesOf(target);
      const { code, stderr } = await snapshot(folder, target);
      expect([target, code]).toEqual([target, 2]);
      expect(stderr).toMatch(/is one of admin-mirror's own files|already exists and is not a snapshot/);
      expect(bytesOf(target)).toBe(before);
    }
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder).filter((name) => name.endsWith('.partial'))).toEqual([]);
  });

  test.each([
    [['mirror.db/copy.db'], /a part of its path is not a folder/],
    [['copy.db', '--db', 'nothing.db'], /there is no mirror at .*nothing\.db/],
  ])('refuses %j', async (args, message) => {
    const { folder } = filled(1);
    const { code, stderr } = await invoke(['snapshot', '--db', 'mirror.db', ...args], { folder });
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
    expect(existsSync(join(folder, 'copy.db'))).toBe(false);
  });
});
