import { describe, expect, test } from 'vitest';
import type { Fault, Sandbox } from '../../src/sandbox/sandbox.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { broken, call, page, parses, type Reply } from './call.ts';

/** The response to the next list request under this fault. */
async function faulty(sandbox: Sandbox, fault: Fault): Promise<Reply> {
  sandbox.control.faultNext({ fault });
  return call(sandbox, '/api/v1/users');
}

describe('a read fault', () => {
  test.each([
    ['error_500', 500],
    ['error_502', 502],
    ['error_503', 503],
    ['too_many', 429],
  ] as const)('%s is a response with status %i', async (fault, status) => {
    const sandbox = await startSandbox({ behaviour: { retry_after_seconds: 3 } });
    const reply = await faulty(sandbox, fault);
    expect(reply.status).toBe(status);
    expect(JSON.parse(reply.text)).toHaveProperty('message');
    expect(reply.headers['retry-after']).toBe(status === 503 || status === 429 ? '3' : undefined);
    expect((await call(sandbox, '/api/v1/users')).status).toBe(200);
  });

  test('html is the page of a proxy, with any status and content type', async () => {
    const sandbox = await startSandbox();
    const reply = await faulty(sandbox, 'html');
    expect(reply.status).toBe(502);
    expect(reply.headers['content-type']).toBe('text/html; charset=UTF-8');
    expect(reply.text).toMatch(/^<!DOCTYPE html>/);
    sandbox.control.setBehaviour({ html_status: 200, html_content_type: 'application/json' });
    const lying = await faulty(sandbox, 'html');
    expect(lying.status).toBe(200);
    expect(lying.headers['content-type']).toBe('application/json');
    expect(lying.text).toMatch(/^<!DOCTYPE html>/);
  });

  test('reset_before breaks the connection before the first byte', async () => {
    const sandbox = await startSandbox();
    await expect(faulty(sandbox, 'reset_before')).rejects.toThrow(broken);
  });

  test('reset_middle breaks the connection in the middle of the body', async () => {
    const sandbox = await startSandbox();
    sandbox.control.faultNext({ fault: 'reset_middle' });
    const headers = { authorization: `Bearer ${sandbox.key}`, accept: 'application/json' };
    const reply = await fetch(`${sandbox.url}/api/v1/users`, { headers });
    expect(reply.status).toBe(200);
    await expect(reply.text()).rejects.toThrow(broken);
  });

  test('truncated is half of the JSON in a complete response', async () => {
    const sandbox = await startSandbox();
    const reply = await faulty(sandbox, 'truncated');
    expect(reply.status).toBe(200);
    expect(Number(reply.headers['content-length'])).toBe(reply.text.length);
    expect(parses(reply.text)).toBe(false);
    expect(reply.text).toMatch(/^\{"status":true/);
  });

  test('hang is no response at all', async () => {
    const sandbox = await startSandbox();
    sandbox.control.faultNext({ fault: 'hang' });
    const giveUp = new AbortController();
    const asked = call(sandbox, '/api/v1/users', { signal: giveUp.signal });
    // This gets a response although the request before it does not.
    expect((await call(sandbox, '/api/v1/packages')).status).toBe(200);
    expect(sandbox.control.requests().recent[0]).toMatchObject({ fault: 'hang', status: null });
    giveUp.abort();
    await expect(asked).rejects.toThrow(/abort/i);
  });

  test('hang ends when the sandbox closes', async () => {
    const sandbox = await startSandbox();
    sandbox.control.faultNext({ fault: 'hang' });
    const asked = call(sandbox, '/api/v1/users').catch((error: unknown) => String(error));
    await call(sandbox, '/api/v1/packages');
    await sandbox.close();
    expect(await asked).toMatch(broken);
  });

  test('empty_body is a 200 without a body', async () => {
    const sandbox = await startSandbox();
    expect(await faulty(sandbox, 'empty_body')).toMatchObject({ status: 200, text: '' });
  });

  test('empty_list is an empty envelope', async () => {
    const sandbox = await startSandbox();
    const reply = await faulty(sandbox, 'empty_list');
    expect(JSON.parse(reply.text)).toMatchObject({ status: true, data: [], total: 0, last_page: 1, from: null });
  });

  test('redirect points to another host', async () => {
    const sandbox = await startSandbox();
    const reply = await faulty(sandbox, 'redirect');
    expect(reply.status).toBe(302);
    expect(reply.headers['location']).toBe('https://login.example/session');
  });

  test('oversized is a body of the size set by the switch', async () => {
    const sandbox = await startSandbox({ behaviour: { oversized_bytes: 100_000 } });
    const reply = await faulty(sandbox, 'oversized');
    expect(reply.text).toHaveLength(100_000);
    expect(JSON.parse(reply.text)).toMatchObject({ total: 60 });
  });
});

describe('random faults', () => {
  const statuses = async (sandbox: Sandbox, count: number): Promise<number[]> => {
    const seen: number[] = [];
    for (let at = 0; at < count; at += 1) seen.push((await call(sandbox, `/api/v1/users?page=${at}`)).status);
    return seen;
  };

  test('come with their probability, and the same for every run with a seed', async () => {
    const behaviour = { read_error_500: 0.2, read_error_502: 0.2 };
    const [one, two] = [await startSandbox({ behaviour }), await startSandbox({ behaviour })];
    const first = await statuses(one, 120);
    expect(await statuses(two, 120)).toEqual(first);
    for (const status of [500, 502]) {
      const share = first.filter((each) => each === status).length / first.length;
      expect(share).toBeGreaterThan(0.1);
      expect(share).toBeLessThan(0.3);
    }
    expect(await statuses(await startSandbox({ behaviour, seed: 8 }), 120)).not.toEqual(first);
  });

  test('never come with the preset calm', async () => {
    const sandbox = await startSandbox({ chaos: 'calm' });
    expect(new Set(await statuses(sandbox, 60))).toEqual(new Set([200]));
    expect(sandbox.control.requests().faults).toEqual({});
  });

  test('hit the same request at most fault_streak times in a row', async () => {
    const sandbox = await startSandbox({ behaviour: { read_error_500: 1, fault_streak: 2 } });
    const again = async (path: string): Promise<number> => (await call(sandbox, path)).status;
    expect([await again('/api/v1/users'), await again('/api/v1/users')]).toEqual([500, 500]);
    expect(await again('/api/v1/packages')).toBe(500);
    expect([await again('/api/v1/users'), await again('/api/v1/users')]).toEqual([200, 500]);
  });
});

describe('scripted faults', () => {
  test('hit the requests that they match, in order', async () => {
    const sandbox = await startSandbox();
    sandbox.control.faultNext([
      { fault: 'error_500', match: { path: '/users' }, times: 2 },
      { fault: 'error_502', match: { path: 'page=3' } },
      { fault: 'error_503', match: { method: 'POST' } },
      { fault: 'empty_body', match: { path: /filter\[code\]=A/ } },
    ]);
    const status = async (path: string): Promise<number> => (await call(sandbox, `/api/v1/${path}`)).status;
    expect(await status('packages')).toBe(200);
    expect(await status('packages?page=3')).toBe(502);
    expect([await status('users'), await status('users/1'), await status('users')]).toEqual([500, 500, 200]);
    expect((await call(sandbox, '/api/v1/users', { method: 'POST', body: {} })).status).toBe(503);
    expect((await call(sandbox, '/api/v1/coupons?filter[code]=ABC')).text).toBe('');
    expect(await status('packages?page=3')).toBe(200);
  });

  test('can be cleared', async () => {
    const sandbox = await startSandbox();
    sandbox.control.faultNext({ fault: 'error_500', times: 9 });
    sandbox.control.clearFaults();
    expect((await call(sandbox, '/api/v1/users')).status).toBe(200);
  });

  test('must have a known name', async () => {
    const sandbox = await startSandbox();
    expect(() => sandbox.control.faultNext({ fault: 'reset_befor' as Fault })).toThrow('no fault called "reset_befor"');
  });
});

describe('limits', () => {
  test('a rate is announced, enforced, and refused with Retry-After', async () => {
    const sandbox = await startSandbox({ now: () => sandboxNow, behaviour: { rate_limit: 2, rate_window: 30 } });
    const one = await call(sandbox, '/api/v1/users');
    expect(one.headers).toMatchObject({ 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '1' });
    await call(sandbox, '/api/v1/users');
    sandbox.control.advanceClock(9_500);
    const refused = await call(sandbox, '/api/v1/users');
    expect(refused.status).toBe(429);
    expect(refused.headers).toMatchObject({
      'retry-after': '21',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String(sandboxNow / 1_000 + 30),
    });
    sandbox.control.advanceClock(20_500);
    expect((await call(sandbox, '/api/v1/users')).status).toBe(200);
  });

  test('a rate is enforced without headers with a switch', async () => {
    const sandbox = await startSandbox({ behaviour: { rate_limit: 1, rate_headers: false, retry_after: 'none' } });
    expect((await call(sandbox, '/api/v1/users')).headers).not.toHaveProperty('x-ratelimit-limit');
    const refused = await call(sandbox, '/api/v1/users');
    expect(refused.status).toBe(429);
    expect(refused.headers).not.toHaveProperty('retry-after');
    expect(refused.headers).not.toHaveProperty('x-ratelimit-limit');
  });

  test('Retry-After can be a date', async () => {
    const sandbox = await startSandbox({ now: () => sandboxNow, behaviour: { rate_limit: 1, retry_after: 'date' } });
    await call(sandbox, '/api/v1/users');
    const refused = await call(sandbox, '/api/v1/users');
    expect(Date.parse(String(refused.headers['retry-after']))).toBe(sandboxNow + 60_000);
  });

  test('a wrong key does not use up the rate', async () => {
    const sandbox = await startSandbox({ behaviour: { rate_limit: 1 } });
    await call(sandbox, '/api/v1/users', { headers: {} });
    expect((await call(sandbox, '/api/v1/users')).status).toBe(200);
  });

  test('latency delays every response', async () => {
    const sandbox = await startSandbox({ behaviour: { latency: 30, latency_jitter: 5 } });
    const start = performance.now();
    await call(sandbox, '/api/v1/users');
    expect(performance.now() - start).toBeGreaterThanOrEqual(29);
  });
});

test('the Date header has the time of the sandbox', async () => {
  const sandbox = await startSandbox({ now: () => sandboxNow });
  const reply = await call(sandbox, '/api/v1/users');
  expect(Date.parse(String(reply.headers['date']))).toBe(sandboxNow);
});

test.each(['rough', 'storm'] as const)('under %s a client that retries reads everything', async (chaos) => {
  const sandbox = await startSandbox({ chaos, users: 120, behaviour: { read_hang: 0 } });
  const read = async (path: string): Promise<void> => {
    for (let tries = 0; tries < 50; tries += 1) {
      try {
        if ((await page(sandbox, path)).data.length > 0) return;
      } catch {
        sandbox.control.advanceClock(1_000);
      }
    }
    throw new Error(`${path} was never answered`);
  };
  for (let number = 1; number <= 40; number += 1) await read(`users?paginate=2&page=${number}`);
  expect(Object.keys(sandbox.control.requests().faults).length).toBeGreaterThan(1);
});
