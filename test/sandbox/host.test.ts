import zlib from 'node:zlib';
import { request } from 'undici';
import { describe, expect, test } from 'vitest';
import { startSandbox } from '../support/sandbox.ts';
import { broken, call, json, page, type Reply } from './call.ts';

describe('a host', () => {
  test('fails above a number of records on a page, whatever page size was requested', async () => {
    const sandbox = await startSandbox({ behaviour: { page_breaks_over: 40 } });
    expect((await page(sandbox, 'users?paginate=40')).data).toHaveLength(40);
    expect((await call(sandbox, '/api/v1/users?paginate=41')).status).toBe(500);
    // The last page is small enough.
    expect((await page(sandbox, 'users?paginate=41&page=2')).data).toHaveLength(19);
  });

  test('fails above a number of bytes, in the way set by a switch', async () => {
    const sandbox = await startSandbox({ behaviour: { page_breaks_bytes: 9_000, page_breaks_how: 'html' } });
    expect((await call(sandbox, '/api/v1/users')).status).toBe(200);
    expect((await call(sandbox, '/api/v1/users?paginate=60')).text).toMatch(/^<!DOCTYPE html>/);
    sandbox.control.setBehaviour({ page_breaks_how: 'says_so' });
    expect(await json(sandbox, '/api/v1/users?paginate=60')).toEqual({ message: 'Be right back.' });
    sandbox.control.setBehaviour({ page_breaks_how: 'reset_middle' });
    await expect(call(sandbox, '/api/v1/users?paginate=60')).rejects.toThrow(broken);
  });

  test('fails on every response with a poisoned record', async () => {
    const sandbox = await startSandbox({ behaviour: { poisoned: 'users:3, emails:2' } });
    const status = async (path: string) => (await call(sandbox, `/api/v1/${path}`)).status;
    expect(await status('users')).toBe(500);
    expect(await status('users/3')).toBe(500);
    expect(await status('users/4')).toBe(200);
    expect(await status('packages')).toBe(200);
    expect(await status('emails?filter[id]=3')).toBe(200);
  });
});

describe('a cache in front', () => {
  const read = async (sandbox: Awaited<ReturnType<typeof startSandbox>>, fresh = false): Promise<[number, Reply]> => {
    const headers = {
      authorization: `Bearer ${sandbox.key}`,
      accept: 'application/json',
      ...(fresh ? { 'cache-control': 'no-cache' } : {}),
    };
    const reply = await call(sandbox, '/api/v1/users', { headers });
    return [(JSON.parse(reply.text) as { total: number }).total, reply];
  };

  test('serves stored responses with their age, and honours no-cache unless a switch says otherwise', async () => {
    const sandbox = await startSandbox({ behaviour: { cache_seconds: 60 } });
    await read(sandbox);
    sandbox.control.insert('users');
    sandbox.control.advanceClock(40_000);
    const [kept, { headers }] = await read(sandbox);
    expect([kept, headers['age']]).toEqual([60, '40']);
    expect((await read(sandbox, true))[0]).toBe(61);
    sandbox.control.setBehaviour({ cache_obeys: false });
    sandbox.control.insert('users');
    expect((await read(sandbox, true))[0]).toBe(61);
    sandbox.control.advanceClock(61_000);
    expect((await read(sandbox, true))[0]).toBe(62);
  });
});

describe('a body', () => {
  test.each([
    ['gzip', zlib.gunzipSync],
    ['br', zlib.brotliDecompressSync],
    ['deflate', zlib.inflateSync],
    ['deflate_raw', zlib.inflateRawSync],
    ['zstd', zlib.zstdDecompressSync],
  ] as const)('is compressed as %s with a switch', async (compression, unpack) => {
    const sandbox = await startSandbox({ behaviour: { compression } });
    const { headers, body } = await request(`${sandbox.url}/api/v1/users`, {
      headers: { authorization: `Bearer ${sandbox.key}` },
    });
    expect(headers['content-encoding']).toBe(compression.replace('_raw', ''));
    const bytes = Buffer.from(await body.arrayBuffer());
    expect(JSON.parse(unpack(bytes).toString())).toMatchObject({ total: 60 });
  });

  test('has a byte order mark, or records under numbers, with a switch', async () => {
    const sandbox = await startSandbox({ behaviour: { byte_order_mark: true, data_as_object: true } });
    const { body } = await request(`${sandbox.url}/api/v1/users`, {
      headers: { authorization: `Bearer ${sandbox.key}` },
    });
    const bytes = Buffer.from(await body.arrayBuffer());
    expect(bytes.subarray(0, 3)).toEqual(Buffer.from([0xef, 0xbb, 0xbf]));
    const { data } = JSON.parse(bytes.subarray(3).toString()) as { data: Record<string, { id: number }> };
    expect(Object.keys(data)).toEqual(Array.from({ length: 15 }, (_, index) => String(index)));
  });
});
