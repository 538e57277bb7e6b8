/** The `audit` command. */
import { readFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import type { Manifest } from '../../src/bulk/results.ts';
import { bulkWorld, creditFile } from '../support/bulk-cli.ts';

const { username } = userInfo();
const me = `${username}@${hostname()}`;

/** Three users are credited by a batch, and one of them again by hand. */
async function credited() {
  const world = await bulkWorld();
  const { users, name } = creditFile(world, 3);
  const [user = 0] = users;
  const plan = (await world.bulk(['plan', 'balance', name, '--json'])).report();
  await world.bulk(['apply', plan.batch, '--approve', plan.hash]);
  const more = ['--type', 'add', '--amount', '7.25', '--description', 'x', '--yes'];
  await world.command(['users', 'update-balance', String(user), ...more]);
  return { ...world, batch: plan.batch, user, journal: join(world.folder, 'data/journal.db') };
}

describe('audit', () => {
  test('shows who credited a user, who approved it and what proves it, as table, CSV and JSON', async () => {
    const { command, batch, user } = await credited();
    const json = await command(['audit', '--user', String(user), '--json']);
    expect(json.code).toBe(0);
    const { steps } = JSON.parse(json.stdout) as { readonly steps: readonly Readonly<Record<string, unknown>>[] };
    expect(steps.map(({ kind }) => kind)).toEqual([
      'added',
      'consented',
      'claimed',
      'sending',
      'acknowledged',
      'applied',
      'done',
      'write',
      'write_ended',
    ]);
    const by = { name: username, host: hostname(), job: null, account: null };
    for (const { actor } of steps) expect(actor).toMatchObject(by);
    expect(steps[5]).toMatchObject({
      batch,
      row: 2,
      user,
      type: 'add',
      amount: '5.00',
      state: 'applied',
      evidence: 'token',
    });
    expect(steps[5]?.['record_id']).not.toBeNull();
    expect(steps[7]).toMatchObject({
      user,
      action: 'users.update-balance',
      type: 'add',
      amount: '7.25',
      state: 'done',
    });
    const csv = await command(['audit', '--user', String(user), '--format', 'csv']);
    expect(csv.stdout.split('\n')).toHaveLength(steps.length + 2);
    expect(csv.stdout).toMatch(/^time,who,what,batch,row,user,action,type,amount,state,evidence,record_id,note\n/);
    const step = new RegExp(`${me} +applied +${batch} +2 +${user} +balance +add +5.00 +applied +token`);
    for (const flags of [
      ['--user', String(user), '--verbose'],
      ['--batch', batch],
    ]) {
      expect((await command(['audit', ...flags])).stdout).toMatch(step);
    }
    expect((await command(['audit', '--user', String(user), '--format', 'jsonl'])).stdout.match(/\n/g)).toHaveLength(
      steps.length,
    );
  });

  test('shows a line for each act, such as sending a batch, unless the steps are wanted', async () => {
    const { command, user } = await credited();
    const { stdout } = await command(['audit']);
    const lines = stdout.trimEnd().split('\n').slice(2);
    expect(lines.map((line) => line.split(me)[1]?.replaceAll(/ +/g, ' ').trim())).toEqual([
      '1 planned credit',
      '12 sent 3 rows of credit',
      `2 changed the balance of user ${user} by hand: add 7.25, done`,
    ]);
    expect((await command(['audit', '--since', '2030-01-01', '--until', '2030-01-02'])).stdout).toMatch(/^time +who/);
  });

  test('filters by person, batch and time', async () => {
    const { command, batch } = await credited();
    const count = async (...args: readonly string[]) =>
      (await command(['audit', '--format', 'jsonl', ...args])).stdout.split('\n').length - 1;
    const all = await count();
    expect(await count('--person', username)).toBe(all);
    expect(await count('--person', me)).toBe(all);
    expect(await count('--person', 'nobody-of-that-name')).toBe(0);
    expect(await count('--batch', batch)).toBe(all - 2);
    expect(await count('--since', '1d')).toBe(all);
    expect(await count('--until', '1d')).toBe(0);
  });

  test('--verify prints the same head as status and manifest, and finds altered steps', async () => {
    const { command, bulk, batch, journal, folder } = await credited();
    const verified = await command(['audit', '--verify', '--json']);
    expect(verified.code).toBe(0);
    const { head } = JSON.parse(verified.stdout) as { readonly head: { readonly step: number; readonly hash: string } };
    expect((await command(['audit', '--verify'])).stdout).toContain(`head      step ${head.step}, ${head.hash}`);
    expect((await command(['audit', '--verify', '--head', head.hash])).code).toBe(0);
    expect(JSON.parse((await bulk(['status', batch, '--json'])).stdout)).toMatchObject({ head });
    expect((await bulk(['status', batch])).stdout).toMatch(new RegExp(`^confirmed +by ${me}$`, 'm'));
    await bulk(['results', batch, '-o', 'results']);
    const manifest = JSON.parse(readFileSync(join(folder, 'results/manifest.json'), 'utf8')) as Manifest;
    const [by] = manifest.sent_by;
    expect(manifest).toMatchObject({ head, planned_by: [by], approved_by: [by] });
    expect(by).toMatchObject({ name: username, host: hostname() });

    const other = await command(['audit', '--verify', '--head', 'f'.repeat(64)]);
    expect([other.code, other.stdout]).toEqual([6, expect.stringMatching(/steps were removed/)]);
    const database = new SqliteDatabase(journal);
    database.exec("UPDATE journal_intents SET parameters = replace(parameters, '5.00', '9.00') WHERE row = 3");
    const altered = await command(['audit', '--verify']);
    expect([altered.code, altered.stdout]).toEqual([6, expect.stringContaining(`row 3 of batch ${batch} was altered`)]);
    database.exec('DELETE FROM journal_steps WHERE step = 2');
    database.close();
    const broken = await command(['audit', '--verify']);
    expect([broken.code, broken.stdout]).toEqual([6, expect.stringMatching(/step 3 does not follow the one before/)]);
  });

  test('names the worker job that acted, and the user behind sudo', async () => {
    const world = await bulkWorld();
    const { name } = creditFile(world, 1);
    const environment = { ...world.environment, SUDO_USER: 'anna' };
    expect((await world.bulk(['run', 'balance', name, '--yes'], { environment })).code).toBe(0);
    const { stdout } = await world.command(['audit', '--person', 'anna']);
    expect(stdout).toContain(`${me} (by sudo from anna)`);
    const config = world.file('jobs: [{name: nightly, run: sync, cron: "@daily", timezone: UTC}]\n', 'jobs.yaml');
    const once = await world.command(['schedule', '--once', 'nightly', '--config', config], { environment });
    expect(once.code).toBe(0);
    expect((await world.command(['status', '--verbose'])).stdout).toContain(
      `by job nightly (${me}, by sudo from anna)`,
    );
  });

  test.each([
    [['audit'], /there is no journal/],
    [['audit', '--verify'], /there is no journal/],
    [['audit', '--head', 'f'.repeat(64)], /--head needs --verify/],
    [['audit', '--verify', '--head', 'abc'], /64 hexadecimal digits/],
    [['audit', '--user', 'anna'], /A whole number is needed/],
    [['audit', '--verify', '--user', '7'], /cannot be used with/],
  ])('%j ends with 2 and says why', async (args, problem) => {
    const { command } = await bulkWorld();
    const { code, stderr } = await command(args);
    expect([code, stderr]).toEqual([2, expect.stringMatching(problem)]);
  });
});
