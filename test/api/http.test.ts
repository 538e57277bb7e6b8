import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { inspect } from 'node:util';
import zlib from 'node:zlib';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type Http, type HttpOptions, openHttp } from '../../src/api/http.ts';
import type { TransportError } from '../../src/api/transport.ts';
import { type Answerer, emptyAddress, startPlainServer, testKey } from './support/plain-server.ts';

function httpOf(baseUrl: string, options: Partial<HttpOptions> = {}): Http {
  const http = openHttp({
    baseUrl,
    key: testKey,
    userAgent: 'tests',
    timeoutMs: 5_000,
    maxBodyBytes: 1_000_000,
    connections: 2,
    ...options,
  });
  onTestFinished(() => http.close());
  return http;
}

const get = { method: 'GET', path: '/api/v1/users' } as const;

async function failureOf(answer: Answerer, options: Partial<HttpOptions> = {}): Promise<TransportError> {
  const server = await startPlainServer(answer);
  const error: unknown = await httpOf(server.url, options)
    .send(get)
    .catch((each: unknown) => each);
  return error as TransportError;
}

test('sends the key and JSON headers, and returns status, headers, body and time', async () => {
  const server = await startPlainServer((_, response) => response.writeHead(201, { 'x-one': 'two' }).end('{"a":1}'));
  const answer = await httpOf(server.url).send(get);
  expect(answer).toMatchObject({ status: 201, body: '{"a":1}' });
  expect(answer.headers['x-one']).toBe('two');
  expect(answer.milliseconds).toBeGreaterThan(0);
  expect(server.received[0]?.headers).toMatchObject({
    authorization: `Bearer ${testKey}`,
    accept: 'application/json',
    'content-type': 'application/json',
    'cache-control': 'no-cache',
    'user-agent': 'tests',
  });
});

const encoders: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  gzip: zlib.gzipSync,
  br: zlib.brotliCompressSync,
  zstd: zlib.zstdCompressSync,
  deflate: zlib.deflateSync,
  'deflate, gzip': (bytes) => zlib.gzipSync(zlib.deflateSync(bytes)),
};

test.each(Object.entries(encoders))(
  'a body that comes as %s without being requested is decoded',
  async (coding, encode) => {
    const server = await startPlainServer((_, response) =>
      response.writeHead(200, { 'content-encoding': coding }).end(encode(Buffer.from(`{"key":"${testKey}"}`))),
    );
    // The key is removed from compressed bodies, too.
    expect((await httpOf(server.url).send(get)).body).toBe('{"key":"****"}');
  },
);

test('raw deflate is decoded; an unknown encoding or a truncated body is a protocol error', async () => {
  const as = (coding: string, bytes: Buffer) => (_: unknown, response: ServerResponse) =>
    response.writeHead(200, { 'content-encoding': coding }).end(bytes);
  const server = await startPlainServer(as('deflate', zlib.deflateRawSync('{}')));
  expect((await httpOf(server.url).send(get)).body).toBe('{}');
  expect(await failureOf(as('secret', Buffer.from('\x1f\x9d')))).toMatchObject({ fault: 'protocol', sent: true });
  const cut = zlib.gzipSync(randomBytes(999)).subarray(0, 400);
  expect(await failureOf(as('gzip', cut))).toMatchObject({ fault: 'protocol' });
});

test.each(['utf-8', 'none', '', 'application/json', 'UTF8'])(
  'a body that is not encoded is read, although Content-Encoding says %j',
  async (coding) => {
    const server = await startPlainServer((_, response) =>
      response.writeHead(200, { 'content-encoding': coding }).end('{"a":1}'),
    );
    expect((await httpOf(server.url).send(get)).body).toBe('{"a":1}');
  },
);

test('the limit on a body applies to its decompressed size', async () => {
  const bomb: Answerer = (_, response) =>
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(zlib.gzipSync(Buffer.alloc(2_000_000)));
  expect(await failureOf(bomb)).toMatchObject({ fault: 'too-large' });
});

test('a byte order mark is not part of the body', async () => {
  const server = await startPlainServer((_, response) => response.end('\uFEFF{"a":1}'));
  expect((await httpOf(server.url).send(get)).body).toBe('{"a":1}');
});

test.each(['/panel', '/panel/', '/a/b'])('the path %s of the base address precedes every path', async (prefix) => {
  const server = await startPlainServer((_, response) => response.end('{}'));
  const http = httpOf(`${server.url}${prefix}`);
  await http.send({ method: 'GET', path: '/api/v1/users?page=2' });
  const trimmed = prefix.replace(/\/$/, '');
  expect(server.received[0]?.url).toBe(`${trimmed}/api/v1/users?page=2`);
  expect(http.address).toBe(`${server.url}${trimmed}`);
});

// proves: redirect
test('a redirect is returned and not followed', async () => {
  const other = await startPlainServer((_, response) => response.end('{}'));
  const server = await startPlainServer((_, response) => response.writeHead(302, { location: other.url }).end());
  expect(await httpOf(server.url).send(get)).toMatchObject({ status: 302, headers: { location: other.url } });
  expect(other.received).toHaveLength(0);
});

test('reads reuse a connection, and each write gets its own', async () => {
  const connections = new Set<unknown>();
  const server = await startPlainServer((_, response) => {
    connections.add(response.socket);
    response.end('{}');
  });
  const http = httpOf(server.url, { connections: 1 });
  for (let count = 0; count < 3; count += 1) await http.send(get);
  expect(connections.size).toBe(1);
  for (let count = 0; count < 2; count += 1) await http.send({ method: 'PUT', path: '/x', body: '{}' });
  expect(connections.size).toBe(3);
  expect(server.received.at(-1)?.headers['connection']).toBe('close');
});

test.each([
  ['announced', (): Answerer => (_, response) => response.writeHead(200, { 'content-length': 2_000_000 }).write('{')],
  ['sent piece by piece', (): Answerer => (_, response) => void response.write(Buffer.alloc(1_500_000))],
])('a body over the limit, %s, ends the exchange', async (_, answerer) => {
  expect(await failureOf(answerer())).toMatchObject({ fault: 'too-large', sent: true });
});

test('a silent server ends with a timeout, before the response or within it', async () => {
  expect(await failureOf(() => {}, { timeoutMs: 40 })).toMatchObject({ fault: 'timeout', sent: true });
  const dripping: Answerer = (_, response) => {
    const timer = setInterval(() => response.write(' '), 5);
    response.on('close', () => clearInterval(timer));
  };
  expect(await failureOf(dripping, { timeoutMs: 60 })).toMatchObject({ fault: 'timeout', sent: true });
});

test('a broken connection is distinguished from one that was never made', async () => {
  expect(await failureOf((_, response) => response.destroy())).toMatchObject({ fault: 'reset', sent: true });
  const cut: Answerer = (_, response) => {
    response.writeHead(200, { 'content-length': 100 }).write('{"data":');
    setImmediate(() => response.destroy());
  };
  expect(await failureOf(cut)).toMatchObject({ sent: true });
  const refused = httpOf(await emptyAddress()).send(get);
  await expect(refused).rejects.toMatchObject({ fault: 'connect', sent: false });
  await expect(refused).rejects.toThrow(/refused \(ECONNREFUSED\)/);
});

test('an unrequested `100 Continue` is named', async () => {
  const early: Answerer = (_, response) => {
    response.writeContinue();
    response.end('{}');
  };
  const failure = await failureOf(early);
  expect(failure).toMatchObject({ fault: 'reset', sent: true });
  expect(String(failure)).toContain('a response that was not requested, such as 100 Continue');
});

test('TLS to a port without TLS is named', async () => {
  const server = await startPlainServer((_, response) => response.end('{}'));
  const http = httpOf(server.url.replace('http:', 'https:'));
  await expect(http.send(get)).rejects.toMatchObject({ fault: 'tls', sent: false });
});

test('a request that may no longer begin once connected is certainly not sent', async () => {
  const server = await startPlainServer((_, response) => response.writeHead(200).end('{}'));
  const http = httpOf(server.url);
  const write = { method: 'PUT', path: '/api/v1/users/1', body: '{}' } as const;
  const error: unknown = await http.send({ ...write, mayBegin: () => false }).catch((each: unknown) => each);
  expect(error).toMatchObject({ fault: 'late', sent: false });
  expect(server.received).toEqual([]);
  expect(await http.send({ ...write, mayBegin: () => true })).toMatchObject({ status: 200 });
});

test('an abort before sending gives the reason, and one afterwards says that the request was sent', async () => {
  const reason = new Error('stopped by the test');
  const server = await startPlainServer(() => stop.abort(reason));
  const stop = new AbortController();
  const http = httpOf(server.url);
  await expect(http.send(get, AbortSignal.abort(reason))).rejects.toBe(reason);
  expect(server.received).toHaveLength(0);
  await expect(http.send(get, stop.signal)).rejects.toMatchObject({ fault: 'aborted', sent: true });
});

test('no error contains the key, whatever the server sends', async () => {
  const echoing: Answerer = ({ headers }, response) =>
    response.socket?.end(`HTTP/1.1 200 OK\r\n${headers.authorization}\r\n\r\n`);
  const error = await failureOf(echoing);
  expect(error.fault).toBe('protocol');
  expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(testKey);
});

describe('a secret that a server sends back', () => {
  const secretIn = (text: string): string => `{"data":[{"id":1,"note":"${'x'.repeat(60_000)}${text}"}]}`;

  test.each([
    ['the key', testKey],
    ['the key in base64', Buffer.from(testKey).toString('base64')],
    ['a field called a password', '","password":"k3Xw9q'],
  ])('is removed from a body: %s', async (_, written) => {
    const server = await startPlainServer((_request, response) => response.end(secretIn(written)));
    const response = await httpOf(server.url).send(get);
    expect(response.cleanBytes()).toBe(undefined);
    expect(response.body).toContain('****');
    for (const secret of [testKey, written, 'k3Xw9q']) expect(response.body).not.toContain(secret);
  });

  test('is removed from the response to a write, wherever it stands', async () => {
    const server = await startPlainServer(({ body }, response) =>
      response
        .writeHead(200, { 'x-echo': JSON.parse(body).password })
        .end(`{"note":"set to hunter22","password":"made-one"}`),
    );
    const body = JSON.stringify({ password: 'hunter22' });
    const response = await httpOf(server.url).send({ method: 'POST', path: '/x', body });
    expect(response.body).toBe('{"note":"set to ****","password":"****"}');
    expect(response.headers['x-echo']).toBe('****');
  });

  test('is not looked for where a short key may be a word', async () => {
    const server = await startPlainServer((_request, response) => response.end(secretIn('some word')));
    const response = await httpOf(server.url, { key: 'word' }).send(get);
    expect(response.body).toBe(secretIn('some word'));
  });
});

test('a body without secrets is given as it came, unless it is no UTF-8 or has a byte order mark', async () => {
  const bodies = ['{"a":"é😀, the password is not given"}', '\uFEFF{}', Buffer.from([0x22, 0xe9, 0x22])];
  const server = await startPlainServer((_request, response, before) => response.end(bodies[before]));
  const http = httpOf(server.url);
  expect((await http.send(get)).cleanBytes()?.toString()).toBe(bodies[0]);
  expect((await http.send(get)).cleanBytes()).toBe(undefined);
  expect((await http.send(get)).cleanBytes()).toBe(undefined);
});
