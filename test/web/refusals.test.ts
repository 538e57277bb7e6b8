// @module-tag full
import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { roles } from '../../src/model/actor.ts';
import { version } from '../../src/model/program.ts';
import { limits } from '../../src/web/app.ts';
import { startConsole } from '../support/console.ts';

interface Raw {
  /** `GET /runs` */
  readonly line: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Sends exactly these bytes and returns everything received until the connection closes. */
async function sent(url: string, bytes: string): Promise<{ status: number; head: string; body: string }> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  await once(socket, 'connect');
  const all = text(socket);
  socket.write(bytes);
  const [head = '', ...body] = (await all).split('\r\n\r\n');
  return {
    status: Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]),
    head: head.toLowerCase(),
    body: body.join('\r\n\r\n'),
  };
}

function bytesOf(url: string, cookie: string, { line, headers = {}, body = '' }: Raw): string {
  const { host } = new URL(url);
  const all = { Host: host, Origin: url, Cookie: cookie, Connection: 'close', ...headers };
  const length = body === '' ? {} : { 'Content-Length': String(Buffer.byteLength(body)) };
  const lines = Object.entries({ ...length, ...all }).flatMap(([name, value]) =>
    value === '' ? [] : [`${name}: ${value}`],
  );
  return `${[`${line} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n${body}`;
}

const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
const multipart = { 'Content-Type': 'multipart/form-data; boundary=x' };
const action = '--x\r\nContent-Disposition: form-data; name="action"\r\n\r\nbalance\r\n';
const part = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n';

/** Requests that the framework, a plugin or Node would refuse by themselves, each with its expected status. */
const refusals: readonly (readonly [string, number, Raw])[] = [
  ['an unknown address', 404, { line: 'GET /nowhere' }],
  ['a parameter with a null', 404, { line: 'GET /runs/%00' }],
  ['a method that no page has', 404, { line: 'DELETE /runs' }],
  ['a method of other protocols', 404, { line: 'PROPFIND /' }],
  ['TRACE', 404, { line: 'TRACE /' }],
  ['OPTIONS', 404, { line: 'OPTIONS /runs' }],
  ['the host of another', 403, { line: 'GET /', headers: { Host: 'rebound.example' } }],
  [
    'a form of another site',
    403,
    { line: 'POST /runs', headers: { ...form, Origin: 'https://evil.example' }, body: 'a=b' },
  ],
  ['a form that is too large', 413, { line: 'POST /runs', headers: form, body: 'x'.repeat(limits.formBytes + 1) }],
  ['a type that no form has', 415, { line: 'POST /runs', headers: { 'Content-Type': 'image/png' }, body: 'x' }],
  ['a type that is not valid', 415, { line: 'POST /runs', headers: { 'Content-Type': ';;' }, body: 'x' }],
  ['JSON', 415, { line: 'POST /runs', headers: { 'Content-Type': 'application/json' }, body: '{' }],
  ['plain text', 415, { line: 'POST /runs', headers: { 'Content-Type': 'text/plain' }, body: 'x' }],
  [
    'a form with files and no boundary',
    400,
    { line: 'POST /batches', headers: { 'Content-Type': 'multipart/form-data' }, body: 'x' },
  ],
  [
    'a form with files that ends too early',
    400,
    { line: 'POST /batches', headers: multipart, body: `${action}${part}user_id,type,amount\n1,add,1\n` },
  ],
  ['a form with files that is not valid', 400, { line: 'POST /batches', headers: multipart, body: 'x' }],
  ['a form without files where a file is needed', 406, { line: 'POST /batches', headers: form, body: 'a=b' }],
  ['two files', 422, { line: 'POST /batches', headers: multipart, body: `${part}a\r\n${part}b\r\n--x--\r\n` }],
  ['a page of another role', 403, { line: 'GET /people', headers: { 'X-As': 'reader' } }],
];

/** Checks what every error page must and must not contain. */
function expectErrorPage({ head, body }: { readonly head: string; readonly body: string }): void {
  expect(head).toContain('content-type: text/html; charset=utf-8');
  expect(head).toMatch(/content-security-policy: default-src 'none'/);
  expect(head).toContain('x-content-type-options: nosniff');
  expect(head).toMatch(/x-frame-options: deny/);
  expect(head).not.toMatch(/fastify|x-powered-by|\nserver:/);
  expect(body).toMatch(/^(?:<!doctype html>|$)/);
  expect(body).not.toMatch(/\.[jt]s:\d+|node_modules|fastify|FST_|statusCode/i);
}

describe('a refused request', () => {
  test('gets an error page of the console with its usual headers, whichever layer refused it', async () => {
    const { url, browser } = await startConsole();
    const { cookie } = await browser('anna', [...roles]);
    const { cookie: readers } = await browser('rita', ['reader']);
    const statuses: Record<string, number> = {};
    for (const [what, , raw] of refusals) {
      const response = await sent(url, bytesOf(url, raw.headers?.['X-As'] === 'reader' ? readers : cookie, raw));
      statuses[what] = response.status;
      expectErrorPage(response);
      const nobody = await sent(url, bytesOf(url, '', raw));
      expect(nobody.body).not.toContain(version());
    }
    expect(statuses).toEqual(Object.fromEntries(refusals.map(([what, status]) => [what, status])));
  });
});
