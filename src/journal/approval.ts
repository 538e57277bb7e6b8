/**
 * Approval by a second person, as the journal itself sees to it: how it stands with a batch, decided from the steps of the
 * chain, the accounts and the time, in the transaction that claims its rows and in each that sends one. Section "Approval" of
 * docs/architecture.md.
 */
import { Big } from 'big.js';
import { sql, type SqlBool } from 'kysely';
import { type Account, hasRole, isOnePerson, isSamePerson, type Actor } from '../model/actor.ts';
import {
  approvalReasons,
  type ApprovalPolicy,
  type ApprovalSubject,
  approvalTotals,
  changeByHand,
  movesMoney,
  noTotals,
  policyByName,
  withRow,
  writeTotals,
} from '../model/approval.ts';
import { batchCapProblem, capAdvice } from '../model/caps.ts';
import { counted } from '../model/text.ts';
import { UsageError } from '../model/errors.ts';
import { type Caps, changeOf, moneyText } from '../model/money.ts';
import { dayMs, parseInstant, type Timestamp, timestampOf } from '../model/time.ts';
import {
  accountAltered,
  accountRecords,
  appendSteps,
  canonical,
  type Head,
  type Json,
  type NewStep,
  setBatch,
  sha256,
} from './chain.ts';
import { isOutward, maybeMade, sentSince } from './claim-view.ts';
import type { Approval, Batch, BatchApproval, GivenApproval, JournalRules, JournalStep, NewWrite } from './port.ts';
import { batchNamed, type Connection, type JournalTables } from './tables.ts';

export const noRules: JournalRules = { approval: {}, caps: null };

/** Who acts, when, and under which rules. */
export interface Acting {
  readonly rules: JournalRules;
  readonly now: Timestamp;
  readonly actor: Actor | null;
  readonly stepOf: (at: Timestamp, step: Pick<NewStep, 'batch' | 'kind'> & Partial<NewStep>) => NewStep;
}

export interface ApprovalStep extends Omit<JournalStep, 'row'> {
  readonly batch: string | null;
  readonly data: { readonly hash?: string; readonly until?: Timestamp; readonly approvals?: readonly number[] };
}

/** By these a person has made the batch what it is. */
const makingKinds: ReadonlySet<string> = new Set(['added', 'submitted', 'again', 'resend', 'accepted']);
const stepKinds = [...makingKinds, 'approved', 'denied', 'claimed'];

/** The bounds of the plan, each raised to the one in force where that is higher. */
function widest(planned: Caps | null, current: Caps | null): Json {
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

/** What is approved: the plan, and whatever has made it more than was planned. */
function approvedHash(
  { hash, againReason }: Pick<Batch, 'hash' | 'againReason'>,
  { caps, resent, accepted }: BatchApproval,
  current: Caps | null,
): string {
  const more = accepted === undefined ? {} : { accepted };
  return sha256(
    canonical({ plan: hash, again: againReason, caps: widest(caps, current), resent: [...resent], ...more }),
  );
}

/** The steps that decide, of the batch and of all with the same plan, in their order. */
async function stepsAbout(connection: Connection, { hash }: Pick<Batch, 'hash'>): Promise<ApprovalStep[]> {
  const rows = await connection
    .selectFrom('journal_steps')
    .select(['step', 'at', 'actor', 'batch', 'kind', 'data', 'note'])
    .where('batch', 'in', (eb) => eb.selectFrom('journal_batches').select('batch').where('hash', '=', hash))
    .where('row', 'is', null)
    .where('kind', 'in', stepKinds)
    .orderBy('step')
    .execute();
  return rows.map((each) => ({
    ...each,
    actor: JSON.parse(each.actor) as Actor,
    data: JSON.parse(each.data) as ApprovalStep['data'],
  }));
}

async function accountsIn(connection: Connection): Promise<Account[]> {
  return (await accountRecords(connection)).map(({ account }) => account);
}

/**
 * How it stands with the batch; null where no policy is about it.
 * @param sender who would send it; null for whoever made it last
 */
export async function approvalIn(
  connection: Connection,
  batch: Batch,
  { rules, now }: Pick<Acting, 'rules' | 'now'>,
  sender: Actor | null,
): Promise<Approval | null> {
  const { approval } = batch;
  if (approval === null) return null;
  const [accounts, steps] = [await accountsIn(connection), await stepsAbout(connection, batch)];
  const by = sender ?? makersOf(steps, batch).at(-1) ?? null;
  const subject = batch.action as ApprovalSubject;
  const { policy, totals } = approval;
  const alone =
    policy.alonePerDay === undefined || by === null
      ? '0'
      : await aloneToday(connection, subject, by, accounts, now, batch.batch);
  const reasons = approvalReasons(policy, approvalTotals(subject, totals, alone));
  const needed = reasons.length === 0 ? 0 : policy.approvers;
  const hash = approvedHash(batch, approval, rules.caps);
  return standingOf({ batch, policy, hash, needed, reasons, steps, accounts, now });
}

/**
 * Throws a UsageError where a row of the batch must not go out at this moment. What the sender has sent alone was counted when
 * the rows were claimed.
 */
export async function checkSending(
  connection: Connection,
  name: string,
  { rules, now, actor }: Pick<Acting, 'rules' | 'now' | 'actor'>,
): Promise<void> {
  const { account = null } = actor ?? {};
  if (
    account !== null &&
    !(await accountsIn(connection)).some((each) => each.name === account && hasRole(each, 'maker'))
  ) {
    throw new UsageError(`${account} is not an active maker any more; nothing was sent`, {
      advice: `Another maker, or whoever runs commands, goes on with it: admin-mirror bulk resume ${name}.`,
    });
  }
  // Not the whole record: its problems and warnings may be many.
  const rows = connection.selectFrom('journal_batches').where('batch', '=', name);
  const batch = await rows.select(['batch', 'action', 'state', 'hash', 'againReason', 'approval']).executeTakeFirst();
  if (batch === undefined || batch.approval === null) return;
  const approval = JSON.parse(batch.approval) as BatchApproval;
  const { policy, totals, claimed } = approval;
  const hash = approvedHash(batch, approval, rules.caps);
  if (claimed === null || claimed.hash !== hash) {
    throw new UsageError(`batch ${name} has become another since its rows were claimed; nothing was sent`, {
      advice: `Look at it, then go on: admin-mirror bulk resume ${name}.`,
    });
  }
  const reasons = approvalReasons(policy, approvalTotals(batch.action as ApprovalSubject, totals));
  const needed = reasons.length === 0 ? claimed.needed : policy.approvers;
  if (needed === 0) return;
  const [accounts, steps] = [await accountsIn(connection), await stepsAbout(connection, batch)];
  const found = standingOf({ batch, policy, hash, needed, reasons, steps, accounts, now });
  if (found.missing > 0) throw approvalMissing(batch, found);
}

function makersOf(steps: readonly ApprovalStep[], { batch }: Pick<Batch, 'batch'>): Actor[] {
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
  readonly now: Timestamp;
}

/** How it stands by these steps, accounts and time. Pure. */
export function standingOf({ batch, policy, hash, needed, reasons, steps, accounts, now }: Facts): Approval {
  const makers = makersOf(steps, batch);
  const madeBy = (account: Account): boolean => makers.some((maker) => isSamePerson(account, maker));
  const about = steps.filter(({ data }) => data.hash === hash);
  const denied = about.findLast(({ kind }) => kind === 'denied');
  const submitted = about.findLast((each) => each.kind === 'submitted' && each.batch === batch.batch);
  // What another batch with the same plan was sent by is used up.
  const used = new Set(
    steps.flatMap((each) => (each.kind === 'claimed' && each.batch !== batch.batch ? (each.data.approvals ?? []) : [])),
  );
  const newest = new Map<string, GivenApproval>();
  for (const { kind, step, actor, at, data } of about) {
    const { account: name } = actor;
    if (kind !== 'approved' || name === null || data.until === undefined || step < (denied?.step ?? 0)) continue;
    const account = accounts.find((each) => each.name === name);
    const problem =
      data.until <= now
        ? 'it has expired'
        : account?.state === 'altered'
          ? 'the account was altered past this program'
          : account === undefined || !hasRole(account, 'approver')
            ? 'the account is not an active approver any more'
            : madeBy(account)
              ? 'the same person made, changed or submitted the batch'
              : used.has(step)
                ? 'another batch with the same plan was sent by it'
                : null;
    newest.set(name, { step, by: actor, at, until: data.until, problem });
  }
  const given = [...newest.values()];
  const counting = given.filter(({ problem }) => problem === null);
  const missing = Math.max(0, needed - counting.length);
  const expiry = submitted === undefined ? null : later(submitted.at, policy.goodForMs);
  const isWaiting = submitted !== undefined && submitted.step > (denied?.step ?? 0) && expiry !== null && expiry > now;
  const approvers = accounts.filter(
    (each) =>
      hasRole(each, 'approver') &&
      each.passwordAt !== null &&
      !madeBy(each) &&
      !counting.some(({ by }) => by.account === each.name),
  );
  const state: Approval['state'] =
    needed === 0
      ? 'not_needed'
      : missing === 0
        ? 'approved'
        : isWaiting
          ? 'waiting'
          : denied !== undefined && denied.step > (submitted?.step ?? 0)
            ? 'denied'
            : submitted === undefined && !given.some(({ until }) => until <= now)
              ? 'not_submitted'
              : 'expired';
  // Once so many have expired that the others are too few.
  const untils = counting.map(({ until }) => until).sort();
  const approvedUntil = untils[untils.length - needed] ?? null;
  return {
    state,
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

function later(at: Timestamp, ms: number): Timestamp {
  return timestampOf((parseInstant(at) ?? 0) + ms);
}

/** The steps of the approvals that count. */
export function countingSteps({ given }: Approval): number[] {
  return given.flatMap(({ step, problem }) => (problem === null ? [step] : []));
}

const nameOf = ({ action }: Pick<Batch, 'action'>): string => (action === 'deletions' ? 'request' : 'batch');

/** Why the batch must not go out, with what to do next. */
export function approvalMissing(batch: Pick<Batch, 'batch' | 'action' | 'state'>, found: Approval): UsageError {
  const { batch: name } = batch;
  const { state, needed, missing, reasons, approvers, denied } = found;
  const what = `${nameOf(batch)} ${name}`;
  const next = nextCommand(batch);
  const by = approvers.length === 0 ? 'nobody can give it now' : `${approvers.join(', ')} can approve`;
  const why = reasons.length === 0 ? '' : `: ${reasons.join('; ')}`;
  switch (state) {
    case 'waiting':
      return new UsageError(
        `${what} waits for ${missing === needed ? '' : 'one more of '}${counted(needed, 'approval')} (${by})${why}; nothing was sent`,
        {
          advice:
            (approvers.length < missing
              ? 'There are too few approvers who did not make it: `admin-mirror people list` shows the accounts. '
              : '') + `An approver looks at it and runs \`admin-mirror bulk approve ${name}\`; then ${next}.`,
        },
      );
    case 'denied':
      return new UsageError(
        `${what} was denied by ${denied?.by.account ?? 'an approver'}: ${denied?.reason ?? ''}; nothing was sent`,
        {
          advice: `Correct it and plan it again. If it is meant as it is, hand it over again: ${submitCommand(name)}.`,
        },
      );
    case 'expired':
      return new UsageError(`the approval of ${what} has expired${why}; nothing was sent`, {
        advice: `If it is still meant, hand it over again: ${submitCommand(name)}.`,
      });
    case 'not_needed':
    case 'approved':
    case 'not_submitted':
      return new UsageError(
        `${what} must be approved by ${needed === 1 ? 'another person' : `${needed} other people`}${why}; nothing was sent`,
        { advice: `Hand it over: ${submitCommand(name)}.` },
      );
  }
}

function submitCommand(name: string): string {
  return `\`admin-mirror bulk submit ${name}\``;
}

/** What sends the batch once it is approved. */
function nextCommand({ batch, action, state }: Pick<Batch, 'batch' | 'action' | 'state'>): string {
  if (action === 'deletions') return '`admin-mirror sync --allow-deletions` removes the rows';
  return `\`admin-mirror bulk ${state === 'planned' ? 'apply' : 'resume'} ${batch}\` sends it`;
}

/** Hands the batch over. Throws a UsageError where there is nothing to hand over. */
export async function submit(
  connection: Connection,
  name: string,
  { note, again }: { readonly note: string | null; readonly again: string | null },
  acting: Acting,
): Promise<void> {
  const { now, stepOf } = acting;
  const found = await openBatch(connection, name);
  const reason = again ?? found.againReason;
  const before = await approvalIn(connection, { ...found, againReason: reason }, acting, acting.actor);
  if (before === null) throw noPolicy(found);
  if (before.state === 'approved') {
    throw new UsageError(`batch ${name} is approved already, until ${before.until}`, {
      advice: `${nextCommand(found)}.`,
    });
  }
  if (before.state === 'waiting') throw approvalMissing(found, before);
  const steps: NewStep[] = [];
  if (reason !== found.againReason) {
    const digest = await setBatch(connection, name, { againReason: reason });
    steps.push(stepOf(now, { batch: name, kind: 'again', note: reason, digest }));
  }
  steps.push(stepOf(now, { batch: name, kind: 'submitted', data: { hash: before.hash, needed: before.needed }, note }));
  await appendSteps(connection, steps);
}

/** Throws a UsageError where there is nothing to approve or deny at the moment. */
export function checkOpen(batch: Batch, found: Approval | null): asserts found is Approval {
  if (found === null) throw noPolicy(batch);
  const { state, submitted } = found;
  if (state === 'waiting' || state === 'approved' || (state === 'not_needed' && submitted !== null)) return;
  if (state === 'denied' || state === 'expired') throw approvalMissing(batch, found);
  throw new UsageError(`${nameOf(batch)} ${batch.batch} was not handed over for approval`, {
    advice: `Whoever made it runs ${submitCommand(batch.batch)}.`,
  });
}

/** The acting account approves what has that hash. */
export async function approve(connection: Connection, name: string, hash: string, acting: Acting): Promise<void> {
  const { now, stepOf } = acting;
  const found = await openBatch(connection, name);
  const before = await approvalIn(connection, found, acting, null);
  if (before === null || found.approval === null) throw noPolicy(found);
  const account = await actingApprover(connection, acting);
  if (before.hash !== hash) {
    throw new UsageError(`${nameOf(found)} ${name} is not what you looked at any more; nothing was approved`, {
      advice: `Look at it again: admin-mirror bulk status ${name}.`,
    });
  }
  const makers = makersOf(await stepsAbout(connection, found), found);
  if (makers.some((maker) => isSamePerson(account, maker))) {
    throw new UsageError(
      `${account.name} made, changed or submitted ${nameOf(found)} ${name}: nobody approves their own`,
      {
        advice:
          before.approvers.length === 0
            ? 'Another approver is needed: `admin-mirror people add` makes one.'
            : `${before.approvers.join(', ')} can approve it.`,
      },
    );
  }
  if (before.given.some(({ by, problem }) => problem === null && by.account === account.name)) {
    throw new UsageError(`${account.name} has approved ${nameOf(found)} ${name} already`);
  }
  checkOpen(found, before);
  const until = later(now, found.approval.policy.goodForMs);
  await appendSteps(connection, [stepOf(now, { batch: name, kind: 'approved', data: { hash, until } })]);
}

/** The acting account denies what the batch is now. */
export async function deny(connection: Connection, name: string, reason: string, acting: Acting): Promise<void> {
  const { now, stepOf } = acting;
  const found = await openBatch(connection, name);
  const before = await approvalIn(connection, found, acting, null);
  checkOpen(found, before);
  await actingApprover(connection, acting);
  const data = { hash: before.hash };
  await appendSteps(connection, [stepOf(now, { batch: name, kind: 'denied', data, note: reason })]);
}

async function actingApprover(connection: Connection, { actor }: Pick<Acting, 'actor'>): Promise<Account> {
  const name = actor?.account ?? null;
  const account = (await accountsIn(connection)).find((each) => each.name === name);
  if (account !== undefined && hasRole(account, 'approver')) return account;
  if (account?.state === 'altered') throw accountAltered(account.name);
  throw new UsageError(`${name ?? 'an account of the system'} is not an active approver`, {
    advice: '`admin-mirror people list` shows who is, and `admin-mirror people role` makes somebody one.',
  });
}

async function openBatch(connection: Connection, name: string): Promise<Batch> {
  const found = await batchNamed(connection, name);
  if (found === undefined) throw new UsageError(`there is no batch ${name}`);
  if (found.state === 'done')
    throw new UsageError(`${nameOf(found)} ${name} is done: there is nothing left to approve`);
  return found;
}

function noPolicy(batch: Batch): UsageError {
  return new UsageError(`batch ${batch.batch} needs no approval: no policy was in force for it when it was planned`, {
    advice: `${nextCommand(batch)}.`,
  });
}

/** What stands with a batch that comes under a policy; null where none is about it. */
export function newApproval(
  { approval, caps }: JournalRules,
  { action, undoOf }: Pick<Batch, 'action' | 'undoOf'>,
  totals: BatchApproval['totals'],
  accepted?: number,
): BatchApproval | null {
  const policy = approval[action as ApprovalSubject];
  if (policy === undefined) return null;
  // What takes rows back is under no bound.
  return { policy, totals, caps: undoOf === null ? caps : null, resent: [], accepted, claimed: null };
}

/** The step by which this journal was last taken for the right one in place of a newer one; undefined where it never was. */
export async function lastAccepted(connection: Connection): Promise<number | undefined> {
  const steps = connection
    .selectFrom('journal_steps')
    .select('step')
    .where('kind', '=', 'accepted')
    .where('batch', 'is', null);
  return (await steps.orderBy('step', 'desc').limit(1).executeTakeFirst())?.step;
}

/**
 * Takes this journal for the right one in place of a newer one. What was sent by the approvals in it, this one may not know, so
 * batches that are not done need others.
 */
export async function acceptJournal(
  connection: Connection,
  reason: string,
  instead: Head | null,
  { now, stepOf }: Acting,
): Promise<void> {
  const data = { instead: instead && { ...instead } };
  await appendSteps(connection, [stepOf(now, { batch: null, kind: 'accepted', data, note: reason })]);
  const accepted = await lastAccepted(connection);
  const batches = connection.selectFrom('journal_batches').select(['batch', 'approval']).where('state', '<>', 'done');
  for (const { batch, approval } of await batches.where('approval', 'is not', null).execute()) {
    const anew = { ...(JSON.parse(approval ?? '') as BatchApproval), accepted };
    const digest = await setBatch(connection, batch, { approval: JSON.stringify(anew) });
    await appendSteps(connection, [stepOf(now, { batch, kind: 'accepted', digest })]);
  }
}

/** Notes that a person has said that a row shall be sent again: it counts once more, and needs approval anew. */
export async function noteResent(
  connection: Connection,
  row: Pick<JournalTables['journal_intents'], 'batch' | 'row' | 'plannedBefore' | 'plannedAfter'>,
  { now, stepOf }: Acting,
): Promise<void> {
  const { batch, row: number } = row;
  const approval = (await batchNamed(connection, batch))?.approval ?? null;
  if (approval === null) return;
  const totals = withRow(approval.totals, changeOf(row));
  const more: BatchApproval = { ...approval, totals, resent: [...approval.resent, number] };
  const digest = await setBatch(connection, batch, { approval: JSON.stringify(more) });
  await appendSteps(connection, [stepOf(now, { batch, kind: 'resend', data: { row: number }, digest })]);
}

/** Tells the chain what is in force, where that is not what it was told last. */
export async function tellPolicy(connection: Connection, { rules, now, stepOf }: Acting): Promise<void> {
  const policies = Object.entries(rules.approval).map(([subject, policy]) => [subject, policyByName(policy)] as const);
  const data: Readonly<Record<string, Json>> = {
    approval: Object.fromEntries(policies),
    caps: policies.length === 0 ? null : widest(rules.caps, null),
  };
  const last = await connection
    .selectFrom('journal_steps')
    .select('data')
    // As text: by it SQLite finds the index that is of these steps alone.
    .where(sql<SqlBool>`kind = 'policy'`)
    .orderBy('step', 'desc')
    .limit(1)
    .executeTakeFirst();
  if (last === undefined ? policies.length === 0 : last.data === canonical(data)) return;
  const words = policies.map(([subject, policy]) => {
    const parts = Object.entries(policy).map(([name, value]) => `${name} ${value}`);
    return `${subject}: ${parts.join(', ')}`;
  });
  const note = words.join('; ') || 'nothing needs approval';
  await appendSteps(connection, [stepOf(now, { batch: null, kind: 'policy', data, note })]);
}

/** Throws a UsageError where a write by hand is over a bound, or needs a second person. */
export async function checkWrite(
  connection: Connection,
  { operation, body }: NewWrite,
  { rules, now, actor }: Acting,
): Promise<void> {
  const change = changeByHand(operation, body);
  if (change !== null && rules.caps !== null) {
    const others = await sentSince(connection, later(now, -dayMs), null);
    const problem = batchCapProblem([change], others, rules.caps);
    if (problem !== null) throw new UsageError(`${problem}; nothing was sent`, { advice: capAdvice });
  }
  for (const [subject, totals] of writeTotals(operation, body)) {
    const policy = rules.approval[subject];
    if (policy === undefined) continue;
    const alone =
      policy.alonePerDay === undefined || actor === null
        ? '0'
        : await aloneToday(connection, subject, actor, await accountsIn(connection), now, null);
    const reasons = approvalReasons(policy, approvalTotals(subject, totals, alone));
    if (reasons.length === 0) continue;
    throw new UsageError(`this must be approved by another person: ${reasons.join('; ')}; nothing was sent`, {
      advice:
        `Put it into a file of one row (\`admin-mirror bulk template ${subject}\` shows the columns), then run ` +
        `\`admin-mirror bulk run ${subject} FILE\`: it hands the batch over for approval.`,
    });
  }
}

/**
 * What the person has sent within a day without the approval of another one: the sum of changes without their signs where
 * money moves, else rows.
 */
async function aloneToday(
  connection: Connection,
  subject: ApprovalSubject,
  person: Actor,
  accounts: readonly Account[],
  now: Timestamp,
  apartFrom: string | null,
): Promise<string> {
  const since = later(now, -dayMs);
  let totals = noTotals;
  const claims = await connection
    .selectFrom('journal_steps as s')
    .innerJoin('journal_batches as b', 'b.batch', 's.batch')
    .select(['s.batch', 's.at', 's.actor', 's.data', 'b.rows'])
    .where('b.action', '=', subject)
    .where('s.row', 'is', null)
    .where('s.kind', '=', 'claimed')
    .where('s.at', '>=', since)
    .execute();
  for (const { batch, at, actor, data, rows } of claims) {
    const { approvals = [] } = JSON.parse(data) as ApprovalStep['data'];
    if (batch === apartFrom || approvals.length > 0) continue;
    if (!isOnePerson(person, JSON.parse(actor) as Actor, accounts)) continue;
    if (subject === 'deletions') {
      totals = { ...totals, rows: totals.rows + rows };
      continue;
    }
    const sent = connection
      .selectFrom('journal_intents')
      .select(['plannedBefore', 'plannedAfter'])
      .where('batch', '=', batch)
      .where('claimedAt', '=', at)
      .where(isOutward);
    for (const row of await sent.execute()) totals = withRow(totals, changeOf(row));
  }
  const writes = connection
    .selectFrom('journal_writes')
    .select(['operation', 'body', 'actor'])
    .where('at', '>=', since);
  for (const { operation, body, actor } of await writes.where(maybeMade).execute()) {
    if (actor !== null && !isOnePerson(person, JSON.parse(actor) as Actor, accounts)) continue;
    for (const [about, one] of writeTotals(operation, body)) {
      if (about !== subject) continue;
      totals = { ...totals, rows: totals.rows + 1, gross: moneyText(new Big(totals.gross).plus(one.gross)) };
    }
  }
  return movesMoney(subject) ? totals.gross : String(totals.rows);
}
