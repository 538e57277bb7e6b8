import { describe, expect, test } from 'vitest';
import { dayMs, hourMs, systemClock, timestampOf, type Timestamp } from '../../src/model/time.ts';
import { runCli } from '../support/cli.ts';
import { mirrorFile } from '../support/mirror-file.ts';
import { sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

interface Answer {
  readonly since: string;
  readonly until: string;
  readonly changes: readonly {
    readonly at: string;
    readonly resource: string;
    readonly id: number;
    readonly label: string | null;
    readonly change: string;
    readonly fields: Readonly<Record<string, { readonly old: unknown; readonly new: unknown }>>;
  }[];
}

/** A server over three days: read three days ago, changed, and read again two days and one day ago. */
async function threeDays() {
  const began = Date.now() - 3 * dayMs;
  const { control, ...sandbox } = await startSandbox({ now: began, emails: 0 });
  const file = `${temporaryFolder()}/mirror.db`;
  const folder = temporaryFolder();
  const readAt = async (days: number): Promise<Timestamp> => {
    const now = began + days * dayMs + hourMs;
    control.setClock(now);
    const historyIgnore = ['last_seen_at', 'last_login_at', 'updated_at'];
    const { report } = await sync({ control, ...sandbox }, file, { clock: { now: () => now }, historyIgnore });
    expect(report.status).toBe('complete');
    return timestampOf(now);
  };
  const times = [await readAt(0)];
  const code = String(control.get('coupons', 3)?.['code']);
  const username = String(control.get('users', 5)?.['username']);
  const before = control.get('users', 5);
  control.update('users', 5, { balance: 77.25, data: { theme: 'dark' }, points: 1 });
  control.remove('coupons', 3);
  times.push(await readAt(1));
  control.update('users', 5, { balance: JSON.rawJSON('9007199254740993'), points: 2 });
  control.insert('users', { id: 900, username: 'new.comer', balance: 1 });
  control.update('users', 6, { last_seen_at: '2026-01-01T00:00:00.000000Z' });
  times.push(await readAt(2));
  const cli = (...args: string[]) => runCli([...args, '--db', file], { folder });
  const run = (...args: string[]) => cli('changes', ...args);
  const answer = async (...args: string[]) => {
    const { code: exit, stdout, stderr } = await run(...args, '--json');
    expect(stderr).toBe('');
    expect(exit).toBe(0);
    return { text: stdout, ...(JSON.parse(stdout) as Answer) };
  };
  return { times, code, username, before, folder, cli, run, answer };
}

describe('changes', () => {
  test('lists records that were added, changed and deleted, with time and fields, oldest first', async () => {
    const { times, code, username, before, answer } = await threeDays();
    const { changes, since, text } = await answer('--since', String(times[1]));
    expect(since).toBe(times[1]);
    expect(changes.map(({ at, resource, id, label, change }) => [at, resource, id, label, change])).toEqual([
      [times[1], 'users', 5, username, 'updated'],
      [times[1], 'coupons', 3, code, 'deleted'],
      [times[2], 'users', 5, username, 'updated'],
      [times[2], 'users', 900, 'new.comer', 'inserted'],
    ]);
    expect(changes[0]?.fields).toEqual({
      balance: { old: before?.['balance'], new: 77.25 },
      data: { old: before?.['data'], new: { theme: 'dark' } },
      '_extra.points': { old: null, new: 1 },
    });
    expect(changes[1]?.fields['code']).toEqual({ old: code, new: null });
    expect(changes[3]?.fields['username']).toEqual({ old: null, new: 'new.comer' });
    // Every digit, although a JavaScript number would lose some.
    expect(text).toContain('"_extra.balance":{"old":null,"new":9007199254740993}');
  });

  test('can be limited to a resource, a record and a period', async () => {
    const { times, answer } = await threeDays();
    const ids = async (...args: string[]) => (await answer(...args)).changes.map(({ resource, id }) => [resource, id]);
    expect(await ids('coupons', '--since', String(times[1]))).toEqual([['coupons', 3]]);
    expect(await ids('--since', String(times[1]), '--until', String(times[1]))).toEqual([
      ['users', 5],
      ['coupons', 3],
    ]);
    // The record's whole history, with its insertion.
    const story = (await answer('users', '--id', '5')).changes.map(({ at, change }) => [at, change]);
    expect(story).toEqual([
      [times[0], 'inserted'],
      [times[1], 'updated'],
      [times[2], 'updated'],
    ]);
    expect(await ids()).toEqual([
      ['users', 5],
      ['users', 900],
    ]);
    expect(await ids('--since', '49h', '--until', '2d')).toEqual([]);
    expect((await answer('packages', '--since', String(times[1]))).text).toMatch(/"changes": \[\]\n\}\n$/);
  });

  test('can be limited to a kind, a field and a number', async () => {
    const { times, answer, run } = await threeDays();
    const found = async (...args: string[]) =>
      (await answer('--since', String(times[1]), ...args)).changes.map(({ id, change, fields }) => [
        id,
        change,
        Object.keys(fields),
      ]);
    expect(await found('--kind', 'deleted')).toEqual([[3, 'deleted', expect.any(Array)]]);
    expect(await found('--field', 'balance')).toEqual([
      [5, 'updated', ['balance']],
      [5, 'updated', ['balance']],
    ]);
    expect(await found('--kind', 'updated', '--limit', '1')).toEqual([[5, 'updated', expect.any(Array)]]);
    expect((await run('--follow', '--limit', '1')).stderr).toContain('--follow shows all changes');
  });

  test('begin with how many there are, in a table that is longer than a few screens', async () => {
    const sandbox = await startSandbox({ users: 150, emails: 90 });
    const file = `${temporaryFolder()}/mirror.db`;
    await sync(sandbox, file, { clock: systemClock });
    const run = async (...args: string[]) =>
      (await runCli(['changes', '--db', file, ...args], { folder: temporaryFolder() })).stdout.split('\n');
    expect((await run()).slice(0, 5)).toEqual([
      'users     150 inserted',
      'packages  12 inserted',
      'emails    90 inserted',
      'coupons   20 inserted',
      '',
    ]);
    expect((await run('--limit', '9'))[0]).toMatch(/^at /);
  });

  test('prints a table with a line per field', async () => {
    const { times, username, run } = await threeDays();
    const { stdout, stderr } = await run('users', '--since', String(times[2]));
    expect(stderr).toBe('');
    const lines = stdout.trimEnd().split('\n');
    expect(lines[0]).toMatch(/^at +resource +id +who +change +field +old +new$/);
    expect(lines.slice(2).map((line) => line.split(/ {2,}/).slice(1))).toEqual([
      ['users', '5', username, 'updated', 'balance', '77.25'],
      ['users', '5', username, 'updated', '_extra.points', '1', '2'],
      ['users', '5', username, 'updated', '_extra.balance', '9007199254740993'],
      ['users', '900', 'new.comer', 'inserted'],
    ]);
  });

  test('prints CSV or TSV with the columns of the table, or a JSON object per line', async () => {
    const { times, username, run } = await threeDays();
    const lines = async (format: string) =>
      (await run('--since', String(times[1]), '--format', format)).stdout.trimEnd().split('\n');
    const csv = await lines('csv');
    expect(csv[0]).toBe('at,resource,id,who,change,field,old,new');
    expect(csv).toContain(`${times[2]},users,5,${username},updated,_extra.balance,,9007199254740993`);
    expect((await lines('tsv'))[0]).toBe('at\tresource\tid\twho\tchange\tfield\told\tnew');
    const objects = (await lines('jsonl')).map((line) => JSON.parse(line) as Answer['changes'][number]);
    expect(objects.map(({ id, change }) => [id, change])).toEqual([
      [5, 'updated'],
      [3, 'deleted'],
      [5, 'updated'],
      [900, 'inserted'],
    ]);
    expect((await lines('json')).join('\n')).toMatch(/"changes": \[/);
  });

  test('says if the history begins later than requested, and shows what it has', async () => {
    const { times, run } = await threeDays();
    const { code, stdout, stderr } = await run('coupons', '--since', '30d', '--json');
    expect(code).toBe(0);
    expect(stderr).toContain(`the history of coupons begins at ${times[0]}; what changed before that is not known`);
    expect((JSON.parse(stdout) as Answer).changes).toHaveLength(21);
  });

  test.each([
    [['--id', '5'], 'users, packages, emails, coupons'],
    [['users', '--id', 'five'], 'An id is a whole number'],
    [['user'], 'Allowed choices are users, packages, emails, coupons'],
    [['--since', 'yesterday'], 'a day such as 2026-03-11'],
    [['--since', '1d', '--until', '2d'], 'is after --until'],
  ])('refuses %o', async (args, words) => {
    const { code, stdout, stderr } = await runCli(['changes', ...args, '--db', mirrorFile()], {
      folder: temporaryFolder(),
    });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(words);
  });
});

describe('the history settings', () => {
  test('apply to the sync: which fields are ignored, and how long a version is kept', async () => {
    const { control, url, key } = await startSandbox({ now: () => systemClock.now() });
    const folder = temporaryFolder();
    const server = { ADMIN_MIRROR_BASE_URL: url, ADMIN_MIRROR_API_KEY: key };
    const run = async (args: string, environment: Record<string, string> = {}) => {
      const words = [...args.split(' '), '--json', '--quiet'];
      const { code, stdout, stderr } = await runCli(words, { folder, environment: { ...server, ...environment } });
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return stdout;
    };
    const versions = async () => {
      const rows = await run('query SELECT(count(*))AS"n"FROM(users_history)');
      return (JSON.parse(rows) as { n: number }[])[0]?.n;
    };
    await run('sync users');
    control.update('users', 5, { last_seen_at: '2026-01-01T00:00:00.000000Z' });
    await run('sync users');
    expect(await versions()).toBe(0);
    control.update('users', 5, { last_seen_at: '2026-01-02T00:00:00.000000Z' });
    await run('sync users', { ADMIN_MIRROR_HISTORY_IGNORE: 'none' });
    expect(await versions()).toBe(1);
    // The field is ignored again now, so this is not a change.
    expect((JSON.parse(await run('changes users --id 5')) as Answer).changes.map(({ change }) => change)).toEqual([
      'inserted',
    ]);
    await run('sync users', { ADMIN_MIRROR_HISTORY_KEEP: '1ms' });
    expect(await versions()).toBe(0);
  });
});

describe('export --as-of', () => {
  test('takes a time, a day or an age, and reports the time of the rows', async () => {
    const { times, folder, cli } = await threeDays();
    const ids = async (asOf: string) => {
      const { code, stdout, stderr } = await cli('export', 'coupons', '--as-of', asOf, '--columns', 'id');
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return stdout.trimEnd().split('\n').length - 1;
    };
    expect(await ids(String(times[0]))).toBe(20);
    expect(await ids('2d')).toBe(20);
    expect(await ids('1d')).toBe(19);
    const asOf = ['--as-of', String(times[0]).replace('000Z', 'Z')];
    const { stdout } = await cli('export', 'coupons', ...asOf, '-o', 'coupons.csv', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ file: `${folder}/coupons.csv`, rows: 20, as_of: times[0] });
    // A day means its beginning, which may be before the first sync.
    const day = String(times[0]).slice(0, 10);
    const { code, stderr } = await cli('export', 'coupons', '--as-of', day);
    expect(code).toBe(2);
    expect(stderr).toContain(`the history of coupons begins at ${times[0]}, and ${day}T00:00:00.000000Z lies before`);
  });

  test.each([
    [['users', '--as-of', 'last week'], 'a day such as 2026-03-11'],
    [['users', '--as-of', '2999-01-01'], '--as-of 2999-01-01T00:00:00.000000Z is in the future'],
    [['--sql', 'SELECT 1', '--as-of', '1d'], 'cannot be used with option'],
    [['mirror_runs', '--as-of', '1d'], 'mirror_runs has none'],
  ])('refuses %o', async (args, words) => {
    const { code, stdout, stderr } = await runCli(['export', ...args, '--db', mirrorFile()], {
      folder: temporaryFolder(),
    });
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(words);
  });
});
