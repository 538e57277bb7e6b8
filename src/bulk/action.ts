/**
 * Describes one kind of row: its columns, what it would do, how it is sent, and how to find out whether it was made. An action does
 * not decide when to send, and the runner does not know what is sent. A new action is a file in actions/ and a line in actions.ts.
 * Section "Writing" of docs/architecture.md.
 */
import type { Client } from '../api/operations.ts';
import type { AnswerKind, Evidence } from '../journal/port.ts';
import type { Money } from '../model/money.ts';
import type { OperationName } from '../model/operations.ts';
import type { ColumnRule, RowReader, UserKey } from './row-reader.ts';

/** A row's instruction. Plain JSON, since the journal keeps it. Amounts are decimal text. */
export type Parameters = Readonly<Record<string, unknown>>;

/** A user as the mirror or the server shows it. */
export interface KnownUser {
  readonly id: number;
  readonly email: string | null;
  readonly username: string | null;
  /** Null if it is missing or cannot be read. */
  readonly balance: Money | null;
  /** The fields that the action names in `userFields`, as the source has them. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** What a row would do, as far as there is something to say. */
export interface Preview {
  /** For people: the balance, or whatever the action changes. */
  readonly before?: string | null;
  readonly after?: string | null;
  /** By how much the sum of all balances changes. */
  readonly change?: Money;
  /** What is wrong with the row now that its user is known. A row with a problem is not sent. */
  readonly problem?: { readonly column: string | null; readonly problem: string };
  /** Worth knowing, but no reason not to send: a negative result. */
  readonly warning?: string;
  /** The user as this row leaves it for later rows of the same file, if it changes the user. */
  readonly user?: KnownUser;
}

/** What was seen of a user, or of those who stand in the way of a new one. Plain JSON, since the journal keeps it. */
export interface Observation {
  readonly found: boolean;
  /** Null if missing. The key by which a row named its user must still match. */
  readonly email: string | null;
  readonly username: string | null;
  /** The server showed another user in place of this one. */
  readonly another?: true;
}

/** What a look at the user says about a write. `note` tells people what was seen. */
export type Judgement =
  | {
      readonly kind: 'applied';
      readonly evidence: Evidence;
      readonly after: string | null;
      readonly note: string;
      /** Id of the record that the write left; null if none is shown. */
      readonly recordId?: string | null;
      /** Why the user does not match the write; null if everything matches. */
      readonly contradiction?: string | null;
      /** How the server keeps what was sent in another form; null if it does not. */
      readonly difference?: string | null;
    }
  /** The write does not show, and everything that shows is explained without it. */
  | { readonly kind: 'absent'; readonly evidence: Evidence; readonly after: string | null; readonly note: string }
  /** Neither applied nor absent. If it stays so, a person must decide. */
  | {
      readonly kind: 'unclear';
      readonly after: string | null;
      readonly note: string;
      /** Its token shows, but on a change that is not what the write should do. */
      readonly isMarked?: true;
    }
  /** It was made more than once. `reversal` is the command that takes back the excess. */
  | {
      readonly kind: 'over_applied';
      readonly evidence: Evidence;
      readonly after: string | null;
      readonly note: string;
      readonly reversal: string;
    };

/** Tokens of this program that a look at the user showed. */
export interface Marks {
  /** Whether the row's own token shows. */
  readonly own: boolean;
  /** Tokens of other writes that did the same as the row. `at`: their time as the server writes it, or null. */
  readonly others: readonly { readonly token: string; readonly at: string | null }[];
}

/** Most actions move no money and leave no token, and the record itself shows their outcome. */
export const plainAction = {
  userFields: [],
  typed: 'rows',
  marks: () => ({ own: false, others: [] }),
  unsettled: () => null,
} satisfies Partial<Action>;

/** A complete request. The body is sent exactly as it is here, and is in the journal before that. */
export interface WriteRequest {
  readonly operation: OperationName;
  readonly user: number | undefined;
  /** JSON text. */
  readonly body: string;
}

export function requestOf({ operation, body }: Pick<Action, 'operation' | 'body'>, target: Target): WriteRequest {
  return { operation, user: target.user ?? undefined, body: JSON.stringify(body(target)) };
}

export interface Target<P extends Parameters = Parameters> {
  /** Null if the row makes a new user. */
  readonly user: number | null;
  readonly parameters: P;
  readonly token: string;
}

export type LookingClient = Pick<Client, 'getUser' | 'list' | 'redact'>;

export interface Action<P extends Parameters = Parameters, S extends Observation = Observation> {
  readonly name: string;
  /** For the help: `change balances`. */
  readonly summary: string;
  readonly operation: OperationName;
  /** Without those that name the user. */
  readonly columns: readonly ColumnRule[];
  /** Rows of an example file, all with the same columns. */
  readonly examples: readonly Readonly<Record<string, string>>[];
  /** `user`: each row names one that exists, by `user_id`, `email` or `username`; `new`: rows make users. */
  readonly target: 'user' | 'new';
  /** Fields of users that `preview` needs besides those that every KnownUser has. */
  readonly userFields: readonly string[];
  /** What a person types to consent: the net total, or the number of rows. */
  readonly typed: 'net' | 'rows';
  /** Set if a refusal concerns only the row's own user, so that the next row may well succeed. */
  readonly refusedForItself?: true;

  /** Reads the cells. Problems go to the reader; if there is one, the result is not used. */
  readRow(row: RowReader): P;
  /** What the row would do to the user; for a new one, `user` is who has one of its keys already. Pure. */
  preview(parameters: P, user: KnownUser, currency?: string): Preview;
  /** The same text for two rows that would do the same to the same user. */
  identity(parameters: P): string;
  /** What identifies a new user, so that two rows cannot make it at once. Only if the target is `new`. */
  newSubject?(parameters: P): string;
  /** Keys that the new user will have and nobody may have yet. Only if the target is `new`. */
  newKeys?(parameters: P): readonly UserKey[];

  /** Looks at the user. A 404 is an observation; other errors of the client are thrown. */
  look(client: LookingClient, target: Target<P>, signal?: AbortSignal): Promise<S>;
  marks(seen: S): Marks;
  /** The state before or after, for people: the balance. */
  shown(seen: S): string | null;
  /** Why the row must not be sent after this look at the user; null if it may. */
  failedPrecondition(target: Target<P>, seen: S, plannedBefore: string | null): string | null;
  /** What is sent, with the token in it if the action has a place for one. */
  body(target: Target<P>): object;
  /** Judges from the looks before and after whether the write was made. `response` is null if the process died. Pure. */
  judge(target: Target<P>, before: S, now: S, response: AnswerKind | null): Judgement;
  /** Why a lost response will need a person on this server; null if a look can settle it. */
  unsettled(seen: S): string | null;
  /** The row that takes this one back, or why there is none. */
  inverse(target: Target<P>, outcome: { readonly before: string | null; readonly after: string | null }): P | string;
}
