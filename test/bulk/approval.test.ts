/** Submitting, approving and denying a batch, as the command line and the console do. */
import { describe, expect, test } from 'vitest';
import {
  approvalOf,
  approvalSteps,
  approveBatch,
  checkApproved,
  checkApprovedOrSubmit,
  denyBatch,
  submitBatch,
} from '../../src/bulk/approval.ts';
import { batchOf } from '../../src/bulk/claim.ts';
import type { Account } from '../../src/model/actor.ts';
import { hourMs } from '../../src/model/time.ts';
import { anna, newBatch, newIntent, newJournal, policyOf } from '../support/journal.ts';
import { newAccount, newPeople } from '../support/people.ts';
import { sandboxNow } from '../support/sandbox.ts';

const none = { reason: null };

/** A batch of two rows that anna planned under a policy; bert and carla may approve it. */
async function world(approvers = 1) {
  let now = sandboxNow;
  const clock = { now: () => now };
  const rules = { approval: { balance: policyOf({ approvers }) }, caps: null };
  const { journal, file } = await newJournal(clock, undefined, rules);
  const { people } = await newPeople(clock, file);
  for (const name of ['bert', 'carla']) {
    await people.add(newAccount(name, { roles: ['approver'], password: 'hash' }));
  }
  await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 8)]);
  const batch = () => batchOf(journal, 'one');
  const signedIn: string[] = [];
  const as = (name: string) => ({
    journal,
    actor: { ...anna, name: 'web' },
    signIn: () => {
      signedIn.push(name);
      return Promise.resolve({ name } as Account);
    },
  });
  const report = async () => approvalOf(journal, await batch());
  const pass = (ms: number) => void (now += ms);
  const submit = async (words: Partial<Parameters<typeof submitBatch>[2]> = {}) =>
    submitBatch(journal, await batch(), { note: null, again: none, ...words });
  const approve = async (name: string) => approveBatch(as(name), await batch(), (await report())?.hash ?? '');
  return { journal, batch, as, report, pass, submit, approve, signedIn };
}

describe('a batch', () => {
  test('tells who did what, in order, and why an approval does not count', async () => {
    const { report, submit, approve, as, batch, pass } = await world(2);
    const told = async (isDone = false) => {
      const standing = await report();
      if (standing === null) throw new Error('no policy is about it');
      return approvalSteps(standing, isDone).map(({ what, by, more }) => `${what} by ${by.account ?? by.name}${more}`);
    };
    expect(await told()).toEqual([]);
    await submit();
    await approve('bert');
    expect(await told()).toEqual(['Submitted by anna', 'Approved by bert']);
    pass(73 * hourMs);
    expect((await told()).at(-1)).toMatch(/^Approved by bert, which does not count: \S/);
    // A batch that is done was approved when it was sent.
    expect((await told(true)).at(-1)).toBe('Approved by bert');
    await submit({ note: 'once more' });
    pass(hourMs);
    await denyBatch(as('carla'), await batch(), 'the wrong month');
    pass(hourMs);
    expect(await told()).toEqual(['Submitted by anna: once more', 'Denied by carla: the wrong month']);
    await submit({ note: 'the right one' });
    await approve('bert');
    expect(await told()).toEqual([
      'Denied by carla: the wrong month',
      'Submitted by anna: the right one',
      'Approved by bert',
    ]);
  });

  test('is submitted only if a row is planned or blocked', async () => {
    const { journal, submit } = await world();
    await journal.move({ batch: 'one', row: 2, from: 'planned', to: 'blocked' });
    // One is planned, one blocked.
    await submit();
    await expect(submit()).rejects.toThrow(/waits for 1 approval/);
    await journal.move({ batch: 'one', row: 3, from: 'planned', to: 'blocked' });
    await journal.move({ batch: 'one', row: 2, from: 'blocked', to: 'skipped' });
    await expect(submit()).rejects.toThrow(/waits for 1 approval/);
    await journal.move({ batch: 'one', row: 3, from: 'blocked', to: 'skipped' });
    await expect(submit()).rejects.toThrow(/batch one has no row that is still to be sent/);
  });

  test('is approved and denied by the account that signs in, and asks for no sign-in if it will be refused', async () => {
    const { batch, as, report, submit, approve, signedIn } = await world();
    await expect(approve('bert')).rejects.toThrow(/was not submitted/);
    await expect(denyBatch(as('bert'), await batch(), 'no')).rejects.toThrow(/was not submitted/);
    await submit();
    await expect(denyBatch(as('bert'), await batch(), '  ')).rejects.toThrow(/a reason is needed/);
    expect(signedIn).toEqual([]);
    await denyBatch(as('bert'), await batch(), ' too much ');
    expect((await report())?.denied).toMatchObject({ by: { account: 'bert', name: 'web' }, reason: 'too much' });
    await expect(approve('carla')).rejects.toThrow(/was denied by bert/);
    await submit();
    await approve('carla');
    expect(signedIn).toEqual(['bert', 'carla']);
    expect((await report())?.state).toBe('approved');
  });
});

describe('before it is sent, a batch', () => {
  test('is refused while approvals are missing, and if its reason to be sent again was not approved', async () => {
    const { journal, batch, submit, approve } = await world();
    await expect(checkApproved(journal, await batch(), none)).rejects.toThrow(/must be approved/);
    await submit();
    await approve('bert');
    await checkApproved(journal, await batch(), none);
    // Nobody gave a reason to send it again.
    expect((await Array.fromAsync(journal.audit({}))).filter(({ kind }) => kind === 'again')).toEqual([]);
    await expect(checkApproved(journal, await batch(), { reason: 'again' })).rejects.toThrow(/must be approved/);
    const { journal: free } = await newJournal();
    await free.addBatch(newBatch(), [newIntent(2, 7)]);
    await checkApproved(free, await batchOf(free, 'one'), none);
  });

  test('is submitted by itself if it was not yet, or too long ago, and never after a denial', async () => {
    const { journal, batch, as, report, pass, approve } = await world();
    const check = async (again = none) => checkApprovedOrSubmit(journal, await batch(), again);
    const steps = async () =>
      (await Array.fromAsync(journal.audit({}))).filter(({ kind }) => kind === 'submitted').length;
    await expect(check()).rejects.toThrow(/waits for 1 approval/);
    await expect(check()).rejects.toThrow(/waits for 1 approval/);
    expect(await steps()).toBe(1);
    pass(73 * hourMs);
    await expect(check()).rejects.toThrow(/waits for 1 approval/);
    expect(await steps()).toBe(2);
    await denyBatch(as('bert'), await batch(), 'no');
    await expect(check()).rejects.toThrow(/was denied by bert/);
    expect([await steps(), (await report())?.submitted?.note]).toEqual([2, null]);
    await submitBatch(journal, await batch(), { note: null, again: none });
    await approve('carla');
    await check();
    expect(await steps()).toBe(3);
  });
});
