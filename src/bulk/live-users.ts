/** Users as the server has them at this moment - one by one, or out of the pages of the whole list -, and whose the key is. */
import { setTimeout as wait } from 'node:timers/promises';
import pLimit from 'p-limit';
import type { Client } from '../api/client.ts';
import { type Page, recordIn } from '../api/envelope.ts';
import { KeyRefused, NotFound, RefusedInput, ServerFailed } from '../api/errors.ts';
import { type RequestPage, Reach, readingRecords, readPage } from '../api/narrow.ts';
import { OperatorError } from '../model/errors.ts';
import { recordId, type ServedRecord } from '../model/records.ts';
import type { KnownUser } from './action.ts';
import { moneyOf } from '../model/money.ts';
import { keyText, type UserKey } from './row-reader.ts';
import { shown } from './sheet/rows.ts';

export type LiveClient = Pick<Client, 'getUser' | 'list' | 'auth' | 'address' | 'keyMark' | 'counters'>;

/** A user, or why there is none, in words. */
export type Found = KnownUser | string;

export interface LiveOptions {
  readonly client: LiveClient;
  readonly userFields: readonly string[];
  readonly concurrency: number;
  readonly pageSize: number;
  readonly signal: AbortSignal;
}

export async function userById(options: LiveOptions, id: number): Promise<Found> {
  try {
    const record = recordIn((await options.client.getUser(id, [], options.signal)).body);
    const user = record === undefined ? undefined : knownUser(record, options.userFields);
    return user?.id === id ? user : `the server does not show user ${id}`;
  } catch (error) {
    if (error instanceof NotFound) return `there is no user ${id}`;
    throw error;
  }
}

const several = 'several users have';

/** Whether the reason is that more than one user fits, among whom nobody may choose. */
export function isAmbiguous(reason: string): boolean {
  return reason.startsWith(several);
}

/** The user that the key names: none, or one. More than one is as bad as none. */
export async function userByKey(options: LiveOptions, key: UserKey): Promise<Found> {
  const { column, value } = key;
  if (column === 'user_id') return userById(options, Number(value));
  const { client, userFields, signal } = options;
  try {
    const found = new Map<number, KnownUser>();
    // A server may tell large letters from small ones; a person who types an address does not.
    for (const wanted of new Set([value, value.toLowerCase()])) {
      const page = await client.list('users', { filters: [{ key: column, value: wanted }], paginate: 15 }, signal);
      for (const user of page.records.flatMap((record) => knownUser(record, userFields) ?? []))
        found.set(user.id, user);
    }
    const users = [...found.values()];
    const same = users.filter((user) => keyText({ column, value: user[column] ?? '' }) === keyText(key));
    const [user, other] = same;
    if (other !== undefined) return `${several} the ${column} ${shown(value)}: ${same.map(({ id }) => id).join(', ')}`;
    if (user !== undefined) return user;
    // A filter that is not kept to brings others, and proves nothing.
    if (users.length > 0) return `the server does not find users by ${column}; name the user by user_id`;
    return `no user has the ${column} ${shown(value)}`;
  } catch (error) {
    if (error instanceof RefusedInput || error instanceof ServerFailed) {
      return `the server does not find users by ${column} (${error.message}); name the user by user_id`;
    }
    throw error;
  }
}

/** Looks for each, some side by side. */
export async function eachLive<T>(
  items: readonly T[],
  { concurrency, signal }: LiveOptions,
  look: (item: T) => Promise<void>,
): Promise<void> {
  const limit = pLimit({ concurrency, rejectOnClear: true });
  try {
    await Promise.all(
      items.map((item) =>
        limit(() => {
          signal.throwIfAborted();
          return look(item);
        }),
      ),
    );
  } catch (error) {
    limit.clearQueue();
    // What is under way ends by itself.
    await wait(0);
    throw error;
  }
}

/** On how many pages the users are, as the server counts. */
export async function pagesOfList(options: LiveOptions): Promise<number> {
  return (await pageOfUsers(options, new Reach(), 1)).lastPage;
}

const order = [
  { key: 'created_at', direction: 'asc' },
  { key: 'username', direction: 'asc' },
] as const;

/** One page of the list, read as smaller ones where the host cannot make it. */
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

/** Every user of the list, page by page. One that moves between pages meanwhile may be missed: request it by itself. */
export async function* everyUser(options: LiveOptions, pages: number): AsyncGenerator<readonly KnownUser[]> {
  const { userFields, concurrency } = options;
  const reach = new Reach();
  for (let first = 1; first <= pages; first += concurrency) {
    const numbers = Array.from({ length: Math.min(concurrency, pages - first + 1) }, (_, at) => first + at);
    const read = await Promise.all(numbers.map((number) => pageOfUsers(options, reach, number)));
    // A total may count what no page shows.
    if (read.every(({ records, unreadable }) => records.length === 0 && unreadable === undefined)) return;
    for (const { records } of read) yield records.flatMap((record) => knownUser(record, userFields) ?? []);
  }
}

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** Undefined where the record has no id that can be written to. */
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

/** A server that does not say whose key it is must not hold anybody up. */
const patience = { attempts: 2 };

/** The user's id; null where the server does not say. Throws KeyRefused for a key that is not taken at all. */
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
