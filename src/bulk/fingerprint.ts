/**
 * What a row is known by: two rows with the same fingerprint do the same to the same user, whatever file they stand in and
 * whatever is said beside it. Section "Writing" of docs/architecture.md.
 */
import { hash } from 'node:crypto';
import type { OperationName } from '../model/operations.ts';
import type { Action, Parameters } from './action.ts';
import { actions } from './actions.ts';

/** @param subject `user:42`, or `new:` and what a new user will be known by */
export function fingerprintOf(action: Action, subject: string, parameters: Parameters): string {
  const identity = action.identity(parameters);
  // Money can be read by whoever looks into the journal; what other actions send may hold words about people.
  return action.typed === 'net'
    ? `${action.name} ${subject} ${identity}`
    : hash('sha256', JSON.stringify([action.name, subject, identity])).slice(0, 24);
}

/** Of a write by hand, the fingerprint of the row that would do the same; null where no row could. */
export function fingerprintOfWrite(operation: OperationName, user: number | null, body: Parameters): string | null {
  const action = actions.find((each) => each.operation === operation);
  if (action === undefined) return null;
  const subject = user === null ? action.newSubject?.(body) : `user:${user}`;
  return subject === undefined ? null : fingerprintOf(action, user === null ? `new:${subject}` : subject, body);
}
