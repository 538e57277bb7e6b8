import { createServer } from 'node:http';
import { describe, expect, test } from 'vitest';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { behindProxy } from '../support/altering-proxy.ts';
import { invoke as invokeIn, type Invocation } from '../support/invoke.ts';
import { startSandbox } from '../support/sandbox.ts';
import { listening } from '../support/listening.ts';

/** Runs the command in this process, against the server. */
function invoke(server: { url: string; key: string }, argv: readonly string[], options: Invocation = {}) {
  const environment = { ADMIN_MIRROR_BASE_URL: server.url, ADMIN_MIRROR_API_KEY: server.key, ...options.environment };
  return invokeIn(argv, { ...options, environment });
}

/** Splits lines into arguments. None of them contains a space. */
function words(...lines: string[]): string[] {
  return lines.flatMap((line) => line.split(' '));
}

function urlsOf(sandbox: Sandbox): string[] {
  return sandbox.control.requests().recent.map(({ method, url }) => `${method} ${decodeURIComponent(url)}`);
}

describe('a list', () => {
  test('is a table that fits the terminal and names the columns left out', async () => {
    const sandbox = await startSandbox();
    const { code, stdout, stderr } = await invoke(sandbox, ['users', 'list', '--paginate', '5'], { terminal: 90 });
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split('\n');
    expect(lines).toHaveLength(7);
    expect(lines[0]).toMatch(/^id {2}username +email +first_name/);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(90);
    expect(stderr).toMatch(/Page 1 of 12, 60 users in all\./);
    expect(stderr).toMatch(/No room for .*updated_at: widen the terminal, or use --json/);
  });

  test('has every column if there is no terminal', async () => {
    const sandbox = await startSandbox();
    const { stdout } = await invoke(sandbox, ['coupons', 'list']);
    expect(stdout.split('\n')[0]).toMatch(/^id +code .* created_at +updated_at$/);
    const long = 'long '.repeat(60).trim();
    sandbox.control.update('users', 1, { first_name: long });
    expect((await invoke(sandbox, ['users', 'list'])).stdout).toContain(long);
    expect((await invoke(sandbox, ['users', 'list'], { terminal: 4_000 })).stdout).not.toContain(long);
  });

  test('is exactly what the server sent with --json', async () => {
    const body =
      '{"status":true, "current_page":1,"data":[{"id":12345678901234567890}],"last_page":1,"per_page":15,"total":1}';
    const server = createServer((_, response) => response.end(body));
    const url = await listening(server);
    const { stdout, stderr } = await invoke({ url, key: 'some-key' }, ['users', 'list', '--json']);
    expect(stdout).toBe(`${body}\n`);
    expect(stderr).toBe('');
    const table = await invoke({ url, key: 'some-key' }, ['users', 'list']);
    expect(table.stdout).toContain('12345678901234567890');
  });

  test('accepts every common parameter', async () => {
    const sandbox = await startSandbox();
    const argv = words(
      'packages list --page 2 --paginate 3 --include prices,category --include features',
      '--filter require_domain=0 --filter data->note=a=b --sort name:desc,id --date 90days',
    );
    expect((await invoke(sandbox, argv)).code).toBe(0);
    expect(urlsOf(sandbox)).toEqual([
      'GET /api/v1/packages?paginate=3&page=2&include=prices,category,features&filter[require_domain]=0' +
        '&filter[data->note]=a=b&sort[name]=desc&sort[id]=asc&date=90days',
    ]);
  });

  test('cannot send control sequences to the terminal', async () => {
    const sandbox = await startSandbox();
    sandbox.control.insert('users', { username: 'evil\u001B[2Jname\nnext', created_at: '2030-01-01T00:00:00.000000Z' });
    const { stdout } = await invoke(sandbox, ['users', 'list', '--sort', 'created_at:desc', '--paginate', '1']);
    expect(stdout).toContain('evil [2Jname next');
  });

  test.each([
    [[], 1],
    [['--paginate', '25'], 3],
  ])('is read to its end by --all %j', async (flags, requests) => {
    const sandbox = await startSandbox();
    const json = await invoke(sandbox, ['users', 'list', '--all', '--json', ...flags]);
    const records = JSON.parse(json.stdout) as { id: number }[];
    expect(records.map(({ id }) => id).sort((a, b) => a - b)).toEqual(
      sandbox.control.dump('users').map(({ id }) => id),
    );
    expect(sandbox.control.requests().total).toBe(requests);
    const table = await invoke(sandbox, ['users', 'list', '--all', ...flags]);
    expect(table.stdout.trimEnd().split('\n')).toHaveLength(62);
    expect(table.stderr).toBe('60 users.\n');
  });

  test('with an unreadable record prints all others in order, reports it, and ends with 5', async () => {
    const sandbox = await startSandbox({ behaviour: { poisoned: 'users:21', page_breaks_how: 'says_so' } });
    const { code, stdout, stderr } = await invoke(sandbox, words('users list --all --json --paginate 20'), {
      constants: { api: { attempts: 1 } },
    });
    expect(code).toBe(5);
    const ids = (JSON.parse(stdout) as { id: number }[]).map(({ id }) => id);
    expect(ids).toHaveLength(59);
    expect(new Set(ids)).not.toContain(21);
    expect(stderr).toMatch(
      /1 record cannot be read, number \d+ of the list: GET .*paginate=1&page=\d+.*Be right back\./,
    );
  });

  test('prints what it read as a whole document and ends with 5 if the server fails on the way', async () => {
    const sandbox = await startSandbox();
    sandbox.control.faultNext({
      fault: 'error_500',
      times: 100,
      match: { path: /paginate=\d+&page=(?![12]\b)|paginate=1\b/ },
    });
    const { code, stdout, stderr } = await invoke(sandbox, words('users list --all --json --paginate 20'), {
      constants: { api: { attempts: 1 } },
    });
    expect(code).toBe(5);
    expect(JSON.parse(stdout)).toHaveLength(40);
    expect(stderr).toMatch(/failed \(500\)/);
  });
});

describe('an id beyond 2^53', () => {
  const id = String(2n ** 53n + 7n);

  test.each([['get'], ['orders'], ['payments']])('is sent with every digit: users %s', async (command) => {
    const sandbox = await startSandbox({ behaviour: { large_ids: true } });
    expect((await invoke(sandbox, ['users', command, id, '--json'])).code).toBe(0);
    expect(urlsOf(sandbox).at(-1)).toMatch(new RegExp(`/users/${id}(/|$)`));
  });

  test.each([
    [['update-balance', id, '--type', 'add', '--amount', '1', '--yes']],
    [['delete', id, '--yes']],
    [['send-email', id, '--subject', 'x', '--content', 'x', '--yes']],
  ])('is refused for writes, with the reason: users %j', async (argv) => {
    const sandbox = await startSandbox({ behaviour: { large_ids: true } });
    const { code, stderr } = await invoke(sandbox, ['users', ...argv]);
    expect(code).toBe(2);
    expect(stderr).toMatch(new RegExp(`user ${id} has an id above .* but not changed`));
    expect(urlsOf(sandbox)).toEqual([]);
  });
});

describe('an invalid argument', () => {
  test.each([
    [['users', 'list', '--filter', 'emial=x'], /no filter key "emial"[^]*Did you mean "email"/],
    [['users', 'list', '--sort', 'created_at=desc'], /--sort is "created_at=desc"[^]*--sort key:desc/],
    [['users', 'list', '--sort', 'created'], /no sort key "created"[^]*created_at/],
    [['users', 'list', '--include', 'order'], /no include "order"[^]*"orders"/],
    [['users', 'list', '--date', 'yestreday'], /Did you mean "yesterday"/],
    [['users', 'list', '--page', '0'], /A whole number above 0 is needed/],
    [['users', 'list', '--paginate', '-1'], /A whole number above 0 is needed/],
    [['users', 'list', '--filter', 'email'], /has no value/],
    [['users', 'list', '--all', '--sort', 'email:random'], /do not go together/],
    [['users', 'list', '--all', '--page', '2'], /cannot be used with option/],
    [['users', 'list', '--date', '2026-02-01,2026-01-31'], /ends before it begins/],
    [['users', 'list', '--date', '01-02-2026,31-01-2026'], /ends before it begins/],
    [['users', 'lsit'], /unknown command 'lsit'[^]*list/],
    [['users', 'get', 'seven'], /"seven" is not a user id/],
    [['users', 'get', '7', '--with', 'suborder'], /no related records "suborder"[^]*"suborders"/],
    [['users', 'update', '7'], /nothing to change[^]*--first-name/],
    [['users', 'send-email', '7', '--subject', 'x', '--yes'], /--content <text>. not specified/],
    [['users', 'update-balance', '7', '--type', 'ad', '--amount', '1', '--yes'], /cannot be "ad"[^]*"add"/],
    [['users', 'update-balance', '7', '--type', 'add', '--amount', '1.234', '--yes'], /3 decimal places/],
    [['users', 'update-balance', '7', '--type', 'add', '--amount', '-1', '--yes'], /below zero[^]*--type remove/],
    [
      ['users', 'send-notification', '7', '--type', 'danger', '--icon', 'x', '--message', 'x', '--url', 'x y', '--yes'],
      /"x y" is not an address/,
    ],
  ])('ends with 2, names the nearest match and sends nothing: %j', async (argv, expected) => {
    const sandbox = await startSandbox();
    const { code, stderr, stdout } = await invoke(sandbox, argv);
    expect(code).toBe(2);
    expect(stderr).toMatch(expected);
    expect(stdout).toBe('');
    expect(sandbox.control.requests().total).toBe(0);
  });
});

describe('a user', () => {
  test('is printed line by line, with related records, or as JSON from the server', async () => {
    const sandbox = await startSandbox();
    const lines = await invoke(sandbox, ['users', 'get', '7', '--with', 'orders,payments']);
    expect(lines.stdout).toMatch(/^id +7\n/m);
    expect(lines.stdout).toMatch(/^orders +\[/m);
    expect(urlsOf(sandbox)).toEqual(['GET /api/v1/users/7?orders=1&payments=1']);
    const json = await invoke(sandbox, ['users', 'get', '7', '--json']);
    expect(JSON.parse(json.stdout)).toMatchObject({ data: { id: 7 } });
  });

  test('that does not exist ends with 2, and --json prints the response', async () => {
    const sandbox = await startSandbox();
    const { code, stdout, stderr } = await invoke(sandbox, ['users', 'get', '999', '--json']);
    expect(code).toBe(2);
    expect(JSON.parse(stdout)).toHaveProperty('message', expect.stringContaining('No query results'));
    expect(stderr).toMatch(/not found \(404\): No query results/);
  });
});

test('a response with another user than requested is printed and reported', async () => {
  const sandbox = await startSandbox();
  const other = JSON.stringify({ id: 6, username: 'somebody-else' });
  const liar = await behindProxy(sandbox, () => ({ body: other }));
  const { code, stdout, stderr } = await invoke(liar, ['users', 'get', '5']);
  expect([code, stdout]).toEqual([5, expect.stringContaining('somebody-else')]);
  expect(stderr).toContain('user 5 was requested, but the response shows user 6');
});

describe('a write', () => {
  test('sends what its flags say, and prints the response', async () => {
    const sandbox = await startSandbox();
    const creating = words(
      'users create --first-name Ada --last-name Byron --username ada --email ada@example.test --yes --json',
      '--address-city London --address-zip-code W1 --no-welcome-email',
    );
    const create = await invoke(sandbox, creating);
    expect(create.code).toBe(0);
    const { data } = JSON.parse(create.stdout) as { data: { id: number } };
    const id = String(data.id);
    expect(sandbox.control.get('users', data.id)).toMatchObject({ first_name: 'Ada', email: 'ada@example.test' });
    const answers = [
      await invoke(sandbox, ['users', 'update', id, '--first-name', 'Augusta']),
      await invoke(sandbox, ['users', 'update-balance', id, '--type', 'add', '--amount', '12.50', '--yes']),
      await invoke(sandbox, ['users', 'send-email', id, '--subject', 'Hi', '--content', '-', '--yes'], {
        input: '<p>long\ntext</p>\n',
      }),
      await invoke(
        sandbox,
        words(
          `users send-notification ${id} --type success --icon star --message Hi`,
          '--url https://example.test/x --yes',
        ),
      ),
    ];
    expect(answers.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(sandbox.control.get('users', data.id)).toMatchObject({ first_name: 'Augusta', balance: 12.5 });
    expect(sandbox.control.dump('emails').at(-1)).toMatchObject({ subject: 'Hi', content: '<p>long\ntext</p>' });
    expect(sandbox.control.related('users', data.id, 'notifications')).toHaveLength(1);
    expect((await invoke(sandbox, ['users', 'delete', id, '--force', '--yes'])).code).toBe(0);
    expect(sandbox.control.get('users', data.id)).toBe(undefined);
  });

  test.each([
    ['update-balance 7 --type add --amount 5', '--description', 'Credit am:k3vq7x2mzpda'],
    ['send-email 7 --subject Hi', '--content', '<p>Hi</p><!-- am:k3vq7x2mzpda -->'],
  ])('with the mark of a row is not sent: %s', async (argv, flag, text) => {
    const sandbox = await startSandbox();
    const { code, stderr } = await invoke(sandbox, ['users', ...words(argv), flag, text, '--yes']);
    expect([code, stderr]).toEqual([2, expect.stringContaining(`${flag} ends with am:k3vq7x2mzpda`)]);
    expect(sandbox.control.ledger()).toEqual([]);
    // The correction that `bulk status` suggests for a row that was made twice.
    const correction = ['--description', 'Correction of am:k3vq7x2mzpda, made 2 times'];
    const taking = words('users update-balance 7 --type remove --amount 5 --yes');
    expect(await invoke(sandbox, [...taking, ...correction])).toMatchObject({ code: 0 });
  });

  test('that is refused ends with 2 and prints every message of the server', async () => {
    const sandbox = await startSandbox();
    const taken = String(sandbox.control.get('users', 7)?.['email']);
    const argv = words(`users create --first-name A --last-name B --username ab --email ${taken} --yes`);
    const { code, stderr } = await invoke(sandbox, argv);
    expect(code).toBe(2);
    expect(stderr).toMatch(/refused \(422\): email: .*taken/);
  });

  test('whose response is lost ends with 8 and advises to read the user back', async () => {
    const sandbox = await startSandbox();
    sandbox.control.faultNext({ fault: 'commit_reset', match: { method: 'PUT' } });
    const argv = ['users', 'update-balance', '7', '--type', 'add', '--amount', '5', '--yes'];
    const { code, stderr } = await invoke(sandbox, argv);
    expect(code).toBe(8);
    expect(stderr).toMatch(/response was lost[^]*Read the user back before you send it again/);
    expect(sandbox.control.ledger()).toHaveLength(1);
  });

  const asking: string[][] = [
    ['delete', '7'],
    ['update-balance', '7', '--type', 'add', '--amount', '5'],
    ['send-email', '7', '--subject', 'a', '--content', 'b'],
    ['send-notification', '7', '--type', 'success', '--icon', 'a', '--message', 'b'],
    ['create', '--first-name', 'A', '--last-name', 'B', '--username', 'ab', '--email', 'a@b.test'],
  ];

  // proves: yes
  test.each(asking.map((argv) => [argv]))('without a terminal is not sent unless --yes is given: %j', async (argv) => {
    const sandbox = await startSandbox();
    const { code, stderr } = await invoke(sandbox, ['users', ...argv]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/cannot ask whether to .*: there is no terminal[^]*--yes/);
    expect(sandbox.control.ledger()).toEqual([]);
  });

  test('is sent after a yes and not after a no', async () => {
    const sandbox = await startSandbox();
    const argv = ['users', 'send-email', '7', '--subject', 'Hello', '--content', 'b'];
    const no = await invoke(sandbox, argv, { terminal: 100, input: '\r' });
    expect(no.code).toBe(2);
    expect(no.stderr).toMatch(/email user 7 "Hello" at http/);
    expect(no.stderr).toMatch(/not confirmed; nothing was done/);
    expect(sandbox.control.requests().total).toBe(0);
    const yes = await invoke(sandbox, argv, { terminal: 100, input: 'y' });
    expect(yes.code).toBe(0);
    expect(sandbox.control.requests().total).toBe(1);
  });

  test('that deletes asks for the id to be typed', async () => {
    const sandbox = await startSandbox();
    sandbox.control.setRelated('users', 7, 'orders', []);
    sandbox.control.setRelated('users', 7, 'punishments', []);
    const wrong = await invoke(sandbox, ['users', 'delete', '7'], { terminal: 100, input: 'yes\r' });
    expect(wrong.code).toBe(2);
    expect(sandbox.control.requests().total).toBe(0);
    const right = await invoke(sandbox, ['users', 'delete', '7'], { terminal: 100, input: '7\r' });
    expect(right.code).toBe(0);
    expect(sandbox.control.get('users', 7)).toBe(undefined);
  });
});

test('a refused key ends with 3, and is not shown', async () => {
  const sandbox = await startSandbox();
  const { code, stderr, stdout } = await invoke({ url: sandbox.url, key: 'wrong-key-0000' }, [
    'users',
    'list',
    '--json',
  ]);
  expect(code).toBe(3);
  expect(stderr).toMatch(/the key was refused \(401\)[^]*ADMIN_MIRROR_API_KEY/);
  expect(`${stderr}${stdout}`).not.toContain('wrong-key-0000');
});
