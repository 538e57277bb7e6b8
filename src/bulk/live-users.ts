/** Reads users from the server, one by one or page by page, and finds out whose the API key is. */
import { setTimeout as wait } from 'node:timers/promises';
import pLimit from 'p-limit';
import type { Client } from '../api/operations.ts';
import type { Page } from '../api/body.ts';
import { recordIn } from '../api/body.ts';
import { KeyRefused, NotFound, RefusedInput, ServerFailed } from '../api/errors.ts';
import { type RequestPage, Reach, readingRecords, readPage } from '../api/narrow.ts';
import { OperatorError } from '../model/errors.ts';
import { sameName, spellingsOf } from '../model/identity.ts';
import { recordId, type ServedRecord } from '../model/records.ts';
import type { KnownUser } from './action.ts';
import { textOf } from './actions/user-with.ts';
import { moneyOf } from '../model/money.ts';
import type { UserKey } from './row-reader.ts';
import { shown } from './sheet/rows.ts';

export type LiveClient = Pick<Client, 'getUser' | 'list' | 'auth' | 'address' | 'keyMark' | 'counters'>;

/** A user, or a text that says why there is none. */
export type Found = KnownUser | string;

export interface LiveOptions {
  readonly client: LiveClient;
  readonly userFields: readonly string[];
  readonly concurrency: number;
  readonly pageSize: number;
  readonly signal: AbortSignal;
}

async function userById(options: LiveOptions, id: number): Promise<Found> {
  try {
    const record = recordIn((await options.client.getUser(id, [], options.signal)).body);
    const user = record === undefined ? undefined : knownUser(record, options.userFields);
    return user?.id === id ? user : `the server does not show user ${id}`;
  } catch (error) {
    if (error instanceof NotFound) return `there is no user ${id}`;
    throw error;
  }
}

/** A key, with every spelling in which the rows have it if there are several. */
export interface WantedKey extends UserKey {
  readonly spellings?: readonly string[];
}

const several = 'several users have';

/** Whether the reason is that several users have the key, so that nobody may choose one of them. */
export function isAmbiguous(found: Found | undefined): found is string {
  return typeof found === 'string' && found.startsWith(several);
}

export function ambiguous({ column, value }: UserKey, ids: readonly number[]): string {
  return `${several} the ${column} ${shown(value)}: ${ids.join(', ')}`;
}

/**
 * The one user that the key names, in whatever spelling. Several users are as bad as none.
 * @param known ids of users who had the key when it was last seen: a filter that compares exactly may not show them
 */
export async function userByKey(options: LiveOptions, key: WantedKey, known: readonly number[] = []): Promise<Found> {
  const { column, value, spellings = [value] } = key;
  if (column === 'user_id') return userById(options, Number(value));
  const found = new Map<number, KnownUser>();
  const add = (user: KnownUser): void => {
    if (sameName(user[column], value)) found.set(user.id, user);
  };
  let missing = `no user has the ${column} ${shown(value)}`;
  try {
    for (const wanted of spellingsOf(spellings)) {
      const users = await usersShown(options, column, wanted);
      users.forEach(add);
      // A server that ignores the filter shows other users, which proves nothing.
      if (users.length > 0) missing = `the server does not find users by ${column}; name the user by user_id`;
    }
  } catch (error) {
    if (!(error instanceof RefusedInput || error instanceof ServerFailed)) throw error;
    missing = `the server does not find users by ${column} (${error.message}); name the user by user_id`;
  }
  for (const id of known) {
    const user = found.has(id) ? undefined : await userById(options, id);
    if (typeof user === 'object') add(user);
  }
  const [user, other] = found.values();
  if (other !== undefined)
    return ambiguous(
      key,
      [...found.keys()].sort((a, b) => a - b),
    );
  return user ?? missing;
}

async function usersShown(
  { client, userFields, signal }: LiveOptions,
  column: 'email' | 'username',
  wanted: string,
): Promise<KnownUser[]> {
  const page = await client.list('users', { filters: [{ key: column, value: wanted }], paginate: 15 }, signal);
  return page.records.flatMap((record) => knownUser(record, userFields) ?? []);
}

/** Looks at each item, several side by side. */
export async function eachLive<T>(
  items: readonly T[],
  { concurrency, signal }: LiveOptions,
  look: (item: T) => Promise<void>,
): Promise<void> {
  const limit = pLimit({ concurrency, rejectOnClear: true });
  try {
    await limit.map(items, (item) => {
      signal.throwIfAborted();
      return look(item);
    });
  } catch (error) {
    limit.clearQueue();
    // Looks that are under way end by themselves.
    await wait(0);
    throw error;
  }
}

/** How many pages of users there are, by the server's count. */
export async function pagesOfList(options: LiveOptions): Promise<number> {
  return (await pageOfUsers(options, new Reach(), 1)).lastPage;
}

const order = [
  { key: 'created_at', direction: 'asc' },
  { key: 'username', direction: 'asc' },
] as const;

/** Reads one page of the list, in smaller pages if the server cannot make it. */
export function pageOfUsers(
  { client, pageSize, signal }: Pick<LiveOptions, 'client' | 'pageSize' | 'signal'>,
  reach: Reach,
  number: number,
  include: readonly 'balance_transactions'[] = [],
): Promise<Page> {
  const requestOne: RequestPage = (page, paginate, patience) =>
    client.list('users', { paginate, page, sorts: order, include }, signal, patience);
  return readPage(readingRecords(requestOne), number, pageSize, reach);
}

/** Shows every user of the list. May miss a user who moves between pages meanwhile: request such a user by itself. */
export async function eachListed(
  options: LiveOptions,
  pages: number,
  show: (record: ServedRecord) => void,
): Promise<void> {
  const { concurrency } = options;
  const reach = new Reach();
  for (let first = 1; first <= pages; first += concurrency) {
    const numbers = Array.from({ length: Math.min(concurrency, pages - first + 1) }, (_, at) => first + at);
    const read = await Promise.all(
      numbers.map(async (number) => {
        const { records, unreadable } = await pageOfUsers(options, reach, number);
        // Now: whole records that wait for the other pages would take a lot of memory.
        for (const record of records) show(record);
        return records.length === 0 && unreadable === undefined;
      }),
    );
    // The server's total may count users that no page shows.
    if (read.every(Boolean)) return;
  }
}

/** Returns undefined if the record has no id that can be written to. */
export function knownUser(record: ServedRecord, userFields: readonly string[]): KnownUser | undefined {
  const id = recordId(record);
  if (id === undefined || id <= 0) return undefined;
  return {
    id,
    email: textOf(record['email']),
    username: textOf(record['username']),
    balance: moneyOf(record['balance']),
    fields: Object.fromEntries(userFields.map((name) => [name, record[name]])),
  };
}

/** Few attempts: a server that does not say whose key it is must not delay the command. */
const patience = { attempts: 2 };

/** The id of the key's user; null if the server does not say. Throws KeyRefused for a key that the server does not accept (401). */
export async function keyOwner(client: Pick<Client, 'auth'>, signal: AbortSignal): Promise<string | null> {
  try {
    const id = recordId(recordIn((await client.auth(signal, patience)).body) ?? {});
    return id === undefined ? null : String(id);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof KeyRefused && error.status === 401) throw error;
    if (error instanceof OperatorError) return null;
    throw error;
  }
}
