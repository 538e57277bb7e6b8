import { describe, expect, onTestFinished, test } from 'vitest';
import { openSandbox, type SandboxOptions } from '../../src/sandbox/sandbox.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { call, page } from './call.ts';

async function started(options: SandboxOptions) {
  const sandbox = await openSandbox({ users: 60, emails: 10, now: () => sandboxNow, ...options });
  onTestFinished(() => sandbox.close());
  return sandbox;
}

const credit = { method: 'PUT', body: { type: 'add', amount: 5, description: 'x' } } as const;

describe('faults by chance', () => {
  test('fail requests before anything is done', async () => {
    const sandbox = await started({ behaviour: { errors: 1 } });
    const seen = new Set<string>();
    for (let tries = 0; tries < 40; tries += 1) {
      const reply = await call(sandbox, '/api/v1/users/3/update-balance', credit).catch(() => undefined);
      seen.add(reply === undefined ? 'reset' : `${reply.status} ${String(reply.headers['content-type'])}`);
    }
    expect([...seen].toSorted()).toEqual([
      '500 application/json; charset=utf-8',
      '502 application/json; charset=utf-8',
      '502 text/html; charset=UTF-8',
      '503 application/json; charset=utf-8',
      'reset',
    ]);
    expect(sandbox.control.ledger()).toEqual([]);
  });

  test('lose the responses to writes that were made, and never those to reads', async () => {
    const sandbox = await started({ behaviour: { lost_answers: 1 } });
    for (let tries = 0; tries < 10; tries += 1) {
      const reply = await call(sandbox, '/api/v1/users/3/update-balance', credit).catch(() => undefined);
      expect(reply?.status ?? 500).toBe(500);
    }
    expect(sandbox.control.ledger()).toHaveLength(10);
    expect((await call(sandbox, '/api/v1/users')).status).toBe(200);
  });

  test.each(['rough', 'hostile'] as const)('under %s a client that retries reads everything', async (chaos) => {
    const sandbox = await started({ chaos, users: 120 });
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
    expect(Object.keys(sandbox.control.requests().byStatus).length).toBeGreaterThan(1);
  });
});

describe('limits', () => {
  test('a rate is announced, enforced, and refused with Retry-After', async () => {
    const sandbox = await started({ behaviour: { rate_limit: 2, rate_window: 30 } });
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

  test('a wrong key does not use up the rate', async () => {
    const sandbox = await started({ behaviour: { rate_limit: 1 } });
    await call(sandbox, '/api/v1/users', { headers: {} });
    expect((await call(sandbox, '/api/v1/users')).status).toBe(200);
  });

  test('latency delays every response', async () => {
    const sandbox = await started({ behaviour: { latency: 30, latency_jitter: 5 } });
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
