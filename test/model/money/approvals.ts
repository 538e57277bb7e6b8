/**
 * Approval by a second person as a world of its own: two batches of the same plan, a maker who is also an approver, two other
 * approvers, and time. The standing is decided by the function that the journal uses in production.
 */
import { type ApprovalStep, standingOf } from '../../../src/journal/standing.ts';
import type { Account, Actor } from '../../../src/model/actor.ts';
import type { ApprovalPolicy } from '../../../src/model/approval.ts';
import { dayMs, type Timestamp, timestampOf } from '../../../src/model/time.ts';
import type { Model } from './explore.ts';

export const approvalGuards = {
  approved_at_claim: 'nothing is claimed without approval',
  approved_at_sending: 'nothing is sent after its approval has ended',
  claimed_as_it_is: 'a batch that changed since it was claimed is not sent',
  approval_of_content: 'an approval is only for the batch as it was then',
  approval_expires: 'an approval expires',
  denial_ends: 'a denial ends the approvals before it',
  not_by_a_maker: 'a person who made or changed the batch cannot approve it',
  active_approver: 'an approver must still be one',
  used_once: 'an approval that one batch was sent by is not used for another',
} as const;
export type ApprovalGuard = keyof typeof approvalGuards;

export interface ApprovalWorld {
  readonly name: string;
  readonly needed: 1 | 2;
  readonly most: {
    readonly approvals: number;
    readonly denials: number;
    readonly resends: number;
    readonly times: number;
    readonly dismissals: number;
  };
  readonly without?: readonly ApprovalGuard[];
}

interface Step {
  readonly kind: 'added' | 'submitted' | 'approved' | 'denied' | 'claimed' | 'resend';
  readonly by: string;
  readonly batch: number;
  /** The hash of the batch at that time. */
  readonly hash: string;
  readonly day: number;
  readonly approvals: readonly number[];
}
export interface ApprovalState {
  steps: Step[];
  batches: { resent: number; claimed: string | null; sent: number; settled: boolean }[];
  day: number;
  dismissed: string[];
  left: ApprovalWorld['most'];
  wrong: string | null;
}

const people = ['mia', 'ada', 'bob'] as const;
const start = Date.UTC(2026, 2, 11);
const at = (day: number): Timestamp => timestampOf(start + day * dayMs);
const actorOf = (account: string): Actor => ({
  name: 'web',
  uid: null,
  host: 'office',
  sudoUser: null,
  job: null,
  account,
});
const goodFor = 3;
const policyOf = (approvers: number) => ({ approvers, goodForMs: goodFor * dayMs }) as ApprovalPolicy;

export function approvalModel({ name, needed, most, without = [] }: ApprovalWorld): Model<ApprovalState> {
  const on = (guard: ApprovalGuard): boolean => !without.includes(guard);
  const hashOf = ({ batches }: ApprovalState, batch: number): string =>
    `the plan, ${batches[batch]?.resent ?? 0} sent again`;
  const who = (batch: number): string => `batch ${'AB'.charAt(batch)}`;

  function standing(state: ApprovalState, batch: number) {
    const hash = hashOf(state, batch);
    const steps = state.steps.map((each, number): ApprovalStep => ({
      step: number + 1,
      at: at(each.day),
      actor: actorOf(!on('not_by_a_maker') && each.kind !== 'approved' ? 'nobody' : each.by),
      batch: String(each.batch),
      kind: each.kind,
      note: null,
      data: {
        hash: on('approval_of_content') ? each.hash : hash,
        until: at(each.day + goodFor),
        approvals: each.approvals,
      },
    }));
    const accounts = people.map((person): Account => ({
      ...({ osUsers: [], passwordAt: at(0), createdAt: at(0), changedAt: at(0) } as unknown as Account),
      name: person,
      roles: ['approver'],
      state: on('active_approver') && state.dismissed.includes(person) ? 'disabled' : 'active',
    }));
    const counted = steps.filter(
      ({ kind, batch: of }) =>
        (on('denial_ends') || kind !== 'denied') && (on('used_once') || kind !== 'claimed' || of === String(batch)),
    );
    const now = at(on('approval_expires') ? state.day : 0);
    return standingOf({
      ends: new Map(),
      batch: { batch: String(batch) },
      policy: policyOf(needed),
      hash,
      needed,
      reasons: ['it always needs approval'],
      steps: counted,
      accounts,
      now,
    });
  }

  /** The same rule written independently: enough people who did not make the batch approved it as it is. */
  function isApproved(state: ApprovalState, batch: number): boolean {
    const hash = hashOf(state, batch);
    const denied = state.steps.findLastIndex((each) => each.kind === 'denied' && each.hash === hash);
    const used = state.steps.flatMap((each) => (each.kind === 'claimed' && each.batch !== batch ? each.approvals : []));
    const makers = new Set(
      state.steps
        .filter((each) => each.batch === batch && ['added', 'submitted', 'resend'].includes(each.kind))
        .map(({ by }) => by),
    );
    const saying = state.steps.filter(
      (each, number) =>
        each.kind === 'approved' &&
        each.hash === hash &&
        number > denied &&
        each.day + goodFor > state.day &&
        !makers.has(each.by) &&
        !state.dismissed.includes(each.by) &&
        !used.includes(number + 1),
    );
    return new Set(saying.map(({ by }) => by)).size >= needed;
  }

  function* moves(state: ApprovalState): Generator<readonly [string, ApprovalState]> {
    const { batches, left, day } = state;
    const next = (story: string, change: (to: ApprovalState) => void): readonly [string, ApprovalState] => {
      const to = JSON.parse(JSON.stringify(state)) as ApprovalState;
      change(to);
      return [story, to];
    };
    const stepOf = (kind: Step['kind'], by: string, batch: number, approvals: readonly number[] = []): Step => ({
      kind,
      by,
      batch,
      hash: hashOf(state, batch),
      day,
      approvals,
    });
    const spend = (to: ApprovalState, what: keyof ApprovalState['left']): void =>
      void (to.left = { ...to.left, [what]: to.left[what] - 1 });
    for (const [batch, { claimed, settled, sent }] of batches.entries()) {
      const found = standing(state, batch);
      for (const person of people) {
        if (
          left.approvals === 0 ||
          (on('active_approver') && state.dismissed.includes(person)) ||
          (person === 'mia' && on('not_by_a_maker'))
        )
          continue;
        yield next(`${person} approves ${who(batch)}`, (to) => {
          spend(to, 'approvals');
          to.steps.push(stepOf('approved', person, batch));
        });
      }
      if (left.denials > 0) {
        yield next(`ada denies ${who(batch)}`, (to) => {
          spend(to, 'denials');
          to.steps.push(stepOf('denied', 'ada', batch));
        });
      }
      if (claimed === null || claimed !== hashOf(state, batch)) {
        const may = !on('approved_at_claim') || found.missing === 0;
        // The other batch has the same rows, so it is claimed only once those were refused.
        const isFree = batches.every((each, other) => other === batch || each.claimed === null || each.settled);
        if (may && isFree) {
          yield next(`${who(batch)} is claimed`, (to) => {
            if (!isApproved(state, batch)) to.wrong = 'nothing_without_approval';
            const counting = found.given.flatMap(({ step, problem }) => (problem === null ? [step] : []));
            to.steps.push(stepOf('claimed', 'mia', batch, counting));
            Object.assign(to.batches[batch] ?? {}, { claimed: hashOf(state, batch), settled: false });
          });
        }
      }
      const isSame = claimed !== null && (claimed === hashOf(state, batch) || !on('claimed_as_it_is'));
      if (isSame && !settled && (!on('approved_at_sending') || found.missing === 0)) {
        yield next(`a row of ${who(batch)} is sent, and refused`, (to) => {
          if (!isApproved(state, batch)) to.wrong = 'nothing_without_approval';
          Object.assign(to.batches[batch] ?? {}, { sent: 1, settled: true });
        });
      }
      if (left.resends > 0 && sent > 0) {
        yield next(`bob says that the row of ${who(batch)} shall be sent again`, (to) => {
          spend(to, 'resends');
          Object.assign(to.batches[batch] ?? {}, { resent: 1, settled: false });
          to.steps.push({ ...stepOf('resend', 'bob', batch), hash: hashOf(to, batch) });
        });
      }
    }
    if (left.times > 0) {
      yield next('four days pass', (to) => {
        spend(to, 'times');
        to.day += 4;
      });
    }
    if (left.dismissals > 0) {
      yield next('ada is no approver any more', (to) => {
        spend(to, 'dismissals');
        to.dismissed.push('ada');
      });
    }
  }

  const added = (batch: number): Step => ({
    kind: 'added',
    by: 'mia',
    batch,
    hash: 'the plan, 0 sent again',
    day: 0,
    approvals: [],
  });
  const none = { resent: 0, claimed: null, sent: 0, settled: false };
  return {
    name,
    initial: {
      steps: [added(0), added(1)],
      batches: [{ ...none }, { ...none }],
      day: 0,
      dismissed: [],
      left: most,
      wrong: null,
    },
    moves,
    key: (state) => JSON.stringify(state),
    broken: ({ wrong }) => wrong,
    // A batch that is not approved may wait for ever.
    isAtRest: () => true,
  };
}
