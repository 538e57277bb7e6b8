import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { resourceNames, resourceOf } from '../../src/model/resources.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { runCli } from '../support/cli.ts';
import { insertRows } from '../support/mirror-file.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { changePerson, personalTexts, placePerson, textsIn } from '../support/forget.ts';
import { sync } from '../support/mirror.ts';
import { rowsOf } from '../support/relations.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const includes = {
  users: resourceOf('users').includes ?? [],
  packages: resourceOf('packages').includes ?? [],
  emails: resourceOf('emails').includes ?? [],
};

/** Fields with personal texts, wherever they occur. */
const telling = new Set(
  (
    'username email first_name last_name avatar sender receiver subject content button attachment street city company_name ' +
    'ip_address user_agent message reason transaction_id external_id domain code notes'
  ).split(' '),
);

/** All personal texts of the records, however deeply nested. */
function textsOf(value: unknown, field = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((each) => textsOf(each, field));
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).flatMap(([key, each]) => textsOf(each, telling.has(field) ? field : key));
  }
  // Shorter texts occur in others by chance.
  return typeof value === 'string' && telling.has(field) && value.length >= 4 ? [value] : [];
}

function textsOfSandbox({ control }: Sandbox): Set<string> {
  const lists = resourceNames.flatMap((name) => control.dump(name));
  const related = control
    .dump('users')
    .flatMap(({ id }) => includes.users.map((kind) => control.related('users', Number(id), kind)));
  return new Set([...textsOf(lists), ...textsOf(related)]);
}

/** A mirror of everything, with history, events and unknown fields, and its folder. */
async function mirrorOfEverything() {
  const sandbox = await startSandbox();
  const emails = placePerson(sandbox);
  const folder = temporaryFolder();
  const file = join(folder, 'mirror.db');
  const texts = textsOfSandbox(sandbox);
  sandbox.control.update('users', 9, {
    nickname: 'Quillinda',
    last_ip: '203.0.113.77',
    plan: 'gold',
    telephone: 4915112345678,
  });
  await sync(sandbox, file, { includes });
  changePerson(sandbox, emails);
  for (const id of [11, 12])
    sandbox.control.update('users', id, { first_name: `Changed${id}`, email: `c${id}@changed.example` });
  sandbox.control.remove('users', 13);
  await sync(sandbox, file, { includes });
  for (const text of textsOfSandbox(sandbox)) texts.add(text);
  for (const text of [...personalTexts, 'Quillinda', 'nickname', '203.0.113.77', 'telephone', '4915112345678'])
    texts.add(text);
  // A time alone is not personal, so it stays.
  texts.delete('2026-03-11T10:19:59.123456Z');
  return { sandbox, folder, file, texts: [...texts] };
}

function snapshot(folder: string, copy: string, ...args: string[]) {
  return runCli(['snapshot', copy, '--anonymise', '--json', '--db', 'mirror.db', ...args], { folder });
}

describe('an anonymised snapshot', () => {
  // proves: anonymised
  test(
    'contains no byte of a name, address or message, and all data that is not personal',
    { timeout: 60_000 },
    async () => {
      const { sandbox, folder, file, texts } = await mirrorOfEverything();
      expect(texts.length).toBeGreaterThan(400);
      // The texts are in the mirror, so finding none in the copy means something.
      expect(textsIn(file, texts).length).toBeGreaterThan(texts.length * 0.9);
      const before = readFileSync(file);
      const { code, stdout, stderr } = await snapshot(folder, 'copy.db');
      expect(readFileSync(file).equals(before)).toBe(true);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const copy = join(folder, 'copy.db');
      expect(textsIn(copy, [...texts, sandbox.url, new URL(sandbox.url).host])).toEqual([]);
      expect(JSON.parse(stdout)).toMatchObject({ file: copy, anonymised: true, resources: { users: { rows: 59 } } });

      const same = (sql: string) => expect(rowsOf(copy, sql)).toEqual(rowsOf(file, sql));
      const times = 'created_at, updated_at, _first_seen_at, _changed_at';
      same(`SELECT id, status, balance, is_subscribed, language, email_verified_at, ${times} FROM users ORDER BY id`);
      same(`SELECT id, discount_type, discount_amount, currency, allowed_uses, expires_at FROM coupons ORDER BY id`);
      same(`SELECT id, "order", name, description, status, ${times} FROM packages ORDER BY id`);
      same(`SELECT id, user_id, is_sent, scheduled_at, ${times} FROM emails ORDER BY id`);
      same('SELECT id, change, valid_from, valid_to FROM users_history ORDER BY rowid');
      same('SELECT user_id, status, amount, currency, order_id, created_at FROM user_payments_flat ORDER BY 1, 6, 5');
      same(
        'SELECT user_id, amount, result, balance_before_transaction FROM user_balance_transactions_flat ORDER BY 1, 2, 4',
      );
      same('SELECT resource, windows, unsettled, fresh_as_of FROM mirror_freshness ORDER BY resource');
      // Records still belong together by id.
      same('SELECT e.id AS e, u.id AS u, u.balance FROM emails e JOIN users u ON u.id = e.user_id ORDER BY 1');
      same(
        'SELECT p.user_id, count(*) AS n FROM user_payments_flat p JOIN users u ON u.id = p.user_id GROUP BY 1 ORDER BY 1',
      );
      same(
        "SELECT id, record ->> 'status' AS status, record ->> 'balance' AS balance FROM users_history ORDER BY rowid",
      );
      // Everything else is null: unknown fields and personal ones.
      expect(
        rowsOf(copy, 'SELECT username, email, first_name, last_name, avatar, data, _extra FROM users WHERE id = 9'),
      ).toEqual([
        { username: null, email: null, first_name: null, last_name: null, avatar: null, data: null, _extra: null },
      ]);
      expect(rowsOf(copy, 'SELECT count(subject) + count(content) + count(receiver) AS n FROM emails')).toEqual([
        { n: 0 },
      ]);
    },
  );

  test('keeps a value only if it looks like its field', async () => {
    const folder = temporaryFolder();
    const database = openMirrorFile(join(folder, 'mirror.db'));
    const row = { _first_seen_at: '2026-03-11T10:00:00.000000Z', _changed_at: '2026-03-11T10:00:00.000000Z' };
    insertRows(database, 'users', [
      {
        ...row,
        id: 1n,
        status: 'active',
        balance: 12.5,
        created_at: '2026-03-11T10:00:00.000000Z',
        visibility: 'Anna is away',
      },
      { ...row, id: 2n, status: 'a b', language: 'x'.repeat(41), created_at: 'the day of Anna' },
    ]);
    database.close();
    expect((await snapshot(folder, 'copy.db')).code).toBe(0);
    const columns = 'id, status, balance, created_at, visibility, language';
    expect(rowsOf(join(folder, 'copy.db'), `SELECT ${columns} FROM users ORDER BY id`)).toEqual([
      { id: 1, status: 'active', balance: 12.5, created_at: row._changed_at, visibility: null, language: null },
      { id: 2, status: null, balance: null, created_at: null, visibility: null, language: null },
    ]);
  });

  test('cannot be synced into, and says so', async () => {
    const sandbox = await startSandbox({ users: 5, emails: 5 });
    const folder = temporaryFolder();
    await sync(sandbox, join(folder, 'mirror.db'));
    await snapshot(folder, 'copy.db');
    const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
    const { code, stderr } = await runCli(['sync', '--quiet', '--db', 'copy.db'], { folder, environment });
    expect(code).toBe(2);
    expect(stderr).toMatch(/is an anonymised copy; nothing is written to it/);
  });
});

test('an anonymised snapshot has every row of the mirror, except for tables that are left out on purpose', async () => {
  const { folder, file } = await mirrorOfEverything();
  await snapshot(folder, 'copy.db');
  const tables = rowsOf<{ name: string }>(
    file,
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
  );
  const count = (of: string, name: string) => rowsOf<{ n: number }>(of, `SELECT count(*) AS n FROM "${name}"`)[0]?.n;
  // Hashes of responses, events, forgotten and deleted records, locks, and tables that the new file has of its own.
  const apart = ['pages', 'events', 'suppressions', 'locks', 'capabilities', 'epochs', 'deletions'].map(
    (name) => `mirror_${name}`,
  );
  const copied = tables.map(({ name }) => name).filter((name) => !apart.includes(name));
  const counts = (of: string) => copied.map((name) => [name, count(of, name)]);
  expect(counts(join(folder, 'copy.db'))).toEqual(counts(file));
});

test('an anonymised snapshot can be made of a mirror that is in use, and SQLite can open it', async () => {
  const sandbox = await startSandbox({ users: 5, emails: 5 });
  const folder = temporaryFolder();
  const file = join(folder, 'mirror.db');
  await sync(sandbox, file);
  const open = new SqliteDatabase(file);
  open.exec('BEGIN IMMEDIATE');
  expect((await snapshot(folder, 'copy.db')).code).toBe(0);
  open.close();
  expect(rowsOf(join(folder, 'copy.db'), 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
});

/** Functions, operators and joins that came after SQLite 3.37, which README.md promises: https://sqlite.org/changes.html */
const newer =
  /->|\b(?:unixepoch|format|concat|concat_ws|octet_length|timediff|string_agg|json_pretty|json_error_position|jsonb\w*|unistr\w*)\s*\(|\b(?:RIGHT|FULL)\s+(?:OUTER\s+)?JOIN\b/i;

test('the mirror, a snapshot and an anonymised copy have nothing that SQLite 3.37 cannot read', async () => {
  expect(['a ->> b', 'jsonb_each(x)', 'a FULL JOIN b', 'json_each(x)'].map((sql) => newer.test(sql))).toEqual([
    true,
    true,
    true,
    false,
  ]);
  const { folder, file } = await mirrorOfEverything();
  await snapshot(folder, 'copy.db');
  await runCli(['snapshot', 'whole.db', '--db', file], { folder });
  for (const each of [file, join(folder, 'copy.db'), join(folder, 'whole.db')]) {
    const found = rowsOf<{ sql: string }>(each, 'SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL');
    expect(found.length).toBeGreaterThan(50);
    expect(found.filter(({ sql }) => newer.test(sql))).toEqual([]);
  }
});
