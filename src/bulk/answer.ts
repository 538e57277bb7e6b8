/** What came back from a write, as far as it matters what to do next. */
import type { Client } from '../api/client.ts';
import {
  type Answer,
  KeyRefused,
  NotFound,
  NotTheApi,
  RefusedInput,
  ServerFailed,
  Unreachable,
  WriteOutcomeUnknown,
} from '../api/errors.ts';
import type { OperatorError } from '../model/errors.ts';
import type { AnswerKind } from '../journal/port.ts';
import type { WriteRequest } from './action.ts';

export type SendingClient = Pick<Client, 'sendExactly' | 'redact'>;

export type Outcome =
  | {
      readonly kind: 'answered';
      readonly answer: AnswerKind;
      readonly httpStatus: number | null;
      /** Without the key, should the server have sent it back. */
      readonly text: string | null;
      /** What went wrong, in words; null where nothing did. */
      readonly problem: string | null;
      /** The answer is one that every other row would get. */
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
export async function send(client: SendingClient, { operation, user, body }: WriteRequest): Promise<Outcome> {
  try {
    return answered(client, 'accepted', await client.sendExactly(operation, user, body), null);
  } catch (error) {
    if (error instanceof ServerFailed) {
      return { kind: 'later', httpStatus: error.status, waitMs: error.waitMs, error };
    }
    if (error instanceof Unreachable) return { kind: 'later', httpStatus: null, waitMs: undefined, error };
    if (error instanceof WriteOutcomeUnknown) {
      // A conflict speaks against deleting this user: whether it was deleted all the same, the look that follows shows.
      const conflict = operation === 'users.delete' && error.answer?.status === 409;
      return answered(client, conflict ? 'refused' : 'lost', error.answer, error);
    }
    if (error instanceof RefusedInput || error instanceof NotFound) {
      return answered(client, 'refused', error.answer, error);
    }
    if (error instanceof KeyRefused) return { ...answered(client, 'refused', error.answer, error), stop: error };
    if (error instanceof NotTheApi) return { ...answered(client, 'refused', undefined, error), stop: error };
    throw error;
  }
}

function answered(
  client: SendingClient,
  kind: AnswerKind,
  answer: Answer | undefined,
  error: OperatorError | null,
): Outcome & { readonly kind: 'answered' } {
  return {
    kind: 'answered',
    answer: kind,
    httpStatus: answer?.status ?? null,
    text: answer === undefined ? null : client.redact(answer.raw.toString('utf8')),
    problem: error === null ? null : client.redact(error.message),
    stop: null,
  };
}
