import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { type Client, openClient } from '../../src/api/operations.ts';
import { recordIn } from '../../src/api/body.ts';
import { OperatorError } from '../../src/model/errors.ts';
import { silentLog } from '../../src/model/log.ts';
import { type OperationName, operations } from '../../src/model/operations.ts';
import { systemClock } from '../../src/model/time.ts';
import type { Fault } from '../support/bent/sandbox.ts';
import { startSandbox } from '../support/sandbox.ts';
import {
  type Answerer,
  clientOf,
  emptyAddress,
  envelopeOf,
  json,
  startPlainServer,
  testKey,
} from './support/plain-server.ts';
import { virtualTime } from './support/virtual-time.ts';

async function failureOf(work: Promise<unknown>): Promise<OperatorError> {
  const error: unknown = await work.catch((each: unknown) => each);
  expect(error).toBeInstanceOf(OperatorError);
  return error as OperatorError;
}

const page = JSON.stringify(envelopeOf([{ id: 1 }]));

test('a list with invalid options rejects instead of throwing', async () => {
  const listed = clientOf('http://127.0.0.1:9').list('users', { paginate: -1 });
  await expect(listed).rejects.toThrow(/paginate must be a whole number/);
});

const sendOf = (client: Client, name: OperationName, user: number | undefined, body: object, signal?: AbortSignal) =>
  client.sendExactly(name, user, JSON.stringify(body), signal);

describe('the fourteen operations', () => {
  test('work against the sandbox', async () => {
    const sandbox = await startSandbox();
    const client = clientOf(sandbox.url, { key: sandbox.key });
    for (const resource of ['users', 'packages', 'emails', 'coupons'] as const) {
      const { total, records } = await client.list(resource, { paginate: 5 });
      expect(total).toBe(sandbox.control.count(resource));
      expect(records).toHaveLength(5);
    }
    expect(recordIn((await client.auth()).body)).toHaveProperty('email');
    const named = { first_name: 'Ada', last_name: 'Byron', username: 'ada.byron', email: 'ada@example.test' };
    const created = await sendOf(client, 'users.create', undefined, {
      ...named,
      address: { city: 'London' },
      welcome_email: false,
    });
    const id = Number(recordIn(created.body)?.['id']);
    expect(sandbox.control.get('users', id)).toMatchObject(named);
    await sendOf(client, 'users.update', id, { first_name: 'Augusta' });
    await sendOf(client, 'users.update-balance', id, { type: 'add', amount: 12.5, description: 'test' });
    await sendOf(client, 'users.send-email', id, { subject: 'Hello', content: '<p>Hello</p>' });
    await sendOf(client, 'users.send-notification', id, { type: 'success', icon: 'star', message: 'Hello' });
    const user = recordIn((await client.getUser(id, ['balance_transactions', 'notifications'])).body);
    expect(user).toMatchObject({ first_name: 'Augusta', balance: 12.5 });
    expect(user?.['balance_transactions']).toHaveLength(1);
    expect(user?.['notifications']).toHaveLength(1);
    expect((await client.orders(id)).status).toBe(200);
    expect((await client.payments(id)).status).toBe(200);
    await sendOf(client, 'users.delete', id, { force: true });
    expect(sandbox.control.get('users', id)).toBe(undefined);
    const used = new Set(sandbox.control.requests().recent.map(({ operation }) => operation));
    expect(operations.map(({ name }) => name).filter((name) => !used.has(name))).toEqual([]);
  });

  // proves: exact-amounts
  test('send exactly the body that they are given', async () => {
    const server = await startPlainServer((_, response) => json(response, 200, { ok: true }));
    const client = clientOf(server.url);
    await client.sendExactly('users.update-balance', 7, '{"type":"set","amount":12.50}');
    await client.sendExactly('users.delete', 7, '{}');
    expect(server.received.map(({ method, url, body }) => [method, url, body])).toEqual([
      ['PUT', '/api/v1/users/7/update-balance', '{"type":"set","amount":12.50}'],
      ['DELETE', '/api/v1/users/7', '{}'],
    ]);
  });

  test('return the response to a write unchanged', async () => {
    const server = await startPlainServer((_, response) => response.writeHead(202).end('{"id":12345678901234567890}'));
    expect(await sendOf(clientOf(server.url), 'users.send-email', 7, { subject: 'a', content: 'b' })).toEqual({
      status: 202,
      body: { id: 12_345_678_901_234_567_890n },
      raw: '{"id":12345678901234567890}',
    });
  });

  test('refuse an invalid id before anything is sent', async () => {
    const server = await startPlainServer((_, response) => json(response, 200, {}));
    const client = clientOf(server.url);
    for (const id of [1.5, Number.NaN]) await expect(client.getUser(id)).rejects.toThrow(/not a user id/);
    for (const id of [0, -1, 1.5, Number.NaN])
      await expect(sendOf(client, 'users.delete', id, {})).rejects.toThrow(/not a user id/);
    expect(server.received).toHaveLength(0);
  });
});

test.each(['not a url', 'ftp://example.test', 'http://user:pw@127.0.0.1'])(
  'the base address %s is refused',
  (baseUrl) => {
    expect(() => clientOf(baseUrl)).toThrow(/base address/);
  },
);

test('an invalid key is refused without being shown', () => {
  const open = () => clientOf('http://127.0.0.1:1', { key: 'two words\n' });
  expect(open).toThrow(/the key is empty, or holds spaces/);
  expect(open).not.toThrow(/two words/);
});

describe('a read', () => {
  const faults: [string, (response: Parameters<Answerer>[1]) => void][] = [
    ['a 500', (response) => json(response, 500, { message: 'no' })],
    ['a 429', (response) => json(response, 429, {}, { 'retry-after': '1' })],
    ['a reset', (response) => response.destroy()],
    ['truncated JSON', (response) => response.end(page.slice(0, -9))],
    ['an empty 200', (response) => response.end()],
    ['a web page as JSON', (response) => response.setHeader('content-type', 'application/json').end('<html>')],
    ['a refusal under 200', (response) => json(response, 200, { success: false, errors: ['Later.'] })],
    ['another page', (response) => json(response, 200, envelopeOf([], 9))],
  ];

  test.each(faults)('is retried after %s', async (_, fault) => {
    const time = virtualTime();
    const server = await startPlainServer((_request, response, before) =>
      before < 2 ? fault(response) : void response.end(page),
    );
    const client = clientOf(server.url, { clock: time.clock, sleep: time.sleep });
    expect((await time.run(client.list('users'))).total).toBe(1);
    expect(client.counters).toMatchObject({ requests: 3, retries: 2 });
  });

  test.each([
    ['does not come, by smaller ones', 500, {}, 1],
    ['is to be asked for later, by none', 503, { 'retry-after': '1' }, 4],
  ])('is retried less if the caller has an alternative to the page: one that %s', async (_, status, headers, tries) => {
    const time = virtualTime();
    const server = await startPlainServer((_request, response) => json(response, status, {}, headers));
    const client = clientOf(server.url, { attempts: 4, clock: time.clock, sleep: time.sleep });
    await time.run(failureOf(client.list('users', {}, undefined, { pageAttempts: 1 })));
    expect(client.counters.requests).toBe(tries);
  });

  test('that is refused for minutes warns once before it gives up', async () => {
    const time = virtualTime();
    const server = await startPlainServer((_, response) => json(response, 429, {}, { 'retry-after': '20' }));
    const warnings: string[] = [];
    const log = { ...silentLog, warn: (_: object, text: string) => void warnings.push(text) };
    const client = clientOf(server.url, { clock: time.clock, sleep: time.sleep, log });
    const error = await time.run(failureOf(client.list('users')));
    expect(error.message).toMatch(/tried \d+ times in \d+ s/);
    expect(warnings).toEqual([
      expect.stringMatching(
        /^GET .*\/api\/v1\/users\S*.* failed \(429\): .*, tried 2 times; .*; trying again for up to 300 s$/,
      ),
    ]);
  });

  test('is retried if the server hangs', async () => {
    const server = await startPlainServer((_, response, before) => void (before === 1 && response.end(page)));
    expect((await clientOf(server.url, { timeoutMs: 500 }).list('users')).total).toBe(1);
  });

  test.each<[number, unknown, number, RegExp]>([
    [401, { message: 'Unauthenticated.' }, 3, /the key was refused \(401\): Unauthenticated\./],
    [403, { success: false, errors: ['No permission.'] }, 3, /refused \(403\): No permission\./],
    [404, { message: 'No query results' }, 2, /not found \(404\): No query results/],
    [422, { message: 'x', errors: { page: ['Too big.'] } }, 2, /refused \(422\): page: Too big\./],
    [400, { message: 'Bad.' }, 2, /refused \(400\): Bad\./],
  ])('with the response %i fails at once', async (status, body, exitCode, message) => {
    const server = await startPlainServer((_, response) => json(response, status, body));
    const error = await failureOf(clientOf(server.url).list('users'));
    expect(error).toMatchObject({ exitCode });
    expect(error.message).toMatch(message);
    expect(error.message).toContain(`GET ${server.url}/api/v1/users`);
    expect(server.received).toHaveLength(1);
  });

  test('is retried once after a 403 with a web page, which a proxy has sent', async () => {
    const server = await startPlainServer((_, response, before) => {
      if (before === 1) response.end(page);
      else response.writeHead(403).end('<html>Access denied');
    });
    const client = clientOf(server.url);
    expect((await client.list('users')).total).toBe(1);
    expect(await failureOf(client.list('users'))).toMatchObject({ name: 'KeyRefused', exitCode: 3 });
    expect(server.received).toHaveLength(4);
  });

  test('reports the message of a response that is not a list', async () => {
    const server = await startPlainServer((_, response) => json(response, 200, { message: 'Be right back.' }));
    const error = await failureOf(clientOf(server.url).list('users'));
    expect(error.message).toContain('the response is not a list: Be right back., tried 4 times');
  });

  test('that keeps failing reports how often and how long it was tried', async () => {
    const server = await startPlainServer((_, response) => json(response, 502, { message: 'Bad gateway.' }));
    const error = await failureOf(clientOf(server.url).list('users'));
    expect(error).toMatchObject({ name: 'ServerFailed', exitCode: 4, status: 502 });
    expect(error.message).toMatch(/failed \(502\): Bad gateway\., tried 4 times in \d+\.\d s$/);
  });

  test('that gets a web page says that this is not the API', async () => {
    const server = await startPlainServer((_, response) => response.end('<!doctype html><title>Welcome'));
    const error = await failureOf(clientOf(server.url).list('users'));
    expect(error).toMatchObject({ name: 'NotTheApi', exitCode: 4 });
    expect(error.advice).toMatch(/base address/);
  });

  test('that is redirected names the target and does not follow', async () => {
    const other = await startPlainServer((_, response) => response.end(page));
    const server = await startPlainServer((_, response) =>
      response.writeHead(302, { location: `${other.url}/login` }).end(),
    );
    const error = await failureOf(clientOf(server.url).list('users'));
    expect(error.message).toContain(`redirected (302) to ${other.url}/login; redirects are not followed`);
    expect([server.received.length, other.received.length]).toEqual([1, 0]);
  });

  test('with a body over the limit lets the caller request less', async () => {
    const server = await startPlainServer((_, response) => response.end(' '.repeat(5_000)));
    const error = await failureOf(clientOf(server.url, { maxBodyBytes: 4_000 }).list('users'));
    expect(error.name).toBe('PageTooLarge');
    expect(server.received).toHaveLength(1);
  });

  test.each([
    { concurrency: 4, most: 16 },
    { concurrency: 8, most: 16 },
    { concurrency: 16, most: 8 },
    { concurrency: 64, most: 2 },
  ])('limits bodies so that $concurrency at once take at most 128 MiB', async ({ concurrency, most }) => {
    const length = most * 1_048_576 + 1;
    const server = await startPlainServer((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': length }).flushHeaders();
    });
    const error = await failureOf(clientOf(server.url, { concurrency }).list('users'));
    expect(error.message).toContain(`larger than ${most} MiB`);
    expect(most * concurrency).toBeLessThanOrEqual(128);
  });

  test('can be aborted while it waits for its next try', async () => {
    const stop = new AbortController();
    const server = await startPlainServer((_, response) => {
      json(response, 503, {}, { 'retry-after': '30' });
      setImmediate(() => stop.abort(new Error('stopped by the test')));
    });
    const client = openClient({
      baseUrl: server.url,
      key: testKey,
      timeoutMs: 5_000,
      concurrency: 2,
      attempts: 4,
      pageSize: 10,
      userAgent: 'tests',
      log: silentLog,
      clock: systemClock,
    });
    await expect(client.list('users', {}, stop.signal)).rejects.toThrow('stopped by the test');
    await client.close();
  });
});

test('a read with nothing listening fails within 30 s by default, and says what was tried', async () => {
  const time = virtualTime();
  const address = await emptyAddress();
  const client = clientOf(address, { attempts: 100, clock: time.clock, sleep: time.sleep, random: () => 0.99 });
  const started = time.clock.now();
  const error = await time.run(failureOf(client.list('users')));
  expect(error).toMatchObject({ name: 'Unreachable', exitCode: 4 });
  expect(error.message).toMatch(/ECONNREFUSED.*tried \d+ times in \d+ s/);
  expect(error.message).toContain(address);
  // The last try may take another 8 s to fail.
  expect(time.clock.now() - started).toBeLessThan(22_000);
});

describe('a write', () => {
  const send = (client: Client) => sendOf(client, 'users.update', 7, { first_name: 'Ada' });

  // proves: sent-once
  test('is never retried by the transport', async () => {
    const faults: Answerer[] = [
      (_, response) => response.destroy(),
      (_, response) => response.writeHead(200, { 'content-length': 99 }).write('{"id"'),
      (_, response) => response.end(),
      (_, response) => response.end('{"id":'),
      (_, response) => response.end('<html>'),
      () => {},
      ...[408, 409, 425, 429, 500, 502, 503, 504, 520].map(
        (status): Answerer =>
          (_, response) =>
            json(response, status, { message: 'no' }, { 'retry-after': '0' }),
      ),
    ];
    const writes: ((client: Client) => Promise<unknown>)[] = [
      send,
      (client) => sendOf(client, 'users.delete', 7, { force: true }),
      (client) => sendOf(client, 'users.send-email', 7, { subject: 'a', content: 'b' }),
      (client) => sendOf(client, 'users.update-balance', 7, { type: 'add', amount: 1 }),
    ];
    const tried = async (fault: Answerer, write: (client: Client) => Promise<unknown>) => {
      const server = await startPlainServer(fault);
      const client = clientOf(server.url, { timeoutMs: 500 });
      await failureOf(write(client));
      expect(server.received).toHaveLength(1);
    };
    // In parallel, because each write without a response takes half a second.
    await Promise.all(faults.flatMap((fault) => writes.map((write) => tried(fault, write))));
  });

  test.each<[string, Answerer]>([
    ['a reset', (_, response) => response.destroy()],
    ['silence', () => {}],
    ['a 500', (_, response) => json(response, 500, { message: 'Oops.' })],
    ['a 409', (_, response) => json(response, 409, { message: 'Conflict.' })],
    ['a 503 that names no wait', (_, response) => json(response, 503, {})],
    [
      'a 503 that says only when the limit begins anew',
      (_, response) => json(response, 503, {}, { 'x-ratelimit-remaining': '57', 'x-ratelimit-reset': '40' }),
    ],
    ['an empty 200', (_, response) => response.end()],
    ['a 200 cut short', (_, response) => response.end('{"id":7,')],
    ['a web page with 200', (_, response) => response.end('<html>')],
    ['a user who is another', (_, response) => response.end('{"data":{"id":8,"username":"other"}}')],
    ['a redirect to elsewhere', (_, response) => response.writeHead(302, { location: '/login' }).end()],
  ])('with the response %s has an unknown outcome: exit 8, and advice to read the user back', async (_, answer) => {
    const server = await startPlainServer(answer);
    const error = await failureOf(send(clientOf(server.url, { timeoutMs: 500 })));
    expect(error).toMatchObject({ name: 'WriteOutcomeUnknown', exitCode: 8 });
    expect(error.advice).toMatch(/Read the user back before you send it again/);
  });

  test.each<[string, Answerer, object]>([
    ['a 401', (_, response) => json(response, 401, {}), { name: 'KeyRefused', exitCode: 3, status: 401 }],
    ['a 403', (_, response) => json(response, 403, {}), { name: 'KeyRefused', exitCode: 3, status: 403 }],
    ['a 404', (_, response) => json(response, 404, {}), { name: 'NotFound', exitCode: 2 }],
    [
      'a 422',
      (_, response) => json(response, 422, { errors: { email: ['Taken.'] } }),
      { name: 'RefusedInput', exitCode: 2, problems: ['email: Taken.'] },
    ],
    [
      'success: false',
      (_, response) => json(response, 200, { success: false, errors: [] }),
      { name: 'RefusedInput', exitCode: 2, status: 200 },
    ],
    [
      'a 429',
      (_, response) => json(response, 429, {}, { 'retry-after': '9' }),
      { name: 'ServerFailed', exitCode: 4, waitMs: 9_000 },
    ],
    [
      'a 503 that names a wait',
      (_, response) => json(response, 503, {}, { 'retry-after': '9' }),
      { name: 'ServerFailed', exitCode: 4, waitMs: 9_000 },
    ],
    [
      'a redirect to a new address',
      (_, response) => response.writeHead(301, { location: 'https://x.test/' }).end(),
      { name: 'NotTheApi', exitCode: 4 },
    ],
  ])('with the response %s was not made', async (_, answer, expected) => {
    const server = await startPlainServer(answer);
    expect(await failureOf(send(clientOf(server.url)))).toMatchObject(expected);
  });

  test('whose connection was refused was not sent', async () => {
    const error = await failureOf(send(clientOf(await emptyAddress())));
    expect(error).toMatchObject({ name: 'Unreachable', exitCode: 4 });
    expect(error.message).toMatch(/nothing was sent$/);
  });

  test('aborted after sending has an unknown outcome, and aborted before only has its reason', async () => {
    const stop = new AbortController();
    const server = await startPlainServer(() => stop.abort(new Error('enough')));
    const client = clientOf(server.url);
    expect((await failureOf(sendOf(client, 'users.update', 7, {}, stop.signal))).exitCode).toBe(8);
    await expect(sendOf(client, 'users.update', 7, {}, stop.signal)).rejects.toThrow('enough');
    expect(server.received).toHaveLength(1);
  });

  test('may get 204 without a body', async () => {
    const server = await startPlainServer((_, response) => response.writeHead(204).end());
    expect(await send(clientOf(server.url))).toMatchObject({ status: 204, body: '' });
  });
});

test('no error contains the key, even if the server sends it back', async () => {
  const echoing: Answerer[] = [401, 404, 422, 500, 200].map((status) => (request, response) => {
    json(response, status, { success: false, message: `got ${request.headers.authorization}`, errors: [testKey] });
  });
  echoing.push((_, response) => response.writeHead(302, { location: `/login?key=${testKey}` }).end());
  for (const answer of echoing) {
    const server = await startPlainServer(answer);
    const client = clientOf(server.url, { attempts: 1 });
    const filters = [{ key: 'email', value: testKey }] as const;
    for (const work of [() => client.list('users', { filters }), () => sendOf(client, 'users.update', 7, {})]) {
      const error = await failureOf(work());
      expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(testKey);
    }
  }
});

describe('a walk over every page', () => {
  test('yields each record once, in the largest pages the server allows', async () => {
    const sandbox = await startSandbox({ users: 60 });
    sandbox.control.setBehaviour({ page_max: 25 });
    const client = clientOf(sandbox.url, { key: sandbox.key });
    const ids: unknown[] = [];
    for await (const { records } of client.pages('users', { sorts: [{ key: 'created_at', direction: 'asc' }] })) {
      ids.push(...records.map(({ id }) => id));
    }
    expect(ids).toHaveLength(60);
    expect(new Set(ids).size).toBe(60);
    expect(client.counters.requests).toBe(3);
  });

  test('requests half of a page that is too large', async () => {
    const records = Array.from({ length: 20 }, (_, index) => ({ id: index + 1, text: 'x'.repeat(100) }));
    const server = await startPlainServer(({ url }, response) => {
      const query = new URL(url, 'http://x').searchParams;
      const [number, size] = [Number(query.get('page')), Number(query.get('paginate'))];
      const some = records.slice((number - 1) * size, number * size);
      json(response, 200, { ...envelopeOf(some, number, Math.ceil(20 / size), 20), per_page: size });
    });
    const seen: unknown[] = [];
    for await (const { records: some } of clientOf(server.url, { maxBodyBytes: 1_000, pageSize: 20 }).pages('users')) {
      seen.push(...some.map(({ id }) => id));
    }
    expect(seen).toEqual(records.map(({ id }) => id));
  });

  test('warns if the number of records changes', async () => {
    const server = await startPlainServer((_, response, before) =>
      json(response, 200, envelopeOf([{ id: before + 1 }], before + 1, 3, 30 + before)),
    );
    const warnings: unknown[] = [];
    const log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) };
    for await (const each of clientOf(server.url, { log }).pages('users')) expect(each.records).toHaveLength(1);
    expect(warnings).toEqual([{ resource: 'users', before: 30, now: 31 }]);
  });
});

test('a read survives every fault of the sandbox in a row', async () => {
  const sandbox = await startSandbox();
  const faults: Fault[] = ['error_500', 'html', 'reset_before', 'reset_middle', 'truncated', 'empty_body'];
  sandbox.control.faultNext(faults.map((fault) => ({ fault })));
  const client = clientOf(sandbox.url, { key: sandbox.key, attempts: 7 });
  expect((await client.list('users')).total).toBe(60);
  expect(client.counters.retries).toBe(6);
});
