/** A user out of a record, of the mirror or of the server. */
import { recordId, type ServedRecord } from '../model/records.ts';
import type { KnownUser } from './action.ts';
import { moneyOf } from './decimal.ts';

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** Undefined where the record has no usable id. */
export function knownUser(record: ServedRecord, userFields: readonly string[]): KnownUser | undefined {
  const id = recordId(record);
  if (id === undefined) return undefined;
  return {
    id,
    email: textOf(record['email']),
    username: textOf(record['username']),
    balance: moneyOf(record['balance']),
    fields: Object.fromEntries(userFields.map((name) => [name, record[name]])),
  };
}
