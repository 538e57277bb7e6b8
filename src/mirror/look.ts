/** Requests one record by itself. */
import { recordIn } from '../api/body.ts';
import {
  ForeignRecords,
  KeyRefused,
  NotFound,
  NotTheApi,
  PageTooLarge,
  RefusedInput,
  ServerFailed,
} from '../api/errors.ts';
import type { Client } from '../api/operations.ts';
import { recordKey, type RecordKey, type ServedRecord } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';

export type Look =
  | { readonly kind: 'found'; readonly record: ServedRecord }
  | { readonly kind: 'absent' }
  /** The server does not show this record, or single records, or not with this key. */
  | { readonly kind: 'unknown' };

/**
 * Requests one record by itself: a user at its own address, any other by the filter on the id. Throws if the server cannot be
 * reached, or refuses the key altogether.
 */
export async function lookAtRecord(
  client: Pick<Client, 'list' | 'getUser'>,
  resource: ResourceName,
  id: RecordKey,
  signal: AbortSignal,
): Promise<Look> {
  try {
    if (resource === 'users') return lookAt(recordIn((await client.getUser(id, [], signal)).body), id);
    const filters = [{ key: 'id', value: id }] as const;
    const { records, total } = await client.list(resource, { filters, paginate: 1 }, signal);
    return total === 0 ? { kind: 'absent' } : lookAt(records[0], id);
  } catch (error) {
    if (resource === 'users' && error instanceof NotFound) return { kind: 'absent' };
    if (isSilence(error)) return { kind: 'unknown' };
    throw error;
  }
}

/** If another record comes than the requested one, the server ignores filters, and nothing is known. */
function lookAt(record: ServedRecord | undefined, id: RecordKey): Look {
  if (record === undefined || recordKey(record) !== id) return { kind: 'unknown' };
  return { kind: 'found', record };
}

/** Whether the error says nothing about the record. */
function isSilence(error: unknown): boolean {
  if (error instanceof KeyRefused) return error.status === 403;
  return [NotFound, RefusedInput, ServerFailed, NotTheApi, PageTooLarge, ForeignRecords].some(
    (kind) => error instanceof kind,
  );
}
