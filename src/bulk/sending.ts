/** What sending and settling work with, and what they tell whoever watches. */
import type { Sleep } from '../api/rate.ts';
import type { AnswerKind, Batch, Intent, IntentState, Journal } from '../journal/port.ts';
import type { OperatorError } from '../model/errors.ts';
import { type Clock, minuteMs } from '../model/time.ts';
import type { Action, LookingClient, Observation, Target } from './action.ts';
import { withoutCache } from './actions/user-with.ts';
import type { JournalMemory } from './journal-memory.ts';
import { keyFits } from './row-reader.ts';
import type { SendingClient } from './send-row.ts';

export interface SendingPorts {
  readonly journal: Journal;
  /** Null where there is no mirror to keep it in. */
  readonly memory: JournalMemory | null;
  readonly client: LookingClient & SendingClient;
  readonly clock: Clock;
  readonly sleep: Sleep;
  /** Aborted when no further row shall be begun; what is under way is brought to its end. */
  readonly signal: AbortSignal;
  readonly progress: BulkProgress;
}

export interface SendingOptions {
  /** How long a write that is nowhere to be seen stays unknown, ms. */
  readonly settleAfterMs: number;
  /** Users that rows are sent for at once. */
  readonly concurrency: number;
  /** Rows that may fail in one run. */
  readonly maxErrors: number;
  /** How long a change that is not of this journal keeps the same one from going out, ms. */
  readonly againWithinMs: number;
  /** Why a person takes the journal for the right one, although it lacks what the mirror knows; null where nobody does. */
  readonly acceptJournal: string | null;
  /** No request begins later than this before the end of the batch's lock, ms; ten seconds unless given. */
  readonly sendMarginMs?: number;
}

/** Where nothing else is said, a batch whose rows fail one after the other does not fail to its end. */
export const defaultMaxErrors = 100;

export interface Sending extends SendingPorts {
  readonly batch: Batch;
  readonly action: Action;
  readonly options: SendingOptions;
  /** Whoever goes on with the batch wants it sent although the server shows marks that this journal does not know. */
  readonly areMarksMeant?: boolean;
}

export interface RowEnd {
  readonly state: IntentState;
  readonly stop: OperatorError | null;
}

/** The row's target. Throws for a row that was never valid. */
export function targetOf({ user, parameters, token, row }: Intent): Target {
  if (parameters === null || token === null) throw new Error(`row ${row} is not valid and has no target`);
  return { user, parameters, token };
}

/** Looks at the user of a row. Throws what the client throws, but for 404. */
export function lookAt(
  { action, client }: Pick<Sending, 'action' | 'client'>,
  target: Target,
  signal?: AbortSignal,
  response?: AnswerKind | null,
): Promise<Observation> {
  return action.look(withoutCache(client), target, signal, response);
}

/** Such a look says nothing of the row's own user. */
export const anotherShown = 'the server shows another user in place of this one';

/** Why the user is not the one that the plan found, in words; null where it is. */
export function otherUser(
  { key, plannedEmail, plannedUsername }: Pick<Intent, 'key' | 'plannedEmail' | 'plannedUsername'>,
  seen: Pick<Observation, 'email' | 'username' | 'another'>,
): string | null {
  if (seen.another === true) return anotherShown;
  if (!keyFits(key, seen)) return `the user is no longer known by ${key}`;
  if (differs(plannedEmail, seen.email))
    return `the user has the email ${seen.email}, and had ${plannedEmail} in the plan`;
  if (differs(plannedUsername, seen.username)) {
    return `the user is called ${seen.username}, and was called ${plannedUsername} in the plan`;
  }
  return null;
}

function differs(planned: string | null, now: string | null): boolean {
  return planned !== null && now !== null && planned.toLowerCase() !== now.toLowerCase();
}

/** As it is kept with the row; by how much the server's clock was ahead then, where its responses said so. */
export type SeenAtSending = Observation & { readonly serverAheadMs?: number | undefined };

/**
 * By how much this machine's clock was set forward since the row was sent, by the server's clock, ms: what a clock gains beyond a
 * minute has not passed. 0 where that is not known.
 */
export function setForwardMs({ client }: Pick<Sending, 'client'>, intent: Intent): number {
  const before = (intent.seenBefore as SeenAtSending | null)?.serverAheadMs;
  const now = client.counters.serverAheadMs;
  return before === undefined || now === undefined ? 0 : Math.max(0, before - now - minuteMs);
}

/** What was seen before the row was sent; of one that never was, what is seen now. */
export function seenBefore(intent: Intent, now: Observation): Observation {
  return (intent.seenBefore as Observation | null) ?? now;
}

export type BulkEvent =
  /** So many rows are to be sent in this run. */
  | { readonly kind: 'begin'; readonly rows: number }
  | { readonly kind: 'row'; readonly row: number; readonly state: IntentState }
  | { readonly kind: 'wait'; readonly ms: number; readonly why: string };

type BulkProgress = (event: BulkEvent) => void;
