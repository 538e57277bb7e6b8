/**
 * Finds out what became of a write: reads the user, lets the action judge, and records the verdict with its evidence. If that is
 * not enough, a person decides (`resolve.ts`). Section "Settling" of docs/architecture.md.
 */
import type { Intent, IntentFields, IntentState, Journal } from '../journal/port.ts';
import { LockHeldError, OperatorError, OutcomeUnknownError } from '../model/errors.ts';
import { type Clock, parseInstant, secondMs, timestampOf } from '../model/time.ts';
import type { Judgement, Observation } from './action.ts';
import { showsAnother, withoutCache } from './actions/user-with.ts';
import { agree, checkStep, differenceOf, isOpen, needsSecondLook, type Verdict, verdictOf } from './intent.ts';
import { newestUnknownSend } from './journal-memory.ts';
import {
  foreignMark,
  anotherUserShown,
  lookAt,
  otherUser,
  type RowEnd,
  seenBefore,
  type Sending,
  clockGainMs,
  targetOf,
} from './sending.ts';

/** Time between two looks that must agree: replicas of a database may lag. */
const betweenLooksMs = secondMs;

/**
 * Looks at an open row and records the verdict. If the server does not respond, the row stays as it is.
 * @param withNext the verdict that it was applied may be recorded with the next step of any row: if the process ends before, the
 *   next look says the same
 */
export async function settleRow(sending: Sending, intent: Intent, withNext = false): Promise<RowEnd> {
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
      await sending.journal.flush();
      await sleep(betweenLooksMs);
      const second = await lookAndJudge(sending, intent);
      agreed = agree(judgement, second.judgement);
      ({ judgement, seen } = second);
    }
    const verdict = verdictOf(judgement, { ...now, agreed });
    await recordVerdict(sending, intent, judgement, verdict, withNext);
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

/** Does the work under the lock of the batch. Throws LockHeldError if another process has the lock. */
export async function underLock<T>(journal: Journal, batch: string, work: () => Promise<T>): Promise<T> {
  await journal.acquireLock(batch);
  try {
    return await work();
  } finally {
    // A lock ends with its process anyway, so a failure to release it must not hide what was done.
    await journal.releaseLock(batch).catch((error: unknown) => {
      if (!(error instanceof OperatorError)) throw error;
    });
  }
}

/** The same, but returns null if another process has the lock. */
export async function tryWithLock<T>(journal: Journal, batch: string, work: () => Promise<T>): Promise<T | null> {
  let isLocked = false;
  try {
    return await underLock(journal, batch, () => {
      isLocked = true;
      return work();
    });
  } catch (error) {
    if (!isLocked && error instanceof LockHeldError) return null;
    throw error;
  }
}

/** @param signal omitted for a look that must be finished even if somebody asks to stop */
export async function lookAndJudge(
  sending: Sending,
  intent: Intent,
  signal?: AbortSignal,
): Promise<{ readonly judgement: Judgement; readonly seen: Observation }> {
  const { action, client } = sending;
  const target = targetOf(intent);
  const look = () => lookAt(sending, target, signal);
  let seen = await look();
  if (!seen.found && target.user !== null && intent.answerKind !== 'accepted') {
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
  withNext: boolean,
): Promise<void> {
  const { batch, row, state: from } = intent;
  const { to, note, discrepancy } = verdict;
  if (to === from) return;
  checkStep(from, to);
  const move = { batch, row, from, to, fields: fieldsOf(intent, judgement, verdict, clock), note };
  // Everything else is news that other decisions rest on, or would be decided otherwise later.
  const canWait = withNext && from === 'acknowledged' && to === 'applied' && discrepancy === null;
  if (canWait && intent.attempts === 1) journal.moveLater(move);
  else await journal.move(move);
}

export function fieldsOf(
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

export type OverApplied = Extract<Judgement, { kind: 'over_applied' }>;

/** Records whether the batch is done. One that nobody has approved yet stays planned: it must be applied, not resumed. */
export async function updateBatchState(journal: Journal, batch: string): Promise<void> {
  const counts = await journal.counts(batch);
  const isUnfinished = (state: IntentState): boolean => isOpen(state) || state === 'planned' || state === 'blocked';
  const rest = (Object.keys(counts) as IntentState[]).some(isUnfinished);
  if ((await journal.batch(batch))?.state === 'planned' && rest) return;
  await journal.setBatchState(batch, rest ? 'stopped' : 'done');
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
      `Then say so: \`admin-mirror bulk resolve ${batch.batch} --row ${row} --applied --reason "…"\`.`,
  });
}
