/**
 * Works out the approval of a batch from the steps of the chain, the accounts and the time, and says why a batch must not go
 * out. Pure. Section "Approval" of docs/architecture.md.
 */
import { Big } from 'big.js';
import { type Account, type Actor, hasRole, isSamePerson } from '../model/actor.ts';
import type { ApprovalPolicy } from '../model/approval.ts';
import { NotSentError, UsageError } from '../model/errors.ts';
import type { Caps } from '../model/money.ts';
import { counted } from '../model/text.ts';
import { later, type Timestamp } from '../model/time.ts';
import { canonical, type Json, sha256 } from './chain.ts';
import type { Approval, Batch, BatchApproval, GivenApproval, JournalStep } from './port.ts';

export interface ApprovalStep extends Omit<JournalStep, 'row'> {
  readonly batch: string | null;
  readonly data: { readonly hash?: string; readonly until?: Timestamp; readonly approvals?: readonly number[] };
}

/** Steps by which a person has made the batch what it is. */
const makingKinds: ReadonlySet<string> = new Set(['added', 'submitted', 'again', 'resend', 'accepted']);
/** All steps that the state of an approval depends on. */
export const decidingKinds = [...makingKinds, 'approved', 'denied', 'claimed'];

/** Returns the bounds of the plan, each raised to the current one if that is higher. */
export function higherCaps(planned: Caps | null, current: Caps | null): Json {
  if (planned === null) return null;
  const now = current ?? planned;
  const higher = (a: string | number | undefined, b: string | number | undefined): Json => {
    if (a === undefined || b === undefined) return null;
    return new Big(b).gt(a) ? b : a;
  };
  return {
    max_row: higher(planned.maxRow, now.maxRow),
    max_total: higher(planned.maxTotal, now.maxTotal),
    max_day: higher(planned.maxDay, now.maxDay),
    max_rows: higher(planned.maxRows, now.maxRows),
  };
}

/** Returns the hash of what is approved: the plan, and everything that has added to it since. */
export function approvedHash(
  { hash, againReason }: Pick<Batch, 'hash' | 'againReason'>,
  { caps, resent, accepted }: BatchApproval,
  current: Caps | null,
): string {
  const more = accepted === undefined ? {} : { accepted };
  return sha256(
    canonical({ plan: hash, again: againReason, caps: higherCaps(caps, current), resent: [...resent], ...more }),
  );
}

export function makersOf(steps: readonly ApprovalStep[], { batch }: Pick<Batch, 'batch'>): Actor[] {
  return steps.flatMap((each) => (each.batch === batch && makingKinds.has(each.kind) ? [each.actor] : []));
}

interface Facts {
  readonly batch: Pick<Batch, 'batch'>;
  readonly policy: ApprovalPolicy;
  readonly hash: string;
  readonly needed: number;
  readonly reasons: readonly string[];
  readonly steps: readonly ApprovalStep[];
  readonly accounts: readonly Account[];
  /** By account, the newest step that ended its being an active approver. An approval from before that never counts again. */
  readonly ends: ReadonlyMap<string, number>;
  readonly now: Timestamp;
}

/** Returns the state of the approval. Pure. */
export function standingOf(facts: Facts): Approval {
  const { batch, policy, hash, needed, reasons, steps, accounts, now } = facts;
  const makers = makersOf(steps, batch);
  const isOwn = (each: ApprovalStep): boolean => each.batch === batch.batch;
  // A denial also holds for other states of the batch. Otherwise a bound that is raised for a while and lowered again would
  // bring the approval back.
  const denied = steps.findLast((each) => each.kind === 'denied' && (isOwn(each) || each.data.hash === hash));
  const handedOver = steps.filter((each) => each.kind === 'submitted' && isOwn(each));
  const submitted = handedOver.findLast(({ data }) => data.hash === hash);
  const deniedStep = denied?.step ?? 0;
  const given = approvalsGiven(facts, makers, deniedStep);
  const counting = given.filter(({ problem }) => problem === null);
  const missing = Math.max(0, needed - counting.length);
  const expiry = submitted === undefined ? null : later(submitted.at, policy.goodForMs);
  const isSubmitted = submitted !== undefined && submitted.step > deniedStep;
  const isDenied = deniedStep > (handedOver.at(-1)?.step ?? 0);
  const isWaiting = isSubmitted && expiry !== null && expiry > now;
  const stateOf = (): Approval['state'] => {
    if (needed === 0) return 'not_needed';
    if (missing === 0) return 'approved';
    if (isWaiting) return 'waiting';
    if (isDenied) return 'denied';
    return !isSubmitted && !given.some(({ until }) => until <= now) ? 'not_submitted' : 'expired';
  };
  const approvers = accounts.filter(
    (each) =>
      hasRole(each, 'approver') &&
      each.passwordAt !== null &&
      !isMaker(each, makers) &&
      !counting.some(({ by }) => by.account === each.name),
  );
  // The approval ends when so many have expired that the rest is too few.
  const untils = counting.map(({ until }) => until).sort();
  const approvedUntil = untils[untils.length - needed] ?? null;
  return {
    state: stateOf(),
    needed,
    missing,
    reasons,
    hash,
    submitted: submitted === undefined ? null : { by: submitted.actor, at: submitted.at, note: submitted.note },
    given,
    denied: denied === undefined ? null : { by: denied.actor, at: denied.at, reason: denied.note },
    approvers: approvers.map(({ name }) => name),
    until: approvedUntil ?? (isWaiting ? expiry : null),
  };
}

/** Returns the newest approval of each account since the last denial, each with why it does not count. */
function approvalsGiven(
  { batch, hash, steps, accounts, ends, now }: Facts,
  makers: readonly Actor[],
  deniedStep: number,
): GivenApproval[] {
  // Approvals by which another batch with the same plan was sent are used up.
  const used = new Set(
    steps.flatMap((each) => (each.kind === 'claimed' && each.batch !== batch.batch ? (each.data.approvals ?? []) : [])),
  );
  const problemOf = (name: string, step: number, until: Timestamp): string | null => {
    const account = accounts.find((each) => each.name === name);
    if (until <= now) return 'it has expired';
    if (account?.state === 'altered') return 'the account was altered outside this program';
    if (account === undefined || !hasRole(account, 'approver')) return 'the account is not an active approver any more';
    if (step < (ends.get(name) ?? 0)) return 'the account was disabled or not an approver meanwhile';
    if (isMaker(account, makers)) return 'the same person made, changed or submitted the batch';
    return used.has(step) ? 'it was used to send another batch with the same plan' : null;
  };
  const newest = new Map<string, GivenApproval>();
  for (const { kind, step, actor, at, data } of steps) {
    const { account: name } = actor;
    const { until } = data;
    if (kind !== 'approved' || data.hash !== hash || step < deniedStep || name === null || until === undefined)
      continue;
    newest.set(name, { step, by: actor, at, until, problem: problemOf(name, step, until) });
  }
  return [...newest.values()];
}

export function isMaker(account: Account, makers: readonly Actor[]): boolean {
  return makers.some((maker) => isSamePerson(account, maker));
}

/** Returns the steps of the approvals that count. */
export function countingSteps({ given }: Approval): number[] {
  return given.flatMap(({ step, problem }) => (problem === null ? [step] : []));
}

/** Returns why the batch must not go out, with what to do next. */
export function approvalMissing(batch: Pick<Batch, 'batch' | 'state'>, found: Approval): UsageError {
  const { batch: name } = batch;
  const { state, needed, missing, reasons, approvers, denied } = found;
  const what = `batch ${name}`;
  const next = nextCommand(batch);
  const by = approversWords(found);
  const why = reasons.length === 0 ? '' : `: ${reasons.join('; ')}`;
  switch (state) {
    case 'waiting': {
      const more = missing === needed ? '' : `${missing === 1 ? 'one' : missing} more of `;
      const tooFew = 'There are too few approvers who did not make it: `admin-mirror people list` shows the accounts. ';
      return new NotSentError(`${what} waits for ${more}${counted(needed, 'approval')} (${by})${why}`, {
        advice:
          (approvers.length < missing ? tooFew : '') +
          `An approver looks at it and approves it with \`admin-mirror bulk approve ${name}\`; then ${next}.`,
      });
    }
    case 'denied':
      return new NotSentError(`${what} was denied by ${denied?.by.account ?? 'an approver'}: ${denied?.reason ?? ''}`, {
        advice: `Correct it and plan it again. If it is right as it is, submit it again: ${submitCommand(name)}.`,
      });
    case 'expired':
      return new NotSentError(`the approval of ${what} has expired${why}`, {
        advice: `If it is still wanted, submit it again: ${submitCommand(name)}.`,
      });
    case 'not_needed':
    case 'approved':
    case 'not_submitted':
      return new UsageError(
        `${what} must be approved by ${needed === 1 ? 'another person' : `${needed} other people`}${why}; nothing was sent`,
        { advice: `Submit it: ${submitCommand(name)}.` },
      );
  }
}

/** Says who can approve it now. */
export function approversWords({ approvers }: Pick<Approval, 'approvers'>): string {
  return approvers.length === 0 ? 'nobody can give it now' : `${approvers.join(', ')} can approve`;
}

function submitCommand(name: string): string {
  return `\`admin-mirror bulk submit ${name}\``;
}

/** Says what sends the batch once it is approved. */
export function nextCommand({ batch, state }: Pick<Batch, 'batch' | 'state'>): string {
  return `\`admin-mirror bulk ${state === 'planned' ? 'apply' : 'resume'} ${batch}\` sends it`;
}

/** Throws a UsageError if there is nothing to approve or deny now. */
export function checkOpen(batch: Batch, found: Approval | null): asserts found is Approval {
  if (found === null) throw noPolicy(batch);
  const { state, submitted } = found;
  if (state === 'waiting' || state === 'approved' || (state === 'not_needed' && submitted !== null)) return;
  if (state === 'denied' || state === 'expired') throw approvalMissing(batch, found);
  throw new UsageError(`batch ${batch.batch} was not submitted for approval`, {
    advice: `Whoever made it runs ${submitCommand(batch.batch)}.`,
  });
}

export function noPolicy(batch: Batch): UsageError {
  return new UsageError(`batch ${batch.batch} needs no approval: no policy was in force for it when it was planned`, {
    advice: `${nextCommand(batch)}.`,
  });
}
