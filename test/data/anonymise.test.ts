import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { anonymiser } from '../../src/data/anonymise.ts';
import { resourceNames, resourceOf } from '../../src/model/resources.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { leftOut } from '../../src/data/anonymous-tables.ts';
import { runCli } from '../support/cli.ts';
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

/** Fields whose texts tell of people, wherever they stand. */
const telling = new Set(
  (
    'username email first_name last_name avatar sender receiver subject content button attachment street city company_name ' +
    'ip_address user_agent message reason transaction_id external_id domain code notes'
  ).split(' '),
);

/** Every such text of the records, however deep it stands. */
function textsOf(value: unknown, field = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((each) => textsOf(each, field));
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).flatMap(([key, each]) => textsOf(each, telling.has(field) ? field : key));
  }
  // Shorter ones stand in other words by chance.
  return typeof value === 'string' && telling.has(field) && value.length >= 4 ? [value] : [];
}

function textsOfSandbox({ control }: Sandbox): Set<string> {
  const lists = resourceNames.flatMap((name) => control.dump(name));
  const related = control
    .dump('users')
    .flatMap(({ id }) => includes.users.map((kind) => control.related('users', Number(id), kind)));
  return new Set([...textsOf(lists), ...textsOf(related)]);
}

/** A mirror of everything, with a history, events and unknown fields, and the folder that it lies in. */
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
  // A time alone tells of nobody, and stays.
  texts.delete('2026-03-11T10:19:59.123456Z');
  return { sandbox, folder, file, texts: [...texts] };
}

function snapshot(folder: string, copy: string, ...args: string[]) {
  return runCli(['snapshot', copy, '--anonymise', '--json', '--db', 'mirror.db', ...args], { folder });
}

describe('an anonymised snapshot', () => {
  test(
    'holds no byte of a name, address or message, and everything that is nobody’s',
    { timeout: 60_000 },
    async () => {
      const { sandbox, folder, file, texts } = await mirrorOfEverything();
      expect(texts.length).toBeGreaterThan(400);
      // What is looked for is there to be found.
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
      // Who is the same stays the same, in every table.
      same('SELECT u.id AS u, e.id AS e FROM users u JOIN emails e ON e.receiver = u.email ORDER BY 1, 2');
      same('SELECT a.id AS a, b.id AS b FROM users a JOIN users b ON a.last_name = b.last_name ORDER BY 1, 2');
      same(
        'SELECT p.user_id, count(*) AS n FROM user_payments_flat p JOIN users u ON u.id = p.user_id GROUP BY 1 ORDER BY 1',
      );
      same(
        `SELECT h.id, e.id AS e FROM users_history h JOIN emails e ON e.receiver = h.record ->> 'email' ORDER BY 1, 2`,
      );
      same('SELECT e.email_id FROM email_user_flat e JOIN users u ON u.id = e.id AND u.email = e.email ORDER BY 1');
      expect(rowsOf(copy, `SELECT _extra FROM users WHERE id = 9`)).toEqual([
        {
          _extra: expect.stringMatching(
            /^\{"field_[a-z]{10}":"[a-z]{15}","last_ip":"2001:db8:[\da-f:]+","field_[a-z]{10}":"[a-z]{15}","field_[a-z]{10}":\d+\}$/,
          ),
        },
      ]);
    },
  );

  test(
    'has pseudonyms that nobody can make again, or with a key those of the same key',
    { timeout: 60_000 },
    async () => {
      const sandbox = await startSandbox({ users: 20, emails: 5 });
      const folder = temporaryFolder();
      await sync(sandbox, join(folder, 'mirror.db'));
      writeFileSync(join(folder, 'key'), 'a key of more than sixteen bytes\n');
      writeFileSync(join(folder, 'short'), 'too short');
      const emails = async (copy: string, ...args: string[]) => {
        expect((await snapshot(folder, copy, ...args)).code).toBe(0);
        return rowsOf(join(folder, copy), 'SELECT email FROM users ORDER BY id');
      };
      const [one, two] = [await emails('one.db'), await emails('two.db')];
      expect(one).not.toEqual(two);
      const keyed = await emails('three.db', '--pseudonym-key', 'key', '--keep-fields', 'username,avatar');
      expect(await emails('three.db', '--pseudonym-key', 'key')).toEqual(keyed);
      const short = await snapshot(folder, 'four.db', '--pseudonym-key', 'short');
      expect(short.code).toBe(2);
      expect(short.stderr).toMatch(/has 9 bytes; it needs 16 or more/);
      expect(readFileSync(join(folder, 'one.db')).includes('too short')).toBe(false);
    },
  );

  test('cannot be synced into, and says so', async () => {
    const sandbox = await startSandbox({ users: 5, emails: 5 });
    const folder = temporaryFolder();
    await sync(sandbox, join(folder, 'mirror.db'));
    await snapshot(folder, 'copy.db');
    const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
    const { code, stderr } = await runCli(['sync', '--quiet', '--db', 'copy.db'], { folder, environment });
    expect(code).toBe(2);
    expect(stderr).toMatch(/is a copy with pseudonyms in it; nothing is written to it/);
  });
});

test('every table of a mirror is copied with pseudonyms or left out on purpose', async () => {
  const { folder, file } = await mirrorOfEverything();
  await snapshot(folder, 'copy.db');
  const tables = rowsOf<{ name: string }>(
    file,
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
  );
  const count = (of: string, name: string) => rowsOf<{ n: number }>(of, `SELECT count(*) AS n FROM "${name}"`)[0]?.n;
  const apart = [...leftOut, 'mirror_capabilities'] as readonly string[];
  const copied = tables.map(({ name }) => name).filter((name) => !apart.includes(name));
  const counts = (of: string) => copied.map((name) => [name, count(of, name)]);
  expect(counts(join(folder, 'copy.db'))).toEqual(counts(file));
});

describe('what becomes of a value', () => {
  const { cell, json, mask } = anonymiser(Buffer.from('a secret of some length'));

  test.each([
    ['status', 'active'],
    ['status', 5n],
    ['balance', 12.5],
    ['balance', '12.50'],
    ['id', 9_007_199_254_740_993n],
    ['id', '0b5c8a52-7b1e-4f1e-a3d8-1c9a4c2d7e10'],
    ['created_at', '2026-03-11T10:00:00.000000Z'],
    ['due_date', '2026-03-11'],
    ['email', ''],
    ['email', null],
    ['unheard_of', 12n],
  ] as const)('%s stays where it is %s', (field, value) => {
    expect(cell(field, value, 'people')).toBe(value);
  });

  test.each([
    ['status', 'Anna is away', /^[b-v]{15}$/],
    ['balance', 'much', /^[b-v]{15}$/],
    ['created_at', 'the day of Anna', /^[b-v]{15}$/],
    ['id', 'c0ffee', /^[b-v]{15}$/],
    ['first_name', 'Anna', /^[B-V][b-v]{14}$/],
    ['email', 'Anna@One.example', /^[b-v]{15}@[b-v]{15}\.invalid$/],
    [
      'receiver',
      'Anna <anna@one.example>, ben@one.example',
      /^[B-V][b-v]{14} <[b-v]{15}@[b-v]{15}\.invalid>, [b-v]{15}@[b-v]{15}\.invalid$/,
    ],
    ['ip_address', '192.0.2.7', /^2001:db8:[\da-f:]+$/],
    ['avatar', 'https://cdn.example/anna.png', /^https:\/\/[b-v]{15}\.invalid\/$/],
    ['unheard_of', 'gold', /^[b-v]{15}$/],
    ['unheard_of', '1980-05-05', /^[b-v]{15}$/],
    ['name', 'Anna', /^[B-V][b-v]{14}$/],
  ] as const)('%s is replaced where it is %s', (field, value, pattern) => {
    expect(cell(field, value, 'people')).toMatch(pattern);
  });

  test('the same text has one pseudonym, however it is written and wherever it stands', () => {
    const address = cell('email', 'anna@one.example', 'people');
    expect(cell('receiver', ' ANNA@one.example', 'people')).toBe(address);
    expect(cell('receiver', 'A. <anna@one.example>', 'people')).toContain(`<${String(address)}>`);
    expect(json('{"unheard_of": {"of": ["anna@one.example"]}}', 'people')).toContain(String(address));
    expect(mask('email', 'anna@one.example')).toBe(address);
    expect(cell('email', 'anna@two.example', 'people')).not.toBe(address);
  });

  test('JSON keeps what is known to be nobody’s, with all its digits, and nothing else', () => {
    const text =
      '{"id":9007199254740993,"price":5.0,"status":"paid","gateway":{"driver":"stripe","name":"ANNA"},"anna":{"0":true,"phone":4915112345},"tel":4915112345}';
    expect(json(text, 'people')).toMatch(
      /^\{"id":9007199254740993,"price":5\.0,"status":"paid","gateway":\{"driver":"stripe","name":"[B-V][b-v]{14}"\},"field_[b-v]{10}":\{"0":true,"phone":\d+\},"field_[b-v]{10}":\d+\}$/,
    );
    expect(json(text, 'people')).not.toContain('4915112345');
    expect(json('{"name":"Starter","slug":"starter"}', 'catalogue')).toBe('{"name":"Starter","slug":"starter"}');
  });

  test('in a masked column everything is replaced but null and nothing', () => {
    expect(mask('status', 'active')).toMatch(/^[b-v]{15}$/);
    expect(mask('id', 7n)).toBe(mask('user_id', 7n));
    expect(typeof mask('id', 7n)).toBe('bigint');
    expect(mask('balance', 12.5)).not.toBe(12.5);
    expect([mask('email', null), mask('email', '')]).toEqual([null, '']);
  });

  test('no two texts share a pseudonym', () => {
    const made = new Set<unknown>();
    for (let at = 0; at < 20_000; at += 1) made.add(cell('username', `user ${at}`, 'people'));
    expect(made.size).toBe(20_000);
  });
});

test('a copy can be made of a mirror that is open elsewhere, and opened by any SQLite', async () => {
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
