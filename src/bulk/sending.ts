/** What sending and settling a batch have in common: ports, options, the look at a user, and progress events. */
import type { Sleep } from '../api/gate.ts';
import type { Batch, Intent, IntentState, Journal } from '../journal/port.ts';
import { type OperatorError, OutcomeUnknownError } from '../model/errors.ts';
import { sameName } from '../model/identity.ts';
import { type Clock, minuteMs } from '../model/time.ts';
import type { Action, LookingClient, Observation, Target } from './action.ts';
import { withoutCache } from './actions/user-with.ts';
import type { JournalMemory } from './journal-memory.ts';
import { keyFits } from './row-reader.ts';
import type { SendingClient } from './send-row.ts';

export interface SendingPorts {
  readonly journal: Journal;
  /** Null if there is no mirror to keep it in. */
  readonly memory: JournalMemory | null;
  readonly client: LookingClient & SendingClient;
  readonly clock: Clock;
  readonly sleep: Sleep;
  /** Once aborted, no further row is begun. Rows under way are finished. */
  readonly signal: AbortSignal;
  readonly progress: BulkProgress;
}

export interface SendingOptions {
  /** How long a write that does not show stays unknown, ms. */
  readonly settleAfterMs: number;
  /** How many users' rows are sent side by side. */
  readonly concurrency: number;
  /** A run stops once this many rows have failed. */
  readonly maxErrors: number;
  /** For how long a change that this journal does not know keeps the same change from being sent, ms. */
  readonly againWithinMs: number;
  /** No request begins if the batch's lock ends sooner than this, ms. Ten seconds by default. */
  readonly sendMarginMs?: number;
}

/** So that a batch in which every row fails does not run to its end. */
export const defaultMaxErrors = 100;

export interface Sending extends SendingPorts {
  readonly batch: Batch;
  readonly action: Action;
  readonly options: SendingOptions;
  /** A person resumed the batch with a reason: tokens on the server that this journal does not know no longer stop it. */
  readonly acceptUnknownMarks?: boolean;
  /** Called just before the first byte of each row. */
  readonly sends?: () => void;
  /** The server has made a write of this batch that it had put off. A row that it puts off is unknown from then on. */
  readonly makesPutOff?: boolean;
}

export interface RowEnd {
  readonly state: IntentState;
  /** Why the run must stop; null if it can go on. */
  readonly stop: OperatorError | null;
}

/** The target of the row. Throws for a row that was never valid. */
export function targetOf({ user, parameters, token, row }: Intent): Target {
  if (parameters === null || token === null) throw new Error(`row ${row} is not valid and has no target`);
  return { user, parameters, token };
}

/** Looks at the user of a row. A 404 is an observation; other errors of the client are thrown. */
export function lookAt(
  { action, client }: Pick<Sending, 'action' | 'client'>,
  target: Target,
  signal?: AbortSignal,
): Promise<Observation> {
  return action.look(withoutCache(client), target, signal);
}

/** A look with this result says nothing about the row's user. */
export const anotherUserShown = 'the server shows another user in place of this one';

/** Says why the user is not the one that the plan found; null if it is the same. */
export function otherUser(
  { key, plannedEmail, plannedUsername }: Pick<Intent, 'key' | 'plannedEmail' | 'plannedUsername'>,
  seen: Pick<Observation, 'email' | 'username' | 'another'>,
): string | null {
  if (seen.another === true) return anotherUserShown;
  if (!keyFits(key, seen)) return `the user is no longer known by ${key}`;
  if (differs(plannedEmail, seen.email))
    return `the user has the email ${seen.email}, and had ${plannedEmail} in the plan`;
  if (differs(plannedUsername, seen.username)) {
    return `the user is called ${seen.username}, and was called ${plannedUsername} in the plan`;
  }
  return null;
}

function differs(planned: string | null, now: string | null): boolean {
  return planned !== null && now !== null && !sameName(planned, now);
}

/** What was seen before sending, as stored with the row. `serverAheadMs`: how far the server's clock was ahead, if known. */
export type SeenAtSending = Observation & { readonly serverAheadMs?: number | undefined };

/**
 * How much this machine's clock has gained on the server's since the row was sent, ms, less a minute of tolerance. The clock was
 * set forward by that much, so that time has not really passed. 0 if unknown.
 */
export function clockGainMs({ client }: Pick<Sending, 'client'>, intent: Intent): number {
  const before = (intent.seenBefore as SeenAtSending | null)?.serverAheadMs;
  const now = client.counters.serverAheadMs;
  return before === undefined || now === undefined ? 0 : Math.max(0, before - now - minuteMs);
}

/** What was seen before the row was sent; for a row that was never sent, what is seen now. */
export function seenBefore(intent: Intent, now: Observation): Observation {
  return (intent.seenBefore as Observation | null) ?? now;
}

/**
 * Notices another journal that sends at the same time: returns why the batch must stop if the user has got the same change from
 * elsewhere since the look before sending; null if not.
 */
export async function foreignMark(
  { action, journal }: Pick<Sending, 'action' | 'journal'>,
  intent: Intent,
  seen: Observation,
): Promise<OperatorError | null> {
  const before = new Set(action.marks(seenBefore(intent, seen)).others.map(({ token }) => token));
  for (const { token } of action.marks(seen).others) {
    if (before.has(token) || (await journal.placeOfToken(token)) !== undefined) continue;
    return new OutcomeUnknownError(
      `the user of row ${intent.row} has got the same change from elsewhere meanwhile, with the mark ${token}, which is not in this journal. The batch was stopped`,
      {
        advice:
          'Another journal sends the same to this server. Stop it, and take back what was made twice. ' +
          '`admin-mirror bulk reconcile --adopt` records what this journal lacks.',
      },
    );
  }
  return null;
}

export type BulkEvent =
  /** `rows`: how many rows this run will send. */
  | { readonly kind: 'begin'; readonly rows: number }
  | { readonly kind: 'row'; readonly row: number; readonly state: IntentState }
  | { readonly kind: 'wait'; readonly ms: number; readonly why: string };

type BulkProgress = (event: BulkEvent) => void;
