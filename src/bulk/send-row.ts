/**
 * One row from `planned` to its verdict, with a durable step before the first byte, after the response, and after the look
 * that follows it. Section "Writing" of docs/architecture.md.
 */
import type { Client } from '../api/client.ts';
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
import { unsentState } from '../journal/claim-view.ts';
import type { AnswerKind, Intent, IntentFields, IntentState, RowPlace } from '../journal/port.ts';
import { OperatorError, OutcomeUnknownError, UsageError } from '../model/errors.ts';
import { dayMs, parseInstant, secondMs, timestampOf } from '../model/time.ts';
import type { Action, Judgement, Observation, WriteRequest } from './action.ts';
import { earlierClock, journalBehind } from './claim.ts';
import { stateAfterResponse, checkStep } from './intent.ts';
import { rememberJournal } from './journal-memory.ts';
import { lookAt, otherUser, type RowEnd, seenBefore, type SeenAtSending, type Sending, targetOf } from './sending.ts';
import { overAppliedError, reviewElsewhere, settleRow } from './settle.ts';
import { laterVerdictOf } from './verdict.ts';

const usualMarginMs = 10 * secondMs;

/** How long before the end of such a lease no request begins any more; as long as it takes to renew a shorter one. */
export function sendMarginOf(leaseMs: number): number {
  return Math.min(usualMarginMs, (leaseMs * 2) / 9);
}

/** The server said to come back later, or was not there: the row is `planned` as before. */
export interface Later {
  readonly later: Outcome & { readonly kind: 'later' };
}

export async function sendRow(sending: Sending, planned: Intent): Promise<RowEnd | Later> {
  const waitsFor = planned.subject === null ? undefined : await sending.journal.openRow(planned.subject);
  if (waitsFor !== undefined) return block(sending, planned, `row ${waitsFor.row} of batch ${waitsFor.batch} is open`);
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
  const request = action.request(target);
  const sentAt = sending.clock.now();
  let begun: boolean;
  try {
    begun = await move(sending, planned, 'planned', 'sending', {
      sentAt: timestampOf(sentAt),
      body: request.body,
      // With it, whoever looks later finds out whether the clock of this machine was set in between.
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
    // An approval that the batch was claimed with holds no longer.
    if (error instanceof UsageError) return { state: 'planned', stop: error };
    throw error;
  }
  if (!begun) return block(sending, planned, 'another write for the same user is open');
  try {
    await rememberJournal(sending, sending.batch.batch);
  } catch (error) {
    if (error instanceof OperatorError) await move(sending, planned, 'sending', 'planned', {}, 'nothing was sent');
    throw error;
  }
  // Whoever takes the batch over waits for the end of the lock: nothing leaves when that is near, or past.
  const { sendMarginMs = usualMarginMs } = sending.options;
  // Nor does what was held up for long, by a rate limit or a machine that slept: by then others may count on its not being made.
  const latest = sentAt + Math.max(leastLeavingMs, sending.options.settleAfterMs / 2);
  const mayBegin = (): boolean =>
    sending.journal.lockRemainingMs(sending.batch.batch) >= sendMarginMs && sending.clock.now() <= latest;
  const outcome = await send(client, request, mayBegin);
  if (outcome.kind === 'later') {
    const { httpStatus, error } = outcome;
    await move(
      sending,
      planned,
      'sending',
      'planned',
      { httpStatus },
      `nothing was done: ${client.redact(error.message)}`,
    );
    return { later: outcome };
  }
  return settleResponse(sending, planned, outcome);
}

/** Time to leave that a request has in any case. */
const leastLeavingMs = 10 * secondMs;

/** What the look before the write says: the row is done already, must not be sent any more, or nothing may be sent at all. */
async function beforeSending(sending: Sending, planned: Intent, seen: Observation): Promise<RowEnd | undefined> {
  const { action, journal, batch } = sending;
  const { unknown, late } = await markBeside(sending, planned, seen);
  const decided = decideSending(action, planned, seen, unknown, late);
  switch (decided.kind) {
    case 'send':
      return undefined;
    case 'behind':
      await journal.setBehind(batch.batch, decided.why);
      return { state: 'planned', stop: journalBehind(batch.batch, decided.why) };
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

/** The states of a row of which no token should be there. */
const notMade: ReadonlySet<IntentState> = new Set(['rejected', 'not_applied', 'skipped']);

interface Beside {
  /** A mark by which nobody knew that the row was paid, in words: this journal never sent it, or has it as older than it is. */
  readonly unknown: string | null;
  /** A row of another batch whose token is there, and which counts as not made. */
  readonly late: RowPlace | null;
}

/** What matters among the tokens beside the user of changes like that of the row: the first such. */
async function markBeside(sending: Sending, { fingerprint }: Intent, seen: Observation): Promise<Beside> {
  const { action, client, journal, batch, options, acceptUnknownMarks } = sending;
  const since = earlierClock(sending).now() - options.againWithinMs;
  const aheadMs = Math.max(0, client.counters.serverAheadMs ?? 0);
  for (const { token, at } of action.marks(seen).others) {
    const made = parseInstant(at);
    if ((made ?? Infinity) < since) continue;
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
    // The clock was behind when it was claimed, or it went out long after: the claim of this row did not find it.
    const claimed = parseInstant(known.claimedAt) ?? Infinity;
    if (claimed < since && claimed < (made ?? -Infinity) - aheadMs - dayMs) {
      return { unknown: `${token}, which was made later than this journal says`, late: null };
    }
  }
  return { unknown: null, late: null };
}

type SendingDecision =
  | { readonly kind: 'send' }
  /** The row's own token stands there, and it was never sent from here: the journal is not the newest. */
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
 * Whether the row goes out, by the look just before that. Pure.
 * @param unknown mark of a row like it that the claim did not know of, in words
 * @param late row like it that counts as not made, and was
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
    // Whoever wanted it sent again did not know that.
    const note = `row ${late.row} of batch ${late.batch}, which does the same and counted as ${late.state.replace('_', ' ')}, was made after all`;
    return { kind: 'move', to: unsent, fields: { before, problem: note }, note, late };
  }
  const why = otherUser(planned, seen) ?? action.failedPrecondition(targetOf(planned), seen, planned.plannedBefore);
  if (why === null) return { kind: 'send' };
  return { kind: 'move', to: unsent, fields: { before, problem: why }, note: why };
}

/** Sent before, and to go out again because a person, or the server, said so: it may have come about since. */
function decideAgain(action: Action, planned: Intent, seen: Observation): SendingDecision | undefined {
  const before = seenBefore(planned, seen);
  const judgement = action.judge(targetOf(planned), before, seen, 'refused');
  const verdict = laterVerdictOf(judgement, 'planned');
  if (verdict !== null) {
    const { evidence, discrepancy, note, to } = verdict;
    const problem = to === 'applied' ? null : note;
    return { kind: 'move', to, fields: { evidence, discrepancy, after: judgement.after, problem }, note, judgement };
  }
  if (action.marks(seen).own) {
    return { kind: 'move', to: 'needs_human', fields: { problem: judgement.note }, note: judgement.note };
  }
  // A person knows of it, whatever moved. The server's word, that it did nothing, holds only where nothing did.
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
        'Another journal has sent it, this one is older than the server, the clock of this machine was behind, or two users were made one. `admin-mirror bulk reconcile --adopt` records ' +
        'what this journal lacks. To send it and the rest all the same: admin-mirror bulk resume with --again --reason "…".',
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
  const end = await settleRow(sending, responded);
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
      /** What went wrong, in words; null where nothing did. */
      readonly problem: string | null;
      /** The response is one that every other row would get. */
      readonly stop: OperatorError | null;
    }
  /** It is certain that nothing was done: the same row may go out once more. */
  | {
      readonly kind: 'later';
      readonly httpStatus: number | null;
      readonly waitMs: number | undefined;
      readonly error: OperatorError;
    };

/** Sends the request once. Throws only what is a bug. */
async function send(
  client: SendingClient,
  { operation, user, body }: WriteRequest,
  mayBegin: () => boolean,
): Promise<Outcome> {
  try {
    return responded(client, 'accepted', await client.sendExactly(operation, user, body, undefined, mayBegin), null);
  } catch (error) {
    if (error instanceof ServerFailed) {
      return { kind: 'later', httpStatus: error.status, waitMs: error.waitMs, error };
    }
    if (error instanceof Unreachable) return { kind: 'later', httpStatus: null, waitMs: undefined, error };
    if (error instanceof WriteOutcomeUnknown) {
      // A conflict speaks against deleting this user: whether it was deleted all the same, the look that follows shows.
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
