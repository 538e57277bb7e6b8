/**
 * Finds the users of the rows, in the mirror first, then on the server. Users whom the mirror does not know are requested from the
 * server, however many. Those it knows are all confirmed if that takes few requests, otherwise some of them: each user is read again
 * just before the write anyway. Section "Writing" of docs/architecture.md.
 */
import { recordId, type ServedRecord } from '../model/records.ts';
import { relationTable, resourceOf } from '../model/resources.ts';
import type { Action, KnownUser } from './action.ts';
import {
  eachLive,
  everyUser,
  type Found,
  isAmbiguous,
  knownUser,
  type LiveOptions,
  pagesOfList,
  userById,
  userByKey,
} from './live-users.ts';
import type { ReadRows } from './read-rows.ts';
import { type KeyColumn, keyColumns, keyText, type UserKey } from './row-reader.ts';
import type { Timestamp } from '../model/time.ts';
import { openMirrorForReading } from '../store/open.ts';
import { quoteName } from '../store/schema.ts';

/** How many requests may be spent on confirming what the mirror knows. */
const mostConfirmations = 200;

/** Users by `keyText`. There may be a hundred thousand from the mirror, so these are kept as JSON. */
export class Users {
  readonly #found = new Map<string, Found>();
  readonly #mirrored: Map<string, string>;

  constructor(mirrored = new Map<string, string>()) {
    this.#mirrored = mirrored;
  }

  get(text: string): Found | undefined {
    const found = this.#found.get(text);
    if (found !== undefined) return found;
    const json = this.#mirrored.get(text);
    return json === undefined ? undefined : (JSON.parse(json) as KnownUser);
  }

  set(text: string, user: Found): void {
    this.#found.set(text, user);
  }

  delete(text: string): void {
    this.#found.delete(text);
    this.#mirrored.delete(text);
  }
}

export interface FoundUsers {
  /** Has an entry for every key that was given. */
  readonly users: Users;
  /** How many users are from the mirror and were not confirmed on the server. */
  readonly unconfirmed: number;
}

/** @param urgent keys of users whose balance decides whether their row is sent; confirmed first */
export async function findUsers(
  keys: ReadonlyMap<string, UserKey>,
  urgent: ReadonlySet<string>,
  directory: UserDirectory | null,
  live: LiveOptions,
): Promise<FoundUsers> {
  const mirrored = inMirror(directory, keys, live.userFields);
  const users = new Users(mirrored);
  const known = [...mirrored.keys()];
  const strangers = [...keys.keys()].filter((text) => !mirrored.has(text));
  const requestOne = async (text: string): Promise<void> => {
    const key = keys.get(text);
    if (key !== undefined) users.set(text, await ofKey(key, users.get(text), live));
  };
  if (keys.size > mostConfirmations) {
    const pages = await pagesOfList(live);
    if (pages <= Math.max(strangers.length, mostConfirmations)) {
      const listed = await inList(keys, pages, live);
      for (const [text, user] of listed) users.set(text, user);
      const others = [...keys.keys()].filter((text) => !listed.has(text));
      await eachLive(others, live, requestOne);
      return { users, unconfirmed: 0 };
    }
  }
  const first = known.filter((text) => urgent.has(text)).slice(0, mostConfirmations);
  const rest = known.filter((text) => !urgent.has(text)).slice(0, mostConfirmations - first.length);
  const confirmed = [...first, ...rest];
  await eachLive([...strangers, ...confirmed], live, requestOne);
  return { users, unconfirmed: known.length - confirmed.length };
}

/** Finds the users who already have keys of new users. Each key is looked for again before its row is sent. */
export async function findTaken(
  keys: ReadonlyMap<string, UserKey>,
  directory: UserDirectory | null,
  live: LiveOptions,
): Promise<FoundUsers> {
  if (keys.size <= mostConfirmations) return findUsers(keys, new Set(), directory, live);
  const mirrored = inMirror(directory, keys, live.userFields);
  return { users: new Users(mirrored), unconfirmed: keys.size - mirrored.size };
}

/** Users of the mirror as JSON, by `keyText`. A key that two of them have is left out, as if unknown: the server decides. */
function inMirror(
  directory: UserDirectory | null,
  keys: ReadonlyMap<string, UserKey>,
  userFields: readonly string[],
): Map<string, string> {
  const found = new Map<string, string>();
  const twice = new Set<string>();
  for (const { column, record } of directory === null ? [] : recordsOf(directory, [...keys.values()], userFields)) {
    const user = knownUser(record, userFields);
    if (user === undefined) continue;
    const text = textOf(user, column);
    if (found.has(text)) twice.add(text);
    found.set(text, JSON.stringify(user));
  }
  for (const text of twice) found.delete(text);
  return found;
}

function* recordsOf(directory: UserDirectory, keys: readonly UserKey[], fields: readonly string[]) {
  for (const column of keyColumns) {
    const values = new Set(keys.filter((key) => key.column === column).map(({ value }) => value));
    if (values.size === 0) continue;
    for (const record of directory.find(column === 'user_id' ? 'id' : column, [...values], fields))
      yield { column, record };
  }
}

function textOf(user: KnownUser, column: KeyColumn): string {
  return keyText({ column, value: column === 'user_id' ? String(user.id) : (user[column] ?? '') });
}

/**
 * Requests the user by its key, since two users on the server may have it although the mirror knows one. If the server finds nobody by
 * the key, a user that the mirror knows is requested by id, and counts if it still has the key.
 */
async function ofKey(key: UserKey, mirrored: Found | undefined, live: LiveOptions): Promise<Found> {
  const found = await userByKey(live, key);
  if (typeof found !== 'string' || typeof mirrored !== 'object' || key.column === 'user_id') return found;
  if (isAmbiguous(found)) return found;
  const user = await userById(live, mirrored.id);
  return typeof user !== 'string' && textOf(user, key.column) === keyText(key) ? user : found;
}

/** Finds users in the whole list. A key that two users have is left out and requested by itself. */
async function inList(
  keys: ReadonlyMap<string, UserKey>,
  pages: number,
  live: LiveOptions,
): Promise<Map<string, KnownUser>> {
  const columns = new Set([...keys.values()].map(({ column }) => column));
  const found = new Map<string, KnownUser>();
  const twice = new Set<string>();
  for await (const users of everyUser(live, pages)) {
    for (const user of users) {
      for (const column of columns) {
        const text = textOf(user, column);
        if (!keys.has(text)) continue;
        if (found.has(text) && found.get(text)?.id !== user.id) twice.add(text);
        found.set(text, user);
      }
    }
  }
  for (const text of twice) found.delete(text);
  return found;
}

/** The whole records of the rows' users in the mirror, each once. */
export function usersOfRows(directory: UserDirectory, action: Action, { rows, problems }: ReadRows): ServedRecord[] {
  const readable = problems.length > 0 ? [] : [...rows].filter((row) => row.problems.length === 0);
  const keys = readable.flatMap(({ key, parameters }) => key ?? action.newKeys?.(parameters) ?? []);
  const fields = resourceOf('users').fields.map(({ name }) => name);
  const found = new Map<number, ServedRecord>();
  for (const { record } of recordsOf(directory, keys, fields)) {
    const id = recordId(record);
    if (id !== undefined) found.set(id, record);
  }
  return [...found.values()];
}

const batch = 5_000;

export type UserDirectory = ReturnType<typeof openUserDirectory>;

/** Opens an existing mirror to find users in it. Throws a FileError if there is none. The caller must close it. */
export function openUserDirectory(file: string) {
  const database = openMirrorForReading(file);
  // 2000 KiB: users are read once, in the order of the file, so a larger cache would not help.
  database.pragma('cache_size = -2000');
  const freshAsOf = database
    .prepare<[], string | null>("SELECT fresh_as_of FROM mirror_freshness WHERE resource = 'users'")
    .pluck()
    .get();
  const table = relationTable('users', 'balance_transactions').table;
  const transactions = database.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table)
    ? database.prepare<[number], string>(`SELECT record FROM ${quoteName(table)} WHERE user_id = ?`).pluck()
    : undefined;
  const known = resourceOf('users').fields.map(({ name }) => name);
  const columnsOf = (fields: readonly string[]): string => {
    const wanted = ['id', 'username', 'email', 'balance', ...fields.filter((name) => known.includes(name))];
    return [...new Set(wanted)].map(quoteName).join(', ');
  };
  return {
    /** Every row was seen on the server at or after this time; null if unknown. */
    freshAsOf: (freshAsOf ?? null) as Timestamp | null,
    /**
     * The users with one of these values in the column; addresses and names are compared without regard to case. The records have
     * `id`, `username`, `email`, `balance` and the given fields.
     */
    *find(
      column: 'id' | 'email' | 'username',
      values: readonly string[],
      fields: readonly string[],
    ): Generator<ServedRecord> {
      const columns = columnsOf(fields);
      // There is no index on addresses and names: one pass over the table finds any number of them.
      const sql =
        column === 'id'
          ? `SELECT ${columns} FROM users WHERE id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))`
          : `SELECT ${columns} FROM users WHERE lower(${column}) IN (SELECT value FROM json_each(?))`;
      const statement = database.prepare<[string], ServedRecord>(sql);
      if (column !== 'id') return yield* statement.iterate(JSON.stringify(values.map((value) => value.toLowerCase())));
      for (let at = 0; at < values.length; at += batch) {
        yield* statement.all(JSON.stringify(values.slice(at, at + batch)));
      }
    },
    ids: (): number[] => database.prepare<[], number>('SELECT id FROM users').pluck().all(),
    /** The user's balance transactions; undefined if the mirror has no table of them. */
    transactions: (user: number) => transactions?.all(user).map((record) => JSON.parse(record) as ServedRecord),
    close: (): void => void database.close(),
  };
}
