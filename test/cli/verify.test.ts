import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import type { VerifyReport } from '../../src/mirror/verify.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { finished, runCli, startCli } from '../support/cli.ts';
import { mirroredFolder } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function environmentOf(sandbox: Sandbox): Record<string, string> {
  return { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
}

/** A sandbox, and a folder with its mirror under the usual name. */
async function mirrored() {
  const { sandbox, folder, file } = await mirroredFolder();
  const verify = (...args: string[]) => runCli(['verify', ...args], { folder, environment: environmentOf(sandbox) });
  return { sandbox, folder, file, verify };
}

describe('verify', () => {
  test('ends with 0 and a line per resource if all is equal', async () => {
    const { verify } = await mirrored();
    for (const flags of [[], ['--deep']]) {
      const { code, stdout } = await verify('--quiet', ...flags);
      expect(code).toBe(0);
      expect(stdout).toMatch(/^users {5}equal {7}60 in the mirror, 60 on the server, 2 windows compared/);
      expect(stdout).toMatch(/\nequal, \d+ requests\n$/);
      expect(stdout).not.toContain('as of');
    }
  });

  test('makes the next sync compare what differs, and warns if it cannot record that', { tags: 'full' }, async () => {
    const { folder, file, verify, sandbox } = await mirrored();
    const damage = (): void => {
      const database = new SqliteDatabase(file);
      database.exec(`UPDATE users SET email = 'x' WHERE id = 9`);
      database.close();
    };
    damage();
    expect((await verify('--deep', '--quiet')).code).toBe(6);
    const synced = await runCli(['sync', '--quick', '--json'], { folder, environment: environmentOf(sandbox) });
    expect(synced.code).toBe(0);
    expect(JSON.parse(synced.stdout)).toMatchObject({ status: 'complete', resources: { users: { updated: 1 } } });
    expect((await verify('--deep', '--quiet')).code).toBe(0);
    damage();
    const store = openMirrorStore(file);
    store.acquireLock('sync', 'another');
    const busy = await verify('--deep');
    store.releaseLock('sync', 'another');
    store.close();
    expect(busy.code).toBe(6);
    expect(busy.stderr).toMatch(/the next sync does not know what differs: .*`.*sync --full` compares everything/);
  });

  test('ends with 6 and lists differences, at most twenty ids each, and since when they may exist', async () => {
    const { sandbox, verify } = await mirrored();
    for (let count = 0; count < 25; count += 1) sandbox.control.insert('users');
    sandbox.control.remove('users', 9);
    sandbox.control.update('coupons', 3, { notes: 'changed' });
    const { code, stdout, stderr } = await verify('--deep', '--quiet');
    expect(code).toBe(6);
    expect(stderr).toBe('');
    expect(stdout).toMatch(/^users {5}different {3}60 in the mirror, 84 on the server/);
    expect(stdout).toMatch(/\n {2}missing, on the server only \(25\): 61, 62, .*, 80, and 5 more\n/);
    expect(stdout).toMatch(/\n {2}extra, in the mirror only \(1\): 9\n/);
    expect(stdout).toMatch(/\n {2}different \(1\): 3 \(notes, updated_at\)\n/);
    expect(stdout).toMatch(/\nThe mirror is as of 2026-03-11T10:20:3.*: what changed on the server since then counts/);
    expect(stdout).toMatch(/\ndifferent, \d+ requests\n$/);
    const json = await verify('--deep', '--json', '--quiet');
    expect(json.code).toBe(6);
    const report = JSON.parse(json.stdout) as VerifyReport;
    expect(report.status).toBe('different');
    expect(report.resources.users?.missing).toHaveLength(25);
    expect(report.resources.users?.extra).toEqual([9]);
    expect(report.resources.coupons?.different).toEqual([{ id: 3, fields: ['notes', 'updated_at'] }]);
  });

  test('ends with 5 if a part could not be compared, and says why', async () => {
    const { sandbox, verify } = await mirrored();
    sandbox.control.setBehaviour({ forbidden: 'emails' });
    const { code, stdout, stderr } = await verify('--quiet');
    expect(code).toBe(5);
    expect(stdout).toMatch(/\nemails {4}incomplete {2}90 in the mirror, not counted on the server/);
    expect(stdout).toMatch(/\n {2}not compared: .*403/);
    expect(stderr).toMatch(/^error: not everything could be compared: /m);
  });

  test('ends with 2 without a mirror or with a file that is not one, before any request', async () => {
    const sandbox = await startSandbox();
    const folder = temporaryFolder();
    const environment = environmentOf(sandbox);
    const none = await runCli(['verify'], { folder, environment });
    expect(none).toMatchObject({ code: 2, stdout: '' });
    expect(none.stderr).toMatch(/there is no mirror at .*\nRun `npx admin-mirror .*sync` first/);
    writeFileSync(join(folder, 'note.txt'), 'no database');
    const other = await runCli(['verify', '--db', 'note.txt'], { folder, environment });
    expect(other.code).toBe(2);
    expect(sandbox.control.requests().total).toBe(0);
  });

  test('prints its report and ends with 130 if it is interrupted', { tags: 'full' }, async () => {
    const { sandbox, folder } = await mirrored();
    sandbox.control.clearRequests();
    sandbox.control.setBehaviour({ latency: 300 });
    const child = startCli(['verify', '--json', '--quiet'], { folder, environment: environmentOf(sandbox) });
    const ended = finished(child);
    while (sandbox.control.requests().total === 0 && child.exitCode === null) await new Promise(setImmediate);
    child.kill('SIGINT');
    const { code, stdout } = await ended;
    expect(code).toBe(130);
    expect((JSON.parse(stdout) as VerifyReport).status).toBe('interrupted');
  });
});
