/** Writes by hand, outside any batch: recorded before the first byte and after the response. Section "The journal" of docs/architecture.md. */
import {
  type Response,
  KeyRefused,
  NotFound,
  NotTheApi,
  RefusedInput,
  ServerFailed,
  Unreachable,
} from '../api/errors.ts';
import { FileError, messageOf, OutcomeUnknownError } from '../model/errors.ts';
import type { OperationName } from '../model/operations.ts';
import type { Parameters } from './action.ts';
import { actions } from './actions.ts';
import { fingerprintOf } from './plan-rows.ts';
import type { Journal, NewWrite, SentWrite, WriteEnd } from '../journal/port.ts';

type WriteJournal = Pick<Journal, 'beginWrite' | 'endWrite' | 'writes' | 'openRow'>;

/**
 * Sends once. Throws an OutcomeUnknownError if the server refused it and made it all the same.
 * @param begun called between the record and the first byte; if it throws, nothing is sent
 * @param look reads after a refusal whether the write was made; `unknown` if that cannot be read
 */
export async function recordedWrite(
  journal: WriteJournal,
  write: NewWrite,
  begun: () => Promise<void>,
  send: () => Promise<Response>,
  redact: (text: string) => string,
  look: () => Promise<'made' | 'not_made' | 'unknown'> = () => Promise.resolve('unknown'),
): Promise<Response> {
  const number = await journal.beginWrite(write);
  let isBegun = false;
  const ended = async (end: Pick<WriteEnd, 'state' | 'problem'>, response: Response | undefined): Promise<void> => {
    const text = response === undefined ? null : redact(response.raw);
    try {
      await journal.endWrite(number, { ...end, httpStatus: response?.status ?? null, answer: text });
    } catch (error) {
      if (!isBegun || !(error instanceof FileError)) throw error;
      // Money may have moved, so the command must not end as if nothing had been sent.
      throw new OutcomeUnknownError(`${error.message}. The change was sent, and its outcome is not on record`, {
        advice: `Look at the record on the server before you send it again. ${error.advice ?? ''}`.trimEnd(),
        cause: error,
      });
    }
  };
  let response: Response;
  try {
    await begun();
    isBegun = true;
    response = await send();
  } catch (error) {
    const problem = redact(messageOf(error));
    const { response: refusal } = error as { readonly response?: Response | undefined };
    let state = isBegun ? stateOf(error) : 'nothing_done';
    const found = state === 'refused' ? await look() : 'unknown';
    if (found === 'not_made') state = found;
    if (found === 'made') state = 'unknown';
    await ended({ state, problem }, refusal);
    if (found !== 'made') throw error;
    throw new OutcomeUnknownError(`${problem}, but the user has changed since: it may have been made all the same`, {
      advice: 'Look at the user on the server before you send it again.',
      cause: error,
    });
  }
  await ended({ state: 'done', problem: null }, response);
  return response;
}

function stateOf(error: unknown): WriteEnd['state'] {
  if (error instanceof ServerFailed || error instanceof Unreachable) return 'nothing_done';
  const refusals = [KeyRefused, NotFound, RefusedInput, NotTheApi];
  return refusals.some((kind) => error instanceof kind) ? 'refused' : 'unknown';
}

/** How many writes to look back: a command that is given twice by mistake is usually given again soon. */
const maxLookedBack = 500;

/** Describes an open write that is the same, or an open row of the same user; null if there is none. */
export async function openWrite(journal: WriteJournal, { operation, user, body }: NewWrite): Promise<string | null> {
  const open = (each: SentWrite): boolean => each.state === 'sending' || each.state === 'unknown';
  const writes = await journal.writes(maxLookedBack);
  const same = writes.find(
    (each) => open(each) && each.operation === operation && each.user === user && each.body === body,
  );
  if (same !== undefined) return `the same was sent at ${same.at}, and its outcome is not known`;
  const row = user === null ? undefined : await journal.openRow(`user:${user}`);
  return row === undefined
    ? null
    : `the outcome of row ${row.row} of batch ${row.batch}, of the same user, is not known`;
}

/** The fingerprint of the row that would do the same as this write by hand; null if no row could. */
export function fingerprintOfWrite(operation: OperationName, user: number | null, body: Parameters): string | null {
  const action = actions.find((each) => each.operation === operation);
  if (action === undefined) return null;
  const subject = user === null ? action.newSubject?.(body) : `user:${user}`;
  return subject === undefined ? null : fingerprintOf(action, user === null ? `new:${subject}` : subject, body);
}
