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
import { recordIn } from '../api/body.ts';
import type { Client } from '../api/operations.ts';
import { FileError, messageOf, OperatorError, OutcomeUnknownError, UsageError } from '../model/errors.ts';
import { type Money, moneyOf } from '../model/money.ts';
import { recordKey } from '../model/records.ts';
import type { OperationName } from '../model/operations.ts';
import type { Parameters } from './action.ts';
import { actions } from './actions.ts';
import { doneBefore, refuseRivals, type Rules } from './claim.ts';
import { checkJournal, type JournalMemory, rememberJournal } from './journal-memory.ts';
import { fingerprintOf } from './plan-rows.ts';
import type { Journal, NewWrite, SentWrite, WriteEnd } from '../journal/port.ts';

interface WritePorts {
  readonly journal: Journal;
  /** Null if the write moves no money, or there is no mirror. */
  readonly memory: JournalMemory | null;
  readonly client: Client;
  readonly rules: Pick<Rules, 'againWithinMs' | 'rivals'>;
}

interface HandWrite {
  readonly operation: OperationName;
  /** Null for a new user. */
  readonly user: number | null;
  readonly body: Parameters;
}

/** Sends the prepared write, once, and records it. */
export type SendWrite = (send: () => Promise<Response>) => Promise<Response>;

export function movesMoney(operation: OperationName): boolean {
  return operation === 'users.update-balance';
}

/**
 * Checks that a write by hand may be made. Returns what the person should know before it is, and the function that makes it. Throws a
 * UsageError or a FileError.
 */
export async function prepareWrite(
  { journal, memory, client, rules }: WritePorts,
  { operation, user, body }: HandWrite,
  signal: AbortSignal,
): Promise<{ readonly warning: string | null; readonly send: SendWrite }> {
  const { clock } = journal;
  const remembered = { journal, memory, clock };
  refuseRivals(rules.rivals ?? []);
  if (movesMoney(operation)) await checkJournal(remembered);
  // A fixed mask does not even show how long the password is.
  const masked = JSON.stringify('password' in body ? { ...body, password: '****' } : body);
  const readBalance = () => balanceNow(client, user ?? 0, signal);
  const balance = movesMoney(operation) ? await readBalance() : null;
  const fingerprint = fingerprintOfWrite(operation, user, body);
  const write = { operation, user, body: masked, fingerprint, balance };
  await journal.checkWrite(write);
  // A person may do it twice by hand, but not without knowing.
  const warning = (await openWrite(journal, write)) ?? (await doneBefore(journal, fingerprint, rules, clock));
  const begun = async (): Promise<void> => {
    if (body['type'] === 'set') await checkUnchanged(balance, readBalance);
    await rememberJournal(remembered, null);
  };
  const look = async () => {
    const now = balance === null ? null : await readBalance().catch(() => null);
    return now === null ? 'unknown' : now === balance ? 'not_made' : 'made';
  };
  const redact = (text: string) => client.redact(text);
  return { warning, send: (send) => recordedWrite(journal, write, begun, send, redact, look) };
}

/** Returns the user's balance; null if the server does not show it. Throws if the key or the user is not known there. */
async function balanceNow(client: Client, id: number, signal: AbortSignal): Promise<Money | null> {
  try {
    // A response from a cache may be older than the last change.
    const { body, ageMs = 0 } = await client.getUser(id, [], signal);
    const record = recordIn(body);
    return record !== undefined && recordKey(record) === id && ageMs === 0 ? moneyOf(record['balance']) : null;
  } catch (error) {
    const isCertain = error instanceof NotFound || (error instanceof KeyRefused && error.status === 401);
    if (isCertain || !(error instanceof OperatorError) || signal.aborted) throw error;
    return null;
  }
}

/** Throws if the balance has changed since it was read: the bounds were held against what it was then. */
async function checkUnchanged(before: Money | null, readBalance: () => Promise<Money | null>): Promise<void> {
  const now = before === null ? null : await readBalance();
  if (now === before) return;
  throw new UsageError(`the balance was ${before}, and is ${now ?? 'not readable'} now; nothing was sent`, {
    advice: 'Look at the user, and run the command again.',
  });
}

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
async function openWrite(journal: WriteJournal, { operation, user, body }: NewWrite): Promise<string | null> {
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
function fingerprintOfWrite(operation: OperationName, user: number | null, body: Parameters): string | null {
  const action = actions.find((each) => each.operation === operation);
  if (action === undefined) return null;
  const subject = user === null ? action.newSubject?.(body) : `user:${user}`;
  return subject === undefined ? null : fingerprintOf(action, user === null ? `new:${subject}` : subject, body);
}
