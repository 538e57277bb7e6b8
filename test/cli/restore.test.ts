import { appendFileSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Database } from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { RestoreReport } from '../../src/data/restore.ts';
import { openRestore } from '../../src/data/open-restore.ts';
import { systemClock, timestampOf } from '../../src/model/time.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { MirrorsJournalMemory } from '../../src/store/journal-memory.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { bulkWorld, creditFile } from '../support/bulk-cli.ts';
import { invoke } from '../support/invoke.ts';
import { newBatch, newIntent, newJournal } from '../support/journal.ts';
import { insertRows, madeUpUsers } from '../support/mirror-file.ts';
import { rowsOf } from '../support/rows.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const databases = ['mirror.db', 'journal.db'];

/** A folder with a mirror of 20 users, a journal of one batch, and a backup of both. */
async function backedUp(change?: (mirror: Database) => void) {
  const folder = temporaryFolder();
  const data = join(folder, 'data');
  mkdirSync(data);
  const mirror = openMirrorFile(join(data, 'mirror.db'));
  insertRows(mirror, 'users', madeUpUsers(20));
  change?.(mirror);
  mirror.close();
  const add = async (batch: string) => {
    const { journal } = await newJournal(undefined, join(data, 'journal.db'));
    const names = { batch, fileHash: batch, hash: batch, rowsDigest: batch };
    await journal.addBatch(newBatch(names), [newIntent(2, 1, { batch } as object)]);
    await journal.close();
  };
  await add('one');
  const { stdout } = await invoke(['backup', '--json'], { folder });
  const { folder: backup } = JSON.parse(stdout) as { folder: string };
  const run = (...args: string[]) => invoke(['restore', '--json', ...args], { folder });
  const users = () => rowsOf(join(data, 'mirror.db'), 'SELECT count(*) AS n FROM users');
  const batches = () => rowsOf(join(data, 'journal.db'), 'SELECT batch FROM journal_batches');
  return { folder, data, backup, add, run, users, batches };
}

/** Every database in the folder with its size: what a refused restore leaves as it is. */
const contents = (folder: string) =>
  readdirSync(folder).flatMap((name) =>
    /-(?:wal|shm)$/.test(name) ? [] : [[name, statSync(join(folder, name)).size]],
  );

describe('a mirror that was read from another server', () => {
  /** A backup of a mirror that was read from one server, and a folder whose settings name another. */
  async function moved() {
    const { backup, folder, data } = await backedUp((mirror) => {
      mirror.exec("INSERT INTO mirror_server (one, address) VALUES (1, 'https://one.example.com')");
    });
    for (const name of databases)
      for (const end of ['', '-wal', '-shm']) rmSync(join(data, name + end), { force: true });
    const environment = { ADMIN_MIRROR_BASE_URL: 'http://127.0.0.1:9', ADMIN_MIRROR_API_KEY: 'abcdefgh12345678' };
    const other = (...args: string[]) => invoke(args, { folder, environment });
    return { backup, data, other };
  }
  const words = 'was read from https://one.example.com, and api.base_url is http://127.0.0.1:9';

  test('is restored only if that is said, and then `status`, `doctor` and `bulk select` say so', async () => {
    const { backup, data, other } = await moved();
    const refused = await other('restore', backup);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain(words);
    expect(readdirSync(data)).toEqual(['backups']);
    expect((await other('restore', backup, '--accept-new-server')).code).toBe(0);
    const status = await other('status', '--check', '--json');
    expect(status.code).toBe(2);
    expect(JSON.parse(status.stdout)).toMatchObject({
      problems: expect.arrayContaining([expect.objectContaining({ code: 'other_server' })]) as unknown[],
    });
    const examined = await other('doctor', '--json');
    expect(examined.stdout).toContain(words);
    const sql = "SELECT id AS user_id, 'add' AS type, 5 AS amount FROM users";
    const selected = await other('bulk', 'select', 'balance', '--sql', sql, '-o', join(data, 'pay.csv'));
    expect(selected).toMatchObject({ code: 2, stderr: expect.stringContaining(words) as string });
    expect(existsSync(join(data, 'pay.csv'))).toBe(false);
  });
});

describe('restore', () => {
  test('puts both files of a backup in place where there are none', async () => {
    const { data, backup, run, users, batches } = await backedUp();
    for (const name of databases)
      for (const end of ['', '-wal', '-shm']) rmSync(join(data, name + end), { force: true });
    const { code, stdout } = await run(backup);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      made_at: expect.stringMatching(/^20/) as string,
      mirror: { file: join(data, 'mirror.db'), kept: null },
      journal: { file: join(data, 'journal.db'), kept: null },
      forgotten_since: [],
    });
    expect([users(), batches()]).toEqual([[{ n: 20 }], [{ batch: 'one' }]]);
    for (const name of databases) expect(statSync(join(data, name)).mode & 0o777).toBe(0o600);
  });

  test('keeps what was there beside it, and says where', async () => {
    const { data, backup, run, users } = await backedUp();
    const mirror = openMirrorFile(join(data, 'mirror.db'));
    mirror.exec('DELETE FROM users');
    mirror.close();
    const { code, stdout } = await run(backup);
    expect(code).toBe(0);
    const { mirror: restored } = JSON.parse(stdout) as RestoreReport;
    expect(users()).toEqual([{ n: 20 }]);
    expect(restored?.kept).toMatch(/mirror\.db\.before-\d{8}T\d{6}Z$/);
    expect(rowsOf(String(restored?.kept), 'SELECT count(*) AS n FROM users')).toEqual([{ n: 0 }]);
  });

  test('does not replace a journal that has steps which the copy lacks, unless it is told to', async () => {
    const { data, backup, add, run, batches } = await backedUp();
    await add('two');
    const before = contents(data);
    const refused = await run(backup);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/journal\.db has 1 step that the copy lacks; nothing was restored\n.*--mirror-only/);
    expect(contents(data)).toEqual(before);
    const { stdout } = await run(backup, '--mirror-only');
    expect(JSON.parse(stdout)).toMatchObject({ journal: null, journal_lacks_steps: false });
    expect(batches()).toHaveLength(2);
    const replaced = await run(backup, '--older-journal');
    expect(JSON.parse(replaced.stdout)).toMatchObject({ journal_lacks_steps: true });
    expect(batches()).toEqual([{ batch: 'one' }]);
  });

  test.each([
    [
      'that cannot be read',
      (file: string) => writeFileSync(file, 'no database at all'),
      /cannot be read, so nobody knows/,
    ],
    ['of another installation', (file: string) => rmSync(file), /is another one than that of the copy/],
  ])('does not replace a journal %s, unless it is told to', async (_, harm, words) => {
    const { data, backup, add, run, batches } = await backedUp();
    for (const end of ['-wal', '-shm']) rmSync(join(data, `journal.db${end}`), { force: true });
    harm(join(data, 'journal.db'));
    if (!existsSync(join(data, 'journal.db'))) await add('other');
    const refused = await run(backup);
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringMatching(words) as string });
    expect((await run(backup, '--older-journal')).code).toBe(0);
    expect(batches()).toEqual([{ batch: 'one' }]);
  });

  test('changes nothing if a file is not what the manifest says', async () => {
    const { data, backup, run } = await backedUp();
    appendFileSync(join(backup, 'journal.db'), 'x');
    const before = contents(data);
    const { code, stderr } = await run(backup);
    expect(code).toBe(2);
    expect(stderr).toMatch(/journal\.db is not what its manifest says.*\nNothing was restored\. Use another backup\./);
    expect(contents(data)).toEqual(before);
  });

  test('changes nothing while another process has the mirror open, and ends with 7', async () => {
    const { data, backup, run } = await backedUp();
    const other = openMirrorFile(join(data, 'mirror.db'));
    onTestFinished(() => void other.close());
    const { code, stderr } = await run(backup);
    expect(code).toBe(7);
    expect(stderr).toContain('mirror.db is in use by another process');
    other.prepare('SELECT count(*) FROM users').get();
    expect(readdirSync(data).filter((name) => /before|partial/.test(name))).toEqual([]);
  });

  test('restores a snapshot as the mirror, and leaves the journal as it is', async () => {
    const { folder, data, run, users, batches } = await backedUp();
    await invoke(['snapshot', 'copy.db'], { folder });
    rmSync(join(data, 'mirror.db'));
    expect((await run('copy.db')).code).toBe(0);
    expect([users(), batches()]).toEqual([[{ n: 20 }], [{ batch: 'one' }]]);
  });

  test('names the users who were forgotten after the backup was made', async () => {
    const { data, backup, run } = await backedUp();
    const mirror = openMirrorFile(join(data, 'mirror.db'));
    mirror.exec(`INSERT INTO mirror_suppressions (resource, id, user_id, since) VALUES ('users', 7, 7, '2026-01-01')`);
    mirror.close();
    expect(JSON.parse((await run(backup)).stdout)).toMatchObject({ forgotten_since: [7] });
  });

  test('says what cannot be restored, and names the newest backup', async () => {
    const { folder, backup, run } = await backedUp();
    const newest = new RegExp(`The newest one in .* is ${backup.split('/').at(-1)}`);
    writeFileSync(join(folder, 'notes.txt'), 'no copy');
    for (const args of [[], ['nowhere'], ['notes.txt'], ['data'], ['data/mirror.db']]) {
      expect(await run(...args)).toMatchObject({ code: 2, stderr: expect.stringMatching(newest) as string });
    }
    expect((await run(backup, '--published')).stderr).toContain('Leave one of the two out');
    writeFileSync(join(folder, 'p.yaml'), 'profiles:\n  staging: {}\n');
    const other = await run(backup, '--config', 'p.yaml', '--profile', 'staging');
    expect(other).toMatchObject({ code: 2, stderr: expect.stringContaining('not of staging') as string });
  });

  test('keeps what the mirror knew of the journal, wherever it is killed', async () => {
    const { folder, data, backup, add } = await backedUp();
    await add('two');
    const file = join(data, 'mirror.db');
    const known = { journal: 'newest', step: 99, hash: 'h', batch: null, at: timestampOf(0) };
    const memory = new MirrorsJournalMemory(file);
    memory.remember(known, null);
    memory.close();
    const { settings } = readSettings({ flags: [], environment: {}, folder });
    if (settings === undefined) throw new Error('the settings are wrong');
    for (const last of [1, 2, 3, 4]) {
      let asked = 0;
      const throwIfAborted = (): void => {
        asked += 1;
        if (asked === last) throw new Error('killed');
      };
      const signal = Object.assign(new AbortController().signal, { throwIfAborted });
      const restore = openRestore(settings, systemClock, signal);
      await expect(
        restore({ from: backup, isMirrorOnly: false, acceptsServer: false, mayLoseSteps: true }),
      ).rejects.toThrow('killed');
      expect(rowsOf(file, "SELECT value ->> 'step' AS step FROM mirror_journal")).toEqual([{ step: 99 }]);
    }
  });

  test('changes neither file while another process has the journal open', async () => {
    const { data, backup, run } = await backedUp();
    const { journal } = await newJournal(undefined, join(data, 'journal.db'));
    await journal.head();
    expect(await run(backup)).toMatchObject({
      code: 7,
      stderr: expect.stringContaining('journal.db is in use') as string,
    });
    expect(readdirSync(data).filter((name) => /before|partial/.test(name))).toEqual([]);
  });

  test('lets nothing be sent from an older journal until the server was asked what it lacks', async () => {
    const world = await bulkWorld();
    await world.command(['sync']);
    const backup = JSON.parse((await world.command(['backup', '--json'])).stdout) as { folder: string };
    const credit = creditFile(world, 2, '5', 'credit.csv');
    await world.bulk(['run', 'balance', credit.name, '--yes']);
    const empty = await world.command(['restore', backup.folder]);
    // There was no journal when the backup was made.
    expect(empty).toMatchObject({ code: 0, stdout: expect.stringContaining('journal  left as it is') as string });
    const second = JSON.parse((await world.command(['backup', '--json'])).stdout) as { folder: string };
    const more = creditFile(world, 3, '7', 'more.csv');
    await world.bulk(['run', 'balance', more.name, '--yes']);
    expect((await world.command(['restore', second.folder, '--older-journal'])).code).toBe(0);
    const again = await world.bulk(['run', 'balance', more.name, '--yes']);
    expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining('this journal is older') as string });
    await world.bulk(['reconcile', '--adopt', '--settle-after', '0s']);
    expect((await world.bulk(['run', 'balance', more.name, '--yes'])).stderr).toContain('sent before');
  });
});
