/**
 * What one kind of row is: which columns it has, what it would do, how it is sent, and how one finds out whether it
 * happened. An action decides nothing about when to send; the runner knows nothing about what is sent. Adding one is a
 * file in actions/ and a line in actions.ts. Section "Writing" of docs/architecture.md.
 */
import type { Client } from '../api/client.ts';
import type { AnswerKind, Evidence } from '../journal/port.ts';
import type { Money } from '../model/money.ts';
import type { OperationName } from '../model/operations.ts';
import type { RowReader, UserKey } from './row-reader.ts';
import type { ColumnRule } from './sheet/columns.ts';

/** A row's instruction in plain JSON: it is kept in the journal. Amounts are decimal text. */
export type Parameters = Readonly<Record<string, unknown>>;

/** A user as the mirror or the server shows it. */
export interface KnownUser {
  readonly id: number;
  readonly email: string | null;
  readonly username: string | null;
  /** Null where none that could be read was given. */
  readonly balance: Money | null;
  /** The fields that the action names in `userFields`, as they were given. */
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface Preview {
  /** As people are shown it: the balance, or what else the action changes; null where there is nothing to show. */
  readonly before: string | null;
  readonly after: string | null;
  /** By how much the sum of all balances changes; null where the action moves no money. */
  readonly change: Money | null;
  /** What is wrong with the row now that its user is known. One is enough for it not to be sent. */
  readonly problems: readonly { readonly column: string | null; readonly problem: string }[];
  /** Worth knowing, and no reason not to send: a negative result. */
  readonly warnings: readonly string[];
  /** The user as a later row of the same file will find it. */
  readonly user: KnownUser | null;
}

/** What was seen of a user, or of the place where a new one would be, in plain JSON: it is kept in the journal. */
export interface Observation {
  readonly found: boolean;
  /** As they are on the server; null where they are missing. The key by which a row named its user must still fit. */
  readonly email: string | null;
  readonly username: string | null;
  /** Somebody else was shown in place of the user. */
  readonly another?: true;
}

/** What a look at the user says of a write. `note` is for people: what was seen, in a sentence. */
export type Judgement =
  | {
      readonly kind: 'applied';
      readonly evidence: Evidence;
      readonly after: string | null;
      readonly note: string;
      /** Id of the record that the write left; null where none is shown. */
      readonly recordId?: string | null;
      /** What of the user does not fit the write, in words; null where all does. */
      readonly contradiction?: string | null;
    }
  /** Nothing of it is there, and all that is there is explained without it. */
  | { readonly kind: 'absent'; readonly evidence: Evidence; readonly after: string | null; readonly note: string }
  /** Neither can be said. If it stays so, a person is needed. */
  | {
      readonly kind: 'unclear';
      readonly after: string | null;
      readonly note: string;
      /** Its token is there, at something that is not what the write was to do. */
      readonly isMarked?: true;
    }
  /** It was done more than once. `reversal` is the command that takes back what is too much. */
  | {
      readonly kind: 'over_applied';
      readonly evidence: Evidence;
      readonly after: string | null;
      readonly note: string;
      readonly reversal: string;
    };

/** Tokens of this program that stand beside the user. */
export interface Marks {
  readonly own: boolean;
  /** Others, of writes that did what the row does; `at` is when, as the server says it, or null. */
  readonly others: readonly { readonly token: string; readonly at: string | null }[];
}

export const noMarks: Marks = { own: false, others: [] };

/** One request, complete. The body goes out as it stands here, and stands in the journal before that. */
export interface WriteRequest {
  readonly operation: OperationName;
  readonly user: number | undefined;
  /** JSON text. */
  readonly body: string;
}

export interface Target<P extends Parameters = Parameters> {
  /** Null where the row makes a new user. */
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
  /** Besides those that name the user. */
  readonly columns: readonly ColumnRule[];
  /** Rows of an example file; each has the same columns. */
  readonly examples: readonly Readonly<Record<string, string>>[];
  /** `user`: each row names one that exists, by `user_id`, `email` or `username`; `new`: rows make users. */
  readonly target: 'user' | 'new';
  /** Fields of users that `preview` wants besides those that every KnownUser has. */
  readonly userFields: readonly string[];
  /** What a person types to approve: the net total, or how many rows there are. */
  readonly typed: 'net' | 'rows';
  /** Set where a refusal is about the row's own user, and says nothing of how the next row will fare. */
  readonly refusedForItself?: true;

  /** Reads the cells; problems go to the reader, and what is returned beside one is not used. */
  readRow(row: RowReader): P;
  /** What the row would do. Where the target is `new`, `user` is one who stands in its way, or null. Pure. */
  preview(parameters: P, user: KnownUser | null): Preview;
  /** The same text for two rows that would do the same to the same user. */
  identity(parameters: P): string;
  /** What a new user will be known by, so that two rows cannot make it at once. Only where the target is `new`. */
  newSubject?(parameters: P): string;
  /** Keys that nobody may have before the new user has them. Only where the target is `new`. */
  newKeys?(parameters: P): readonly UserKey[];

  /** Looks at the user. Throws what the client throws, but for 404, which is an observation. `response` is that to the write, if any. */
  look(client: LookingClient, target: Target<P>, signal?: AbortSignal, response?: AnswerKind | null): Promise<S>;
  marks(seen: S): Marks;
  /** What is shown of the observation as the state before or after: the balance. */
  shown(seen: S): string | null;
  /** Why the row must not be sent, now that the user was looked at; null where it may. */
  failedPrecondition(target: Target<P>, seen: S, plannedBefore: string | null): string | null;
  /** The request, with the token in it where the action has a place for one. */
  request(target: Target<P>): WriteRequest;
  /** Whether it happened, by what was seen before and now. `response` is null where the process died. Pure. */
  judge(target: Target<P>, before: S, now: S, response: AnswerKind | null): Judgement;
  /** Why a lost response will need a person on this server; null where it can be settled by looking. */
  unsettled(seen: S): string | null;
  /** The row that takes this one back, or why there is none, in words. */
  inverse(target: Target<P>, outcome: { readonly before: string | null; readonly after: string | null }): P | string;
}
