/**
 * How the journal enforces approval by a second person: it decides in the transaction that claims the rows, and again in each
 * transaction that sends one. Section "Approval" of docs/architecture.md.
 */
import { Big } from 'big.js';
import { sql, type SqlBool } from 'kysely';
import { type Account, hasRole, isOnePerson, type Actor } from '../model/actor.ts';
import {
  approvalReasons,
  type ApprovalSubject,
  changeByHand,
  movesMoney,
  noTotals,
  policyByName,
  withRow,
  writeTotals,
} from '../model/approval.ts';
import { batchCapProblem, capAdvice } from './caps.ts';
import { NotSentError, UsageError } from '../model/errors.ts';
import { changeOf, moneyText } from '../model/money.ts';
import { later, type Timestamp } from '../model/time.ts';
import {
  accountAltered,
  accountRecords,
  appendSteps,
  canonical,
  type Head,
  type Json,
  type NewStep,
  updateBatch,
} from './chain.ts';
import { countsAsSent, mayBeMade, sentSince } from './claim-view.ts';
import type { Approval, Batch, BatchApproval, JournalRules, NewWrite } from './port.ts';
import {
  approvalMissing,
  type ApprovalStep,
  approvedHash,
  checkOpen,
  decidingKinds,
  isMaker,
  makersOf,
  nounOf,
  nextCommand,
  noPolicy,
  standingOf,
  higherCaps,
} from './standing.ts';
import { batchNamed, type Connection, type JournalTables } from './tables.ts';

export const noRules: JournalRules = { approval: {}, caps: null };

/** Who acts, when, and under which rules. */
export interface Acting {
  readonly rules: JournalRules;
  /** Never before the newest step. */
  readonly now: Timestamp;
  /** A day before the clock's time: what went out since then counts. */
  readonly daySince: Timestamp;
  readonly actor: Actor | null;
  readonly stepOf: (at: Timestamp, step: Pick<NewStep, 'batch' | 'kind'> & Partial<NewStep>) => NewStep;
}

/** The steps that decide about the batch and about all batches with the same plan, oldest first. */
async function stepsAbout(connection: Connection, { hash }: Pick<Batch, 'hash'>): Promise<ApprovalStep[]> {
  const rows = await connection
    .selectFrom('journal_steps')
    .select(['step', 'at', 'actor', 'batch', 'kind', 'data', 'note'])
    .where('batch', 'in', (eb) => eb.selectFrom('journal_batches').select('batch').where('hash', '=', hash))
    .where('row', 'is', null)
    .where('kind', 'in', decidingKinds)
    .orderBy('step')
    .execute();
  return rows.map((each) => ({
    ...each,
    actor: JSON.parse(each.actor) as Actor,
    data: JSON.parse(each.data) as ApprovalStep['data'],
  }));
}

/** The newest step of each account that ended its being an active approver. */
async function approverEnds(connection: Connection): Promise<Map<string, number>> {
  const steps = await connection
    .selectFrom('journal_steps')
    .select(['step', 'kind', 'data'])
    // Literal text, not a bound value: only then is the partial index on these steps used.
    .where(sql<SqlBool>`kind LIKE 'account-%'`)
    .where('kind', 'in', ['account-disabled', 'account-roles'])
    .orderBy('step')
    .execute();
  return new Map(
    steps.flatMap(({ step, kind, data }) => {
      const { account, remove = [] } = JSON.parse(data) as { account: string; remove?: readonly string[] };
      return kind === 'account-disabled' || remove.includes('approver') ? [[account, step] as const] : [];
    }),
  );
}

/** What the standing of an approval is worked out from. */
async function factsAbout(connection: Connection, batch: Pick<Batch, 'hash'>) {
  return {
    accounts: await accountsIn(connection),
    steps: await stepsAbout(connection, batch),
    ends: await approverEnds(connection),
  };
}

async function accountsIn(connection: Connection): Promise<Account[]> {
  return (await accountRecords(connection)).map(({ account }) => account);
}

/**
 * Returns the state of the batch's approval; null if it has no policy.
 * @param sender who would send it; null for whoever changed it last
 */
export async function approvalIn(
  connection: Connection,
  batch: Batch,
  { rules, now, daySince }: Pick<Acting, 'rules' | 'now' | 'daySince'>,
  sender: Actor | null,
): Promise<Approval | null> {
  const { approval } = batch;
  if (approval === null) return null;
  const facts = await factsAbout(connection, batch);
  const { accounts, steps } = facts;
  const by = sender ?? makersOf(steps, batch).at(-1) ?? null;
  const subject = batch.action as ApprovalSubject;
  const { policy, totals } = approval;
  const alone =
    policy.alonePerDay === undefined || by === null
      ? '0'
      : await aloneToday(connection, subject, by, accounts, daySince, batch.batch);
  const reasons = approvalReasons(policy, subject, totals, alone);
  const needed = reasons.length === 0 ? 0 : policy.approvers;
  const hash = approvedHash(batch, approval, rules.caps);
  return standingOf({ batch, policy, hash, needed, reasons, now, ...facts });
}

/** Throws a UsageError if no row may go out now. The claim has already counted what the sender sent alone. */
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
    throw new NotSentError(`${account} is not an active maker any more`, {
      advice: `Another maker can continue, or somebody on the command line, with \`admin-mirror bulk resume ${name}\`.`,
    });
  }
  // Not the whole record: its problems and warnings can be long.
  const rows = connection.selectFrom('journal_batches').where('batch', '=', name);
  const batch = await rows.select(['batch', 'action', 'state', 'hash', 'againReason', 'approval']).executeTakeFirst();
  if (batch === undefined || batch.approval === null) return;
  const approval = JSON.parse(batch.approval) as BatchApproval;
  const { policy, totals, claimed } = approval;
  const hash = approvedHash(batch, approval, rules.caps);
  if (claimed === null || claimed.hash !== hash) {
    throw new NotSentError(`batch ${name} has changed since its rows were claimed`, {
      advice: `Look at it, then continue: \`admin-mirror bulk resume ${name}\`.`,
    });
  }
  const reasons = approvalReasons(policy, batch.action as ApprovalSubject, totals);
  const needed = reasons.length === 0 ? claimed.needed : policy.approvers;
  if (needed === 0) return;
  const found = standingOf({ batch, policy, hash, needed, reasons, now, ...(await factsAbout(connection, batch)) });
  if (found.missing > 0) throw approvalMissing(batch, found);
}

/** Submits the batch for approval. Throws a UsageError if there is nothing to submit. */
export async function submit(
  connection: Connection,
  name: string,
  { note, again }: { readonly note: string | null; readonly again: string | null },
  acting: Acting,
): Promise<void> {
  const { now, stepOf } = acting;
  const found = await batchToApprove(connection, name);
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
    const digest = await updateBatch(connection, name, { againReason: reason });
    steps.push(stepOf(now, { batch: name, kind: 'again', note: reason, digest }));
  }
  steps.push(stepOf(now, { batch: name, kind: 'submitted', data: { hash: before.hash, needed: before.needed }, note }));
  await appendSteps(connection, steps);
}

/** Records the approval of the acting account for the content with this hash. */
export async function approve(connection: Connection, name: string, hash: string, acting: Acting): Promise<void> {
  const { now, stepOf } = acting;
  const found = await batchToApprove(connection, name);
  const before = await approvalIn(connection, found, acting, null);
  if (before === null || found.approval === null) throw noPolicy(found);
  const account = await actingApprover(connection, acting);
  if (before.hash !== hash) {
    throw new UsageError(`${nounOf(found)} ${name} has changed since you looked at it; nothing was approved`, {
      advice: `Look at it again: \`admin-mirror bulk status ${name}\`.`,
    });
  }
  const makers = makersOf(await stepsAbout(connection, found), found);
  if (isMaker(account, makers)) {
    throw new UsageError(
      `${account.name} made, changed or submitted ${nounOf(found)} ${name}: nobody may approve their own`,
      {
        advice:
          before.approvers.length === 0
            ? 'Another approver is needed: `admin-mirror people add` makes one.'
            : `${before.approvers.join(', ')} can approve it.`,
      },
    );
  }
  if (before.given.some(({ by, problem }) => problem === null && by.account === account.name)) {
    throw new UsageError(`${account.name} has approved ${nounOf(found)} ${name} already`);
  }
  checkOpen(found, before);
  const until = later(now, found.approval.policy.goodForMs);
  await appendSteps(connection, [stepOf(now, { batch: name, kind: 'approved', data: { hash, until } })]);
}

/** Records the denial by the acting account of the batch as it is now. */
export async function deny(connection: Connection, name: string, reason: string, acting: Acting): Promise<void> {
  const { now, stepOf } = acting;
  const found = await batchToApprove(connection, name);
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
  throw new UsageError(`${name ?? 'a system account'} is not an active approver`, {
    advice: '`admin-mirror people list` shows who is, and `admin-mirror people role` makes somebody one.',
  });
}

async function batchToApprove(connection: Connection, name: string): Promise<Batch> {
  const found = await batchNamed(connection, name);
  if (found === undefined) throw new UsageError(`there is no batch ${name}`);
  if (found.state === 'done')
    throw new UsageError(`${nounOf(found)} ${name} is done: there is nothing left to approve`);
  return found;
}

/** Returns the approval record of a new batch; null if no policy covers it. */
export function newApproval(
  { approval, caps }: JournalRules,
  { action, undoOf }: Pick<Batch, 'action' | 'undoOf'>,
  totals: BatchApproval['totals'],
  accepted?: number,
): BatchApproval | null {
  const policy = approval[action as ApprovalSubject];
  if (policy === undefined) return null;
  // No bound applies to a batch that takes rows back.
  return { policy, totals, caps: undoOf === null ? caps : null, resent: [], accepted, claimed: null };
}

/** Returns the step that last accepted this journal in place of a newer one; undefined if there is none. */
export async function lastAccepted(connection: Connection): Promise<number | undefined> {
  const steps = connection
    .selectFrom('journal_steps')
    .select('step')
    .where('kind', '=', 'accepted')
    .where('batch', 'is', null);
  return (await steps.orderBy('step', 'desc').limit(1).executeTakeFirst())?.step;
}

/**
 * Accepts this journal in place of a newer one. The newer one may have used approvals up that this one still counts, so every
 * batch that is not done needs new ones.
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
    const renewed = { ...(JSON.parse(approval ?? '') as BatchApproval), accepted };
    const digest = await updateBatch(connection, batch, { approval: JSON.stringify(renewed) });
    await appendSteps(connection, [stepOf(now, { batch, kind: 'accepted', digest })]);
  }
}

/** Records that a person wants a row to be sent again: it counts once more in the totals and needs a new approval. */
export async function recordResend(
  connection: Connection,
  row: Pick<JournalTables['journal_intents'], 'batch' | 'row' | 'plannedBefore' | 'plannedAfter'>,
  { now, stepOf }: Acting,
): Promise<void> {
  const { batch, row: number } = row;
  const approval = (await batchNamed(connection, batch))?.approval ?? null;
  if (approval === null) return;
  const totals = withRow(approval.totals, changeOf(row));
  const more: BatchApproval = { ...approval, totals, resent: [...approval.resent, number] };
  const digest = await updateBatch(connection, batch, { approval: JSON.stringify(more) });
  await appendSteps(connection, [stepOf(now, { batch, kind: 'resend', data: { row: number }, digest })]);
}

/** Appends a step with the policies and bounds in force, unless the newest such step says the same. */
export async function recordPolicy(connection: Connection, { rules, now, stepOf }: Acting): Promise<void> {
  const policies = Object.entries(rules.approval).map(([subject, policy]) => [subject, policyByName(policy)] as const);
  const data: Readonly<Record<string, Json>> = {
    approval: Object.fromEntries(policies),
    caps: policies.length === 0 ? null : higherCaps(rules.caps, null),
  };
  const last = await connection
    .selectFrom('journal_steps')
    .select('data')
    // Literal text, not a bound value: only then does SQLite use the partial index on these steps.
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

/** Throws a UsageError if a write by hand exceeds a bound or needs a second person. */
export async function checkWrite(
  connection: Connection,
  write: NewWrite,
  { rules, daySince, actor }: Acting,
): Promise<void> {
  const change = changeByHand(write);
  if (change !== null && rules.caps !== null) {
    const { maxRow, maxTotal, maxDay } = rules.caps;
    if (changeOf(change) === null && [maxRow, maxTotal, maxDay].some((bound) => bound !== undefined)) {
      throw new UsageError('nobody can say by how much this changes the balance, which has bounds; nothing was sent', {
        advice: 'The balance before it could not be read. Say --type add or --type remove, with the difference.',
      });
    }
    const others = await sentSince(connection, daySince, null);
    const problem = batchCapProblem([change], others, rules.caps);
    if (problem !== null) throw new NotSentError(problem, { advice: capAdvice });
  }
  for (const [subject, totals] of writeTotals(write)) {
    const policy = rules.approval[subject];
    if (policy === undefined) continue;
    const alone =
      policy.alonePerDay === undefined || actor === null
        ? '0'
        : await aloneToday(connection, subject, actor, await accountsIn(connection), daySince, null);
    const reasons = approvalReasons(policy, subject, totals, alone);
    if (reasons.length === 0) continue;
    throw new NotSentError(`this must be approved by another person: ${reasons.join('; ')}`, {
      advice:
        `Put it into a file of one row (\`admin-mirror bulk template ${subject}\` shows the columns), then use ` +
        `\`admin-mirror bulk run ${subject} FILE\`: it submits the batch for approval.`,
    });
  }
}

/**
 * Returns what the person has sent within 24 hours without anybody's approval: the sum of the absolute changes if money moves,
 * else the number of rows.
 */
async function aloneToday(
  connection: Connection,
  subject: ApprovalSubject,
  person: Actor,
  accounts: readonly Account[],
  since: Timestamp,
  exceptBatch: string | null,
): Promise<string> {
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
    if (batch === exceptBatch || approvals.length > 0) continue;
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
      .where(countsAsSent);
    for (const row of await sent.execute()) totals = withRow(totals, changeOf(row));
  }
  const writes = connection
    .selectFrom('journal_writes')
    .select(['operation', 'body', 'balance', 'actor'])
    .where('at', '>=', since);
  for (const { actor, ...write } of await writes.where(mayBeMade).execute()) {
    if (actor !== null && !isOnePerson(person, JSON.parse(actor) as Actor, accounts)) continue;
    for (const [about, one] of writeTotals(write)) {
      if (about !== subject) continue;
      totals = { ...totals, rows: totals.rows + 1, gross: moneyText(new Big(totals.gross).plus(one.gross)) };
    }
  }
  return movesMoney(subject) ? totals.gross : String(totals.rows);
}
