import { describe, expect, test } from 'vitest';
import { writeFaultNames } from '../../src/sandbox/faults.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { startSandbox } from '../support/sandbox.ts';
import { broken, call, parses, type Reply } from './call.ts';

async function prepared(): Promise<Sandbox> {
  const sandbox = await startSandbox();
  sandbox.control.update('users', 5, { balance: 100 });
  return sandbox;
}

function credit(sandbox: Sandbox, signal?: AbortSignal): Promise<Reply> {
  const body = { type: 'add', amount: 10, description: 'am:token' };
  const path = '/api/v1/users/5/update-balance';
  return call(sandbox, path, { method: 'PUT', body, ...(signal === undefined ? {} : { signal }) });
}

const balance = (sandbox: Sandbox): unknown => sandbox.control.get('users', 5)?.['balance'];

describe('a write fault', () => {
  test.each([
    ['error_500', 500],
    ['error_502', 502],
    ['error_503', 503],
    ['too_many', 429],
    ['html', 502],
    ['redirect', 302],
  ] as const)('%s responds with %i and writes nothing', async (fault, status) => {
    const sandbox = await prepared();
    sandbox.control.faultNext({ fault });
    expect((await credit(sandbox)).status).toBe(status);
    expect(balance(sandbox)).toBe(100);
    expect(sandbox.control.ledger()).toEqual([]);
  });

  test('reset_before breaks the connection and writes nothing', async () => {
    const sandbox = await prepared();
    sandbox.control.faultNext({ fault: 'reset_before' });
    await expect(credit(sandbox)).rejects.toThrow(broken);
    expect(balance(sandbox)).toBe(100);
  });

  test.each([
    ['commit_500', 500, true],
    ['commit_html', 502, false],
    ['commit_refused', 422, true],
    ['commit_empty', 200, false],
    ['commit_truncated', 200, false],
  ] as const)('%s responds with %i although it wrote', async (fault, status, isJson) => {
    const sandbox = await prepared();
    sandbox.control.faultNext({ fault });
    const reply = await credit(sandbox);
    expect(reply.status).toBe(status);
    expect(balance(sandbox)).toBe(110);
    expect(parses(reply.text)).toBe(isJson);
    expect(reply.text.includes('"success":false')).toBe(fault === 'commit_refused');
  });

  test('commit_reset writes and breaks the connection', async () => {
    const sandbox = await prepared();
    sandbox.control.faultNext({ fault: 'commit_reset' });
    await expect(credit(sandbox)).rejects.toThrow(broken);
    expect(balance(sandbox)).toBe(110);
  });

  test.each([
    ['hang', 100],
    ['commit_hang', 110],
  ] as const)('%s never responds and leaves a balance of %i', async (fault, after) => {
    const sandbox = await prepared();
    sandbox.control.faultNext({ fault });
    const giveUp = new AbortController();
    const asked = credit(sandbox, giveUp.signal);
    await call(sandbox, '/api/v1/packages');
    expect(balance(sandbox)).toBe(after);
    giveUp.abort();
    await expect(asked).rejects.toThrow(/abort/i);
  });

  test('commit_late breaks the connection and writes afterwards', async () => {
    const sandbox = await prepared();
    sandbox.control.setBehaviour({ late_commit_ms: 600_000 });
    sandbox.control.faultNext({ fault: 'commit_late' });
    await expect(credit(sandbox)).rejects.toThrow(broken);
    expect(balance(sandbox)).toBe(100);
    expect(sandbox.control.commitLate()).toBe(1);
    expect(balance(sandbox)).toBe(110);
    expect(sandbox.control.commitLate()).toBe(0);
  });

  test('commit_late writes by itself after its delay', async () => {
    const sandbox = await prepared();
    sandbox.control.setBehaviour({ late_commit_ms: 1 });
    sandbox.control.faultNext({ fault: 'commit_late' });
    await expect(credit(sandbox)).rejects.toThrow(broken);
    await expect.poll(() => balance(sandbox)).toBe(110);
  });

  test('commit_twice writes twice', async () => {
    const sandbox = await prepared();
    sandbox.control.faultNext({ fault: 'commit_twice' });
    expect((await credit(sandbox)).status).toBe(200);
    expect(balance(sandbox)).toBe(120);
    expect(sandbox.control.ledger()).toHaveLength(2);
  });

  test.each(writeFaultNames)('%s can come at random', async (fault) => {
    const sandbox = await prepared();
    sandbox.control.setBehaviour({ [`write_${fault}`]: 1 });
    const giveUp = new AbortController();
    const asked = credit(sandbox, giveUp.signal).catch(() => undefined);
    await expect.poll(() => sandbox.control.requests().faults).toEqual({ [fault]: 1 });
    giveUp.abort();
    await asked;
    expect((await call(sandbox, '/api/v1/users')).status).toBe(200);
  });
});

test('a refused write leaves nothing behind', async () => {
  const sandbox = await prepared();
  const counts = (): number[] => (['users', 'emails'] as const).map((name) => sandbox.control.count(name));
  const before = counts();
  const body = { first_name: 'A', last_name: 'B', username: 'x', email: 'x', welcome_email: true };
  expect((await call(sandbox, '/api/v1/users', { method: 'POST', body })).status).toBe(422);
  expect(counts()).toEqual(before);
});
