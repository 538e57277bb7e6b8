/**
 * A snapshot of a mirror of a gigabyte while a sync writes to it, compared with copying the file; and the copy with
 * pseudonyms.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { openMirrorFile } from '../src/store/open.ts';
import { command, measure, measureCli, median, type Measured } from './process.ts';
import { type BenchSandbox, startBenchSandbox } from './sandbox.ts';
import type { Row } from './table.ts';

const gigabyte = 1e9;

/** Lets the mirror grow to that size by emails to its users. */
function growTo(mirror: string, bytes: number): void {
  const database = openMirrorFile(mirror);
  const content = '<p>Your invoice is attached. It is due in three days.</p>'.repeat(20);
  const insert = database.prepare(
    `INSERT INTO emails (id, user_id, sender, receiver, subject, content, is_sent, created_at, _first_seen_at, _changed_at)
     SELECT coalesce((SELECT max(id) FROM emails), 0) + row_number() OVER (), id, 'billing@hosting.example', email,
       'Invoice ' || id, ? || id, 1, created_at, created_at, created_at
     FROM users ORDER BY id LIMIT 100000`,
  );
  while (Number(database.pragma('page_count', { simple: true })) * 4_096 < bytes) insert.run(content);
  database.pragma('wal_checkpoint(TRUNCATE)');
  database.close();
}

/** Runs syncs that read everything again and again, over changing records, until they are stopped. */
function keepSyncing(mirror: string, sandbox: BenchSandbox): { stop: () => void } {
  const stopping = new AbortController();
  const { signal } = stopping;
  async function syncAll(): Promise<void> {
    while (!signal.aborted) {
      await sandbox.changeUsers(20_000);
      const args = [command, 'sync', 'users', '--full', '--quiet', '--db', mirror];
      const child = spawn(process.execPath, args, {
        env: { ...process.env, ...sandbox.environment },
        stdio: 'ignore',
        signal,
      });
      await once(child, 'close');
    }
  }
  // A sync that is stopped fails, which does not matter.
  syncAll().catch(() => {});
  return { stop: () => stopping.abort() };
}

/** Measures `pairs` pairs, the copy and ours in turn, while the mirror is written. */
export async function benchSnapshot(folder: string, users: number, pairs: number): Promise<Row[]> {
  const mirror = join(folder, 'snapshot-source.db');
  const [plain, ours] = [join(folder, 'plain.db'), join(folder, 'ours.db')];
  const sandbox = await startBenchSandbox(users);
  try {
    await measureCli(['sync', 'users', '--quiet', '--db', mirror], sandbox.environment);
    growTo(mirror, gigabyte);
    const copies: Measured[] = [];
    const snapshots: Measured[] = [];
    const syncing = keepSyncing(mirror, sandbox);
    try {
      for (let pair = 0; pair < pairs; pair += 1) {
        // Each to a new file, and synced to the disk.
        rmSync(plain, { force: true });
        copies.push(await measure('sh', ['-c', 'cp "$0" "$1" && sync "$1"', mirror, plain]));
        rmSync(ours, { force: true });
        snapshots.push(await measureCli(['snapshot', ours, '--quiet', '--db', mirror]));
      }
    } finally {
      syncing.stop();
    }
    const checked = new SqliteDatabase(ours, { readonly: true });
    const sound = checked.pragma('integrity_check', { simple: true });
    checked.close();
    if (sound !== 'ok') throw new Error(`the snapshot is not sound: ${String(sound)}`);
    const seconds = (tries: readonly Measured[]) => `${median(tries.map((each) => each.seconds)).toFixed(1)} s`;
    const ratio = median(snapshots.map((each, index) => each.seconds / (copies[index]?.seconds ?? 0)));
    const size = `${(statSync(mirror).size / gigabyte).toFixed(1)} GB`;
    return [
      {
        what: `snapshot of ${size} while a sync writes (floor: cp and sync)`,
        floor: seconds(copies),
        ours: seconds(snapshots),
        ratio: `${ratio.toFixed(2)} ×`,
        goal: 'at most 1.5 ×',
        met: ratio <= 1.5,
      },
    ];
  } finally {
    sandbox.close();
    for (const file of [mirror, plain, ours]) {
      for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
    }
  }
}
