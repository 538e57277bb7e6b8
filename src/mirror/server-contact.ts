/** What identifies a server: its address, the user behind the key, and single records. */
import type { Client } from '../api/operations.ts';
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
import { OperatorError } from '../model/errors.ts';
import { markOf } from '../model/secret.ts';
import { recordKey, type RecordKey, type ServedRecord } from '../model/records.ts';
import { resourceNames, type ResourceName } from '../model/resources.ts';

/** The user that a key belongs to. */
export interface Owner {
  readonly id: string;
  /** For messages only; never stored. */
  readonly name: string | null;
  /** Marks of other fields of the user, which do not reveal their values. */
  readonly marks: Readonly<Record<string, string>>;
}

export type Look =
  | { readonly kind: 'found'; readonly createdAt: unknown }
  | { readonly kind: 'absent' }
  /** The server does not show single records of this resource, or not with this key. */
  | { readonly kind: 'unknown' };

export type RequestedClient = Pick<
  Client,
  'list' | 'listAs' | 'getUser' | 'auth' | 'address' | 'keyMark' | 'maxBodyBytes'
>;

/** What identifies a server. */
export interface ServerContact {
  /** The base address, without the key or any other credential. */
  readonly address: string;
  /** Differs for another key. */
  readonly keyMark: string;
  /** Returns the user behind the key; null if the server does not say. */
  owner(signal: AbortSignal): Promise<Owner | null>;
  /** Whether all of its lists are empty, as while a server is being set up anew. */
  showsNothing(signal: AbortSignal): Promise<boolean>;
  /** Requests one record. Throws if the server cannot be reached, or refuses the key altogether. */
  look(resource: ResourceName, id: RecordKey, signal: AbortSignal): Promise<Look>;
}

/** Few attempts: a server that does not say whose key it is must not delay the run. */
const ownerPatience = { attempts: 2 };

/** @param client its requests count for no resource */
export function apiContact(client: RequestedClient): ServerContact {
  return {
    address: client.address,
    keyMark: client.keyMark,
    owner: async (signal) => {
      try {
        return ownerIn((await client.auth(signal, ownerPatience)).body);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof OperatorError) return null;
        throw error;
      }
    },
    showsNothing: async (signal) => {
      for (const resource of resourceNames) {
        if ((await client.list(resource, { paginate: 1 }, signal)).total > 0) return false;
      }
      return true;
    },
    look: async (resource, id, signal) => {
      try {
        return await lookAtRecord(client, resource, id, signal);
      } catch (error) {
        if (isSilence(error)) return { kind: 'unknown' };
        throw error;
      }
    },
  };
}

/** Requests one record by itself: a user at its own address, any other by the filter on the id. */
export async function lookAtRecord(
  client: Pick<Client, 'list' | 'getUser'>,
  resource: ResourceName,
  id: RecordKey,
  signal: AbortSignal,
): Promise<Look> {
  return resource === 'users' ? lookAtUser(client, id, signal) : lookInList(client, resource, id, signal);
}

const markedFields = ['username', 'email', 'created_at'] as const;

function ownerIn(body: unknown): Owner | null {
  const user = recordIn(body);
  const id = user?.['id'];
  if (user === undefined || (typeof id !== 'number' && typeof id !== 'string')) return null;
  const texts = markedFields.flatMap((field) => {
    const value = user[field];
    return typeof value === 'string' && value !== '' ? [[field, markOf(value)] as const] : [];
  });
  const name = user['username'] ?? user['email'];
  return { id: String(id), name: typeof name === 'string' ? name : null, marks: Object.fromEntries(texts) };
}

async function lookAtUser(client: Pick<Client, 'getUser'>, id: RecordKey, signal: AbortSignal): Promise<Look> {
  try {
    return lookAt(recordIn((await client.getUser(id, [], signal)).body), id);
  } catch (error) {
    if (error instanceof NotFound) return { kind: 'absent' };
    throw error;
  }
}

async function lookInList(
  client: Pick<Client, 'list'>,
  resource: Exclude<ResourceName, 'users'>,
  id: RecordKey,
  signal: AbortSignal,
): Promise<Look> {
  const { records, total } = await client.list(resource, { filters: [{ key: 'id', value: id }], paginate: 1 }, signal);
  return total === 0 ? { kind: 'absent' } : lookAt(records[0], id);
}

/** If another record comes than the requested one, the server ignores filters, and nothing is known. */
function lookAt(record: ServedRecord | undefined, id: RecordKey): Look {
  if (record === undefined || recordKey(record) !== id) return { kind: 'unknown' };
  return { kind: 'found', createdAt: record['created_at'] };
}

/** Whether the error says nothing about the record. */
function isSilence(error: unknown): boolean {
  if (error instanceof KeyRefused) return error.status === 403;
  return [NotFound, RefusedInput, ServerFailed, NotTheApi, PageTooLarge, ForeignRecords].some(
    (kind) => error instanceof kind,
  );
}
