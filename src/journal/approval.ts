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
import { later } from '../model/time.ts';
import { accountAltered, accountRecords, append, canonical, changeBatch, type Head, type Json } from './chain.ts';
import { countsAsSent, mayBeMade, sentSince } from './claim-view.ts';
import type { Acting } from './database.ts';
import type { Approval, Batch, BatchApproval, JournalRules, NewWrite } from './port.ts';
import {
  approvalMissing,
  type ApprovalStep,
  approvedHash,
  checkOpen,
  decidingKinds,
  higherCaps,
  isMaker,
  makersOf,
  nextCommand,
  noPolicy,
  standingOf,
} from './standing.ts';
import { batchNamed, type Connection, type JournalTables, runOften } from './tables.ts';

export const noRules: JournalRules = { approval: {}, caps: null };

type Looking = Pick<Acting, 'connection' | 'rules' | 'now' | 'daySince'>;

async function accountsIn(connection: Connection): Promise<Account[]> {
  return (await accountRecords(connection)).map(({ account }) => account);
}

/** What the standing of an approval is worked out from. */
async function factsAbout(connection: Connection, batch: Pick<Batch, 'hash'>) {
  return {
    accounts: await accountsIn(connection),
    steps: await stepsAbout(connection, batch),
    ends: await approverEnds(connection),
  };
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

/**
 * Returns the state of the batch's approval; null if it has no policy.
 * @param sender who would send it; null for whoever changed it last
 */
export async function approvalIn(looking: Looking, batch: Batch, sender: Actor | null): Promise<Approval | null> {
  const { approval } = batch;
  if (approval === null) return null;
  const { connection, rules, now } = looking;
  const facts = await factsAbout(connection, batch);
  const by = sender ?? makersOf(facts.steps, batch).at(-1) ?? null;
  const { policy } = approval;
  const reasons = await reasonsFor(looking, batch.action, policy, approval.totals, by, batch.batch);
  const needed = reasons.length === 0 ? 0 : policy.approvers;
  const hash = approvedHash(batch, approval, rules.caps);
  return standingOf({ batch, policy, hash, needed, reasons, now, ...facts });
}

/** Why the policy wants an approval, from the totals and what the person has sent alone today; empty if it does not. */
async function reasonsFor(
  looking: Looking,
  action: string,
  policy: BatchApproval['policy'],
  totals: BatchApproval['totals'],
  person: Actor | null,
  exceptBatch: string | null,
): Promise<string[]> {
  const subject = action as ApprovalSubject;
  const counts = policy.alonePerDay !== undefined && person !== null;
  return approvalReasons(
    policy,
    subject,
    totals,
    counts ? await aloneToday(looking, subject, person, exceptBatch) : '0',
    looking.rules.caps?.currency,
  );
}

/** Throws a UsageError if no row may go out now. The claim has already counted what the sender sent alone. */
export async function checkSending({ connection, rules, now, actor }: Acting, name: string): Promise<void> {
  const account = actor?.account ?? null;
  const isMakerNow = (each: Account): boolean => each.name === account && hasRole(each, 'maker');
  if (account !== null && !(await accountsIn(connection)).some(isMakerNow)) {
    throw new NotSentError(`${account} is not an active maker any more`, {
      advice: `Another maker can continue, or somebody on the command line, with \`admin-mirror bulk resume ${name}\`.`,
    });
  }
  // Not the whole record: its problems and warnings can be long.
  const find = () =>
    connection
      .selectFrom('journal_batches')
      .select(['batch', 'action', 'state', 'hash', 'againReason', 'approval'])
      .where('batch', '=', name);
  const batch = await runOften(connection, 'batch to send', find, [name]);
  if (batch === undefined || batch.approval === null) return;
  const approval = JSON.parse(batch.approval) as BatchApproval;
  const { policy, totals, claimed } = approval;
  const hash = approvedHash(batch, approval, rules.caps);
  if (claimed === null || claimed.hash !== hash) {
    throw new NotSentError(`batch ${name} has changed since its rows were claimed`, {
      advice: `Look at it, then continue: \`admin-mirror bulk resume ${name}\`.`,
    });
  }
  const reasons = approvalReasons(policy, batch.action as ApprovalSubject, totals, '0', rules.caps?.currency);
  const needed = reasons.length === 0 ? claimed.needed : policy.approvers;
  if (needed === 0) return;
  const found = standingOf({ batch, policy, hash, needed, reasons, now, ...(await factsAbout(connection, batch)) });
  if (found.missing > 0) throw approvalMissing(batch, found);
}

/** Submits the batch for approval. Throws a UsageError if there is nothing to submit. */
export async function submit(
  acting: Acting,
  name: string,
  { note, again }: { readonly note: string | null; readonly again: string | null },
): Promise<void> {
  const found = await batchToApprove(acting, name);
  const againReason = again ?? found.againReason;
  const before = await approvalIn(acting, { ...found, againReason }, acting.actor);
  if (before === null) throw noPolicy(found);
  if (before.state === 'approved') {
    throw new UsageError(`batch ${name} is approved already, until ${before.until}`, {
      advice: `${nextCommand(found)}.`,
    });
  }
  if (before.state === 'waiting') throw approvalMissing(found, before);
  if (againReason !== found.againReason) {
    await changeBatch(acting, name, { againReason }, { kind: 'again', note: againReason });
  }
  const data = { hash: before.hash, needed: before.needed };
  await append(acting, { batch: name, kind: 'submitted', data, note });
}

/** Records the approval of the acting account for the content with this hash. */
export async function approve(acting: Acting, name: string, hash: string): Promise<void> {
  const found = await batchToApprove(acting, name);
  const before = await approvalIn(acting, found, null);
  if (before === null || found.approval === null) throw noPolicy(found);
  const account = await actingApprover(acting);
  const what = `batch ${name}`;
  if (before.hash !== hash) {
    throw new UsageError(`${what} has changed since you looked at it; nothing was approved`, {
      advice: `Look at it again: \`admin-mirror bulk status ${name}\`.`,
    });
  }
  if (isMaker(account, makersOf(await stepsAbout(acting.connection, found), found))) {
    const others = before.approvers;
    throw new UsageError(`${account.name} made, changed or submitted ${what}: nobody may approve their own`, {
      advice:
        others.length === 0
          ? 'Another approver is needed: `admin-mirror people add` makes one.'
          : `${others.join(', ')} can approve it.`,
    });
  }
  if (before.given.some(({ by, problem }) => problem === null && by.account === account.name)) {
    throw new UsageError(`${account.name} has approved ${what} already`);
  }
  checkOpen(found, before);
  const until = later(acting.now, found.approval.policy.goodForMs);
  await append(acting, { batch: name, kind: 'approved', data: { hash, until } });
}

/** Records the denial by the acting account of the batch as it is now. */
export async function deny(acting: Acting, name: string, reason: string): Promise<void> {
  const found = await batchToApprove(acting, name);
  const before = await approvalIn(acting, found, null);
  checkOpen(found, before);
  await actingApprover(acting);
  await append(acting, { batch: name, kind: 'denied', data: { hash: before.hash }, note: reason });
}

async function actingApprover({ connection, actor }: Acting): Promise<Account> {
  const name = actor?.account ?? null;
  const account = (await accountsIn(connection)).find((each) => each.name === name);
  if (account !== undefined && hasRole(account, 'approver')) return account;
  if (account?.state === 'altered') throw accountAltered(account.name);
  throw new UsageError(`${name ?? 'a system account'} is not an active approver`, {
    advice: '`admin-mirror people list` shows who is, and `admin-mirror people role` makes somebody one.',
  });
}

async function batchToApprove({ connection }: Acting, name: string): Promise<Batch> {
  const found = await batchNamed(connection, name);
  if (found === undefined) throw new UsageError(`there is no batch ${name}`);
  if (found.state !== 'done') return found;
  throw new UsageError(`batch ${name} is done: there is nothing left to approve`);
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
  const steps = connection.selectFrom('journal_steps').select('step').where('kind', '=', 'accepted');
  const newest = steps.where('batch', 'is', null).orderBy('step', 'desc').limit(1);
  return (await newest.executeTakeFirst())?.step;
}

/**
 * Accepts this journal in place of a newer one. The newer one may have used approvals up that this one still counts, so every
 * batch that is not done needs new ones.
 * @param instead what is known elsewhere as the newest step
 */
export async function acceptJournal(acting: Acting, reason: string, instead: Head | null): Promise<void> {
  const { connection } = acting;
  await append(acting, { kind: 'accepted', data: { instead: instead && { ...instead } }, note: reason });
  const accepted = await lastAccepted(connection);
  const batches = connection.selectFrom('journal_batches').select(['batch', 'approval']).where('state', '<>', 'done');
  for (const { batch, approval } of await batches.where('approval', 'is not', null).execute()) {
    const renewed = { ...(JSON.parse(approval ?? '') as BatchApproval), accepted };
    await changeBatch(acting, batch, { approval: JSON.stringify(renewed) }, { kind: 'accepted' });
  }
}

/** Records that a person wants a row to be sent again: it counts once more in the totals and needs a new approval. */
export async function recordResend(
  acting: Acting,
  row: Pick<JournalTables['journal_intents'], 'batch' | 'row' | 'plannedBefore' | 'plannedAfter'>,
): Promise<void> {
  const approval = (await batchNamed(acting.connection, row.batch))?.approval ?? null;
  if (approval === null) return;
  const totals = withRow(approval.totals, changeOf(row));
  const more: BatchApproval = { ...approval, totals, resent: [...approval.resent, row.row] };
  const step = { kind: 'resend', data: { row: row.row } };
  await changeBatch(acting, row.batch, { approval: JSON.stringify(more) }, step);
}

/** Appends a step with the policies and bounds in force, unless the newest such step says the same. */
export async function recordPolicy(acting: Acting): Promise<void> {
  const { connection, rules } = acting;
  const policies = Object.entries(rules.approval).map(([subject, policy]) => [subject, policyByName(policy)] as const);
  const data: Readonly<Record<string, Json>> = {
    approval: Object.fromEntries(policies),
    caps: policies.length === 0 ? null : higherCaps(rules.caps, null),
  };
  // Literal text, not a bound value: only then does SQLite use the partial index on these steps.
  const steps = connection
    .selectFrom('journal_steps')
    .select('data')
    .where(sql<SqlBool>`kind = 'policy'`);
  const last = await steps.orderBy('step', 'desc').limit(1).executeTakeFirst();
  if (last === undefined ? policies.length === 0 : last.data === canonical(data)) return;
  const wordsOf = (policy: object): string =>
    Object.entries(policy)
      .map(([name, value]) => `${name} ${value}`)
      .join(', ');
  const words = policies.map(([subject, policy]) => `${subject}: ${wordsOf(policy)}`);
  await append(acting, { kind: 'policy', data, note: words.join('; ') || 'nothing needs approval' });
}

/** Throws a UsageError if a write by hand exceeds a bound or needs a second person. */
export async function checkWrite(looking: Looking & Pick<Acting, 'actor'>, write: NewWrite): Promise<void> {
  const { connection, rules, daySince, actor } = looking;
  const change = changeByHand(write);
  if (change !== null && rules.caps !== null) {
    const { maxRow, maxTotal, maxDay } = rules.caps;
    if (changeOf(change) === null && [maxRow, maxTotal, maxDay].some((bound) => bound !== undefined)) {
      throw new UsageError('nobody can say by how much this changes the balance, which has bounds; nothing was sent', {
        advice: 'The balance before it could not be read. Say --type add or --type remove, with the difference.',
      });
    }
    const problem = batchCapProblem([change], await sentSince(connection, daySince, null), rules.caps);
    if (problem !== null) throw new NotSentError(problem, { advice: capAdvice });
  }
  for (const [subject, totals] of writeTotals(write)) {
    const policy = rules.approval[subject];
    const reasons = policy === undefined ? [] : await reasonsFor(looking, subject, policy, totals, actor, null);
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
  { connection, daySince }: Looking,
  subject: ApprovalSubject,
  person: Actor,
  exceptBatch: string | null,
): Promise<string> {
  const accounts = await accountsIn(connection);
  const isOwn = (actor: string | null) => actor === null || isOnePerson(person, JSON.parse(actor) as Actor, accounts);
  let totals = noTotals;
  const claims = await connection
    .selectFrom('journal_steps as s')
    .innerJoin('journal_batches as b', 'b.batch', 's.batch')
    .select(['s.batch', 's.at', 's.actor', 's.data'])
    .where('b.action', '=', subject)
    .where('s.row', 'is', null)
    .where('s.kind', '=', 'claimed')
    .where('s.at', '>=', daySince)
    .execute();
  for (const { batch, at, actor, data } of claims) {
    const { approvals = [] } = JSON.parse(data) as ApprovalStep['data'];
    if (batch === exceptBatch || approvals.length > 0 || !isOwn(actor)) continue;
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
    .where('at', '>=', daySince)
    .where(mayBeMade);
  for (const { actor, ...write } of await writes.execute()) {
    for (const [about, one] of isOwn(actor) ? writeTotals(write) : []) {
      if (about !== subject) continue;
      totals = { ...totals, rows: totals.rows + 1, gross: moneyText(new Big(totals.gross).plus(one.gross)) };
    }
  }
  return movesMoney(subject) ? totals.gross : String(totals.rows);
}
