/**
 * One row from `planned` to its verdict, with a durable step before the first byte, after the answer, and after the look
 * that follows it. Section "Writing" of docs/architecture.md.
 */
import { OperatorError } from '../model/errors.ts';
import { timestampOf } from '../model/time.ts';
import type { Intent, IntentFields, IntentState } from '../store/ports/journal.ts';
import type { Sighting } from './action.ts';
import { type Outcome, send } from './answer.ts';
import { answeredState, checkStep } from './intent.ts';
import { type RowEnd, type Sending, targetOf } from './sending.ts';
import { settleRow } from './settle.ts';
import { keyFits } from './user-key.ts';

/** The server asked to come back later, or was not there: the row is `planned` as before. */
export interface Later {
  readonly later: Outcome & { readonly kind: 'later' };
}

export async function sendRow(sending: Sending, planned: Intent): Promise<RowEnd | Later> {
  const waitsFor = planned.subject === null ? undefined : sending.journal.openRow(planned.subject);
  if (waitsFor !== undefined) return block(sending, planned, `row ${waitsFor.row} of batch ${waitsFor.batch} is open`);
  const { action, client } = sending;
  const target = targetOf(planned);
  let seen: Sighting;
  try {
    seen = await action.look(client, target, sending.signal);
  } catch (error) {
    if (error instanceof OperatorError) return { state: 'planned', stop: error };
    throw error;
  }
  const early = beforeSending(sending, planned, seen);
  if (early !== undefined) return early;
  const request = action.request(target);
  const begun = move(sending, planned, 'planned', 'sending', {
    sentAt: timestampOf(sending.clock.now()),
    body: request.body,
    seenBefore: seen,
    before: action.shown(seen),
    after: null,
    answerKind: null,
    httpStatus: null,
    answer: null,
    evidence: null,
    problem: null,
  });
  if (!begun) return block(sending, planned, 'another write for the same user is open');
  const outcome = await send(client, request);
  if (outcome.kind === 'later') {
    const { httpStatus, error } = outcome;
    move(sending, planned, 'sending', 'planned', { httpStatus }, `nothing was done: ${client.redact(error.message)}`);
    return { later: outcome };
  }
  return settleAnswered(sending, planned, outcome);
}

/** What the look before the write says: the row is done already, or must not be sent any more. */
function beforeSending(sending: Sending, planned: Intent, seen: Sighting): RowEnd | undefined {
  const { action } = sending;
  const target = targetOf(planned);
  if (planned.attempts > 0) {
    // Sent before, and to be sent again because a person, or the server, said so: it may have come about since.
    const judgement = action.judge(target, (planned.seenBefore ?? seen) as Sighting, seen, null);
    const proven = judgement.kind === 'applied' && ['token', 'record'].includes(judgement.evidence);
    if (judgement.kind === 'applied' && proven) {
      const fields = { evidence: judgement.evidence, after: judgement.after, problem: null };
      move(sending, planned, 'planned', 'applied', fields, judgement.note);
      return { state: 'applied', stop: null };
    }
  }
  const why = keyFits(planned.key, seen)
    ? action.hindrance(target, seen, planned.plannedBefore)
    : `the user is no longer known by ${planned.key}`;
  if (why === null) return undefined;
  move(sending, planned, 'planned', 'skipped', { before: action.shown(seen), problem: why }, why);
  return { state: 'skipped', stop: null };
}

async function settleAnswered(
  sending: Sending,
  planned: Intent,
  outcome: Outcome & { readonly kind: 'answered' },
): Promise<RowEnd> {
  const { answer: answerKind, httpStatus, text: answer, problem, stop } = outcome;
  move(sending, planned, 'sending', answeredState(answerKind), { answerKind, httpStatus, answer, problem });
  const answered = sending.journal.intent(planned.batch, planned.row);
  if (answered === undefined) throw new Error(`row ${planned.row} is gone from the journal`);
  const end = await settleRow(sending, answered);
  return { state: end.state, stop: stop ?? end.stop };
}

function block(sending: Sending, planned: Intent, problem: string): RowEnd {
  move(sending, planned, 'planned', 'blocked', { problem }, problem);
  return { state: 'blocked', stop: null };
}

function move(
  { journal }: Sending,
  { batch, row }: Intent,
  from: IntentState,
  to: IntentState,
  fields: IntentFields,
  note?: string,
): boolean {
  checkStep(from, to);
  return journal.move({ batch, row, from, to, fields, ...(note !== undefined && { note }) });
}
