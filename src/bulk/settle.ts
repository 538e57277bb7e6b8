/**
 * Finding out what became of a write: the user is read, the action judges, the verdict is recorded with its evidence. Where
 * that is not enough, a person decides; and a sync may bring what was made late. Section "Settling" of docs/architecture.md.
 */
import { unsentState } from '../journal/claim-view.ts';
import type { Batch, Intent, IntentFields, IntentState, Journal, RowPlace } from '../journal/port.ts';
import { LockHeldError, OperatorError, OutcomeUnknownError, UsageError } from '../model/errors.ts';
import { type Clock, parseInstant, secondMs, timestampOf } from '../model/time.ts';
import type { Judgement } from './action.ts';
import { actionOfBatch } from './actions.ts';
import { type BalanceParameters, observationOf, reversalOf } from './actions/balance-judge.ts';
import { balance } from './actions/balance.ts';
import { showsAnother, withoutCache } from './actions/user-with.ts';
import { notMadeStates } from '../journal/claim-view.ts';
import { checkStep, isOpen, openStates } from './intent.ts';
import { newestUnknownSend } from './journal-memory.ts';
import {
  anotherShown,
  lookAt,
  otherUser,
  type RowEnd,
  seenBefore,
  type Sending,
  setForwardMs,
  targetOf,
} from './sending.ts';
import type { UserDirectory } from './find-users.ts';
import {
  agree,
  laterVerdictOf,
  type Verdict,
  verdictOf,
  wantsSecondLook,
  type WatchedState,
  watchedStates,
} from './verdict.ts';

/** Between two looks that are to agree: replicas of a database may lag. */
const betweenLooksMs = secondMs;

/** Looks at an open row and records what can be said of it. Where the server does not respond, the row stays as it is. */
export async function settleRow(sending: Sending, intent: Intent): Promise<RowEnd> {
  const { clock, options, sleep } = sending;
  const { state } = intent;
  if (state !== 'acknowledged' && state !== 'unknown' && state !== 'needs_human') {
    throw new Error(`row ${intent.row} is ${state}, which is nothing to settle`);
  }
  // A request may wait long between its step and its first byte.
  const sentUntil = (await sending.journal.sentUntil(intent.batch, intent.row)) ?? intent.sentAt;
  const since = parseInstant(sentUntil) ?? clock.now();
  try {
    let judgement = await judge(sending, intent);
    // A newer journal may have sent the row since: that has its own time and its own response.
    const unknownAt = parseInstant(await newestUnknownSend(sending));
    const passed = clock.now() - Math.max(since, unknownAt ?? since) - setForwardMs(sending, intent);
    const waited = passed >= options.settleAfterMs;
    const now = { state, response: unknownAt === undefined ? intent.answerKind : null, waited };
    let agreed = false;
    if (wantsSecondLook(judgement, now)) {
      await sleep(betweenLooksMs);
      const second = await judge(sending, intent);
      agreed = agree(judgement, second);
      judgement = second;
    }
    const verdict = verdictOf(judgement, { ...now, agreed });
    await record(sending, intent, judgement, verdict);
    return {
      state: verdict.to,
      stop: judgement.kind === 'over_applied' ? overApplied(sending, intent, judgement) : null,
    };
  } catch (error) {
    if (error instanceof OperatorError) return { state, stop: error };
    throw error;
  }
}

/**
 * Looks again at a row that nobody waits for, and records where more is seen than before: a write that was made late, made
 * twice, or made from a newer journal.
 */
async function reviewRow(sending: Sending, intent: Intent, state: WatchedState): Promise<RowEnd> {
  try {
    const judgement = await judge(sending, intent, sending.signal);
    const verdict = laterVerdictOf(judgement, state, intent.evidence);
    if (verdict === null) return { state, stop: null };
    const recorded = await recordLater(sending, sending.batch, intent, judgement, verdict);
    const found = recorded === null || recorded.twice === null ? judgement : recorded.twice;
    const stop = found.kind === 'over_applied' ? overApplied(sending, intent, found) : null;
    if (recorded === null) return { state, stop: stop ?? notRecordedYet(intent) };
    return { state: recorded.state, stop };
  } catch (error) {
    if (error instanceof OperatorError) return { state, stop: error };
    throw error;
  }
}

/** Looks again at a row of another batch. Gives why nothing more may be sent, or null; nothing is done where a process is at that batch. */
export async function reviewElsewhere(sending: Sending, { batch: name, row }: RowPlace): Promise<OperatorError | null> {
  const { journal } = sending;
  const batch = await journal.batch(name);
  if (batch === undefined) return null;
  const end = await whereFree(journal, name, async () => {
    const intent = await journal.intent(name, row);
    const state = watchedStates.find((each) => each === intent?.state);
    return intent === undefined || state === undefined ? null : reviewRow({ ...sending, batch }, intent, state);
  });
  return end?.stop ?? null;
}

/** Does something with a batch; gives null where a process is at it. */
async function whereFree<T>(journal: Journal, batch: string, doing: () => Promise<T>): Promise<T | null> {
  try {
    await journal.acquireLock(batch);
  } catch (error) {
    if (error instanceof LockHeldError) return null;
    throw error;
  }
  try {
    return await doing();
  } finally {
    await journal.releaseLock(batch);
  }
}

/** @param signal left out where the look goes on to its end, whoever wants to stop */
async function judge(sending: Sending, intent: Intent, signal?: AbortSignal): Promise<Judgement> {
  const { action, client } = sending;
  const target = targetOf(intent);
  const look = () => lookAt(sending, target, signal, intent.answerKind);
  let seen = await look();
  if (!seen.found && target.user !== null && intent.answerKind === 'refused') {
    // A server that is set up anew shows nobody for a while, and what it refused may have been made.
    const note = 'the user is not found, and nor is any other: 404';
    if (!(await showsAnother(withoutCache(client), target.user, signal))) return { kind: 'unclear', after: null, note };
    // It may have come back between the two.
    seen = await look();
  }
  if (seen.another === true) return { kind: 'unclear', after: null, note: anotherShown };
  const judgement = action.judge(target, seenBefore(intent, seen), seen, intent.answerKind);
  // What was done to one who is gone does not show at whoever has the id now.
  const other = judgement.kind === 'absent' && seen.found ? otherUser(intent, seen) : null;
  return other === null ? judgement : { kind: 'unclear', after: judgement.after, note: other };
}

async function record(
  { journal, clock }: Pick<Sending, 'journal' | 'clock'>,
  intent: Intent,
  judgement: Judgement,
  verdict: Verdict,
): Promise<void> {
  const { batch, row, state: from } = intent;
  const { to, note } = verdict;
  if (to === from) return;
  checkStep(from, to);
  await journal.move({ batch, row, from, to, fields: fieldsOf(intent, judgement, verdict, clock), note });
}

function fieldsOf(
  { problem, claimedAt }: Intent,
  judgement: Judgement,
  { to, evidence, note, discrepancy }: Verdict,
  clock: Clock,
): IntentFields {
  const settled = to === 'applied' && discrepancy === null;
  return {
    evidence,
    ...(judgement.after !== null && { after: judgement.after }),
    discrepancy,
    recordId: judgement.kind === 'applied' ? (judgement.recordId ?? null) : null,
    // What the server said of a refusal stands first; of a row that was applied, there is no problem any more.
    problem: settled ? null : [...new Set([problem, note])].filter((text) => text !== null).join('; '),
    // What nobody consented to here was made all the same: by it, the same row of another file is known as sent before.
    ...(claimedAt === null && { claimedAt: timestampOf(clock.now()) }),
  };
}

type OverApplied = Extract<Judgement, { kind: 'over_applied' }>;

interface Recorded {
  readonly state: 'applied' | 'needs_human';
  /** What was made of a row that was applied, and has taken back what another one has taken back, too; else null. */
  readonly twice: OverApplied | null;
}

/** Records what a later look saw of a row that nobody waits for. Gives null where it cannot be recorded yet. */
async function recordLater(
  { journal, clock }: Pick<Sending, 'journal' | 'clock'>,
  { undoOf }: Pick<Batch, 'undoOf'>,
  intent: Intent,
  judgement: Judgement,
  verdict: Verdict,
  how = '',
): Promise<Recorded | null> {
  const { batch, row, state: from } = intent;
  const note = `${how}${verdict.note}`;
  const fields = fieldsOf(intent, judgement, verdict, clock);
  if (verdict.to === 'applied') return recordMade(journal, undoOf, intent, fields, note);
  checkStep(from, 'needs_human');
  const isRecorded = await journal.move({ batch, row, from, to: 'needs_human', fields, note });
  return isRecorded ? { state: 'needs_human', twice: null } : null;
}

/**
 * Records that the row was made although nobody waited for it. Another one may take back the same by now: what was not sent of that
 * is not sent any more, and what was sent has taken it back twice. Gives null where it cannot be recorded yet.
 */
export async function recordMade(
  journal: Journal,
  undoOf: string | null,
  intent: Intent,
  fields: IntentFields,
  note: string,
): Promise<Recorded | null> {
  const { batch, row, state: from, undoOfRow } = intent;
  checkStep(from, 'applied');
  const isRecorded = () => journal.move({ batch, row, from, to: 'applied', fields, note });
  if (await isRecorded()) return { state: 'applied', twice: null };
  const other = undoOf === null || undoOfRow === null ? undefined : (await journal.undoneRows(undoOf)).get(undoOfRow);
  if (other === undefined) return null;
  if (other.state === 'planned' || other.state === 'blocked') {
    const problem = `row ${row} of batch ${batch}, which counted as ${from.replace('_', ' ')}, was made after all`;
    if ((await whereFree(journal, other.batch, () => skip(journal, other, problem))) === null) return null;
    return (await isRecorded()) ? { state: 'applied', twice: null } : null;
  }
  const also = `row ${undoOfRow} of batch ${undoOf} was taken back by row ${other.row} of batch ${other.batch}, too`;
  const target = targetOf(intent);
  const reversal = reversalOf({ ...target, parameters: target.parameters as BalanceParameters }, 1, 'made twice');
  const twice: OverApplied = {
    kind: 'over_applied',
    evidence: 'token',
    after: null,
    note: `${note}, and ${also}`,
    reversal,
  };
  const problem = `over-applied: ${twice.note}. Reversal: ${reversal}`;
  const excess = { ...fields, problem, discrepancy: 'over_applied', undoOfRow: null } as const;
  const isKept = await journal.move({ batch, row, from, to: 'needs_human', fields: excess, note: problem });
  return isKept ? { state: 'needs_human', twice } : null;
}

/** Null where it is under way by now. */
async function skip(journal: Journal, { batch, row }: RowPlace, problem: string): Promise<true | null> {
  const intent = await journal.intent(batch, row);
  if (intent?.state !== 'planned' && intent?.state !== 'blocked') return null;
  const { state: from } = intent;
  await journal.move({ batch, row, from, to: unsentState(intent), fields: { problem }, note: problem });
  await noteRest(journal, batch);
  return true;
}

/** Records whether there is more to do with a batch. What nobody has approved is not gone on with, but approved. */
export async function noteRest(journal: Journal, batch: string): Promise<void> {
  const rest = await restOf(journal, batch);
  if ((await journal.batch(batch))?.state !== 'planned' || !rest) {
    await journal.setBatchState(batch, rest ? 'stopped' : 'done');
  }
}

function notRecordedYet({ batch, row }: Intent): OperatorError {
  return new OutcomeUnknownError(
    `row ${row} of batch ${batch} was made after all, which cannot be recorded while another row of the same user is open or being sent`,
    { advice: '`admin-mirror bulk status` names it. Settle that one, then run this again.' },
  );
}

/** Why the batch stops at a row that was made more than once. */
export function overApplied(
  { batch }: Sending,
  { row }: Intent,
  { note, reversal }: Extract<Judgement, { kind: 'over_applied' }>,
): OperatorError {
  return new OutcomeUnknownError(`row ${row} was over-applied: ${note}. The batch was stopped`, {
    advice:
      `Something between here and the server sends requests twice. To take back what is too much: ${reversal}. ` +
      `Then say so: admin-mirror bulk resolve ${batch.batch} --row ${row} --applied --reason "…".`,
  });
}

/** Settles every open row of the batch, one after the other. Gives the error that ended it early, or null. */
export async function settleOpen(sending: Sending): Promise<OperatorError | null> {
  // `takeUp` has made those that were left sending unknown.
  return each(sending, openStates, (intent) => settleRow(sending, intent));
}

/** Looks again at the rows that count as not made: their writes may have been made since. Gives the error that ended it early, or null. */
export async function reviewNotMade(sending: Sending): Promise<OperatorError | null> {
  return each(sending, notMadeStates, (intent) => reviewRow(sending, intent, intent.state as WatchedState));
}

/**
 * Settles every open row, and looks again at those that count as not made, also where one of the open ones was made twice: until
 * a person has decided about that, none of the others is to be called not applied. Gives the error of the first, or null.
 */
export async function settleAll(sending: Sending): Promise<OperatorError | null> {
  const open = await settleOpen(sending);
  if (endsLooking(open)) return open;
  const late = await reviewNotMade(sending);
  return open ?? late;
}

/** What was found of one row keeps nobody from looking at the others; a server that cannot be reached does. */
function endsLooking(stop: OperatorError | null): boolean {
  return stop !== null && !(stop instanceof OutcomeUnknownError);
}

/** Looks for every row of the batch on the server, and sends nothing. Gives the error that ended it early, or null. */
export async function reconcileRows(sending: Sending): Promise<OperatorError | null> {
  const open = await settleOpen(sending);
  if (endsLooking(open)) return open;
  const stop = await each(sending, watchedStates, (intent) =>
    // A person has decided about what was made too often.
    intent.discrepancy === 'over_applied'
      ? Promise.resolve({ state: intent.state, stop: null })
      : reviewRow(sending, intent, intent.state as WatchedState),
  );
  return open ?? stop;
}

async function each(
  { journal, batch, signal, progress }: Sending,
  states: readonly IntentState[],
  look: (intent: Intent) => Promise<RowEnd>,
): Promise<OperatorError | null> {
  let first: OperatorError | null = null;
  for await (const intent of journal.intents(batch.batch, states)) {
    if (signal.aborted) return first;
    // One after the other: the server gets no more requests than it takes.
    const { state, stop } = await look(intent);
    if (state !== intent.state) progress({ kind: 'row', row: intent.row, state });
    first ??= stop;
    if (endsLooking(stop)) return first;
  }
  return first;
}

interface Resolution {
  readonly row: number;
  readonly outcome: 'applied' | 'not_applied';
  /** Sends it again with the next `resume`: only what was not applied. */
  readonly resend: boolean;
  readonly reason: string;
}

/**
 * Records the person's decision. Throws a UsageError where the row is not one to decide about, and LockHeldError where a
 * process is at the batch.
 */
export async function resolveRow(journal: Journal, { batch }: Batch, resolution: Resolution): Promise<IntentState> {
  const { row, outcome, resend } = resolution;
  const reason = resolution.reason.trim();
  if (reason === '') throw new UsageError('a reason is needed', { advice: 'Say how you know: --reason "…".' });
  if (resend && outcome === 'applied') {
    throw new UsageError('what was applied must not be sent again', { advice: 'Leave --resend out.' });
  }
  await journal.acquireLock(batch);
  try {
    await journal.takeUp(batch);
    const intent = await journal.intent(batch, row);
    if (intent === undefined)
      throw new UsageError(`batch ${batch} has no row ${row}`, { advice: 'The header is row 1.' });
    const { state } = intent;
    const done = state === 'rejected' || state === 'not_applied';
    if (!isOpen(state) && !(done && resend)) {
      throw new UsageError(`row ${row} is ${state.replace('_', ' ')}: there is nothing to decide about it`, {
        advice: done ? 'Add --resend to send it again.' : undefined,
      });
    }
    const to = resend ? 'planned' : outcome;
    await step(journal, batch, row, state, to, reason);
    if (to !== 'planned') await journal.takeUp(batch);
    await journal.setBatchState(batch, (await restOf(journal, batch)) ? 'stopped' : 'done');
    return to;
  } finally {
    await journal.releaseLock(batch);
  }
}

/**
 * Ends a batch of which nothing more is to be sent. Throws a UsageError where nothing is left to be sent, and LockHeldError where a
 * process is at the batch.
 */
export async function discardBatch(journal: Journal, { batch, action, state }: Batch, reason: string): Promise<void> {
  actionOfBatch({ batch, action });
  const words = reason.trim();
  if (words === '') {
    throw new UsageError('a reason is needed', { advice: 'Say why: --reason "…". It stays on record.' });
  }
  await journal.acquireLock(batch);
  try {
    await journal.takeUp(batch);
    const { planned = 0, blocked = 0 } = await journal.counts(batch);
    if (planned + blocked === 0 && state !== 'planned') {
      throw new UsageError(`batch ${batch} has no row that is still to be sent`);
    }
    await journal.discard(batch, words);
  } finally {
    await journal.releaseLock(batch);
  }
}

async function step(
  journal: Journal,
  batch: string,
  row: number,
  state: IntentState,
  to: IntentState,
  reason: string,
): Promise<void> {
  // A response of success that was not looked at yet is open like any other.
  const from = state === 'acknowledged' ? 'unknown' : state;
  if (from !== state) await journal.move({ batch, row, from: state, to: from });
  checkStep(from, to);
  const fields: IntentFields =
    to === 'planned'
      ? // By it, the next sending knows that a person and not the server has said that it may go out again.
        { evidence: 'person', problem: null, discrepancy: null }
      : { evidence: 'person', problem: `a person decided: ${reason}` };
  if (!(await journal.move({ batch, row, from, to, fields, note: `decided by a person: ${reason}` }))) {
    throw new UsageError(`row ${row} was taken back by another batch, and cannot be sent again`);
  }
}

/** Whether there is more to do. */
export async function restOf(journal: Journal, batch: string): Promise<boolean> {
  const counts = await journal.counts(batch);
  return (Object.keys(counts) as IntentState[]).some(
    (state) => isOpen(state) || state === 'planned' || state === 'blocked',
  );
}

/** A row whose outcome turned out to be another one. */
interface LateRow {
  readonly batch: string;
  readonly row: number;
  readonly state: 'applied' | 'needs_human';
}

interface LatePorts extends Pick<Sending, 'journal' | 'clock'> {
  readonly directory: UserDirectory;
}

/** Records every such row of the journal; a batch that is being sent is left to whoever sends it. */
export async function recordLate(ports: LatePorts): Promise<LateRow[]> {
  const late: LateRow[] = [];
  for (const batch of await ports.journal.batchesNotMade()) {
    if (batch.action === balance.name) late.push(...(await lateIn(ports, batch)));
  }
  return late;
}

async function lateIn(ports: LatePorts, batch: Batch): Promise<LateRow[]> {
  const { journal } = ports;
  const { batch: name } = batch;
  const found = await whereFree(journal, name, async () => {
    const late: LateRow[] = [];
    for await (const intent of journal.intents(name, notMadeStates)) {
      const each = await lateRow(ports, batch, intent);
      if (each !== undefined) late.push(each);
    }
    return late;
  });
  return found ?? [];
}

async function lateRow(
  { directory, ...ports }: LatePorts,
  of: Pick<Batch, 'undoOf'>,
  intent: Intent,
): Promise<LateRow | undefined> {
  const { batch, row, user } = intent;
  const transactions = user === null ? undefined : directory.transactions(user);
  if (transactions === undefined) return undefined;
  const target = targetOf(intent);
  const parameters = target.parameters as BalanceParameters;
  const seen = observationOf({ id: user, balance_transactions: transactions }, parameters, target.token);
  const judgement = balance.judge({ ...target, parameters }, seen, seen, intent.answerKind);
  const verdict = laterVerdictOf(judgement, intent.state as WatchedState, intent.evidence);
  if (verdict === null) return undefined;
  const recorded = await recordLater(ports, of, intent, judgement, verdict, 'found by a sync: ');
  return recorded === null ? undefined : { batch, row, state: recorded.state };
}
