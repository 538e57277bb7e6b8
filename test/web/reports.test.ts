// @module-tag full
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { describe, expect, test } from 'vitest';
import { openReaders } from '../../src/data/open.ts';
import { withReleases } from '../../src/model/releases.ts';
import { dayMs } from '../../src/model/time.ts';
import { invoke } from '../support/invoke.ts';
import { sync } from '../support/mirror.ts';
import { startConsole } from '../support/console.ts';

/** The markup with runs of blanks as single blanks. */
async function markupOf(response: Response): Promise<string> {
  return (await response.text()).replaceAll(/\s+/g, ' ');
}

async function textOf(response: Response): Promise<string> {
  return (await response.text()).replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
}

function sqlPath(sql: string, more: Record<string, string> = {}, place = '/sql'): string {
  return `${place}?${String(new URLSearchParams({ sql, ...more }))}`;
}

const endless = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n';

describe('the saved reports', () => {
  test('are listed with what they show, and each shows its form, rows and picture', async () => {
    const { browser } = await startConsole({ sandbox: { users: 300 } });
    const { get } = await browser('ann', ['analyst']);
    expect(await textOf(await get('/reports'))).toContain(
      'How many of the users that exist today signed up in each month',
    );
    const page = await markupOf(await get('/reports/signups-by-month?p.from=2026-01-01'));
    expect(page).toContain('name="p.from" value="2026-01-01"');
    expect(page).toContain('is_subscribed = 1 means subscribed');
    expect(page).toContain('alt="Sign-ups by month: signups by month"');
    const [source = ''] = /\/reports\/signups-by-month\/picture[^"]*/.exec(page) ?? [];
    const picture = await get(source.replaceAll('&amp;', '&'));
    expect(picture.headers.get('content-type')).toBe('image/svg+xml');
    expect(await picture.text()).toContain('<svg xmlns=');
  });

  test('show what is wrong with a parameter, and keep it in the form', async () => {
    const { browser } = await startConsole();
    const { get } = await browser('ann', ['analyst']);
    const refused = await get('/reports/signups-by-month?p.from=soon');
    const shown = await markupOf(refused);
    expect(refused.status).toBe(422);
    expect(shown).toContain('the parameter from of report signups-by-month is &quot;soon&quot;');
    expect(shown).toContain('name="p.from" value="soon"');
    expect((await get('/reports/none-such')).status).toBe(404);
  });

  test('can be downloaded in each format with all their rows', async () => {
    const { browser } = await startConsole({ sandbox: { users: 300 } });
    const { get } = await browser('ann', ['analyst']);
    const csv = await get('/reports/top-balances/download?format=csv');
    expect(csv.headers.get('content-disposition')).toMatch(/^attachment; filename\*=UTF-8''top-balances-[\d-]+\.csv$/);
    const lines = (await csv.text()).trim().split('\n');
    const json = await get('/reports/top-balances/download?format=json');
    expect((JSON.parse(await json.text()) as unknown[]).length).toBe(lines.length - 1);
    for (const [format, magic] of [
      ['parquet', 'PAR1'],
      ['xlsx', 'PK'],
    ] as const) {
      const bytes = Buffer.from(await (await get(`/reports/top-balances/download?format=${format}`)).arrayBuffer());
      expect(bytes.subarray(0, magic.length).toString()).toBe(magic);
    }
    expect((await get('/reports/top-balances/download?format=pdf')).status).toBe(422);
  });
});

describe('an account that may not see personal data', () => {
  test('sees saved reports masked, in downloads too, and no report that searches for a text', async () => {
    const { browser, folder } = await startConsole();
    mkdirSync(join(folder, 'config', 'reports'), { recursive: true });
    writeFileSync(
      join(folder, 'config', 'reports', 'find.sql'),
      `-- title: Find somebody\n-- description: By the email\n-- parameter: email | text | x | whose\n` +
        `-- column: users | integer | how many\n-- needs: users\nSELECT count(*) AS users FROM users WHERE email = :email\n`,
    );
    const [ann, rita] = [await browser('ann', ['analyst']), await browser('rita', ['reader'])];
    expect(await textOf(await ann.get('/reports'))).toContain('Find somebody');
    expect(await textOf(await rita.get('/reports'))).not.toContain('Find somebody');
    for (const part of ['', '/picture', '/download']) {
      expect((await rita.get(`/reports/find${part}?p.email=a@example.com`)).status).toBe(404);
    }
    const emails = parse(
      await (await ann.get(sqlPath('SELECT email FROM users', { format: 'csv' }, '/sql/download'))).text(),
    );
    const words = emails.flat().filter((each: string) => each.includes('@'));
    expect(words.length).toBeGreaterThan(3);
    for (const name of ['top-balances', 'duplicate-accounts', 'inactive-users', 'unverified-stale', 'credit-ledger']) {
      const shown = await (await rita.get(`/reports/${name}`)).text();
      const file = await (await rita.get(`/reports/${name}/download?format=csv`)).text();
      expect({ name, seen: words.filter((each) => `${shown}${file}`.includes(each)) }).toEqual({ name, seen: [] });
    }
    expect(await textOf(await rita.get('/reports/top-balances'))).toContain('(masked)');
    expect((await rita.get('/sql')).status).toBe(403);
  });
});

describe('a statement', () => {
  test('shows its first rows, how many there are, and the tables', async () => {
    const { browser } = await startConsole({ sandbox: { users: 300 } });
    const { get } = await browser('ann', ['analyst']);
    const shown = await textOf(await get(sqlPath('SELECT id FROM users ORDER BY id')));
    expect(shown).toContain('The first 200 of 300 rows. The downloads have all of them.');
    expect(shown).toContain('The users that the server has, and how many whole days ago');
    const csv = await get(sqlPath('SELECT id FROM users', { format: 'csv' }, '/sql/download'));
    expect((await csv.text()).trim().split('\n')).toHaveLength(301);
    expect(await textOf(await get(sqlPath('SELECT 1 WHERE 0')))).toContain('The result has no rows.');
  });

  test('has a picture, or the reason why it cannot be drawn', async () => {
    const { browser } = await startConsole();
    const { get } = await browser('ann', ['analyst']);
    const counts = 'SELECT status, count(*) AS users FROM users GROUP BY status';
    expect(await (await get(sqlPath(counts, { do: 'picture' }))).text()).toContain('src="/sql/picture?sql=SELECT');
    expect(await (await get(sqlPath(counts, {}, '/sql/picture'))).text()).toContain('<svg xmlns=');
    const undrawn = await get(sqlPath("SELECT 'a' AS word", { do: 'picture' }));
    expect([undrawn.status, await textOf(undrawn)]).toEqual([422, expect.stringContaining('there is nothing to draw')]);
  });

  test('writes nothing, whatever it is', async () => {
    const { browser, folder } = await startConsole();
    const { get } = await browser('ann', ['analyst']);
    for (const sql of [
      'DELETE FROM users',
      'SELECT 1; DELETE FROM users',
      'PRAGMA user_version = 9',
      `ATTACH '${folder}/other.db' AS other`,
      'WITH gone AS (SELECT 1) DELETE FROM users',
      `VACUUM INTO '${folder}/copy.db'`,
    ]) {
      expect({ sql, status: (await get(sqlPath(sql))).status }).toEqual({ sql, status: 422 });
    }
    for (const path of ['/sql/download', '/sql/picture']) {
      expect((await get(sqlPath('DELETE FROM users', {}, path))).status).toBe(422);
    }
    expect(await textOf(await get(sqlPath('SELECT count(*) > 0 AS still FROM users')))).toMatch(/still 1/);
  });

  test('shows markup and direction marks as text', async () => {
    const { browser } = await startConsole();
    const { get } = await browser('ann', ['analyst']);
    const page = await (await get(sqlPath('SELECT \'<script>x</script>\' || char(8238) AS "<b>"'))).text();
    expect(page).not.toContain('<script>x');
    expect(page).toContain('&lt;script&gt;x');
    expect(page.replaceAll(/<textarea[^]*?<\/textarea>/g, '')).not.toContain('\u202E');
  });

  test('that never ends is stopped when its browser disconnects, and does not block other pages', async () => {
    const { browser, url, close } = await startConsole();
    const ann = await browser('ann', ['analyst']);
    const gone = new AbortController();
    const waits = Array.from({ length: 4 }, async () =>
      fetch(`${url}${sqlPath(endless)}`, {
        headers: { cookie: ann.cookie },
        signal: gone.signal,
      }).catch((error: unknown) => (error as Error).name),
    );
    // There are more of these than may run at once; pages that need no reader still load.
    expect((await ann.get('/')).status).toBe(200);
    expect((await ann.get('/sql')).status).toBe(200);
    gone.abort();
    expect(await Promise.all(waits)).toEqual(['AbortError', 'AbortError', 'AbortError', 'AbortError']);
    // The slots are free again, or this would wait for minutes.
    expect(await textOf(await ann.get(sqlPath('SELECT 42 AS truth')))).toMatch(/truth 42/);
    await close();
  });

  test('is stopped at its time limit, with an error that says so', async () => {
    const { settings } = await startConsole();
    const run = { signal: new AbortController().signal, timeoutMs: 200 };
    const job = { kind: 'preview', what: { sql: endless }, rows: 10 } as const;
    await withReleases((releases) =>
      expect(openReaders(settings, releases).chunks(job, run).next()).rejects.toThrow('which is the limit'),
    );
  });

  test('is refused for readers and makers', async () => {
    const { browser } = await startConsole();
    const rita = await browser('rita', ['reader', 'maker']);
    expect((await rita.get('/sql')).status).toBe(403);
  });
});

describe('a statement that is saved', () => {
  const sql =
    '-- those who came\nSELECT status, count(*) AS users FROM users WHERE created_at >= :since GROUP BY 1 ORDER BY 1';
  const fields = {
    title: 'Who came since',
    subject: 'Customers | all',
    description: 'By status.',
    sql,
    parameter: 'since',
    'type.since': 'date',
    'default.since': '3650d',
  };

  test('is a report for everybody, with a form for its parameters, on the console and the command line, until it is removed', async () => {
    const { browser, sandbox, folder } = await startConsole({ sandbox: { users: 60 } });
    const ann = await browser('ann', ['analyst']);
    const asked = await markupOf(await ann.get(sqlPath(sql)));
    expect(asked).toContain('The form of a report asks for :since');
    expect(asked).toContain('name="default.since"');
    const saved = await ann.post('/sql', fields);
    expect(saved.headers.get('location')).toBe('/reports/who-came-since');
    expect(await textOf(await ann.get('/reports'))).toMatch(/Customers all Who came since your own By status\./);
    const rita = await browser('rita', ['reader']);
    const page = await markupOf(await rita.get('/reports/who-came-since'));
    expect(page).toContain('<input name="p.since" value="" placeholder="3650d"');
    const active = sandbox.control.dump('users').filter(({ status }) => status === 'active').length;
    expect(page.replaceAll(/<[^>]*>/g, ' ')).toMatch(new RegExp(`active +${active} `));
    expect(page).not.toContain('Remove this report');
    const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
    const { stdout } = await invoke(['export', 'report:who-came-since'], { folder, environment });
    expect(stdout).toContain(`\nactive,${active}\n`);

    const again = await ann.post('/sql', fields);
    expect(again.status).toBe(422);
    expect(await textOf(again)).toContain('there is already a report');
    expect((await rita.post('/reports/who-came-since/remove')).status).toBe(403);
    await ann.post('/reports/who-came-since/remove');
    expect((await ann.get('/reports/who-came-since')).status).toBe(404);
    const audit = await textOf(await (await browser('olga', ['operator'])).get('/audit'));
    for (const act of ['saved', 'removed']) {
      expect(audit).toMatch(new RegExp(`report ${act}: who-came-since +\\S+ \\S+ UTC +ann`));
    }
    expect((await ann.post('/reports/top-balances/remove')).status).toBe(422);
    expect((await ann.get('/reports/top-balances')).status).toBe(200);
  });

  test.each([
    [{ title: '···' }, 'the title needs a letter'],
    [{ title: 'Top balances' }, 'there is already a report'],
    [{ sql: 'DELETE FROM users' }, 'only statements that read'],
    [{ sql: 'SELECT unknown FROM users' }, 'no such column'],
    [{ 'default.since': 'soon' }, 'which is not a day'],
  ])('is refused in words, and the form keeps what was typed: %o', async (wrong, words) => {
    const { browser } = await startConsole();
    const { post } = await browser('ann', ['analyst']);
    const refused = await post('/sql', { ...fields, ...wrong });
    expect([refused.status, await textOf(refused)]).toEqual([422, expect.stringContaining(words)]);
  });
});

test('a report on tables with a history is shown as of the start of a day', async () => {
  const { browser, sandbox, file } = await startConsole({ sandbox: { users: 30 } });
  const before = sandbox.control.dump('users').length;
  sandbox.control.advanceClock(2 * dayMs);
  sandbox.control.remove('users', 3);
  await sync(sandbox, file, { mode: 'full' });
  const { get } = await browser('ann', ['analyst']);
  const usersOf = async (query: string): Promise<number> => {
    const csv = parse<Record<string, string>>(
      await (await get(`/reports/balance-distribution/download?format=csv${query}`)).text(),
      { columns: true, bom: true },
    );
    return csv.reduce((sum, row) => sum + Number(row['users']), 0);
  };
  const day = new Date(sandbox.control.now() - dayMs).toISOString().slice(0, 10);
  expect([await usersOf(''), await usersOf(`&as_of=${day}`)]).toEqual([before - 1, before]);
  expect(await markupOf(await get('/reports/unpaid'))).not.toContain('name="as_of"');
});
