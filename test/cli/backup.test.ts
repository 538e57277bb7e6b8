import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { rememberJournal } from '../../src/bulk/journal-memory.ts';
import { MirrorsJournalMemory } from '../../src/store/journal-memory.ts';
import type { BackupReport } from '../../src/data/backup.ts';
import { makeBackup } from '../../src/data/backup.ts';
import { type CopySource, journalToCopy, mirrorToCopy } from '../../src/data/copy-source.ts';
import { partialName } from '../../src/store/files/durable-file.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { invoke } from '../support/invoke.ts';
import { newBatch, newIntent, newJournal } from '../support/journal.ts';
import { insertRows, madeUpUsers } from '../support/mirror-file.ts';
import { rowsOf } from '../support/rows.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A folder with a mirror and a journal under their usual names. The journal is still open. */
async function folderWithBoth() {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'data'));
  const mirror = openMirrorFile(join(folder, 'data/mirror.db'));
  insertRows(mirror, 'users', madeUpUsers(20));
  mirror.close();
  const { journal } = await newJournal(undefined, join(folder, 'data/journal.db'));
  await journal.addBatch(newBatch(), [newIntent(2, 1)]);
  return { folder, journal };
}

const backup = (folder: string, ...args: string[]) => invoke(['backup', '--json', ...args], { folder });

/** A backup folder as an earlier backup of these files would have left it. */
function olderBackup(place: string, name: string, folder: string, of: Partial<BackupReport['of']> = {}): void {
  const [mirror, journal] = [join(folder, 'data/mirror.db'), join(folder, 'data/journal.db')];
  mkdirSync(join(place, name), { recursive: true });
  writeFileSync(join(place, name, 'journal.db'), 'old');
  writeFileSync(join(place, name, 'manifest.json'), JSON.stringify({ of: { profile: null, mirror, journal, ...of } }));
}

describe('backup', () => {
  test('copies both files, private and checked, and `restore` puts them back', async () => {
    const { folder, journal } = await folderWithBoth();
    const { code, stdout } = await backup(folder);
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as BackupReport;
    expect(report.folder).toMatch(/data\/backups\/\d{8}T\d{6}Z$/);
    expect(readdirSync(report.folder).sort()).toEqual(['journal.db', 'manifest.json', 'mirror.db']);
    expect(statSync(report.folder).mode & 0o777).toBe(0o700);
    for (const each of [report.mirror, report.journal]) {
      const path = join(report.folder, each?.file ?? '');
      expect(statSync(path).mode & 0o777).toBe(0o600);
      expect(createHash('sha256').update(readFileSync(path)).digest('hex')).toBe(each?.sha256);
    }
    expect(JSON.parse(readFileSync(join(report.folder, 'manifest.json'), 'utf8'))).toMatchObject({
      made_at: report.made_at,
      mirror: report.mirror,
      journal: report.journal,
    });

    // What came after the backup is lost; what was backed up is there.
    await journal.addBatch(newBatch({ batch: 'two', fileHash: 'f2', hash: 'h2', rowsDigest: 'd2' }), []);
    await journal.close();
    const restored = await invoke(['restore', report.folder, '--older-journal'], { folder });
    expect(restored.code).toBe(0);
    const query = await invoke(['query', 'SELECT count(*) AS n FROM users', '--format', 'json'], { folder });
    expect(JSON.parse(query.stdout)).toEqual([{ n: 20 }]);
    const status = await invoke(['bulk', 'status', '--json'], { folder });
    expect((JSON.parse(status.stdout) as { batches: { batch: string }[] }).batches.map((each) => each.batch)).toEqual([
      'one',
    ]);
    // The restored files can be written to.
    openMirrorFile(join(folder, 'data/mirror.db')).close();
    const again = await newJournal(undefined, join(folder, 'data/journal.db'));
    await again.journal.addBatch(newBatch({ batch: 'three', fileHash: 'f3', hash: 'h3', rowsDigest: 'd3' }), []);
    expect(await again.journal.batches()).toHaveLength(2);
  });

  test('removes the oldest backups beyond --keep, and nothing that is not a backup', async () => {
    const { folder } = await folderWithBoth();
    const place = join(folder, 'kept');
    const older = ['20250101T000000Z', '20250102T000000Z', '20250103T000000Z'];
    for (const name of older) olderBackup(place, name, folder);
    // A folder that a killed process was removing; no process has this id any more.
    const left = partialName('20250101T000000Z').replace(`.${process.pid}.`, '.99999999.');
    for (const name of ['notes', left]) olderBackup(place, name, folder);
    const { stdout } = await backup(folder, 'kept', '--keep', '2');
    const { removed, folder: made } = JSON.parse(stdout) as BackupReport;
    expect(removed).toEqual(older.slice(0, 2));
    expect(readdirSync(place).sort()).toEqual([older[2], made.slice(place.length + 1), 'notes']);
  });

  test('keeps backups of other profiles and mirrors in the same folder, and names them', async () => {
    const { folder } = await folderWithBoth();
    const place = join(folder, 'kept');
    olderBackup(place, '20250101T000000Z', folder, { profile: 'staging' });
    olderBackup(place, '20250102T000000Z', folder, { mirror: '/srv/other/data/mirror.db' });
    mkdirSync(join(place, '20250103T000000Z'));
    olderBackup(place, '20250104T000000Z', folder);
    const { stdout } = await backup(folder, 'kept', '--keep', '1');
    const report = JSON.parse(stdout) as BackupReport;
    const others = ['20250101T000000Z', '20250102T000000Z', '20250103T000000Z'];
    expect(report).toMatchObject({ removed: ['20250104T000000Z'], not_ours: others });
    expect(readdirSync(place).sort()).toEqual([...others, report.folder.slice(place.length + 1)]);
  });

  describe('without the journal that knows what was sent', () => {
    /** Backs up twice with both files, then takes the journal away; returns what the next backups keep. */
    async function lostJournal(remembers: boolean) {
      const { folder, journal } = await folderWithBoth();
      if (remembers) {
        const clock = { now: () => sandboxNow };
        const memory = new MirrorsJournalMemory(join(folder, 'data/mirror.db'));
        await rememberJournal({ journal, memory, clock }, 'one');
        memory.close();
      }
      await journal.close();
      await backup(folder, 'kept', '--keep', '2');
      const [older = ''] = readdirSync(join(folder, 'kept'));
      for (const name of readdirSync(join(folder, 'data')).filter((each) => each.startsWith('journal.db')))
        rmSync(join(folder, 'data', name));
      return { folder, older };
    }

    test.each([true, false])('removes nothing, says why, and ends with 5 (sent money: %s)', async (remembers) => {
      const { folder, older } = await lostJournal(remembers);
      for (let time = 1; time <= 3; time += 1) {
        const { code, stdout, stderr } = await backup(folder, 'kept', '--keep', '1');
        expect(code).toBe(5);
        expect(stderr).toContain(`journal.db is gone; the newest backup that has it is ${older}`);
        const sent = /this mirror knows one, by which batch one was sent on .*\n.* --adopt/;
        expect(stderr).toMatch(remembers ? sent : /is not complete/);
        expect(stderr).toMatch(/No older backup was removed\. Put the (?:lost file|newest one) back/);
        expect(JSON.parse(stdout)).toMatchObject({ journal: null, mirror: { file: 'mirror.db' }, removed: [] });
      }
      expect(readdirSync(join(folder, 'kept'))).toHaveLength(4);
      expect(existsSync(join(folder, 'kept', older, 'journal.db'))).toBe(true);
      copyFileSync(join(folder, 'kept', older, 'journal.db'), join(folder, 'data/journal.db'));
      expect((await backup(folder, 'kept', '--keep', '1')).code).toBe(0);
      expect(readdirSync(join(folder, 'kept'))).toHaveLength(1);
    });

    test('but with a new one in its place, removes nothing and ends with 5', async () => {
      const { folder, older } = await lostJournal(true);
      const { journal } = await newJournal(undefined, join(folder, 'data/journal.db'));
      await journal.addBatch(newBatch({ batch: 'two' }), []);
      const { code, stderr } = await backup(folder, 'kept', '--keep', '1');
      expect(code).toBe(5);
      expect(stderr).toMatch(/was made, but something is wrong: this mirror knows another journal, by which batch one/);
      expect(existsSync(join(folder, 'kept', older, 'journal.db'))).toBe(true);
    });
  });

  test('copies the journal even if the mirror is damaged, removes nothing, and ends with 5', async () => {
    const { folder } = await folderWithBoth();
    writeFileSync(join(folder, 'data/mirror.db'), 'no database at all');
    const old = join(folder, 'data/backups/20250101T000000Z');
    mkdirSync(old, { recursive: true });
    const { code, stdout, stderr } = await backup(folder, '--keep', '1');
    expect(code).toBe(5);
    expect(stderr).toMatch(/is not complete: could not open the mirror .*it is not an SQLite database/);
    const report = JSON.parse(stdout) as BackupReport;
    expect(report).toMatchObject({ mirror: null, removed: [] });
    expect(rowsOf(join(report.folder, 'journal.db'), 'SELECT batch FROM journal_batches')).toEqual([{ batch: 'one' }]);
    expect(existsSync(old)).toBe(true);
  });

  test('copies the mirror before the journal, and leaves nothing if it is stopped between them', async () => {
    const { folder } = await folderWithBoth();
    const place = join(folder, 'place');
    const stop = new AbortController();
    const copied: string[] = [];
    const watched = (source: CopySource): CopySource => ({
      ...source,
      copy: async (...args) => {
        copied.push(source.name);
        await source.copy(...args);
        stop.abort();
      },
    });
    const clock = { now: () => sandboxNow };
    const ports = {
      mirror: watched(mirrorToCopy(join(folder, 'data/mirror.db'))),
      journal: watched(journalToCopy(join(folder, 'data/journal.db'))),
      clock,
    };
    const whole = { ...ports, run: { signal: new AbortController().signal, progress: () => {} } };
    const { report } = await makeBackup(whole, { folder: place, profile: null, keep: undefined });
    expect(copied).toEqual(['mirror', 'journal']);
    rmSync(report.folder, { recursive: true });
    const stopped = { ...ports, run: { signal: stop.signal, progress: () => {} } };
    await expect(makeBackup(stopped, { folder: place, profile: null, keep: undefined })).rejects.toThrow('aborted');
    expect(readdirSync(place)).toEqual([]);
  });
});
