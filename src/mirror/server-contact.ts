/** What distinguishes one server from another, over the client: where it is, whose key it takes, single records. */
import type { Client } from '../api/client.ts';
import { recordIn } from '../api/envelope.ts';
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
  /** For messages; never stored. */
  readonly name: string | null;
  /** Marks of what else is known of the user, by field: nothing of it can be read from them. */
  readonly marks: Readonly<Record<string, string>>;
}

export type Look =
  | { readonly kind: 'found'; readonly createdAt: unknown }
  | { readonly kind: 'absent' }
  /** Single records of this resource cannot be requested, or not with this key. */
  | { readonly kind: 'unknown' };

export type RequestedClient = Pick<
  Client,
  'list' | 'listAs' | 'getUser' | 'auth' | 'address' | 'keyMark' | 'rateLimit' | 'maxBodyBytes'
>;

export type ServerContact = ReturnType<typeof apiContact>;

/** A server that does not say whose key it is must not hold anybody up. */
const ownerPatience = { attempts: 2 };

/** @param client what looks at records counts for no resource */
export function apiContact(client: RequestedClient) {
  return {
    /** The base address, without the key or any other credential. */
    address: client.address,
    /** Another one where the key is another. */
    keyMark: client.keyMark,
    /** The user behind the key; null where the server does not say. */
    owner: async (signal: AbortSignal): Promise<Owner | null> => {
      try {
        return ownerIn((await client.auth(signal, ownerPatience)).body);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof OperatorError) return null;
        throw error;
      }
    },
    /** Whether all of its lists show nothing, as the server's own do while it is set up anew. */
    showsNothing: async (signal: AbortSignal): Promise<boolean> => {
      for (const resource of resourceNames) {
        if ((await client.list(resource, { paginate: 1 }, signal)).total > 0) return false;
      }
      return true;
    },
    /** Requests one record. Throws where the server cannot be reached, or refuses the key altogether. */
    look: async (resource: ResourceName, id: RecordKey, signal: AbortSignal): Promise<Look> => {
      try {
        return await lookAtRecord(client, resource, id, signal);
      } catch (error) {
        if (isSilence(error)) return { kind: 'unknown' };
        throw error;
      }
    },
  };
}

/** Requests one record by itself: a user by its own page, others by the filter on their id. */
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

/** Users have no filter on their id, but a page of their own. */
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

/** Where another record comes than the one requested, filters are not kept to, and nothing is known. */
function lookAt(record: ServedRecord | undefined, id: RecordKey): Look {
  if (record === undefined || recordKey(record) !== id) return { kind: 'unknown' };
  return { kind: 'found', createdAt: record['created_at'] };
}

function isSilence(error: unknown): boolean {
  if (error instanceof KeyRefused) return error.status === 403;
  return [NotFound, RefusedInput, ServerFailed, NotTheApi, PageTooLarge, ForeignRecords].some(
    (kind) => error instanceof kind,
  );
}
