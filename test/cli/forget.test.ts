import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { ForgetReceipt } from '../../src/mirror/forget.ts';
import { runCli } from '../support/cli.ts';
import { changePerson, person, personalTexts, placePerson, textsIn } from '../support/forget.ts';
import { invoke } from '../support/invoke.ts';
import { sync } from '../support/mirror.ts';
import { rowsOf } from '../support/rows.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A sandbox with the person in it, and a folder with its mirror under the usual name. */
async function mirrored() {
  const sandbox = await startSandbox();
  const emails = placePerson(sandbox);
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'data'));
  const file = join(folder, 'data/mirror.db');
  await sync(sandbox, file, { includes: { users: ['orders'] } });
  changePerson(sandbox, emails);
  await sync(sandbox, file, { includes: { users: ['orders'] } });
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  const isThere = () => rowsOf(file, `SELECT id FROM users WHERE id = ${person}`).length === 1;
  return { sandbox, folder, file, environment, isThere };
}

/** Fails if the text holds anything personal. */
function expectImpersonal(text: string): void {
  expect(personalTexts.filter((each) => text.includes(each))).toEqual([]);
}

describe('forget', () => {
  test('removes the person with the given email, and prints a receipt without personal data', async () => {
    const { folder, file, environment } = await mirrored();
    const before = textsIn(file);
    expect(before.length).toBeGreaterThan(5);
    const args = ['forget', 'zq-before@quill-feather.example', '--yes', '--json'];
    const { code, stdout, stderr } = await runCli(args, { folder });
    expect(code).toBe(0);
    expectImpersonal(stdout + stderr);
    const receipt = JSON.parse(stdout) as ForgetReceipt;
    expect(receipt).toMatchObject({ user: person, journal: 'none', scrubbed: true });
    expect(receipt.removed).toMatchObject({ users: 1, user_orders: 1 });
    expect(textsIn(file, before)).toEqual([]);
    // The command keeps the person out with its own settings.
    const synced = await runCli(['sync', '--quiet'], { folder, environment });
    expect(synced.code).toBe(0);
    expect(textsIn(file, before)).toEqual([]);
  });

  test('asks for the id to be typed on a terminal', async () => {
    const { folder, isThere } = await mirrored();
    const wrong = await invoke(['forget', 'Zephora', '--yes'], { folder });
    expect(wrong.code).toBe(2);
    const no = await invoke(['forget', 'zephyrine.quillfeather'], { folder, terminal: 100, input: 'yes\r' });
    expect(no.code).toBe(2);
    expect(no.stderr).toMatch(/To forget user 7, type 7/);
    expect(no.stderr).toMatch(/not confirmed; nothing was done/);
    expect(isThere()).toBe(true);
    const yes = await invoke(['forget', 'zephyrine.quillfeather'], { folder, terminal: 100, input: '7\r' });
    expect(yes.code).toBe(0);
    expect(isThere()).toBe(false);
  });

  test('--undo lets the person come back with the next sync', async () => {
    const { folder, environment, isThere } = await mirrored();
    await invoke(['forget', '7', '--yes'], { folder });
    const byName = await invoke(['forget', 'zephyrine.quillfeather', '--undo'], { folder });
    expect(byName).toMatchObject({ code: 2, stderr: expect.stringContaining('Give the id of the user.') as string });
    const { code, stdout } = await invoke(['forget', '7', '--undo'], { folder });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^user 7 may come back with the next sync .*\nno longer kept out:\n {2}emails +\d+\n/);
    expect((await runCli(['sync', '--quick', '--quiet'], { folder, environment })).code).toBe(0);
    expect(isThere()).toBe(true);
    expect((await invoke(['forget', '7', '--undo'], { folder })).code).toBe(2);
  });

  test('ends with 2 and creates nothing for an unknown user or without a mirror', async () => {
    const { folder } = await mirrored();
    expect(await invoke(['forget', '4711', '--yes'], { folder })).toMatchObject({ code: 2, stdout: '' });
    const empty = temporaryFolder();
    const { code, stderr } = await invoke(['forget', '7', '--yes'], { folder: empty });
    expect(code).toBe(2);
    expect(stderr).toMatch(/there is no mirror at/);
    expect(() => rowsOf(join(empty, 'data/mirror.db'), 'SELECT 1')).toThrow('does not exist');
  });
});
