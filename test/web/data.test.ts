import SqliteDatabase, { type Database } from 'better-sqlite3';
import { createServer } from 'node:http';
import { describe, expect, test } from 'vitest';
import { openJournal } from '../support/journal-file.ts';
import type { Role } from '../../src/model/actor.ts';
import { dayMs } from '../../src/model/time.ts';
import { columnsOf } from '../support/history.ts';
import { sync } from '../support/mirror.ts';
import { startConsole } from '../support/console.ts';
import { listening } from '../support/listening.ts';
import { operator } from '../support/people.ts';

const voids = new Set('meta link input br hr img col wbr'.split(' '));

/** The faults of the markup: tags never closed or closed twice, fields without a label, tables without a head. */
function faultsIn(markup: string): string[] {
  const faults: string[] = [];
  const open: string[] = [];
  for (const [tag, end, name = ''] of markup.matchAll(/<(\/?)([a-z][a-z0-9]*)\b(?:"[^"]*"|[^">])*>/g)) {
    if (end === '/') {
      const last = open.pop();
      if (last !== name) faults.push(`${last ?? 'nothing'} is open where ${name} ends`);
    } else if (!voids.has(name)) open.push(name);
    const isField = ['select', 'textarea'].includes(name) || (name === 'input' && !tag.includes('type="hidden"'));
    if (end === '' && isField && !open.includes('label')) faults.push(`${tag} has no label`);
    if (end === '' && name === 'td' && !open.includes('tbody')) faults.push('a cell outside a body');
  }
  const tables = markup.match(/<table\b/g)?.length ?? 0;
  if ((markup.match(/<thead>/g)?.length ?? 0) !== tables) faults.push('a table has no head');
  return [...faults, ...open.map((name) => `${name} is never closed`)];
}

/** Changes the file without the program. */
function tamper(file: string, change: (database: Database) => void): void {
  const database = new SqliteDatabase(file);
  try {
    change(database);
  } finally {
    database.close();
  }
}

/** The rows of the table with this caption, each as the text of its cells. */
function cellsIn(markup: string, caption: string): string[][] {
  const [, table = ''] = markup.split(`aria-label="${caption}"`);
  const [body = ''] = table.split('</table>');
  return [...body.matchAll(/<tr>(.*?)<\/tr>/gs)]
    .slice(1)
    .map(([, row = '']) =>
      [...row.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, cell = '']) => cell.replaceAll(/<[^>]*>/g, '').trim()),
    );
}

function linkIn(markup: string, words: string): string | undefined {
  return [...markup.matchAll(/<a[^>]*href="([^"]*)"[^>]*>([^<]*)<\/a>/g)]
    .find(([, , text = '']) => text.trim() === words)?.[1]
    ?.replaceAll('&amp;', '&');
}

/** A console and a signed-in browser. @param before changes the server and the mirror first */
async function opened(
  roles: readonly Role[] = ['analyst'],
  before: (started: Awaited<ReturnType<typeof startConsole>>) => void | Promise<void> = () => {},
) {
  const started = await startConsole();
  await before(started);
  const { get, post } = await started.browser('anna', roles);
  const text = async (path: string): Promise<string> => (await get(path)).text();
  return { ...started, get, post, text };
}

/** Adds so many users that the console does not count them while the page waits. */
function manyUsers(database: Database, count: number): void {
  const columns = columnsOf('users')
    .filter((name) => name !== 'id' && name !== 'balance')
    .map((name) => `"${name}"`)
    .join(', ');
  database
    .prepare(
      `WITH RECURSIVE numbers (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM numbers WHERE value < ?)
       INSERT INTO users (id, balance, ${columns})
       SELECT 100000 + value, value % 10, ${columns} FROM numbers JOIN (SELECT * FROM users LIMIT 1)`,
    )
    .run(count);
}

describe('the list of tables', () => {
  test("shows each table and view of the file with its row count and the dictionary's description", async () => {
    const { text } = await opened();
    const page = await text('/data');
    const tables = cellsIn(page, 'Tables');
    expect(tables.find(([name]) => name === 'users')).toEqual([
      'users',
      '60',
      expect.stringContaining('People with an account'),
    ]);
    expect(cellsIn(page, 'Views').map(([name]) => name)).toContain('emails_by_user');
    expect(faultsIn(page)).toEqual([]);
  });
});

describe('a table', () => {
  test('is filtered, sorted and cut to columns by the query of its address alone', async () => {
    const { text, sandbox } = await opened();
    const page = await text(
      '/data/users?field=balance&is=more&value=0&field=status&is=is&value=active&sort=balance&order=desc&show=id&show=balance',
    );
    const expected = sandbox.control
      .dump('users')
      .filter(({ balance, status }) => Number(balance) > 0 && status === 'active')
      .map(({ id, balance }) => [Number(id), Number(balance)] as const)
      .sort(([a, x], [b, y]) => y - x || b - a)
      .map(([id, balance]) => [String(id), balance.toFixed(2)]);
    expect(expected.length).toBeGreaterThan(3);
    expect(cellsIn(page, 'Rows of users')).toEqual(expected.slice(0, 50));
    expect(faultsIn(page)).toEqual([]);
    expect(await text('/data/users?field=id&is=is&value=1&show=id')).toContain('1 row on this page');
  });

  test.for([
    ['users', '?show=id'],
    ['users', '?sort=balance&show=id&show=balance'],
    ['users', '?sort=email_verified_at&order=desc&show=id'],
    ['mirror_pages', '?show=resource&show=from_day&show=page'],
    ['emails_by_user', '?show=user_id'],
  ] as const)('of %s%s can be paged to its end and back, with each row once', async ([relation, query]) => {
    const { text, file } = await opened();
    tamper(file, (database) => {
      manyUsers(database, 130);
      database.exec('UPDATE users SET email_verified_at = NULL WHERE id % 3 = 0');
    });
    const pages: string[][][] = [];
    let address: string | undefined = `/data/${relation}${query}`;
    let last = '';
    for (; address !== undefined; address = linkIn(last, 'Next page')) {
      last = await text(address);
      pages.push(cellsIn(last, `Rows of ${relation}`));
      expect(pages.length).toBeLessThan(10);
    }
    const seen = pages.flat().map((row) => row.join(' '));
    expect(new Set(seen).size).toBe(seen.length);
    const count = new SqliteDatabase(file, { readonly: true });
    expect(seen.length).toBe(count.prepare(`SELECT count(*) FROM ${relation}`).pluck().get());
    count.close();
    const back: string[][][] = [pages.at(-1) ?? []];
    for (let at = linkIn(last, 'Previous page'); at !== undefined; at = linkIn(last, 'Previous page')) {
      last = await text(at);
      const rows = cellsIn(last, `Rows of ${relation}`);
      if (rows.length === 0) break;
      back.unshift(rows);
    }
    expect(back.flat()).toEqual(pages.flat());
  });

  test(
    'with many rows reads what no index covers in another process, and counts common values in the background',
    { tags: 'full' },
    async () => {
      const { text, file, sandbox } = await opened();
      tamper(file, (database) => manyUsers(database, 3_000));
      const page = await text('/data/users?field=username&is=contains&value=%25&sort=username');
      expect(page).toContain('No rows match.');
      const found = await text('/data/users?field=balance&is=at-least&value=9&sort=username&show=balance');
      expect(cellsIn(found, 'Rows of users')).toHaveLength(50);
      const poor = sandbox.control.dump('users').filter(({ balance }) => Number(balance) === 0).length;
      let counted = '';
      await expect
        .poll(async () => (counted = await text('/data/users?beside=balance')), { timeout: 30_000 })
        .not.toContain('Counting…');
      expect(cellsIn(counted, 'Common values of balance')[0]).toEqual(['0.00', String(300 + poor)]);
    },
  );

  test('shows what is wrong with an unknown column or comparison, or an invalid value or position', async () => {
    const { get, text } = await opened();
    for (const [query, words] of [
      ['field=nme&is=is&value=1', 'has no column'],
      ['field=id&is=like&value=1', 'no comparison'],
      ['field=id&is=is&value=one', 'holds whole numbers'],
      ['field=balance&is=more&value=much', 'holds numbers'],
      ['field=created_at&is=more&value=yesterday', 'holds times'],
      ['field=created_at&is=at-most&value=23.11.2026', 'holds times'],
      ['after=nonsense', 'where the page begins'],
      [`field=email&is=is&value=${'x'.repeat(1_001)}`, 'longer than'],
    ]) {
      expect({ query, status: (await get(`/data/users?${query}`)).status }).toEqual({ query, status: 422 });
      expect(await text(`/data/users?${query}`)).toContain(words);
    }
    expect((await get('/data/nothing')).status).toBe(404);
  });

  test('keeps the form of a refused query so that it can be corrected there', async () => {
    const { text } = await opened();
    const refused = await text('/data/users?field=balance&is=more&value=1%2C000&sort=username');
    expect(refused).toContain('balance holds numbers');
    expect(refused).toContain('name="value" value="1,000"');
    expect(refused).toContain('<option value="balance" selected>');
    expect(refused).not.toContain('on this page');
    expect(faultsIn(refused)).toEqual([]);
  });

  test('treats a day, a month or a minute as its whole span in every comparison of times', async () => {
    const { text, file } = await opened();
    const times = ['2026-03-10T23:59:59.999999Z', '2026-03-11T00:00:00.000000Z', '2026-03-11T14:30:59.000000Z'];
    const later = ['2026-03-12T00:00:00.000000Z', '2026-04-01T00:00:00.000000Z'];
    tamper(file, (database) => {
      const set = database.prepare('UPDATE users SET last_login_at = ? WHERE id = ?');
      database.exec('UPDATE users SET last_login_at = NULL');
      for (const [at, time] of [...times, ...later].entries()) set.run(time, at + 1);
    });
    const found = async (is: string, value: string): Promise<string> => {
      const query = new URLSearchParams({ field: 'last_login_at', is, value, show: 'id', sort: 'id' });
      return cellsIn(await text(`/data/users?${query.toString()}`), 'Rows of users')
        .map(([id]) => id)
        .join('');
    };
    expect(await found('is', '2026-03-11')).toBe('23');
    expect(await found('more', '2026-03-11')).toBe('45');
    expect(await found('at-least', '2026-03-11')).toBe('2345');
    expect(await found('less', '2026-03-11')).toBe('1');
    expect(await found('at-most', '2026-03-11')).toBe('123');
    expect(await found('at-most', '2026-03')).toBe('1234');
    expect(await found('more', '2026-03-11 14:30')).toBe('45');
    expect(await found('is', '2026-03-11T14:30:59Z')).toBe('3');
    expect(await found('at-most', times[1] ?? '')).toBe('12');
  });

  test('never interprets values as SQL or as wildcards', async () => {
    const { text, file } = await opened();
    const hostile = `' OR 1=1; DROP TABLE users; --`;
    const query = (value: string, is: string): string =>
      `/data/users?${new URLSearchParams({ field: 'username', is, value, show: 'username' }).toString()}`;
    expect(await text(query(hostile, 'is'))).toContain('No rows match.');
    expect(await text(query('%', 'contains'))).toContain('No rows match.');
    tamper(file, (database) => database.prepare('UPDATE users SET username = ? WHERE id = 1').run(hostile));
    expect(cellsIn(await text(query(hostile, 'is')), 'Rows of users')).toHaveLength(1);
  });

  test('shows markup, formulas and direction marks as text, and shortens 10,000 characters', async () => {
    const { text, file } = await opened();
    const long = 'x'.repeat(10_000);
    tamper(file, (database) => {
      const set = database.prepare('UPDATE users SET username = ? WHERE id = ?');
      [`<script>alert(1)</script>"><img src=x>`, '=cmd()', '\u202Egnp.exe\u202C', long].forEach((name, at) =>
        set.run(name, at + 1),
      );
    });
    const page = await text('/data/users');
    expect(page).not.toMatch(/<script>alert|<img|\u202E/);
    expect(page).toContain('<bdi>&lt;script&gt;');
    expect(page).toContain('<bdi>=cmd()</bdi>');
    expect(page).not.toContain('x'.repeat(200));
    expect(faultsIn(page)).toEqual([]);
    expect(await text('/data/users/4')).toContain(long);
  });
});

describe('a record', () => {
  test('is shown with its dictionary text, history, state at a day, emails and batch rows', async () => {
    let before: Readonly<Record<string, unknown>> | undefined;
    const { text, sandbox } = await opened(['maker'], async (started) => {
      const { control } = started.sandbox;
      before = control.dump('users').find(({ id }) => id === 5);
      control.advanceClock(2 * dayMs);
      control.update('users', 5, { username: 'renamed' });
      await sync(started.sandbox, started.file);
    });
    const now = await text('/data/users/5');
    expect(cellsIn(now, 'Fields').find(([name]) => name === 'username')).toEqual([
      'username',
      'renamed',
      'name of the account (personal)',
    ]);
    expect(
      cellsIn(now, 'History, the newest first')
        .find(([, , field]) => field === 'username')
        ?.slice(1),
    ).toEqual(['changed', 'username', before?.['username'], 'renamed']);
    const emails = sandbox.control.dump('emails').filter(({ user_id: user }) => user === 5);
    expect(cellsIn(now, 'Related records: emails')).toHaveLength(emails.length);
    expect(now).toContain('No batch has a row for this user.');
    const then = await text('/data/users/5?at=2026-03-12');
    expect(cellsIn(then, 'Fields').find(([name]) => name === 'username')?.[1]).toBe(before?.['username']);
    expect(await text('/data/users/5?at=2020-01-01')).toContain('the history of users begins at');
    for (const page of [now, then]) expect(faultsIn(page)).toEqual([]);
  });

  test('that was deleted on the server is still shown by its history; one that never existed is a 404', async () => {
    const { text, get } = await opened(['analyst'], async ({ sandbox, file }) => {
      sandbox.control.remove('coupons', 3);
      sandbox.control.advanceClock(dayMs);
      await sync(sandbox, file);
    });
    expect(await text('/data/coupons/3')).toContain('The server no longer has this record.');
    for (const path of ['/data/users/999999', '/data/users/0', '/data/users/x', '/data/mirror_runs/1']) {
      expect({ path, status: (await get(path)).status }).toEqual({ path, status: 404 });
    }
  });

  test('is read from the server on demand with one request, and differences are named', { tags: 'full' }, async () => {
    const { post, sandbox } = await opened();
    sandbox.control.update('users', 5, { username: 'renamed' });
    const page = await (await post('/data/users/5/live')).text();
    const row = cellsIn(page, 'The record on the server and in the mirror').find(([name]) => name === 'username');
    expect([row?.[1], row?.[3]]).toEqual(['renamed', expect.stringContaining('differs')]);
    expect(faultsIn(page)).toEqual([]);
    expect(await (await post('/data/coupons/3/live')).text()).not.toContain('differs');
    expect(await (await post('/data/users/999999/live')).text()).toContain('The server has no such user.');
    sandbox.control.setBehaviour({ cache_seconds: 3_000, cache_obeys: false });
    expect((await post('/data/users/5/live')).status).toBe(200);
    sandbox.control.advanceClock(60_000);
    expect(await (await post('/data/users/5/live')).text()).toContain('a response that was 60 s old');
  });

  test("is called absent only if the server says so, and the server's words cannot change the text direction", async () => {
    const liar = createServer(({ url = '' }, response) => {
      const isList = url.includes('?');
      response.writeHead(url.includes('/users/4') ? 422 : 200, { 'content-type': 'application/json' });
      if (url.includes('/users/4')) response.end(JSON.stringify({ message: 'turned \u202Eround<b>' }));
      else if (!isList) response.end(JSON.stringify({ id: 6, username: 'somebody else' }));
      else response.end(JSON.stringify({ current_page: 1, last_page: 1, per_page: 15, total: 9, data: [{ id: 6 }] }));
    });
    const { browser } = await startConsole({ environment: { ADMIN_MIRROR_BASE_URL: await listening(liar) } });
    const { post } = await browser('anna', ['analyst']);
    for (const path of ['/data/users/5/live', '/data/coupons/5/live']) {
      const shown = await (await post(path)).text();
      expect(shown).toMatch(/The server&#39;s response does not show this (user|coupon)/);
      expect(shown).not.toMatch(/has no such|somebody else/);
    }
    const refused = await (await post('/data/users/4/live')).text();
    expect(refused).toContain('turned \\u202eround&lt;b&gt;');
    expect(refused).not.toContain('\u202E');
  });

  test('of a person leaves a step in the journal that names viewer and user', async () => {
    const { text, post, settings } = await opened();
    await text('/data/users/5');
    await text('/data/emails?field=user_id&is=is&value=6');
    await post('/data/users/7/live');
    await text('/data/packages/1');
    const journal = await openJournal(settings.store.journal, operator);
    try {
      const steps = await Array.fromAsync(journal.audit({}));
      expect(
        steps.filter(({ kind }) => kind === 'viewed').map(({ user, action, actor }) => [actor.account, user, action]),
      ).toEqual([
        ['anna', 5, 'record'],
        ['anna', 6, 'emails'],
        ['anna', 7, 'record'],
      ]);
      expect((await journal.verifyChain()).status).toBe('whole');
    } finally {
      await journal.close();
    }
  });
});

describe('a download', () => {
  test.for(['csv', 'tsv', 'jsonl', 'json', 'xlsx', 'parquet'] as const)(
    'as %s holds the rows that match the filter',
    async (format) => {
      const { get, sandbox } = await opened();
      const response = await get(`/data/users/download?format=${format}&field=balance&is=more&value=0&show=id`);
      expect(response.status).toBe(200);
      expect(response.headers.get('content-disposition')).toContain(`users-2026-03-11.${format}`);
      const bytes = Buffer.from(await response.arrayBuffer());
      const ids = sandbox.control.dump('users').flatMap(({ id, balance }) => (Number(balance) > 0 ? [Number(id)] : []));
      const lines = bytes.toString().replace('\uFEFF', '').trim().split(/\r?\n/);
      const found = {
        csv: () => lines.slice(1).map(Number),
        tsv: () => lines.slice(1).map(Number),
        json: () => (JSON.parse(bytes.toString()) as { id: number }[]).map(({ id }) => id),
        jsonl: () => lines.map((line) => (JSON.parse(line) as { id: number }).id),
        // The content of these files is covered by their own tests.
        xlsx: () => (lines[0]?.startsWith('PK') === true ? ids : []),
        parquet: () => (lines[0]?.startsWith('PAR1') === true ? ids : []),
      };
      expect(found[format]()).toEqual(ids);
    },
  );

  test('of an unknown format or column is refused', { tags: 'full' }, async () => {
    const { get } = await opened();
    expect((await get('/data/users/download?format=exe')).status).toBe(422);
    expect((await get('/data/users/download?format=csv&show=nme')).status).toBe(422);
  });
});

describe('a reader', () => {
  test(
    'sees personal fields masked in tables, records, histories, related records and downloads',
    { tags: 'full' },
    async () => {
      const { text, get, post, sandbox } = await opened(['reader'], async (started) => {
        started.sandbox.control.update('users', 5, { username: 'renamed-person' });
        started.sandbox.control.advanceClock(dayMs);
        await sync(started.sandbox, started.file);
      });
      const users = sandbox.control.dump('users');
      const secrets = users.flatMap(({ email, username }) => [String(email), String(username)]);
      const subjects = sandbox.control.dump('emails').map(({ subject }) => String(subject));
      const paths = [
        '/data/users',
        '/data/users?show=id&show=email&show=username&show=first_name&show=_extra&show=data',
        '/data/users/5',
        '/data/users/5?at=2026-03-12',
        '/data/users_history',
        '/data/users_live_age',
        '/data/emails',
        '/data/emails_by_user',
        '/data/emails_by_domain',
        ...['csv', 'jsonl', 'json', 'tsv'].map(
          (format) => `/data/users/download?format=${format}&show=id&show=email&show=username`,
        ),
        '/data/users_live_age/download?format=csv',
        '/data/emails/download?format=csv&show=id&show=subject&show=receiver&show=content',
      ];
      for (const path of paths) {
        const page = await text(path);
        const told = [...secrets, ...subjects].filter((each) => each.length > 3 && page.includes(each));
        expect({ path, told }).toEqual({ path, told: [] });
      }
      expect(await text('/data/users?show=id&show=email')).toContain('masked');
      expect(cellsIn(await text('/data/users?show=id&show=status'), 'Rows of users')[0]?.[1]).toBe(
        users[0]?.['status'],
      );
      // A filter would reveal values by what it finds.
      for (const query of ['field=email&is=begins&value=a', 'sort=username']) {
        expect((await get(`/data/users?${query}`)).status).toBe(422);
        expect((await get(`/data/users/download?format=csv&${query}`)).status).toBe(422);
      }
      // So would a page after a chosen value.
      const beyond = Buffer.from(JSON.stringify(['m', 0, 0, 0])).toString('base64url');
      expect((await get(`/data/emails_by_domain?after=${beyond}`)).status).toBe(422);
      expect(await text('/data/users?beside=email')).not.toContain('Common values of email');
      expect((await post('/data/users/5/live')).status).toBe(403);
    },
  );
});

test('a page of a table is smaller than 60 kB', async () => {
  const { text } = await opened();
  expect((await text('/data/users')).length).toBeLessThan(60_000);
});
