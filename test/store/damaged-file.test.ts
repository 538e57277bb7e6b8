import { closeSync, fstatSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import SqliteDatabase from 'better-sqlite3';
import { runCli } from '../support/cli.ts';
import { sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A mirror whose tables are no more what their roots say: every page behind the first few is noise. */
async function broken() {
  const sandbox = await startSandbox({ users: 2_000 });
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'data'));
  const file = join(folder, 'data/mirror.db');
  await sync(sandbox, file);
  const database = new SqliteDatabase(file);
  database.pragma('wal_checkpoint(TRUNCATE)');
  const roots = database.prepare<[], number>(
    `SELECT pageno FROM dbstat WHERE name IN ('users', 'users_created_at') AND pagetype = 'leaf'`,
  );
  const pages = roots.pluck().all();
  const size = Number(database.pragma('page_size', { simple: true }));
  database.close();
  const handle = openSync(file, 'r+');
  expect(fstatSync(handle).size).toBeGreaterThan(size);
  for (const page of pages) writeSync(handle, Buffer.alloc(64, 0x7f), 0, 64, (page - 1) * size);
  closeSync(handle);
  return { sandbox, folder, file };
}

describe('a damaged mirror', () => {
  test('is told as damage, with the way back, by every command that meets it', async () => {
    const { sandbox, folder } = await broken();
    const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
    const commands = [
      ['sync', '--full'],
      ['sync', '--quick'],
      ['verify'],
      ['verify', '--deep'],
      ['export', 'users', '-o', 'users.csv'],
      ['query', 'SELECT sum(length(email)) FROM users'],
      ['export', 'users', '--format', 'parquet', '-o', 'users.parquet'],
      ['changes', '--since', '1d'],
      ['backup', 'copies'],
    ];
    // One after the other: two syncs side by side would meet the lock, not the damage.
    for (const args of commands) {
      const command = args.join(' ');
      const { code, stderr } = await runCli([...args, '--quiet'], { folder, environment });
      expect({ command, code, stderr }).toEqual({
        command,
        code: 2,
        stderr: expect.stringMatching(/damaged \(SQLITE_CORRUPT|damaged: |not sound/) as unknown,
      });
      expect(stderr).not.toMatch(/bug|^ {4}at /m);
    }
  });
});
