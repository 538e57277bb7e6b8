// @module-tag full
import { closeSync, fstatSync, openSync, readdirSync, statSync, truncateSync, writeSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import SqliteDatabase from 'better-sqlite3';
import { runCli } from '../support/cli.ts';
import { mirroredFolder } from '../support/mirror.ts';

/** A closed mirror file of 2,000 users. */
async function mirrored() {
  const { sandbox, folder, file } = await mirroredFolder({ users: 2_000 });
  const database = new SqliteDatabase(file);
  database.pragma('wal_checkpoint(TRUNCATE)');
  const leaves = database.prepare<[string], number>(
    `SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path`,
  );
  const pagesOf = (name: string) => leaves.pluck().all(name);
  const pages = { users: pagesOf('users'), users_created_at: pagesOf('users_created_at') };
  const size = Number(database.pragma('page_size', { simple: true }));
  database.close();
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  const run = async (args: readonly string[]) => {
    const { code, stderr } = await runCli([...args, '--quiet'], { folder, environment });
    const isDamage = /damaged \(SQLITE_CORRUPT|damaged: |not sound/.test(stderr) && !/bug|^ {4}at /m.test(stderr);
    return { args, code, told: isDamage ? 'damage' : stderr };
  };
  return { folder, file, pages, size, run };
}

/** Overwrites the beginning of these pages with noise. */
function breakPages(file: string, pages: readonly number[], size: number): void {
  const handle = openSync(file, 'r+');
  expect(fstatSync(handle).size).toBeGreaterThan(size);
  for (const page of pages) writeSync(handle, Buffer.alloc(64, 0x7f), 0, 64, (page - 1) * size);
  closeSync(handle);
}

const exports = [
  ['export', 'users', '-o', 'users.csv'],
  ['export', 'users', '--format', 'parquet', '-o', 'users.parquet'],
  ['export', 'users', '--where', 'length(email) > 0', '-o', 'some.csv'],
];

const damage = (args: readonly string[]) => ({ args, code: 2, told: 'damage' });

describe('a damaged mirror', () => {
  test('is reported as damage, not as a bug, by every command that meets it', async () => {
    const { file, pages, size, run } = await mirrored();
    breakPages(file, [...pages.users, ...pages.users_created_at], size);
    const commands = [
      ['sync', '--full'],
      ['sync', '--quick'],
      ['verify'],
      ['verify', '--deep'],
      ['query', 'SELECT sum(length(email)) FROM users'],
      ['changes', '--since', '1d'],
      ['backup', 'copies'],
    ];
    // One after the other: parallel syncs would meet the lock, not the damage.
    for (const args of commands) expect(await run(args)).toEqual(damage(args));
  });

  test('leaves no export file if a single page of the table is broken', async () => {
    const { folder, file, pages, size, run } = await mirrored();
    const middle = pages.users[Math.floor(pages.users.length / 2)] ?? 0;
    breakPages(file, [middle], size);
    expect(await Promise.all(exports.map(run))).toEqual(exports.map(damage));
    expect(readdirSync(folder)).toEqual(['data']);
  });

  test('that is cut in half is reported as damage before anything is read', async () => {
    const { folder, file, run } = await mirrored();
    truncateSync(file, Math.floor(statSync(file).size / 2));
    const commands = [...exports, ['query', 'SELECT 1']];
    expect(await Promise.all(commands.map(run))).toEqual(commands.map(damage));
    expect(readdirSync(folder)).toEqual(['data']);
  });
});
