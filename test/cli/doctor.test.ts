import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { CapabilityStatus, MirrorStatus } from '../../src/mirror/open-status.ts';
import { openSandbox, type Sandbox } from '../support/bent/sandbox.ts';
import { runCli } from '../support/cli.ts';
import { newAccount, newPeople } from '../support/people.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { listening } from '../support/listening.ts';

interface Answer {
  readonly ok: boolean;
  readonly checks: readonly { name: string; state: string; finding: string; advice: string | null }[];
  readonly capabilities: Readonly<Record<string, CapabilityStatus>>;
}

let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await openSandbox({ users: 400, packages: 40, emails: 300, coupons: 60, now: sandboxNow });
});

afterAll(() => sandbox.close());

async function doctor(folder: string, environment: Record<string, string>, flags: readonly string[] = []) {
  const { code, stdout, stderr } = await runCli(['doctor', '--json', ...flags], { folder, environment });
  expect(stderr).toBe('');
  const answer = JSON.parse(stdout) as Answer;
  /** All findings with that name, with their state and advice. */
  const of = (name: string) =>
    answer.checks
      .filter((each) => each.name === name)
      .map(({ state, finding, advice }) => `${state}: ${finding}${advice === null ? '' : ` ${advice}`}`)
      .join('\n');
  return { code, answer, of };
}

const server = () => ({ ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key });

describe('doctor', () => {
  test('finds no problem with a working server and a new folder', async () => {
    const { code, answer, of } = await doctor(temporaryFolder(), server());
    expect(code).toBe(0);
    expect(answer.ok).toBe(true);
    expect(of('base address')).toBe(`ok: ${sandbox.url} (environment ADMIN_MIRROR_BASE_URL)`);
    expect(of('key')).toMatch(/^ok: \*\*\*\*.{4} \(environment ADMIN_MIRROR_API_KEY\)$/);
    expect(of('server')).toMatch(/^ok: .* responds in \d+ ms$/);
    expect(of('key on the server')).toMatch(/^ok: accepted/);
    expect(of('users list')).toMatch(/^ok: pages of 1000, in order, date ranges in YYYY-MM-DD/);
    for (const resource of ['packages', 'emails', 'coupons']) expect(of(`${resource} list`)).toMatch(/^ok: pages of/);
    expect(of('mirror')).toMatch(/^ok: .*mirror\.db: does not exist yet/);
    expect(JSON.stringify(answer)).not.toContain(sandbox.key);
  });

  test('ends with 2 without settings, and names every place to set them', async () => {
    const { code, of } = await doctor(temporaryFolder(), {});
    expect(code).toBe(2);
    expect(of('base address')).toMatch(/^fail: .*ADMIN_MIRROR_BASE_URL/);
    expect(of('key')).toMatch(/^fail: .*ADMIN_MIRROR_API_KEY_FILE/);
    expect(of('server')).toMatch(/^skipped/);
  });

  test('ends with 3 if the key is refused', async () => {
    const { code, of } = await doctor(temporaryFolder(), { ...server(), ADMIN_MIRROR_API_KEY: 'wrong-key-0000' });
    expect(code).toBe(3);
    expect(of('server')).toMatch(/^ok/);
    expect(of('key on the server')).toMatch(/^fail: .*refused \(401\).*ADMIN_MIRROR_API_KEY/);
  });

  test('ends with 4 if the server cannot be reached, and reports it even if the key is missing', async () => {
    const nobody = { ADMIN_MIRROR_BASE_URL: 'http://127.0.0.1:9' };
    const alone = await doctor(temporaryFolder(), { ...nobody, ADMIN_MIRROR_API_KEY: 'some-key-0000' });
    expect(alone.code).toBe(4);
    expect(alone.of('server')).toMatch(/^fail: .*refused.*--base-url/);
    const both = await doctor(temporaryFolder(), nobody);
    expect(both.code).toBe(2);
    expect(both.of('key')).toMatch(/^fail/);
    expect(both.of('server')).toMatch(/^fail/);
  });

  test('ends with 4 if something other than the API responds', async () => {
    const other = createServer((_, response) => response.setHeader('content-type', 'text/html').end('<html>Hello'));
    const { code, of } = await doctor(temporaryFolder(), {
      ...server(),
      ADMIN_MIRROR_BASE_URL: await listening(other),
    });
    expect(code).toBe(4);
    expect(of('server')).toMatch(/^fail: .*web page/);
  });

  test('reports what the server does differently: small pages, no ranges, no order', async () => {
    sandbox.control.setBehaviour({ page_max: 50, date_ranges: 'ignored', sorts: 'ignored' });
    onTestFinished(() => void sandbox.control.setChaos('calm'));
    const { code, of } = await doctor(temporaryFolder(), server());
    expect(code).toBe(0);
    expect(of('users list')).toMatch(/^warn: pages of 50 \(1000 were requested\), in no order, no date ranges/);
  });

  test('warns of a list that the key may not see, and ends with 3 if it may see none', async () => {
    onTestFinished(() => void sandbox.control.setChaos('calm'));
    sandbox.control.setBehaviour({ forbidden: 'emails' });
    const one = await doctor(temporaryFolder(), server());
    expect(one.code).toBe(0);
    expect(one.of('emails list')).toMatch(/^warn: .*403/);
    sandbox.control.setBehaviour({ forbidden: 'users,packages,emails,coupons' });
    const all = await doctor(temporaryFolder(), server());
    expect(all.code).toBe(3);
    expect(all.of('coupons list')).toMatch(/^fail: .*403/);
  });

  test('warns if the clocks differ', async () => {
    onTestFinished(() => sandbox.control.setClock(sandboxNow));
    sandbox.control.setClock(Date.now());
    expect((await doctor(temporaryFolder(), server())).of('clock')).toBe('ok: the two clocks agree');
    sandbox.control.setClock(Date.now() + 3_600_000);
    const { code, of } = await doctor(temporaryFolder(), server());
    expect(code).toBe(0);
    expect(of('clock')).toMatch(/^warn: the server's clock is 60 min ahead/);
  });

  test('reports wrong files, open permissions and wrong paths in one run', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'data'));
    writeFileSync(join(folder, 'data/mirror.db'), 'this is no database');
    writeFileSync(join(folder, 'note.txt'), '');
    writeFileSync(join(folder, 'key.txt'), sandbox.key);
    chmodSync(join(folder, 'key.txt'), 0o644);
    const { code, of } = await doctor(folder, {
      ADMIN_MIRROR_BASE_URL: sandbox.url,
      ADMIN_MIRROR_API_KEY_FILE: 'key.txt',
      ADMIN_MIRROR_JOURNAL: 'note.txt/journal.db',
      ADMIN_MIRROR_DBB: 'x',
    });
    expect(code).toBe(2);
    expect(of('mirror')).toMatch(/^fail: .*mirror\.db: it is not an SQLite database/);
    expect(of('journal')).toMatch(/^fail: .*note\.txt/);
    expect(of('key')).toMatch(/^ok: .*\nwarn: .*chmod 600/);
    expect(of('settings')).toMatch(/warn: ADMIN_MIRROR_DBB .*ADMIN_MIRROR_DB/);
  });

  test('opens a mirror that a sync made, and warns if others can read it', async () => {
    const folder = temporaryFolder();
    await runCli(['sync', 'coupons', '--quiet'], { folder, environment: server() });
    expect((await doctor(folder, server())).of('mirror')).toMatch(/^ok: .*mirror\.db: [\d.]+ [KM]B$/);
    chmodSync(join(folder, 'data/mirror.db'), 0o644);
    const { code, of } = await doctor(folder, server());
    expect(code).toBe(0);
    expect(of('mirror')).toMatch(/\nwarn: .*can be read by others Run: chmod 600/);
  });

  test('finds damage inside a mirror and a journal that still open', async () => {
    const folder = temporaryFolder();
    await runCli(['sync', 'users', '--quiet'], { folder, environment: server() });
    writeFileSync(join(folder, 'credit.csv'), 'user_id,type,amount\n1,add,1\n');
    await runCli(['bulk', 'plan', 'balance', 'credit.csv'], { folder, environment: server() });
    for (const [name, table] of [
      ['mirror', 'users'],
      ['journal', 'journal_intents'],
    ] as const) {
      expect((await doctor(folder, server())).of(name)).toMatch(/^ok/);
      const file = join(folder, `data/${name}.db`);
      const database = new SqliteDatabase(file);
      database.pragma('wal_checkpoint(TRUNCATE)');
      const index = "SELECT rootpage FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? ORDER BY rootpage DESC";
      const page = database.prepare<[string], number>(index).pluck().get(table) ?? 0;
      database.close();
      const bytes = readFileSync(file);
      bytes.fill(0xa5, (page - 1) * 4096, page * 4096);
      writeFileSync(file, bytes);
      const { code, of } = await doctor(folder, server());
      expect([code, of(name)]).toEqual([
        2,
        expect.stringMatching(new RegExp(`^fail: .*the ${name} .* is damaged: Tree [^\\n]{1,200}`)),
      ]);
    }
  });

  test('counts the approvers who can sign in and compares them with the policy', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config/admin-mirror.yaml'), 'bulk:\n  approval:\n    balance:\n      approvers: 2\n');
    const found = async () => (await doctor(folder, {})).of('approval');
    expect(await found()).toMatch(/^warn: balance: by up to 2 of 0 approvers, so some batches can never be sent/);
    const { people } = await newPeople(undefined, join(folder, 'data/journal.db'));
    for (const name of ['anna', 'bert', 'carl']) await people.add(newAccount(name, { roles: ['approver'] }));
    for (const name of ['anna', 'bert', 'carl']) {
      expect(await found()).toMatch(/^warn/);
      await people.setPassword(name, 'hash');
      if (name === 'anna') await people.setState(name, 'disabled');
    }
    expect(await found()).toBe('ok: balance: by up to 2 of 2 approvers');
    // An admin can set an approver's password, and then sign in as that approver.
    await people.add(newAccount('dora', { roles: ['admin', 'operator'], password: 'hash' }));
    expect(await found()).toMatch(/^ok/);
    await people.changeRoles('dora', { add: ['maker'], remove: [] });
    expect(await found()).toMatch(/^warn: balance: by up to 2 of 2 approvers; dora may make or approve .* act as two/);
    await people.changeRoles('dora', { add: [], remove: ['maker'] });
    expect(await found()).toMatch(/^ok/);
  });
});

describe('the recorded capabilities', () => {
  /** A folder with a mirror that was just synced. */
  async function mirroredFolder(): Promise<string> {
    const folder = temporaryFolder();
    const { code } = await runCli(['sync', '--quiet'], { folder, environment: server() });
    expect(code).toBe(0);
    return folder;
  }

  async function statusOf(folder: string): Promise<MirrorStatus> {
    return JSON.parse((await runCli(['status', '--json'], { folder })).stdout) as MirrorStatus;
  }

  test('are shown with the time they were measured, and the lists are requested once', async () => {
    const folder = await mirroredFolder();
    const { resources } = await statusOf(folder);
    sandbox.control.clearRequests();
    const { code, answer, of } = await doctor(folder, server());
    expect(code).toBe(0);
    expect(of('users list')).toBe(
      `ok: ${of('users list').slice(4).split(' (')[0]} (${[
        ...(resources.users.capabilities?.notes ?? []).map((note) => note.replace('users: ', '')),
        `measured ${resources.users.capabilities?.measured_at}`,
      ].join('; ')})`,
    );
    expect(answer.capabilities).toEqual(
      Object.fromEntries(Object.entries(resources).map(([name, each]) => [name, each.capabilities])),
    );
    expect(sandbox.control.requests().byOperation).toEqual({
      'users.auth': 1,
      'users.list': 1,
      'packages.list': 1,
      'emails.list': 1,
      'coupons.list': 1,
    });
  });
});
