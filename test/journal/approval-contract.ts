/** What every journal does about approvals, in any database. */
import { describe, expect, test } from 'vitest';
import type { IntentState, Journal, JournalRules } from '../../src/journal/port.ts';
import type { Actor } from '../../src/model/actor.ts';
import type { ApprovalPolicies } from '../../src/model/approval.ts';
import { type Caps, noCaps } from '../../src/model/money.ts';
import { hourMs, timestampOf } from '../../src/model/time.ts';
import type { People } from '../../src/people/people.ts';
import { anna, newBatch, newIntent, policyOf } from '../support/journal.ts';
import { newAccount } from '../support/people.ts';

interface Opened {
  readonly journal: Journal;
  /** Another connection, under other rules. */
  readonly again: (rules: JournalRules) => Promise<Journal>;
  readonly people: People;
  readonly tamper: (statement: string) => Promise<void>;
  /** Moves the clock of all connections forward. */
  readonly pass: (ms: number) => void;
}
export type OpenApprovals = (rules: JournalRules) => Promise<Opened>;

const bob: Actor = { ...anna, name: 'bob' };
const as = (account: string): Actor => ({ ...anna, name: 'mirror', host: 'web', account });
const terms = { repeatsSince: timestampOf(0), daySince: timestampOf(0) };
const rulesOf = (approval: ApprovalPolicies, caps: Caps | null = null): JournalRules => ({ approval, caps });
const always = rulesOf({ balance: policyOf() });
const words = { note: null, again: null };

const claim = (journal: Journal, batch = 'one', again?: string): Promise<void> =>
  journal.claim(batch, terms, () => (again === undefined ? [] : [{ kind: 'again', note: again }]));
const sendRow = (journal: Journal, row = 2, batch = 'one', to: IntentState = 'sending'): Promise<boolean> =>
  journal.move({ batch, row, from: 'planned', to });

async function hashOf(journal: Journal, batch = 'one'): Promise<string> {
  return (await journal.approval(batch))?.hash ?? '';
}

async function approve(journal: Journal, account: string, batch = 'one'): Promise<void> {
  await journal.by(as(account)).approve(batch, await hashOf(journal, batch));
}

/** @param open opens a journal of the tested kind, and its accounts */
export function approvalContract(open: OpenApprovals): void {
  /** A batch of two rows that anna planned and submitted, and the approvers bert, carla, and ann, who is anna. */
  async function submitted(rules = always): Promise<Opened> {
    const opened = await open(rules);
    const { journal, people } = opened;
    await addAccounts(people);
    await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 8)]);
    await journal.submit('one', words);
    return opened;
  }

  async function addAccounts(people: People): Promise<void> {
    for (const [name, ...osUsers] of [['bert'], ['carla'], ['ann', 'anna']]) {
      await people.add(newAccount(name ?? '', { roles: ['approver', 'maker'], osUsers, password: 'hash' }));
    }
    await people.add(newAccount('max'));
  }

  describe('a batch that needs approval', () => {
    test('is claimed and sent only with it, whatever the program asks', async () => {
      const { journal } = await submitted();
      await expect(claim(journal)).rejects.toThrow(/waits for 1 approval \(bert, carla can approve\)/);
      await expect(sendRow(journal)).rejects.toThrow(/claimed/);
      expect(await journal.approval('one')).toMatchObject({
        state: 'waiting',
        missing: 1,
        approvers: ['bert', 'carla'],
      });
      await approve(journal, 'bert');
      expect(await journal.approval('one')).toMatchObject({ state: 'approved', missing: 0 });
      await claim(journal);
      expect(await sendRow(journal)).toBe(true);
      expect(await journal.people('one')).toMatchObject({ submitted: [anna], approved: [as('bert')] });
      expect((await journal.verifyChain()).problems).toEqual([]);
    });

    test('needs as many approvers as the policy says, and nobody counts twice', async () => {
      const { journal } = await submitted(rulesOf({ balance: policyOf({ approvers: 2 }) }));
      await approve(journal, 'bert');
      await expect(approve(journal, 'bert')).rejects.toThrow(/bert has approved batch one already/);
      await expect(claim(journal)).rejects.toThrow(/waits for one more of 2 approvals \(carla can approve\)/);
      await approve(journal, 'carla');
      await claim(journal);
      expect(await sendRow(journal)).toBe(true);
    });

    test.each([
      ['who made it on the command line', 'ann', /ann made, changed or submitted batch one/],
      ['who is no approver', 'max', /max is not an active approver/],
      ['without an account', 'zoe', /zoe is not an active approver/],
    ])('is not approved by somebody %s', async (_, account, problem) => {
      const { journal } = await submitted();
      await expect(approve(journal, account)).rejects.toThrow(problem);
      await expect(claim(journal)).rejects.toThrow(/waits for 1 approval/);
    });

    test.each([
      ['has expired', async ({ pass }: Opened) => pass(72 * hourMs)],
      ['was denied', async ({ journal }: Opened) => journal.by(as('carla')).deny('one', 'too much')],
      ['is of an account that was disabled', async ({ people }: Opened) => people.setState('bert', 'disabled')],
      [
        'is of an account that is no longer an approver',
        async ({ people }: Opened) => people.changeRoles('bert', { add: [], remove: ['approver'] }),
      ],
      [
        'turns out to be by the person who made it',
        async ({ people }: Opened) => people.setOsUsers('bert', ['bert', 'anna']),
      ],
    ])('is not claimed, and no row of it is sent, once its approval %s', async (_, happens) => {
      const opened = await submitted();
      const { journal } = opened;
      await approve(journal, 'bert');
      await claim(journal);
      expect(await sendRow(journal)).toBe(true);
      await happens(opened);
      const problem = /waits for 1 approval|approval of batch one has expired|was denied by carla: too much/;
      await expect(sendRow(journal, 3)).rejects.toThrow(problem);
      await expect(claim(journal)).rejects.toThrow(problem);
      expect((await journal.intent('one', 3))?.state).toBe('planned');
    });

    test('is denied until it is submitted again', async () => {
      const { journal } = await submitted();
      await journal.by(as('carla')).deny('one', 'too much');
      expect(await journal.approval('one')).toMatchObject({ state: 'denied', denied: { reason: 'too much' } });
      await expect(approve(journal, 'bert')).rejects.toThrow(/was denied by carla: too much/);
      await journal.submit('one', { note: 'as agreed with carla', again: null });
      await approve(journal, 'bert');
      await claim(journal);
    });

    test.each([
      ['a reason to send it again', async ({ journal }: Opened) => claim(journal, 'one', 'the same bonus')],
      [
        'a bound that is switched off',
        async ({ again }: Opened) => claim(await again(rulesOf({}, { ...noCaps, maxRows: undefined }))),
      ],
      [
        'a bound that is raised',
        async ({ again }: Opened) => claim(await again(rulesOf({}, { ...noCaps, maxRows: 11 }))),
      ],
    ])('needs another approval for %s', async (_, widen) => {
      const opened = await submitted(rulesOf({ balance: policyOf() }, { ...noCaps, maxRows: 10 }));
      await approve(opened.journal, 'bert');
      await expect(widen(opened)).rejects.toThrow(/must be approved by another person/);
      await claim(opened.journal);
    });

    test('needs another approval after its journal was accepted, even if it is planned again', async () => {
      const { journal } = await submitted();
      await approve(journal, 'bert');
      // Nobody knows what the approvals in an older journal were used for.
      await journal.by(as('carla')).accept('the newest is lost', { step: 9_000, hash: 'h9' });
      await expect(claim(journal)).rejects.toThrow(/must be approved by another person/);
      await expect(sendRow(journal)).rejects.toThrow(/claimed/);
      await journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 7), newIntent(3, 8)]);
      expect(await journal.approval('two')).toMatchObject({ state: 'not_submitted', given: [] });
      await journal.submit('one', words);
      await expect(approve(journal, 'carla')).rejects.toThrow(/carla made, changed or submitted/);
      await approve(journal, 'bert');
      await journal.by(as('carla')).accept('and that of the day after, too', { step: 9_001, hash: 'h10' });
      await expect(claim(journal)).rejects.toThrow(/must be approved by another person/);
      await journal.submit('one', words);
      await approve(journal, 'bert');
      await claim(journal);
      expect(await sendRow(journal)).toBe(true);
      expect((await journal.verifyChain()).problems).toEqual([]);
    });

    test('does not get an expired approval back if the clock is set back, and no step is recorded before another', async () => {
      const { journal, pass } = await submitted();
      await approve(journal, 'bert');
      pass(73 * hourMs);
      await journal.viewed(7, 'record');
      pass(-73 * hourMs);
      expect(await journal.approval('one')).toMatchObject({ state: 'expired', missing: 1 });
      await expect(claim(journal)).rejects.toThrow(/approval/);
      await journal.submit('one', words);
      const times = (await Array.fromAsync(journal.audit({}))).map(({ at }) => at);
      expect(times).toEqual(times.toSorted());
    });

    test('sends no row once its approval has expired, even if the clock is set back after the claim', async () => {
      const { journal, pass } = await submitted();
      await approve(journal, 'bert');
      await claim(journal);
      pass(73 * hourMs);
      await journal.viewed(7, 'record');
      pass(-73 * hourMs);
      await expect(sendRow(journal)).rejects.toThrow(/approval/);
    });

    test('is sent without one if the policy allows it, until rows to be sent again take its total over the limit', async () => {
      const { journal } = await open(rulesOf({ balance: policyOf({ gross: '12' as never }) }));
      await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 8)]);
      await claim(journal);
      expect(await sendRow(journal)).toBe(true);
      await journal.move({ batch: 'one', row: 2, from: 'sending', to: 'unknown' });
      await journal.by(bob).move({ batch: 'one', row: 2, from: 'unknown', to: 'planned' });
      await expect(claim(journal)).rejects.toThrow(/the gross total is 15, more than 12/);
    });

    test('needs another approval for a row that a person wants to be sent again', async () => {
      const { journal } = await submitted();
      await approve(journal, 'bert');
      await claim(journal);
      await sendRow(journal);
      await journal.move({ batch: 'one', row: 2, from: 'sending', to: 'unknown' });
      await journal.by(bob).move({ batch: 'one', row: 2, from: 'unknown', to: 'planned' });
      await expect(sendRow(journal)).rejects.toThrow(/has changed since its rows were claimed/);
      await expect(claim(journal)).rejects.toThrow(/must be approved by another person/);
      await journal.submit('one', words);
      await approve(journal, 'bert');
      await claim(journal);
      expect(await sendRow(journal)).toBe(true);
      expect((await journal.verifyChain()).problems).toEqual([]);
    });

    test('is refused if its record was altered outside the program', async () => {
      const { journal, tamper } = await submitted();
      await approve(journal, 'bert');
      await tamper("UPDATE journal_batches SET approval = NULL WHERE batch = 'one'");
      expect((await journal.verifyChain()).problems).toEqual(['batch one was altered']);
      await expect(claim(journal)).rejects.toThrow(/batch one was altered outside this program/);
      await journal.setBatchState('one', 'stopped');
      expect((await journal.verifyChain()).problems).toEqual(['batch one was altered']);
    });

    test('counts no approval of an account that was altered outside the program, in the claim and before each row', async () => {
      const alter = `UPDATE people_accounts SET os_users = '["nobody"]' WHERE name = `;
      const { journal, tamper } = await submitted();
      await tamper(`UPDATE people_accounts SET roles = '["approver"]' WHERE name = 'max'`);
      await expect(approve(journal, 'max')).rejects.toThrow(/account max was altered outside this program/);
      await approve(journal, 'bert');
      await tamper(`${alter}'bert'`);
      await expect(claim(journal)).rejects.toThrow(/waits for 1 approval \(carla can approve\)/);
      expect((await journal.approval('one'))?.given).toMatchObject([
        { problem: 'the account was altered outside this program' },
      ]);
      await approve(journal, 'carla');
      await claim(journal);
      expect(await sendRow(journal)).toBe(true);
      await tamper(`${alter}'carla'`);
      await expect(sendRow(journal, 3)).rejects.toThrow(/waits for 1 approval/);
    });

    test('counts no approval again once its account was disabled or lost the role, until it approves anew', async () => {
      const ending = {
        disabled: async (people: People) => {
          await people.setState('bert', 'disabled');
          await people.setState('bert', 'active');
        },
        'without the role': async (people: People) => {
          await people.changeRoles('bert', { add: [], remove: ['approver'] });
          await people.changeRoles('bert', { add: ['approver'], remove: [] });
        },
      };
      for (const end of Object.values(ending)) {
        const { journal, people } = await submitted();
        await approve(journal, 'bert');
        await people.changeRoles('bert', { add: ['reader'], remove: [] });
        await people.changeRoles('bert', { add: [], remove: ['reader'] });
        await claim(journal);
        await end(people);
        await expect(sendRow(journal)).rejects.toThrow(/waits for 1 approval/);
        expect((await journal.approval('one'))?.given).toMatchObject([
          { problem: 'the account was disabled or not an approver meanwhile' },
        ]);
        await approve(journal, 'bert');
        expect(await sendRow(journal)).toBe(true);
      }
    });

    test('sends no row that was altered outside the program, and no later step hides that', async () => {
      const { journal, tamper } = await submitted();
      await approve(journal, 'bert');
      await claim(journal);
      expect(await sendRow(journal, 3)).toBe(true);
      await tamper(`UPDATE journal_intents SET parameters = '{"type":"add","amount":"600.00"}'`);
      await expect(sendRow(journal)).rejects.toThrow(/row 2 of batch one was altered outside this program/);
      await journal.move({ batch: 'one', row: 3, from: 'sending', to: 'unknown' });
      await journal.move({ batch: 'one', row: 2, from: 'planned', to: 'blocked' });
      await journal.takeUp('one');
      await expect(sendRow(journal)).rejects.toThrow(/row 2 of batch one was altered outside this program/);
      const problems = ['row 2 of batch one was altered', 'row 3 of batch one was altered'];
      expect((await journal.verifyChain()).problems).toEqual(problems);
    });

    test('does not hide a write by hand that was altered outside the program before its end', async () => {
      const { journal, tamper } = await submitted();
      const body = '{"first_name":"Zoe"}';
      const write = await journal.beginWrite({ operation: 'users.update', user: 7, body, fingerprint: null });
      await tamper(`UPDATE journal_writes SET body = '{"first_name":"Eve"}'`);
      await journal.endWrite(write, { state: 'done', httpStatus: 200, answer: '{}', problem: null });
      expect((await journal.verifyChain()).problems).toEqual([`write ${write} by hand was altered`]);
    });
  });

  describe('the same plan, planned again', () => {
    async function twice(rules = always): Promise<Opened> {
      const opened = await submitted(rules);
      await opened.journal.addBatch(newBatch({ batch: 'two' }), [newIntent(2, 7), newIntent(3, 8)]);
      return opened;
    }

    test('keeps the approval once: it is used up by the first batch that is claimed with it', async () => {
      const { journal } = await twice();
      await approve(journal, 'bert');
      await claim(journal, 'two');
      expect(await sendRow(journal, 2, 'two')).toBe(true);
      await expect(claim(journal)).rejects.toThrow(/waits for 1 approval/);
      expect((await journal.approval('one'))?.given[0]?.problem).toMatch(/another batch with the same plan/);
    });
  });

  describe('the total that one person sends alone', () => {
    const alone = rulesOf({ balance: policyOf({ alonePerDay: '10.00' as never }) });

    test('is counted by person, over the claims and writes by hand of a day', async () => {
      const { journal, pass } = await submitted(alone);
      await claim(journal);
      const write = {
        operation: 'users.update-balance',
        user: 9,
        body: '{"type":"add","amount":0.01}',
        fingerprint: null,
      };
      await expect(journal.beginWrite(write)).rejects.toThrow(/one person would have sent 10.01 in all alone/);
      await expect(journal.by({ ...bob, sudoUser: 'anna' }).beginWrite(write)).rejects.toThrow(/alone within 24 hours/);
      await expect(journal.by(as('ann')).beginWrite(write)).rejects.toThrow(/alone within 24 hours/);
      await journal.by(bob).beginWrite(write);
      await journal.addBatch(newBatch({ batch: 'two', hash: 'h2' }), [newIntent(2, 9)]);
      await expect(claim(journal, 'two')).rejects.toThrow(/would have sent 15 in all alone/);
      await journal.submit('two', words);
      await approve(journal, 'bert', 'two');
      await claim(journal, 'two');
      pass(24 * hourMs + 1);
      await journal.beginWrite(write);
    });
  });

  describe('the total that one person sends alone counts', () => {
    const alone = rulesOf({ balance: policyOf({ alonePerDay: '10.00' as never }) });
    const change = (journal: Journal, amount: number) => {
      const body = JSON.stringify({ type: 'add', amount });
      const write = { operation: 'users.update-balance', user: 9, body, fingerprint: null };
      return journal.beginWrite({ ...write, balance: '0' });
    };

    test('changes by hand, but no writes of another kind', async () => {
      const { journal } = await open(alone);
      await change(journal, 6);
      await journal.beginWrite({ operation: 'users.update', user: 9, body: '{"first_name":"Zoe"}', fingerprint: null });
      await expect(change(journal, 4.01)).rejects.toThrow(/would have sent 10.01 in all alone/);
      await change(journal, 4);
      await change(journal.by(bob), 10);
    });

    test('what was sent before there was a policy, and writes without an actor', async () => {
      const { journal, again, tamper } = await open(rulesOf({}));
      await journal.addBatch(newBatch(), [newIntent(2, 7)]);
      await claim(journal);
      const under = await again(alone);
      await change(under.by(bob), 6);
      await tamper('UPDATE journal_writes SET actor = NULL');
      await expect(change(under.by({ ...bob, name: 'carl' }), 4.01)).rejects.toThrow(/sent 10.01 in all alone/);
      await expect(change(under, 0.01)).rejects.toThrow(/sent 11.01 in all alone/);
    });
  });

  describe('the policy', () => {
    const told = async (journal: Journal): Promise<(string | null)[]> =>
      (await Array.fromAsync(journal.audit({}))).filter(({ kind }) => kind === 'policy').map(({ note }) => note);

    test('is recorded in the chain when it changes, and applies to later batches only', async () => {
      const { journal, again } = await submitted();
      const free = await again(rulesOf({}));
      await free.addBatch(newBatch({ batch: 'two', hash: 'h2' }), [newIntent(2, 9)]);
      await free.addBatch(newBatch({ batch: 'three', hash: 'h3' }), [newIntent(2, 10)]);
      await journal.addBatch(newBatch({ batch: 'four', hash: 'h4' }), [newIntent(2, 11)]);
      expect(await told(journal)).toEqual([
        'balance: approvers 1, good_for 3d',
        'nothing needs approval',
        'balance: approvers 1, good_for 3d',
      ]);
      await claim(journal, 'two');
      await expect(claim(free)).rejects.toThrow(/waits for 1 approval/);
      await expect(claim(free, 'four')).rejects.toThrow(/must be approved/);
    });

    test('counts a write by hand as a batch of one row', async () => {
      const { journal } = await open(rulesOf({ balance: policyOf({ net: '5' as never }), delete: policyOf() }));
      const write = (operation: string, body: object) =>
        journal.beginWrite({ operation, user: 7, body: JSON.stringify(body), fingerprint: null });
      await write('users.update-balance', { type: 'add', amount: 5 });
      await write('users.update', { first_name: 'Zoe' });
      await expect(write('users.update-balance', { type: 'add', amount: 5.01 })).rejects.toThrow(/net total is 5.01/);
      await expect(write('users.update-balance', { type: 'set', amount: 1 })).rejects.toThrow(
        /nobody can say beforehand/,
      );
      await expect(write('users.delete', {})).rejects.toThrow(/always needs approval/);
      expect(await journal.writes(9)).toHaveLength(2);
    });
  });

  describe('a bound on money', () => {
    const byHand = (journal: Journal, type: string, amount: number): Promise<number> => {
      const body = JSON.stringify({ type, amount });
      const write = { operation: 'users.update-balance', user: 9, body, fingerprint: null };
      return journal.beginWrite({ ...write, balance: '0' });
    };

    test('applies to every balance change by hand, and to no other write', async () => {
      const { journal } = await open(rulesOf({}, { ...noCaps, maxRow: '5' as never }));
      for (const type of ['add', 'remove', 'set']) {
        await expect(byHand(journal, type, 5.01)).rejects.toThrow(
          /more than bulk.max_row allows \(5\); nothing was sent/,
        );
        await byHand(journal, type, 5);
      }
      await journal.beginWrite({ operation: 'users.delete', user: 9, body: '{"amount":6}', fingerprint: null });
      expect(await journal.writes(9)).toHaveLength(4);
    });

    test('for a day counts changes by hand and claimed rows, sent or not', async () => {
      const { journal, pass } = await open(rulesOf({}, { ...noCaps, maxDay: '15' as never }));
      await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 8)]);
      await byHand(journal, 'add', 1);
      await claim(journal);
      await expect(byHand(journal, 'add', 4.01)).rejects.toThrow(/moved 11.00: together more than bulk.max_day/);
      await sendRow(journal);
      await journal.move({ batch: 'one', row: 2, from: 'sending', to: 'unknown' });
      await expect(byHand(journal, 'remove', 4.01)).rejects.toThrow(/bulk.max_day/);
      await byHand(journal, 'remove', 4);
      await expect(byHand(journal, 'add', 0.01)).rejects.toThrow(/bulk.max_day/);
      pass(24 * hourMs + 1);
      await byHand(journal, 'add', 15);
    });
  });

  test.each([
    ['is disabled', async ({ people }: Opened) => people.setState('bert', 'disabled')],
    ['is no longer a maker', async ({ people }: Opened) => people.changeRoles('bert', { add: [], remove: ['maker'] })],
  ])('an account that %s while it sends cannot send another row, even without a policy', async (_, change) => {
    const opened = await open(rulesOf({}));
    const { journal, people } = opened;
    await addAccounts(people);
    await journal.addBatch(newBatch(), [newIntent(2, 7), newIntent(3, 8)]);
    const bert = journal.by(as('bert'));
    await claim(bert);
    expect(await sendRow(bert)).toBe(true);
    await change(opened);
    await expect(sendRow(bert, 3)).rejects.toThrow('bert is not an active maker any more; nothing was sent');
    expect((await journal.intent('one', 3))?.state).toBe('planned');
    expect(await sendRow(journal.by(as('carla')), 3)).toBe(true);
  });
}
