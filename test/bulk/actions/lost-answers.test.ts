import { describe, expect, onTestFinished, test } from 'vitest';
import type { WriteFault } from '../../../src/sandbox/faults.ts';
import type { Sandbox } from '../../../src/sandbox/sandbox.ts';
import { type Bench, benchOf, type Cells } from '../../support/bulk-actions.ts';
import { newJournal } from '../../support/journal.ts';
import { systemClock } from '../../../src/model/time.ts';
import { startSandbox } from '../../support/sandbox.ts';
import { sample } from '../../support/part.ts';

/** Each action with a row that can go out, and with what the request is known by. */
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

/** What is done, and what is answered instead of saying so. */
const afterCommit = ['commit_reset', 'commit_500', 'commit_html', 'commit_truncated', 'commit_hang', 'commit_refused'];
const beforeCommit = ['reset_before', 'error_500', 'html', 'hang'];

async function start(): Promise<{ sandbox: Sandbox; bench: Bench; user: number }> {
  const sandbox = await startSandbox({ users: 5 });
  const bench = benchOf(sandbox, (await newJournal(systemClock)).journal);
  onTestFinished(() => bench.close());
  return { sandbox, bench, user: Number(sandbox.control.insert('users', { first_name: 'Anna' })['id']) };
}

describe.each(cases)('$action', ({ action, method, path, row }) => {
  const sends = ({ control }: Sandbox): number =>
    control.requests().recent.filter((each) => each.method === method && path.test(each.url)).length;
  const made = ({ control }: Sandbox): number => control.ledger().length;
  const faulty = ({ control }: Sandbox, fault: string): void =>
    control.faultNext({ fault: fault as WriteFault, match: { method, path } });

  test('is sent once and found to be there', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan(action, [row(user)]);
    expect(batch.problems).toEqual([]);
    expect(await bench.send(batch)).toBe(0);
    expect(await bench.row(batch)).toMatchObject({ state: 'applied', httpStatus: expect.any(Number) });
    expect((await bench.row(batch)).evidence).toBe(action === 'email' ? 'token' : 'record');
    expect([sends(sandbox), made(sandbox)]).toEqual([1, 1]);
  });

  test.each(sample(afterCommit, 2))(
    'that was done although the response was %s is settled without sending again',
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
    'that was not done, with the response %s, stays unknown until two late looks agree',
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

  test('that is done late is found by the next look', async () => {
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

  test('that the server refuses is rejected when it was seen not to be there', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan(action, [row(user)]);
    // Between the look and the write: nothing of the row itself is wrong.
    sandbox.control.setBehaviour({
      forbidden: `users.${{ email: 'send-email', notify: 'send-notification' }[action] ?? action}`,
    });
    expect(await bench.send(batch)).toBe(3);
    expect(await bench.row(batch)).toMatchObject({ state: 'rejected', httpStatus: 403, evidence: 'record' });
    expect(made(sandbox)).toBe(0);
  });

  test('whose user went away meanwhile, or came before it, is not sent', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan(action, [row(user)]);
    if (action === 'create') sandbox.control.insert('users', { email: 'anna@new.example' });
    else sandbox.control.remove('users', user);
    expect(await bench.send(batch)).toBe(5);
    expect(await bench.row(batch)).toMatchObject({ state: 'skipped', httpStatus: null });
    expect(sends(sandbox)).toBe(0);
  });
});
