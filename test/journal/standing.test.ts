/** The standing of a batch's approval, decided from its steps, the accounts and the time alone. */
import { describe, expect, test } from 'vitest';
import { approvalMissing, type ApprovalStep, countingSteps, standingOf } from '../../src/journal/standing.ts';
import type { Approval, Batch } from '../../src/journal/port.ts';
import type { Account, Actor } from '../../src/model/actor.ts';
import { hourMs, timestampOf } from '../../src/model/time.ts';
import { anna, policyOf } from '../support/journal.ts';
import { sandboxNow } from '../support/sandbox.ts';

const at = (hours: number) => timestampOf(sandboxNow + hours * hourMs);
const as = (account: string): Actor => ({ ...anna, name: 'web', account });

function accountOf(name: string, fields: Partial<Account> = {}): Account {
  const account = { name, roles: ['approver'], state: 'active', osUsers: [], passwordAt: at(-100) };
  return { ...account, ...fields } as unknown as Account;
}

type Step = readonly [kind: string, actor: Actor, more?: Partial<ApprovalStep>];

/** Steps one after the other, an hour apart by default. */
function stepsOf(...steps: readonly Step[]): ApprovalStep[] {
  return steps.map(([kind, actor, more], index): ApprovalStep => {
    const until = kind === 'approved' ? { until: at(index + 72) } : {};
    const { data, ...rest } = more ?? {};
    const step = { step: index + 1, at: at(index), actor, batch: 'one', kind, note: null, ...rest };
    return { ...step, data: { hash: 'h', ...until, ...data } };
  });
}

interface Case {
  readonly steps: readonly ApprovalStep[];
  readonly accounts?: readonly Account[];
  readonly needed?: number;
  readonly now?: number;
}

const three = ['bert', 'carla', 'dora'].map((name) => accountOf(name));

function standing({ steps, accounts = three, needed = 1, now = 10 }: Case): Approval {
  const facts = { batch: { batch: 'one' }, policy: policyOf(), hash: 'h', reasons: ['it is much'] };
  return standingOf({ ...facts, needed, steps, accounts, ends: new Map(), now: at(now) });
}

const added = ['added', anna] as const;
const submitted = ['submitted', anna] as const;

describe('a batch is', () => {
  const cases: readonly (readonly [state: string, what: string, each: Case])[] = [
    ['not_needed', 'if nobody must approve it', { steps: stepsOf(added), needed: 0 }],
    ['not_submitted', 'before it was submitted', { steps: stepsOf(added) }],
    ['waiting', 'once it was submitted', { steps: stepsOf(added, submitted) }],
    ['waiting', 'with too few approvals', { steps: stepsOf(added, submitted, ['approved', as('bert')]), needed: 2 }],
    ['approved', 'with enough', { steps: stepsOf(added, submitted, ['approved', as('bert')]) }],
    ['denied', 'after a denial', { steps: stepsOf(added, submitted, ['denied', as('bert')]) }],
    ['denied', 'by a denial before it was submitted', { steps: stepsOf(added, ['denied', as('bert')]) }],
    [
      'denied',
      'though it had been approved',
      { steps: stepsOf(added, submitted, ['approved', as('bert')], ['denied', as('carla')]) },
    ],
    ['waiting', 'once it was submitted again', { steps: stepsOf(added, submitted, ['denied', as('bert')], submitted) }],
    [
      'approved',
      'once it was submitted and approved again',
      { steps: stepsOf(added, ['denied', as('bert')], submitted, ['approved', as('bert')]) },
    ],
    [
      'approved',
      'even if another batch with another plan was denied',
      {
        steps: stepsOf(
          added,
          submitted,
          ['approved', as('bert')],
          ['denied', as('carla'), { batch: 'two', data: { hash: 'other' } }],
        ),
      },
    ],
    ['waiting', 'until just before the submission expires', { steps: stepsOf(added, submitted), now: 72.999 }],
    ['expired', 'from when the submission expires', { steps: stepsOf(added, submitted), now: 73 }],
    [
      'approved',
      'until just before its approval ends',
      { steps: stepsOf(added, submitted, ['approved', as('bert')]), now: 73.999 },
    ],
    ['expired', 'from when its approval ends', { steps: stepsOf(added, submitted, ['approved', as('bert')]), now: 74 }],
    [
      'expired',
      'also if the submission was of another batch',
      { steps: stepsOf(['submitted', anna, { batch: 'two' }], ['approved', as('bert')]), now: 73 },
    ],
    [
      'expired',
      'if it was denied before it was submitted again',
      { steps: stepsOf(added, ['denied', as('bert')], submitted), now: 80 },
    ],
    [
      'approved',
      'by the approval of the same plan in another batch',
      { steps: stepsOf(['submitted', anna, { batch: 'two' }], ['approved', as('bert'), { batch: 'two' }]) },
    ],
    ['not_submitted', 'if only another batch was', { steps: stepsOf(added, ['submitted', anna, { batch: 'two' }]) }],
    [
      'not_submitted',
      'if it had another hash then',
      {
        steps: stepsOf(
          added,
          ['submitted', anna, { data: { hash: 'other' } }],
          ['approved', as('bert'), { data: { hash: 'other' } }],
        ),
      },
    ],
  ];
  test.each(cases)('%s %s', (state, _, each) => {
    expect(standing(each).state).toBe(state);
  });
});

describe('an approval', () => {
  const problems = (...given: readonly Step[]) =>
    standing({ steps: stepsOf(added, submitted, ...given) }).given.map(({ problem }) => problem);
  const own = 'the same person made, changed or submitted the batch';
  const noApprover = 'the account is not an active approver any more';

  test('does not count if its account made, submitted or changed the batch', () => {
    for (const kind of ['added', 'submitted', 'again', 'resend']) {
      expect(problems([kind, as('bert')], ['approved', as('bert')])).toEqual([own]);
      expect(problems([kind, as('bert'), { batch: 'two' }], ['approved', as('bert')])).toEqual([null]);
    }
    expect(problems(['claimed', as('bert')], ['approved', as('bert')])).toEqual([null]);
  });

  test('does not count if its account does not exist, is not an approver or is disabled', () => {
    const steps = stepsOf(added, submitted, ['approved', as('zoe')], ['approved', as('max')], ['approved', as('bert')]);
    const accounts = [accountOf('max', { roles: ['maker'] }), accountOf('bert', { state: 'disabled' })];
    const { given, missing } = standing({ steps, accounts, needed: 2 });
    expect([given.map(({ problem }) => problem), missing]).toEqual([[noApprover, noApprover, noApprover], 2]);
  });

  test('is used up if another batch with the same plan was claimed with it', () => {
    const used = 'it was used to send another batch with the same plan';
    const claimed = (batch: string, approvals?: readonly number[]) =>
      ['claimed', anna, { batch, data: approvals === undefined ? {} : { approvals } }] as const;
    expect(problems(['approved', as('bert')], claimed('two', [3]))).toEqual([used]);
    expect(problems(['approved', as('bert')], claimed('one', [3]))).toEqual([null]);
    expect(problems(['approved', as('bert')], claimed('two', [2]))).toEqual([null]);
    expect(problems(['approved', as('bert')], claimed('two'))).toEqual([null]);
    const added2 = ['added', anna, { batch: 'two', data: { approvals: [3] } }] as const;
    expect(problems(['approved', as('bert')], added2)).toEqual([null]);
  });

  test('counts once for each account, the last one', () => {
    const steps = stepsOf(
      added,
      submitted,
      ['approved', as('bert')],
      ['approved', as('bert')],
      ['approved', as('carla')],
    );
    const found = standing({ steps, needed: 3 });
    expect(found.given.map(({ step, by, at: time, until }) => [step, by.account, time, until])).toEqual([
      [4, 'bert', at(3), at(75)],
      [5, 'carla', at(4), at(76)],
    ]);
    expect([found.missing, countingSteps(found)]).toEqual([1, [4, 5]]);
    // Approvals that have expired do not count.
    const late = standing({ steps, needed: 3, now: 75.5 });
    expect([late.given.map(({ problem }) => problem), countingSteps(late)]).toEqual([['it has expired', null], [5]]);
    const twice = stepsOf(
      added,
      submitted,
      ['approved', as('bert')],
      ['approved', as('carla')],
      ['approved', as('bert')],
    );
    expect(standing({ steps: twice, needed: 2 }).until).toBe(at(75));
  });
});

describe('the report of an approval', () => {
  const approved = (needed: number, ...names: readonly string[]) =>
    standing({ steps: stepsOf(added, submitted, ...names.map((name) => ['approved', as(name)] as const)), needed });

  test('says until when it waits, or when too few approvals are left', () => {
    expect(standing({ steps: stepsOf(added) }).until).toBeNull();
    expect(standing({ steps: stepsOf(added, submitted) }).until).toBe(at(73));
    expect(standing({ steps: stepsOf(added, submitted), now: 73 }).until).toBeNull();
    expect(approved(1, 'bert', 'carla', 'dora').until).toBe(at(76));
    expect(approved(2, 'bert', 'carla', 'dora').until).toBe(at(75));
    expect(approved(3, 'bert', 'carla', 'dora').until).toBe(at(74));
    expect(approved(3, 'bert', 'carla').until).toBe(at(73));
    expect(standing({ steps: stepsOf(added), needed: 0 }).until).toBeNull();
  });

  test('lists who can approve it now: approvers with a password who did not make it or approve it yet', () => {
    const accounts = [
      ...three,
      accountOf('max', { roles: ['maker'] }),
      accountOf('new', { passwordAt: null }),
      accountOf('ann', { osUsers: ['anna'] }),
    ] as const;
    const steps = stepsOf(added, submitted, ['approved', as('bert')]);
    expect(standing({ steps, accounts, needed: 2 }).approvers).toEqual(['carla', 'dora']);
  });

  test('says who submitted it and who denied it, when, and why', () => {
    const steps = stepsOf(added, ['submitted', anna, { note: 'of March' }], ['denied', as('bert'), { note: 'no' }]);
    const found = standing({ steps });
    expect(found).toMatchObject({ needed: 1, reasons: ['it is much'], hash: 'h' });
    expect(found.submitted).toEqual({ by: anna, at: at(1), note: 'of March' });
    expect(found.denied).toEqual({ by: as('bert'), at: at(2), reason: 'no' });
    expect([standing({ steps: [] }).submitted, standing({ steps: [] }).denied]).toEqual([null, null]);
  });
});

describe('the reason why it must not be sent', () => {
  const batch = { batch: 'one', action: 'balance', state: 'planned' } as const;
  const words = (each: Case, of: object = batch) => {
    const { message, advice } = approvalMissing(of as Batch, standing(each));
    return `${message} | ${advice}`;
  };

  test('says what is missing, who can give it, and what to do then', () => {
    const steps = stepsOf(added, submitted);
    expect(words({ steps })).toBe(
      'batch one waits for 1 approval (bert, carla, dora can approve): it is much; nothing was sent | ' +
        'An approver looks at it and approves it with `admin-mirror bulk approve one`; then `admin-mirror bulk apply one` sends it.',
    );
    expect(words({ steps }, { ...batch, state: 'stopped' })).toMatch(/`admin-mirror bulk resume one` sends it/);
    const one = stepsOf(added, submitted, ['approved', as('bert')]);
    expect(words({ steps: one, needed: 2 })).toMatch(/waits for one more of 2 approvals \(carla, dora can approve\)/);
    expect(words({ steps: one, needed: 3 })).toMatch(/waits for 2 more of 3 approvals/);
    expect(words({ steps, needed: 3 })).not.toMatch(/too few approvers/);
    expect(words({ steps, needed: 4 })).toMatch(/\| There are too few approvers who did not make it/);
    expect(words({ steps, accounts: [] })).toMatch(/\(nobody can give it now\)/);
  });

  test('names who denied it and why, or that it has expired', () => {
    const denied = stepsOf(added, submitted, ['denied', as('bert'), { note: 'too much' }]);
    expect(words({ steps: denied })).toMatch(/batch one was denied by bert: too much; nothing was sent \| Correct it/);
    expect(words({ steps: stepsOf(added, submitted), now: 80 })).toMatch(
      /approval of batch one has expired: it is much;/,
    );
    expect(words({ steps: stepsOf(added) })).toMatch(
      /must be approved by another person: it is much; nothing was sent/,
    );
    expect(words({ steps: stepsOf(added), needed: 2 })).toMatch(/must be approved by 2 other people/);
    expect(words({ steps: stepsOf(added) })).toMatch(/\| Submit it: `admin-mirror bulk submit one`\.$/);
    const without = { ...standing({ steps: stepsOf(added) }), reasons: [] };
    expect(approvalMissing(batch as unknown as Batch, without).message).toMatch(/by another person; nothing was sent$/);
  });
});
