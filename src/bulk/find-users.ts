/**
 * Finds the users of the rows, in the mirror first, then on the server. Users whom the mirror does not know are requested from the
 * server, however many. Those it knows are all confirmed if that takes few requests, otherwise some of them: each user is read again
 * just before the write anyway. Section "Writing" of docs/architecture.md.
 */
import type { Database, Statement } from 'better-sqlite3';
import { recordId, type ServedRecord } from '../model/records.ts';
import { relationTable, resourceOf } from '../model/resources.ts';
import { mayHaveKeySql, nameKey } from '../model/identity.ts';
import type { Action, KnownUser } from './action.ts';
import {
  ambiguous,
  eachListed,
  eachLive,
  type Found,
  knownUser,
  type LiveOptions,
  pagesOfList,
  userByKey,
  type WantedKey,
} from './live-users.ts';
import { shown } from './sheet/rows.ts';
import type { ReadRows } from './read-rows.ts';
import { type KeyColumn, keyColumns, keyText, type UserKey } from './row-reader.ts';
import type { Timestamp } from '../model/time.ts';
import { openMirrorForReading } from '../store/open.ts';
import { quoteName } from '../store/schema.ts';

/** How many requests may be spent on confirming what the mirror knows. */
const mostConfirmations = 200;

type Users = Map<string, Found>;

export interface FoundUsers {
  /** By `keyText`. Has an entry for every key that was given. */
  readonly users: Users;
  /** How many users are from the mirror and were not confirmed on the server. */
  readonly unconfirmed: number;
}

/** The keys of rows by `keyText`: two spellings of one name are one key. */
export type WantedKeys = Map<string, WantedKey>;

/** A key has at most so many spellings, each of which takes a request, and names at most so many users. */
const [mostSpellings, mostNamed] = [10, 10];

/** Adds the key of a row, which other rows may have in another spelling. */
export function addKey(keys: WantedKeys, key: UserKey): void {
  const text = keyText(key);
  const there = keys.get(text);
  if (there === undefined) {
    keys.set(text, key);
    return;
  }
  const { spellings = [there.value] } = there;
  if (!spellings.includes(key.value) && spellings.length < mostSpellings)
    keys.set(text, { ...there, spellings: [...spellings, key.value] });
}

export async function findUsers(
  keys: ReadonlyMap<string, WantedKey>,
  directory: UserDirectory | null,
  live: LiveOptions,
): Promise<FoundUsers> {
  const pages = keys.size > mostConfirmations ? await pagesOfList(live) : Infinity;
  const isListed = pages <= mostConfirmations;
  // The list shows whoever has an id. Of those who share a name it may miss one who moves between its pages.
  const { users, known } = inMirror(directory, isListed ? withoutIds(keys) : keys, live);
  const sure = [...users.keys()];
  const strangers = [...keys.keys()].filter((text) => !users.has(text));
  const requestOne = async (text: string): Promise<void> => {
    const key = keys.get(text);
    const user = users.get(text);
    const ids = known.get(text) ?? (typeof user === 'object' ? [user.id] : []);
    if (key !== undefined) users.set(text, await userByKey(live, key, ids));
  };
  const addListed = async (count: number): Promise<void> => {
    const { listed, shared } = await inList(keys, count, live);
    for (const [text, user] of listed) users.set(text, user);
    for (const [text, ids] of shared) known.set(text, [...new Set([...(known.get(text) ?? []), ...ids])]);
    const unclear = [...keys.keys()].filter((text) => known.has(text) || !listed.has(text));
    await eachLive(unclear, live, requestOne);
  };
  if (isListed || pages <= strangers.length) {
    await addListed(pages);
    return { users, unconfirmed: 0 };
  }
  const confirmed = sure.slice(0, mostConfirmations);
  await eachLive([...strangers, ...confirmed], live, requestOne);
  const hasNames = [...keys.values()].some(({ column }) => column !== 'user_id');
  if (hasNames && (directory?.freshAsOf ?? null) === null) {
    // A mirror that was never complete may lack others with the same name, and the server's filter may tell upper and lower case apart.
    const all = await pagesOfList(live);
    if (all <= mostConfirmations) await addListed(all);
    else refuseOtherSpellings(keys, users);
  }
  return { users, unconfirmed: sure.length - confirmed.length };
}

/** Refuses the users whom the rows spell in another way than the server: others may have that name, too. */
function refuseOtherSpellings(keys: ReadonlyMap<string, WantedKey>, users: Users): void {
  for (const [text, { column, value, spellings = [value] }] of keys) {
    const user = users.get(text);
    if (column === 'user_id' || typeof user !== 'object') continue;
    const name = user[column] ?? '';
    if (spellings.every((each) => each === name)) continue;
    const why = `the server has ${shown(name)}, and without a complete mirror nobody knows whether others have the same in other letters`;
    users.set(text, `${why}: write the ${column} like that, name the user by user_id, or sync first`);
  }
}

/** Finds the users who already have keys of new users. Each key is looked for again before its row is sent. */
export async function findTaken(
  keys: ReadonlyMap<string, WantedKey>,
  directory: UserDirectory | null,
  live: LiveOptions,
): Promise<FoundUsers> {
  if (keys.size <= mostConfirmations) return findUsers(keys, directory, live);
  const { users, known } = inMirror(directory, keys, live);
  const unconfirmed = keys.size - users.size - known.size;
  for (const [text, ids] of known) users.set(text, ambiguous(keys.get(text) ?? { column: 'email', value: text }, ids));
  return { users, unconfirmed };
}

/** `users`: those of the mirror, by `keyText`. `known`: the ids of those who share a key, so that the server must decide. */
function inMirror(
  directory: UserDirectory | null,
  keys: ReadonlyMap<string, WantedKey>,
  { userFields }: Pick<LiveOptions, 'userFields'>,
): { readonly users: Users; readonly known: Map<string, number[]> } {
  const users: Users = new Map();
  const known = new Map<string, number[]>();
  const records = directory === null ? [] : recordsOf(directory, [...keys.values()], userFields);
  for (const { column, record } of records) {
    const user = knownUser(record, userFields);
    if (user === undefined) continue;
    const text = textOf(user, column);
    const other = users.get(text);
    const ids = known.get(text) ?? (typeof other === 'object' ? [other.id] : []);
    if (ids.length === 0) users.set(text, user);
    else if (ids.length < mostNamed) known.set(text, [...ids, user.id]);
  }
  for (const text of known.keys()) users.delete(text);
  return { users, known };
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

/** Finds users in the whole list: those who alone have a key, and the ids of those who share one. */
async function inList(keys: ReadonlyMap<string, UserKey>, pages: number, live: LiveOptions) {
  const wanted = [...keys.values()];
  const names = [...new Set(wanted.map(({ column }) => column))].filter((column) => column !== 'user_id');
  const ids = new Set(wanted.flatMap(({ column, value }) => (column === 'user_id' ? Number(value) : [])));
  const listed = new Map<string, KnownUser>();
  const shared = new Map<string, number[]>();
  await eachListed(live, pages, (record) => {
    // Most users of a long list are in no row: they are recognised before anything is made of them.
    const id = recordId(record);
    const isWanted = typeof id === 'number' && ids.has(id);
    if (!isWanted && names.length === 0) return;
    const user = knownUser(record, live.userFields);
    if (user === undefined) return;
    for (const column of isWanted ? (['user_id', ...names] as const) : names) {
      const text = textOf(user, column);
      if (!keys.has(text)) continue;
      const other = listed.get(text);
      if (other === undefined) listed.set(text, user);
      else if (other.id !== user.id) {
        const others = shared.get(text) ?? [other.id];
        if (others.length < mostNamed && !others.includes(user.id)) shared.set(text, [...others, user.id]);
      }
    }
  });
  return { listed, shared };
}

function withoutIds(keys: ReadonlyMap<string, WantedKey>): ReadonlyMap<string, WantedKey> {
  return new Map([...keys].filter(([, { column }]) => column !== 'user_id'));
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

/** Finds users in a mirror. Throws a FileError if there is none. The caller must close it. */
export class UserDirectory {
  /** Every row was seen on the server at or after this time; null if unknown. */
  readonly freshAsOf: Timestamp | null;
  readonly #database: Database;
  readonly #transactions: Statement<[number], string> | undefined;

  constructor(file: string) {
    const database = openMirrorForReading(file);
    // 2000 KiB: users are read once, in the order of the file, so a larger cache would not help.
    database.pragma('cache_size = -2000');
    const fresh = database.prepare<[], Timestamp | null>(
      "SELECT fresh_as_of FROM mirror_freshness WHERE resource = 'users'",
    );
    this.freshAsOf = fresh.pluck().get() ?? null;
    const { table } = relationTable('users', 'balance_transactions');
    if (database.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table) !== undefined) {
      const records = `SELECT record FROM ${quoteName(table)} WHERE user_id = ?`;
      this.#transactions = database.prepare<[number], string>(records).pluck();
    }
    this.#database = database;
  }

  /**
   * The users with one of these values in the column; addresses and names may be spelled in another way. The records have `id`,
   * `username`, `email`, `balance` and the given fields.
   */
  *find(
    column: 'id' | 'email' | 'username',
    values: readonly string[],
    fields: readonly string[],
  ): Generator<ServedRecord> {
    const columns = columnsWith(fields);
    // There is no index on addresses and names: one pass over the table finds any number of them.
    const sql =
      column === 'id'
        ? `SELECT ${columns} FROM users WHERE id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))`
        : `SELECT ${columns} FROM users WHERE ${mayHaveKeySql(column)}`;
    const statement = this.#database.prepare<[string], ServedRecord>(sql);
    if (column !== 'id') {
      const keys = new Set(values.map(nameKey));
      for (const record of statement.iterate(JSON.stringify([...keys]))) {
        const name = record[column];
        if (typeof name === 'string' && keys.has(nameKey(name))) yield record;
      }
      return;
    }
    for (let at = 0; at < values.length; at += batch) {
      yield* statement.all(JSON.stringify(values.slice(at, at + batch)));
    }
  }

  ids(): number[] {
    return this.#database.prepare<[], number>('SELECT id FROM users').pluck().all();
  }

  /** The user's balance transactions; undefined if the mirror has no table of them. */
  transactions(user: number): readonly ServedRecord[] | undefined {
    return this.#transactions?.all(user).map((record) => JSON.parse(record) as ServedRecord);
  }

  close(): void {
    this.#database.close();
  }
}

function columnsWith(fields: readonly string[]): string {
  const known = resourceOf('users').fields.map(({ name }) => name);
  const wanted = ['id', 'username', 'email', 'balance', ...fields.filter((name) => known.includes(name))];
  return [...new Set(wanted)].map(quoteName).join(', ');
}
