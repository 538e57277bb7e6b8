/**
 * Takes one row from `planned` to its verdict, with a durable step before the first byte and after the response; what the look after
 * that shows may wait for the next step. Section "Writing" of docs/architecture.md.
 */
import type { Client } from '../api/operations.ts';
import {
  type Response,
  KeyRefused,
  NotFound,
  NotTheApi,
  RefusedInput,
  ServerFailed,
  Unreachable,
  WriteOutcomeUnknown,
} from '../api/errors.ts';
import { heldBackWords, unsentState } from '../journal/claim-view.ts';
import type { AnswerKind, Intent, IntentFields, IntentState, RowPlace } from '../journal/port.ts';
import { OperatorError, OutcomeUnknownError, UsageError } from '../model/errors.ts';
import { dayMs, parseInstant, secondMs, timestampOf } from '../model/time.ts';
import { type Action, type Judgement, type Observation, requestOf, type WriteRequest } from './action.ts';
import { earlierClock } from './claim.ts';
import { appliedBy, checkStep, differenceOf, laterVerdictOf, stateAfterResponse } from './intent.ts';
import { journalBehind, rememberJournal } from './journal-memory.ts';
import { lookAt, otherUser, type RowEnd, seenBefore, type SeenAtSending, type Sending, targetOf } from './sending.ts';
import { reviewElsewhere } from './late.ts';
import { overAppliedError, settleRow } from './settle.ts';

const defaultMarginMs = 10 * secondMs;

/** No request begins if the lease ends sooner than this, ms. Leaves a short lease enough time to be renewed. */
export function sendMarginOf(leaseMs: number): number {
  return Math.min(defaultMarginMs, (leaseMs * 2) / 9);
}

/** The server said to come back later, or could not be reached. The row is `planned` as before. */
export interface Later {
  readonly later: Outcome & { readonly kind: 'later' };
}

/** Sends the row once, unless the look before that speaks against it, and settles the response. */
export async function sendRow(sending: Sending, planned: Intent): Promise<RowEnd | Later> {
  const waits = planned.subject === null ? null : await waitsFor(sending, planned, planned.subject);
  if (waits !== null) return block(sending, planned, waits);
  const { action, client } = sending;
  const target = targetOf(planned);
  let seen: Observation;
  try {
    seen = await lookAt(sending, target, sending.signal);
  } catch (error) {
    if (error instanceof OperatorError) return { state: 'planned', stop: error };
    throw error;
  }
  const early = await beforeSending(sending, planned, seen);
  if (early !== undefined) return early;
  const request = requestOf(action, target);
  const sentAt = sending.clock.now();
  const refused = await recordSending(sending, planned, seen, request, sentAt);
  if (refused !== undefined) return refused;
  // Another process may take the batch over once the lock has ended, so no request may begin when that is near.
  const { sendMarginMs = defaultMarginMs } = sending.options;
  // A rate limit or a sleeping machine may hold the request up. It must not leave when others may count it as not made already.
  const latest = sentAt + Math.max(minTimeToLeaveMs, sending.options.settleAfterMs / 2);
  const mayBegin = (): boolean =>
    sending.journal.lockRemainingMs(sending.batch.batch) >= sendMarginMs && sending.clock.now() <= latest;
  sending.sends?.();
  const outcome = await send(client, request, mayBegin, sending.makesPutOff === true);
  if (outcome.kind === 'later') {
    const note = `nothing was done: ${client.redact(outcome.error.message)}`;
    await move(sending, planned, 'sending', 'planned', { httpStatus: outcome.httpStatus }, note);
    return { later: outcome };
  }
  return settleResponse(sending, planned, outcome);
}

/** Says what the row waits for: an open row of its user, or an earlier one of the sheet that was sent and not made; null if nothing. */
async function waitsFor({ journal }: Sending, planned: Intent, subject: string): Promise<string | null> {
  // A verdict may wait only for another step.
  if ((await journal.openRow(subject)) !== undefined) await journal.flush();
  const open = await journal.openRow(subject);
  if (open !== undefined) return `row ${open.row} of batch ${open.batch} is open`;
  const held = await journal.heldBy(planned);
  return held === undefined ? null : heldBackWords(held.row);
}

/** Every request may leave for at least this long, however short `bulk.settle_after` is. */
const minTimeToLeaveMs = 10 * secondMs;

/** Records, before the first byte, that the row is being sent. Returns how it ends if it must not be sent. */
async function recordSending(
  sending: Sending,
  planned: Intent,
  seen: Observation,
  { body }: WriteRequest,
  sentAt: number,
): Promise<RowEnd | undefined> {
  const { action, client } = sending;
  let isRecorded: boolean;
  try {
    isRecorded = await move(sending, planned, 'planned', 'sending', {
      sentAt: timestampOf(sentAt),
      body,
      // The difference of the clocks shows later whether this machine's clock was set in between.
      seenBefore: { ...seen, serverAheadMs: client.counters.serverAheadMs } satisfies SeenAtSending,
      before: action.shown(seen),
      after: null,
      answerKind: null,
      httpStatus: null,
      answer: null,
      evidence: null,
      problem: null,
    });
  } catch (error) {
    // The approval with which the batch was claimed no longer counts.
    if (error instanceof UsageError) return { state: 'planned', stop: error };
    throw error;
  }
  if (!isRecorded) return block(sending, planned, 'another write for the same user is open');
  try {
    await rememberJournal(sending, sending.batch.batch);
  } catch (error) {
    if (error instanceof OperatorError) await move(sending, planned, 'sending', 'planned', {}, 'nothing was sent');
    throw error;
  }
  return undefined;
}

/** Acts on the look before the write. Returns how the row ends if it must not be sent; undefined if it may. */
async function beforeSending(sending: Sending, planned: Intent, seen: Observation): Promise<RowEnd | undefined> {
  const { action, journal, batch } = sending;
  const { unknown, late } = await findMarks(sending, planned, seen);
  const decided = decideSending(action, planned, seen, unknown, late);
  switch (decided.kind) {
    case 'send':
      return undefined;
    case 'behind':
      await journal.setBehind(batch.batch, decided.why);
      return { state: 'planned', stop: journalBehind(decided.why) };
    case 'unknown_mark':
      return { state: 'planned', stop: unknownMarkError(planned, decided.mark) };
    case 'move': {
      const { to, fields, note, judgement } = decided;
      await move(sending, planned, 'planned', to, fields, note);
      if (judgement?.kind === 'over_applied') return { state: to, stop: overAppliedError(sending, planned, judgement) };
      return { state: to, stop: decided.late === undefined ? null : await reviewElsewhere(sending, decided.late) };
    }
  }
}

/** A row in one of these states should have no token on the server. */
const notMade: ReadonlySet<IntentState> = new Set(['rejected', 'not_applied', 'skipped']);

interface FoundMarks {
  /** A token that the claim could not know of, in words: this journal never sent it, or has it as older than it is. */
  readonly unknown: string | null;
  /** A row of another batch that counts as not made although its token shows. */
  readonly late: RowPlace | null;
}

/** Looks at the tokens on the user's other changes of the same kind. Returns the first one that speaks against sending. */
async function findMarks(sending: Sending, { fingerprint }: Intent, seen: Observation): Promise<FoundMarks> {
  const { action, client, journal, batch, options, acceptUnknownMarks } = sending;
  const since = earlierClock(sending).now() - options.againWithinMs;
  const aheadMs = Math.max(0, client.counters.serverAheadMs ?? 0);
  for (const { token, at } of action.marks(seen).others) {
    const madeAt = parseInstant(at);
    if ((madeAt ?? Infinity) < since) continue;
    const known = await journal.rowOfToken(fingerprint ?? '', token);
    if (known !== undefined && known.batch !== batch.batch && notMade.has(known.state)) {
      return { unknown: null, late: known };
    }
    if (acceptUnknownMarks === true) continue;
    if (known === undefined) {
      const place = await journal.placeOfToken(token);
      const whose =
        place === undefined ? 'which is not in this journal' : `that of row ${place.row} of batch ${place.batch}`;
      return { unknown: `${token}, ${whose}`, late: null };
    }
    if (known.batch === batch.batch) continue;
    // The clock was behind when that row was claimed, or it was sent long after, so the claim of this row did not find it.
    const claimedAt = parseInstant(known.claimedAt) ?? Infinity;
    if (claimedAt < since && claimedAt < (madeAt ?? -Infinity) - aheadMs - dayMs) {
      return { unknown: `${token}, which was made later than this journal says`, late: null };
    }
  }
  return { unknown: null, late: null };
}

type SendingDecision =
  | { readonly kind: 'send' }
  /** The row's own token shows although it was never sent from here: the journal is older than the server. */
  | { readonly kind: 'behind'; readonly why: string }
  | { readonly kind: 'unknown_mark'; readonly mark: string }
  | {
      readonly kind: 'move';
      readonly to: IntentState;
      readonly fields: IntentFields;
      readonly note: string;
      readonly judgement?: Judgement;
      readonly late?: RowPlace;
    };

/**
 * Decides from the look just before sending whether the row is sent. Pure.
 * @param unknown a token, in words, that the claim could not know of, on a change of the same kind
 * @param late a row that does the same, counts as not made, and was made
 */
export function decideSending(
  action: Action,
  planned: Intent,
  seen: Observation,
  unknown: string | null,
  late: RowPlace | null = null,
): SendingDecision {
  if (action.marks(seen).own && planned.attempts === 0) {
    const why = `row ${planned.row} stands on the server with its mark ${planned.token}, and was never sent from here`;
    return { kind: 'behind', why };
  }
  if (unknown !== null) return { kind: 'unknown_mark', mark: unknown };
  const again = planned.attempts > 0 ? decideAgain(action, planned, seen) : undefined;
  if (again !== undefined) return again;
  const before = action.shown(seen);
  const unsent = unsentState(planned);
  if (late !== null) {
    // This holds even if a person wanted the row sent again: that person did not know.
    const note = `row ${late.row} of batch ${late.batch}, which does the same and counted as ${late.state.replace('_', ' ')}, was made after all`;
    return { kind: 'move', to: unsent, fields: { before, problem: note }, note, late };
  }
  const why = otherUser(planned, seen) ?? action.failedPrecondition(targetOf(planned), seen, planned.plannedBefore);
  if (why === null) return { kind: 'send' };
  return { kind: 'move', to: unsent, fields: { before, problem: why }, note: why };
}

/** Decides about a row that was sent before. A person or the server said that it may be sent again, but it may have been made since. */
function decideAgain(action: Action, planned: Intent, seen: Observation): SendingDecision | undefined {
  const before = seenBefore(planned, seen);
  const judgement = action.judge(targetOf(planned), before, seen, 'refused');
  const verdict = laterVerdictOf(judgement, 'planned');
  if (verdict !== null) {
    // What the server put off was sent a moment ago. What a person wants to be sent again may be old, and the balance with it.
    const isRecent = planned.evidence !== 'person' && judgement.kind === 'applied';
    const { evidence, discrepancy, note, to } = isRecent ? appliedBy(judgement) : verdict;
    if (isRecent && planned.attempts > 1) {
      const problem = `${note}, although the server said to come back later; it was sent ${planned.attempts} times`;
      return { kind: 'move', to: 'unknown', fields: { evidence, after: judgement.after, problem }, note: problem };
    }
    const fields: IntentFields = {
      evidence,
      discrepancy,
      after: judgement.after,
      recordId: judgement.kind === 'applied' ? (judgement.recordId ?? null) : null,
      problem: to === 'applied' && discrepancy === null ? differenceOf(judgement) : note,
    };
    return { kind: 'move', to, fields, note, judgement };
  }
  if (action.marks(seen).own) {
    return { kind: 'move', to: 'needs_human', fields: { problem: judgement.note }, note: judgement.note };
  }
  // A person's decision counts whatever has changed. The server's word that it did nothing counts only if nothing has changed.
  if (planned.evidence === 'person' || judgement.kind === 'absent') return undefined;
  const hidden = action.unsettled(seen) !== null && action.shown(seen) === action.shown(before);
  if (hidden) return undefined;
  const note = `the server said to come back later, and the user is not as before: ${judgement.note}`;
  return { kind: 'move', to: 'unknown', fields: { problem: note }, note };
}

function unknownMarkError({ row }: Intent, mark: string): OperatorError {
  return new OutcomeUnknownError(
    `row ${row} was not sent: the user has the same change already, with the mark ${mark}`,
    {
      advice:
        'Another journal has sent it, this one is older than the server, the clock of this machine was behind, or two users ' +
        'were merged. `admin-mirror bulk reconcile --adopt` records what this journal lacks. ' +
        'To send this row and the rest anyway: `admin-mirror bulk resume` with `--again --reason "…"`.',
    },
  );
}

async function settleResponse(
  sending: Sending,
  planned: Intent,
  outcome: Outcome & { readonly kind: 'responded' },
): Promise<RowEnd> {
  const { response: answerKind, httpStatus, text: response, problem, stop } = outcome;
  await move(sending, planned, 'sending', stateAfterResponse(answerKind), {
    answerKind,
    httpStatus,
    answer: response,
    problem,
  });
  const responded = await sending.journal.intent(planned.batch, planned.row);
  if (responded === undefined) throw new Error(`row ${planned.row} is gone from the journal`);
  const end = await settleRow(sending, responded, true);
  return { state: end.state, stop: stop ?? end.stop };
}

async function block(sending: Sending, planned: Intent, problem: string): Promise<RowEnd> {
  await move(sending, planned, 'planned', 'blocked', { problem }, problem);
  return { state: 'blocked', stop: null };
}

async function move(
  { journal }: Sending,
  { batch, row }: Intent,
  from: IntentState,
  to: IntentState,
  fields: IntentFields,
  note?: string,
): Promise<boolean> {
  checkStep(from, to);
  return journal.move({ batch, row, from, to, fields, ...(note !== undefined && { note }) });
}

export type SendingClient = Pick<Client, 'sendExactly' | 'redact' | 'counters'>;

type Outcome =
  | {
      readonly kind: 'responded';
      readonly response: AnswerKind;
      readonly httpStatus: number | null;
      /** Without the key, should the server have sent it back. */
      readonly text: string | null;
      /** What went wrong, in words; null if nothing did. */
      readonly problem: string | null;
      /** Set if every other row would get the same response. */
      readonly stop: OperatorError | null;
    }
  /** Certainly nothing was done, so the same row may be sent again. */
  | {
      readonly kind: 'later';
      readonly httpStatus: number | null;
      readonly waitMs: number | undefined;
      readonly error: OperatorError;
    };

/**
 * Sends the request once. Only bugs are thrown.
 * @param makesPutOff whether the server may make what it puts off
 */
async function send(
  client: SendingClient,
  { operation, user, body }: WriteRequest,
  mayBegin: () => boolean,
  makesPutOff: boolean,
): Promise<Outcome> {
  try {
    return responded(client, 'accepted', await client.sendExactly(operation, user, body, undefined, mayBegin), null);
  } catch (error) {
    if (error instanceof ServerFailed) {
      if (makesPutOff) return { ...responded(client, 'lost', error.response, error), httpStatus: error.status };
      return { kind: 'later', httpStatus: error.status, waitMs: error.waitMs, error };
    }
    if (error instanceof Unreachable) return { kind: 'later', httpStatus: null, waitMs: undefined, error };
    if (error instanceof WriteOutcomeUnknown) {
      // A conflict means that this user cannot be deleted. The look that follows shows whether the user was deleted all the same.
      const conflict = operation === 'users.delete' && error.response?.status === 409;
      return responded(client, conflict ? 'refused' : 'lost', error.response, error);
    }
    if (error instanceof RefusedInput || error instanceof NotFound) {
      return responded(client, 'refused', error.response, error);
    }
    if (error instanceof KeyRefused) return { ...responded(client, 'refused', error.response, error), stop: error };
    if (error instanceof NotTheApi) return { ...responded(client, 'refused', undefined, error), stop: error };
    throw error;
  }
}

function responded(
  client: SendingClient,
  kind: AnswerKind,
  response: Response | undefined,
  error: OperatorError | null,
): Outcome & { readonly kind: 'responded' } {
  return {
    kind: 'responded',
    response: kind,
    httpStatus: response?.status ?? null,
    text: response === undefined ? null : client.redact(response.raw),
    problem: error === null ? null : client.redact(error.message),
    stop: null,
  };
}
