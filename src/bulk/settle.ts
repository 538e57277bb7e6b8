/**
 * Finds out what became of a write: reads the user, lets the action judge, and records the verdict with its evidence. If that is
 * not enough, a person decides. A later look, or a sync, may find a write that was made late. Section "Settling" of
 * docs/architecture.md.
 */
import { notMadeStates, unsentState } from '../journal/claim-view.ts';
import type { Batch, Intent, IntentFields, IntentState, Journal, RowPlace } from '../journal/port.ts';
import { LockHeldError, OperatorError, OutcomeUnknownError, UsageError } from '../model/errors.ts';
import { type Clock, parseInstant, secondMs, timestampOf } from '../model/time.ts';
import type { Judgement, Observation } from './action.ts';
import { actionOfBatch } from './actions.ts';
import { type BalanceParameters, observationOf, reversalOf } from './actions/balance-judge.ts';
import { balance } from './actions/balance.ts';
import { requiredReason } from './approval.ts';
import { showsAnother, withoutCache } from './actions/user-with.ts';
import {
  agree,
  checkStep,
  differenceOf,
  isOpen,
  laterVerdictOf,
  needsSecondLook,
  openStates,
  type Verdict,
  verdictOf,
  type WatchedState,
  watchedStates,
} from './intent.ts';
import { foreignMark } from './foreign-mark.ts';
import { newestUnknownSend } from './journal-memory.ts';
import {
  anotherUserShown,
  lookAt,
  otherUser,
  type RowEnd,
  seenBefore,
  type Sending,
  clockGainMs,
  targetOf,
} from './sending.ts';
import type { UserDirectory } from './find-users.ts';

/** Time between two looks that must agree: replicas of a database may lag. */
const betweenLooksMs = secondMs;

/** Looks at an open row and records the verdict. If the server does not respond, the row stays as it is. */
export async function settleRow(sending: Sending, intent: Intent): Promise<RowEnd> {
  const { clock, options, sleep } = sending;
  const { state } = intent;
  if (state !== 'acknowledged' && state !== 'unknown' && state !== 'needs_human') {
    throw new Error(`row ${intent.row} is ${state} and cannot be settled`);
  }
  // Not when `sending` was recorded: a request may wait long for its first byte.
  const sentUntil = (await sending.journal.sentUntil(intent.batch, intent.row)) ?? intent.sentAt;
  const since = parseInstant(sentUntil) ?? clock.now();
  try {
    let { judgement, seen } = await lookAndJudge(sending, intent);
    // A newer journal may have sent the row again since. The wait counts from that request, whose response nobody here knows.
    const unknownAt = parseInstant(await newestUnknownSend(sending));
    const passedMs = clock.now() - Math.max(since, unknownAt ?? since) - clockGainMs(sending, intent);
    const waited = passedMs >= options.settleAfterMs;
    const mayRepeat = intent.attempts > 1 && wasPutOff(intent);
    const now = { state, response: unknownAt === undefined ? intent.answerKind : null, waited, mayRepeat };
    let agreed = false;
    if (needsSecondLook(judgement, now)) {
      await sleep(betweenLooksMs);
      const second = await lookAndJudge(sending, intent);
      agreed = agree(judgement, second.judgement);
      ({ judgement, seen } = second);
    }
    const verdict = verdictOf(judgement, { ...now, agreed });
    await recordVerdict(sending, intent, judgement, verdict);
    return {
      state: verdict.to,
      stop:
        judgement.kind === 'over_applied'
          ? overAppliedError(sending, intent, judgement)
          : await foreignMark(sending, intent, seen),
    };
  } catch (error) {
    if (error instanceof OperatorError) return { state, stop: error };
    throw error;
  }
}

/** Whether the server said last that it did nothing: such a response is no outcome, so its status stands alone. */
function wasPutOff({ answerKind, httpStatus }: Intent): boolean {
  return answerKind === null && httpStatus !== null;
}

/**
 * Looks again at a row that nobody waits for, and records it if more shows than before: a write that was made late, made twice,
 * or made from a newer journal.
 */
async function reviewRow(sending: Sending, intent: Intent, state: WatchedState): Promise<RowEnd> {
  try {
    const { judgement } = await lookAndJudge(sending, intent, sending.signal);
    const verdict = laterVerdictOf(judgement, state, intent.evidence);
    if (verdict === null) return { state, stop: null };
    const recorded = await recordLateVerdict(sending, sending.batch, intent, judgement, verdict);
    const found = recorded === null || recorded.twice === null ? judgement : recorded.twice;
    const stop = found.kind === 'over_applied' ? overAppliedError(sending, intent, found) : null;
    if (recorded === null) return { state, stop: stop ?? notRecordableError(intent) };
    return { state: recorded.state, stop };
  } catch (error) {
    if (error instanceof OperatorError) return { state, stop: error };
    throw error;
  }
}

/** Looks again at a row of another batch, unless a process has its lock. Returns why nothing more may be sent, or null. */
export async function reviewElsewhere(sending: Sending, { batch: name, row }: RowPlace): Promise<OperatorError | null> {
  const { journal } = sending;
  const batch = await journal.batch(name);
  if (batch === undefined) return null;
  const end = await tryWithLock(journal, name, async () => {
    const intent = await journal.intent(name, row);
    const state = watchedStates.find((each) => each === intent?.state);
    return intent === undefined || state === undefined ? null : reviewRow({ ...sending, batch }, intent, state);
  });
  return end?.stop ?? null;
}

/** Does the work under the lock of the batch. Returns null if another process has the lock. */
async function tryWithLock<T>(journal: Journal, batch: string, work: () => Promise<T>): Promise<T | null> {
  try {
    await journal.acquireLock(batch);
  } catch (error) {
    if (error instanceof LockHeldError) return null;
    throw error;
  }
  try {
    return await work();
  } finally {
    await journal.releaseLock(batch);
  }
}

/** Does the work under the lock of the batch. Throws LockHeldError if another process has the lock. */
export async function underLock<T>(journal: Journal, batch: string, work: () => Promise<T>): Promise<T> {
  await journal.acquireLock(batch);
  try {
    return await work();
  } finally {
    await journal.releaseLock(batch);
  }
}

/** @param signal omitted for a look that must be finished even if somebody asks to stop */
async function lookAndJudge(
  sending: Sending,
  intent: Intent,
  signal?: AbortSignal,
): Promise<{ readonly judgement: Judgement; readonly seen: Observation }> {
  const { action, client } = sending;
  const target = targetOf(intent);
  const look = () => lookAt(sending, target, signal, intent.answerKind);
  let seen = await look();
  if (!seen.found && target.user !== null && intent.answerKind === 'refused') {
    // A server that is being set up again shows nobody for a while. Then a missing user proves nothing.
    const note = 'neither the user nor anybody else is found: 404';
    if (!(await showsAnother(withoutCache(client), target.user, signal))) {
      return { judgement: { kind: 'unclear', after: null, note }, seen };
    }
    // The server may have recovered between the two requests.
    seen = await look();
  }
  if (seen.another === true) return { judgement: { kind: 'unclear', after: null, note: anotherUserShown }, seen };
  const judgement = action.judge(target, seenBefore(intent, seen), seen, intent.answerKind);
  // If another person has the id now, that the write does not show there proves nothing.
  const other = judgement.kind === 'absent' && seen.found ? otherUser(intent, seen) : null;
  return { judgement: other === null ? judgement : { kind: 'unclear', after: judgement.after, note: other }, seen };
}

async function recordVerdict(
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
    // The server's reason for a refusal comes first. A row that was applied has no problem any more,
    // only a difference that somebody may want to know of.
    problem: settled
      ? differenceOf(judgement)
      : [...new Set([problem, note])].filter((text) => text !== null).join('; '),
    // The write happened although nobody approved it here. With claimedAt set, the repeat check finds it.
    ...(claimedAt === null && { claimedAt: timestampOf(clock.now()) }),
  };
}

type OverApplied = Extract<Judgement, { kind: 'over_applied' }>;

interface Recorded {
  readonly state: 'applied' | 'needs_human';
  /** Set if the row turned out to be applied and another row has taken back the same, so that it was taken back twice. */
  readonly twice: OverApplied | null;
}

/** Records the verdict of a later look. Returns null if it cannot be recorded yet. */
async function recordLateVerdict(
  { journal, clock }: Pick<Sending, 'journal' | 'clock'>,
  { undoOf }: Pick<Batch, 'undoOf'>,
  intent: Intent,
  judgement: Judgement,
  verdict: Verdict,
  source = '',
): Promise<Recorded | null> {
  const { batch, row, state: from } = intent;
  const note = `${source}${verdict.note}`;
  const fields = fieldsOf(intent, judgement, verdict, clock);
  if (verdict.to === 'applied') return recordLateApplied(journal, undoOf, intent, fields, note);
  checkStep(from, 'needs_human');
  const isRecorded = await journal.move({ batch, row, from, to: 'needs_human', fields, note });
  return isRecorded ? { state: 'needs_human', twice: null } : null;
}

/**
 * Records that a row that nobody waited for was made after all. If it takes another row back, a second row may have been planned
 * to do the same since. A second row that was not sent is skipped. If it was sent, the original row was taken back twice, and this
 * row needs a person. Returns null if it cannot be recorded yet.
 */
export async function recordLateApplied(
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
    if ((await tryWithLock(journal, other.batch, () => skipUnsent(journal, other, problem))) === null) return null;
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

/** Returns null if the row is already being sent. */
async function skipUnsent(journal: Journal, { batch, row }: RowPlace, problem: string): Promise<true | null> {
  const intent = await journal.intent(batch, row);
  if (intent?.state !== 'planned' && intent?.state !== 'blocked') return null;
  const { state: from } = intent;
  await journal.move({ batch, row, from, to: unsentState(intent), fields: { problem }, note: problem });
  await updateBatchState(journal, batch);
  return true;
}

/** Records whether the batch is done. One that nobody has approved yet stays planned: it must be applied, not resumed. */
export async function updateBatchState(journal: Journal, batch: string): Promise<void> {
  const rest = await isUnfinished(journal, batch);
  if ((await journal.batch(batch))?.state !== 'planned' || !rest) {
    await journal.setBatchState(batch, rest ? 'stopped' : 'done');
  }
}

function notRecordableError({ batch, row }: Intent): OperatorError {
  return new OutcomeUnknownError(
    `row ${row} of batch ${batch} was made after all. This cannot be recorded while another row of the same user is open or being sent`,
    { advice: '`admin-mirror bulk status` names that row. Settle it, then run this again.' },
  );
}

/** The error with which the batch stops at a row that was made more than once. */
export function overAppliedError(
  { batch }: Sending,
  { row, attempts }: Intent,
  { note, reversal }: Extract<Judgement, { kind: 'over_applied' }>,
): OperatorError {
  const why =
    attempts > 1
      ? `It was sent ${attempts} times, and more than one of these requests was made.`
      : 'Something between here and the server sends requests twice.';
  return new OutcomeUnknownError(`row ${row} was over-applied: ${note}. The batch was stopped`, {
    advice:
      `${why} To take back what is too much: ${reversal}. ` +
      `Then say so: admin-mirror bulk resolve ${batch.batch} --row ${row} --applied --reason "…".`,
  });
}

/** Settles every open row of the batch, one after the other. Returns the first error, or null. */
export async function settleOpen(sending: Sending): Promise<OperatorError | null> {
  // No row is `sending`: `takeUp` has made those that a process left so `unknown`.
  return forEachRow(sending, rowsIn(sending, openStates), (intent) => settleRow(sending, intent));
}

function rowsIn({ journal, batch }: Sending, states: readonly IntentState[]): AsyncIterable<Intent> {
  return journal.intents(batch.batch, states);
}

/** Looks again at the rows that count as not made: their writes may have been made since. Returns the first error, or null. */
export async function reviewNotMade(sending: Sending): Promise<OperatorError | null> {
  return forEachRow(sending, rowsIn(sending, notMadeStates), (intent) =>
    reviewRow(sending, intent, intent.state as WatchedState),
  );
}

/** Looks again at the rows that were sent more than once: each of their requests may have been made. Returns the first error, or null. */
export async function reviewResent(sending: Sending): Promise<OperatorError | null> {
  return reviewUndecided(sending, sending.journal.resentRows(sending.batch.batch));
}

function reviewUndecided(sending: Sending, rows: AsyncIterable<Intent>): Promise<OperatorError | null> {
  return forEachRow(sending, rows, (intent) =>
    // A person has already decided about a row that was made too often.
    intent.discrepancy === 'over_applied'
      ? Promise.resolve({ state: intent.state, stop: null })
      : reviewRow(sending, intent, intent.state as WatchedState),
  );
}

/**
 * Settles every open row, then looks again at those that count as not made or were sent more than once. It looks at them even if an open row was made twice:
 * a row must not be reported as not applied while its write shows on the server. Returns the first error, or null.
 */
export async function settleAll(sending: Sending): Promise<OperatorError | null> {
  const open = await settleOpen(sending);
  if (stopsLooking(open)) return open;
  const late = await reviewNotMade(sending);
  if (stopsLooking(late)) return open ?? late;
  const resent = await reviewResent(sending);
  return open ?? late ?? resent;
}

/** An unknown outcome of one row is no reason to leave out the others. A server that cannot be reached is. */
function stopsLooking(stop: OperatorError | null): boolean {
  return stop !== null && !(stop instanceof OutcomeUnknownError);
}

/** Looks for every row of the batch on the server, and sends nothing. Returns the first error, or null. */
export async function reconcileRows(sending: Sending): Promise<OperatorError | null> {
  const open = await settleOpen(sending);
  if (stopsLooking(open)) return open;
  const stop = await reviewUndecided(sending, rowsIn(sending, watchedStates));
  return open ?? stop;
}

async function forEachRow(
  { signal, progress }: Sending,
  rows: AsyncIterable<Intent>,
  look: (intent: Intent) => Promise<RowEnd>,
): Promise<OperatorError | null> {
  let first: OperatorError | null = null;
  for await (const intent of rows) {
    if (signal.aborted) return first;
    // One after the other, to spare the server.
    const { state, stop } = await look(intent);
    if (state !== intent.state) progress({ kind: 'row', row: intent.row, state });
    first ??= stop;
    if (stopsLooking(stop)) return first;
  }
  return first;
}

interface Resolution {
  readonly row: number;
  readonly outcome: 'applied' | 'not_applied';
  /** The next `resume` sends the row again. Only for a row that was not applied. */
  readonly resend: boolean;
  readonly reason: string;
}

/**
 * Records the person's decision. Throws a UsageError if there is nothing to decide about the row, and LockHeldError if another
 * process has the lock of the batch.
 */
export async function resolveRow(journal: Journal, { batch }: Batch, resolution: Resolution): Promise<IntentState> {
  const { row, outcome, resend } = resolution;
  const reason = requiredReason(resolution.reason, 'Say how you know: --reason "…".');
  if (resend && outcome === 'applied') {
    throw new UsageError('what was applied must not be sent again', { advice: 'Leave --resend out.' });
  }
  if (resend && (await journal.wasDiscarded(batch))) {
    throw new UsageError(`batch ${batch} was discarded: nothing of it is sent again`, {
      advice: 'Leave --resend out. To send the row after all, plan a batch with it.',
    });
  }
  return underLock(journal, batch, async () => {
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
    await recordDecision(journal, intent, to, reason);
    if (to !== 'planned') await journal.takeUp(batch);
    await journal.setBatchState(batch, (await isUnfinished(journal, batch)) ? 'stopped' : 'done');
    return to;
  });
}

/**
 * Ends a batch of which nothing more is to be sent. Throws a UsageError if nothing is left to be sent, and LockHeldError if another
 * process has the lock of the batch.
 */
export async function discardBatch(journal: Journal, { batch, action, state }: Batch, reason: string): Promise<void> {
  actionOfBatch({ batch, action });
  const words = requiredReason(reason);
  await underLock(journal, batch, async () => {
    await journal.takeUp(batch);
    const { planned = 0, blocked = 0 } = await journal.counts(batch);
    if (planned + blocked === 0 && state !== 'planned') {
      throw new UsageError(`batch ${batch} has no row that is still to be sent`);
    }
    await journal.discard(batch, words);
  });
}

async function recordDecision(
  journal: Journal,
  { batch, row, state }: Intent,
  to: IntentState,
  reason: string,
): Promise<void> {
  // A reported success that nobody has checked is open like any other row.
  const from = state === 'acknowledged' ? 'unknown' : state;
  if (from !== state) await journal.move({ batch, row, from: state, to: from });
  checkStep(from, to);
  const fields: IntentFields =
    to === 'planned'
      ? // The evidence tells the next run that a person, not the server, said that the row may go out again.
        { evidence: 'person', problem: null, discrepancy: null }
      : { evidence: 'person', problem: `a person decided: ${reason}` };
  if (!(await journal.move({ batch, row, from, to, fields, note: `decided by a person: ${reason}` }))) {
    throw new UsageError(`row ${row} was taken back by another batch, and cannot be sent again`);
  }
}

/** Whether a row of the batch is still open or still to be sent. */
export async function isUnfinished(journal: Journal, batch: string): Promise<boolean> {
  const counts = await journal.counts(batch);
  return (Object.keys(counts) as IntentState[]).some(
    (state) => isOpen(state) || state === 'planned' || state === 'blocked',
  );
}

/** A row whose outcome turned out to be different. */
interface LateRow {
  readonly batch: string;
  readonly row: number;
  readonly state: 'applied' | 'needs_human';
}

interface LatePorts extends Pick<Sending, 'journal' | 'clock'> {
  readonly directory: Pick<UserDirectory, 'transactions'>;
}

/** Records every such row of the journal that the mirror shows. Skips a batch that another process has locked. */
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
  const found = await tryWithLock(journal, name, async () => {
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
  ofBatch: Pick<Batch, 'undoOf'>,
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
  const recorded = await recordLateVerdict(ports, ofBatch, intent, judgement, verdict, 'found by a sync: ');
  return recorded === null ? undefined : { batch, row, state: recorded.state };
}
