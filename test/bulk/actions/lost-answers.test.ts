import { describe, expect, test } from 'vitest';
import type { WriteFault } from '../../support/bent/faults.ts';
import type { Sandbox } from '../../support/bent/sandbox.ts';
import { type Bench, benchOf, type Cells } from '../../support/bulk-actions.ts';
import { startSandbox } from '../../support/sandbox.ts';
import { sample } from '../../support/part.ts';

/** Each action with a valid row, and the method and path by which its request is recognised. */
const cases: readonly {
  readonly action: string;
  readonly method: 'POST' | 'PUT' | 'DELETE';
  readonly path: RegExp;
  readonly row: (user: number) => Cells;
}[] = [
  {
    action: 'email',
    method: 'POST',
    path: /send-email/,
    row: (user) => ({ user_id: user, subject: 'Hello', content: '<p>Hello & welcome</p>' }),
  },
  {
    action: 'notify',
    method: 'POST',
    path: /send-notification/,
    row: (user) => ({ user_id: user, type: 'success', icon: 'bx bx-gift', message: 'Hello' }),
  },
  {
    action: 'create',
    method: 'POST',
    path: /users$/,
    row: () => ({ first_name: 'Anna', last_name: 'Lind', username: 'anna.lind', email: 'Anna@new.example' }),
  },
  { action: 'update', method: 'PUT', path: /users\/\d+$/, row: (user) => ({ user_id: user, first_name: 'Åsa' }) },
  { action: 'delete', method: 'DELETE', path: /users\/\d+$/, row: (user) => ({ user_id: user }) },
];

/** Faults after the write was made: no response says so. */
const afterCommit = ['commit_reset', 'commit_500', 'commit_html', 'commit_truncated', 'commit_hang', 'commit_refused'];
const beforeCommit = ['reset_before', 'error_500', 'html', 'hang'];

async function start(): Promise<{ sandbox: Sandbox; bench: Bench; user: number }> {
  const sandbox = await startSandbox({ users: 5 });
  const bench = await benchOf(sandbox);
  return { sandbox, bench, user: Number(sandbox.control.insert('users', { first_name: 'Anna' })['id']) };
}

describe.each(cases)('$action', ({ action, method, path, row }) => {
  const sends = ({ control }: Sandbox): number =>
    control.requests().recent.filter((each) => each.method === method && path.test(each.url)).length;
  const made = ({ control }: Sandbox): number => control.ledger().length;
  const faulty = ({ control }: Sandbox, fault: string): void =>
    control.faultNext({ fault: fault as WriteFault, match: { method, path } });

  test('is sent once and then found on the server', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan(action, [row(user)]);
    expect(batch.problems).toEqual([]);
    expect(await bench.send(batch)).toBe(0);
    expect(await bench.row(batch)).toMatchObject({ state: 'applied', httpStatus: expect.any(Number) });
    expect((await bench.row(batch)).evidence).toBe(action === 'email' ? 'token' : 'record');
    expect([sends(sandbox), made(sandbox)]).toEqual([1, 1]);
  });

  test.each(sample(afterCommit, 2))(
    'is settled without a second request if it was made and the response was %s',
    async (fault) => {
      const { sandbox, bench, user } = await start();
      const batch = await bench.plan(action, [row(user)]);
      faulty(sandbox, fault);
      expect(await bench.send(batch)).toBe(0);
      expect((await bench.row(batch)).state).toBe('applied');
      expect([sends(sandbox), made(sandbox)]).toEqual([1, 1]);
    },
  );

  test.each(sample(beforeCommit, 1))(
    'stays unknown until it is looked for after settle_after, if it was not made and the response was %s',
    async (fault) => {
      const { sandbox, bench, user } = await start();
      const batch = await bench.plan(action, [row(user)]);
      faulty(sandbox, fault);
      expect(await bench.send(batch)).toBe(8);
      expect((await bench.row(batch)).state).toBe('unknown');
      expect(await bench.send(batch, 0)).toBe(5);
      expect(await bench.row(batch)).toMatchObject({ state: 'not_applied', evidence: 'record' });
      expect([sends(sandbox), made(sandbox)]).toEqual([1, 0]);
    },
  );

  test('is found by the next look if it is made late', async () => {
    const { sandbox, bench, user } = await start();
    sandbox.control.setBehaviour({ late_commit_ms: 600_000 });
    const batch = await bench.plan(action, [row(user)]);
    faulty(sandbox, 'commit_late');
    expect(await bench.send(batch)).toBe(8);
    expect(sandbox.control.commitLate()).toBe(1);
    expect(await bench.send(batch)).toBe(0);
    expect((await bench.row(batch)).state).toBe('applied');
    expect([sends(sandbox), made(sandbox)]).toEqual([1, 1]);
  });

  test('is rejected if the server refuses it and a look does not find it', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan(action, [row(user)]);
    // After the plan, so that the row itself is valid.
    sandbox.control.setBehaviour({
      forbidden: `users.${{ email: 'send-email', notify: 'send-notification' }[action] ?? action}`,
    });
    expect(await bench.send(batch)).toBe(3);
    expect(await bench.row(batch)).toMatchObject({ state: 'rejected', httpStatus: 403, evidence: 'record' });
    expect(made(sandbox)).toBe(0);
  });

  test('is not sent if its user was deleted, or created by others, after the plan', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan(action, [row(user)]);
    if (action === 'create') sandbox.control.insert('users', { email: 'anna@new.example' });
    else sandbox.control.remove('users', user);
    expect(await bench.send(batch)).toBe(5);
    expect(await bench.row(batch)).toMatchObject({ state: 'skipped', httpStatus: null });
    expect(sends(sandbox)).toBe(0);
  });
});
