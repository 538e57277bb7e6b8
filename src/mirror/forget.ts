/**
 * Forgets a person: removes rows, versions and texts, keeps only ids, and leaves no byte in the files. Section "Forgetting a
 * person" of docs/architecture.md.
 */
import { UsageError } from '../model/errors.ts';
import {
  addressesIn,
  mayHaveKeySql,
  mentionsOf,
  nameKey,
  type Person,
  sameName,
  type TableCounts,
  takenOut,
} from '../model/identity.ts';
import { isRecord, recordId, writtenId } from '../model/records.ts';
import { type Clock, type Day, type Timestamp, timestampOf } from '../model/time.ts';
import { syncLock } from './store/run-records.ts';
import { owningDay } from './store/suppressions.ts';
import { resetWalks } from './store/window-records.ts';
import type { Database } from 'better-sqlite3';
import { ownersOf } from './page.ts';
import { pageForgetter } from './store/page-memory.ts';
import type { RelationTable, ResourceName } from '../model/resources.ts';
import { mirrorLocks } from '../store/lock.ts';
import { hasUserSearch, openMirrorFile, openMirrorForReading, stepsIn } from '../store/open.ts';
import { flatKeys, relationsRead, setFlatKeys } from '../store/relations.ts';
import { beginEpoch } from '../store/cursor.ts';
import { historyTableOf, quoteName } from '../store/schema.ts';
import { Statements } from '../store/statements.ts';

/** A journal of writes that can remove the text about a person; amounts and outcomes stay. */
interface ForgetJournal {
  /** Removes what identifies the person, down to the last byte in the files. Returns how many rows it changed. */
  forget(person: Person): Promise<TableCounts>;
}

export interface ForgetPorts {
  readonly store: ForgetStore;
  /** `none` if there is no journal, or nothing in it. */
  readonly journal: ForgetJournal | 'none';
  readonly clock: Clock;
}

/**
 * Finds a user by an id in digits, an email or a user name. Throws a UsageError, which does not repeat the name, unless it is one
 * user.
 */
export function findUser(store: Pick<ForgetStore, 'idsOf' | 'knows'>, named: string): number {
  const name = named.trim();
  if (/^\d+$/.test(name)) {
    const id = writtenId(name);
    if (typeof id === 'bigint') throw tooLargeToForget(id);
    if (id !== undefined && store.knows(id)) return id;
    throw new UsageError(`the mirror has nothing about a user ${name}`, { advice: 'Check the id.' });
  }
  const [id, ...others] = store.idsOf(name);
  if (id === undefined) {
    throw new UsageError('the mirror has no user of that email or user name', {
      advice: 'Check the spelling, or give the id. Only the id of a forgotten user is known.',
    });
  }
  if (others.length === 0) return id;
  throw new UsageError(`that email or user name is of several users: ${[id, ...others].join(', ')}`, {
    advice: 'Give the id.',
  });
}

function tooLargeToForget(id: bigint): UsageError {
  return new UsageError(`user ${id} has an id above ${Number.MAX_SAFE_INTEGER} (2^53 - 1), which cannot be forgotten`, {
    advice:
      'Delete the user on the server. The next sync removes its row, and `history.keep` bounds how long its versions stay.',
  });
}

/** Removes everything about the user and makes sure that it is gone. Throws LockHeldError while a sync is running. */
export async function forgetUser({ store, journal, clock }: ForgetPorts, user: number) {
  const at = timestampOf(clock.now());
  return withSyncLock(store, `forget-${at}`, async () => {
    const person = store.person(user);
    // The journal comes first: once the mirror has forgotten the person, nobody knows what to look for.
    const journaled = journal === 'none' ? {} : await journal.forget(person);
    const { removed, suppressed } = store.forget(person, at);
    const scrubbed = store.scrub();
    // The receipt says nothing about the person but the id.
    return {
      action: 'forget',
      user,
      at,
      removed: { ...removed, ...journaled },
      suppressed,
      journal: journal === 'none' ? 'none' : 'searched',
      /** Whether no byte about the person is left in the mirror's files. */
      scrubbed,
    } as const;
  });
}

export type ForgetReceipt = Awaited<ReturnType<typeof forgetUser>>;

/** Lets the user come back with the next sync. Throws a UsageError if the user was not forgotten. */
export async function undoForget({ store, clock }: Pick<ForgetPorts, 'store' | 'clock'>, named: string) {
  const user = writtenId(named.trim());
  if (typeof user === 'bigint') throw tooLargeToForget(user);
  if (user === undefined) {
    throw new UsageError('only the id of a forgotten user is known', { advice: 'Give the id of the user.' });
  }
  const at = timestampOf(clock.now());
  return withSyncLock(store, `forget-${at}`, () => {
    const released = store.undo(user);
    if (Object.keys(released).length === 0) throw new UsageError(`user ${user} is not kept out of the mirror`);
    return { action: 'undo', user, at, released } as const;
  });
}

async function withSyncLock<T>(store: ForgetStore, run: string, work: () => T | Promise<T>): Promise<T> {
  store.acquireLock(syncLock, run, 'forget');
  try {
    return await work();
  } finally {
    store.releaseLock(syncLock, run);
  }
}

const nameFields = ['username', 'email', 'first_name', 'last_name'] as const;

type Names = Readonly<Record<(typeof nameFields)[number], unknown>>;

function personSearch(database: Database) {
  const history = historyTableOf('users');
  const old = (field: string): string => `json_extract(record, '$.${field}')`;
  const named = (table: string, email: string, username: string) => {
    const sql = `SELECT DISTINCT id, ${email} AS email, ${username} AS username FROM ${table}
      WHERE ${mayHaveKeySql(email, '@keys')} OR ${mayHaveKeySql(username, '@keys')}`;
    const statement = database.prepare<{ keys: string }, Names & { readonly id: number }>(sql);
    return (name: string): number[] => {
      const rows = statement.all({ keys: JSON.stringify([nameKey(name)]) });
      const ofName = rows.filter((row) =>
        [row.email, row.username].some((each) => isText(each) && sameName(each, name)),
      );
      return [...new Set(ofName.map(({ id }) => id))];
    };
  };
  const live = named('users', 'email', 'username');
  const former = named(history, old('email'), old('username'));
  const known = database
    .prepare<{ id: bigint }, number>(
      `SELECT EXISTS (SELECT 1 FROM users WHERE id = @id) OR EXISTS (SELECT 1 FROM ${history} WHERE id = @id)
       OR EXISTS (SELECT 1 FROM mirror_suppressions WHERE user_id = @id)
       OR EXISTS (SELECT 1 FROM emails WHERE user_id = @id)`,
    )
    .pluck();
  const names = database.prepare<{ id: bigint }, Names>(
    `SELECT ${nameFields.join(', ')} FROM users WHERE id = @id
     UNION SELECT ${nameFields.map(old).join(', ')} FROM ${history} WHERE id = @id`,
  );
  return {
    /** Returns the ids of users with that email or user name now or, if there are none, in the history. */
    idsOf: (name: string): number[] => {
      const now = live(name);
      return now.length > 0 ? now : former(name);
    },
    /** Whether the mirror has anything about that user. */
    knows: (id: number): boolean => known.get({ id: BigInt(id) }) === 1,
    person: (id: number): Person => {
      const versions = names.all({ id: BigInt(id) });
      const texts = (fields: readonly (keyof Names)[]): string[] => [
        ...new Set(versions.flatMap((version) => fields.map((field) => version[field])).filter(isText)),
      ];
      return { id, addresses: texts(['email']), texts: texts(nameFields) };
    },
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '';
}

/** Columns of the bookkeeping that may quote the server. */
const quotingColumns = [
  ['mirror_events', 'detail'],
  ['mirror_runs', 'problem'],
  ['mirror_run_resources', 'problem'],
  ['mirror_windows', 'problem'],
] as const;

/**
 * Removes the person, within the caller's transaction. Returns how many rows lost their text or went, and how many ids are now
 * kept out.
 */
function personRemoval(
  database: Database,
  statements: Statements,
  person: Person,
  at: Timestamp,
): { readonly removed: TableCounts; readonly suppressed: TableCounts } {
  const mentions = mentionsOf(person.texts);
  const isAddressed = addressesIn(person.addresses);
  const removed: Record<string, number> = {};
  const suppressed: Record<string, number> = {};
  const user = BigInt(person.id);

  function run(table: string, sql: string, ...values: readonly unknown[]): void {
    const { changes } = database.prepare(sql).run(...values);
    if (changes > 0) removed[table] = (removed[table] ?? 0) + changes;
  }

  function suppress(resource: ResourceName, id: number, day: string | null): void {
    // If the person was forgotten before, the day stays: the rows that showed it are gone.
    const { changes } = database
      .prepare(
        `INSERT INTO mirror_suppressions (resource, id, user_id, since, seen_day) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (resource, id) DO UPDATE SET seen_day = coalesce(excluded.seen_day, seen_day)`,
      )
      .run(resource, BigInt(id), user, at, day);
    suppressed[resource] = (suppressed[resource] ?? 0) + changes;
  }

  const belongs = (record: Readonly<Record<string, unknown>>): boolean =>
    ownersOf(record).includes(person.id) || isAddressed(record['receiver']);

  /** Suppresses emails to the person, in the mirror and its history: those of the user, and those to one of the addresses. */
  function suppressEmails(): void {
    const rows = database.prepare<[], Readonly<Record<string, unknown>>>(
      'SELECT id, user_id, receiver, created_at FROM emails',
    );
    const found = new Map<number, string | null>();
    const versions = database.prepare<[], { id: number; record: string }>(
      `SELECT id, record FROM ${historyTableOf('emails')}`,
    );
    for (const { id, record } of versions.iterate()) if (belongs(parsedObject(record) ?? {})) found.set(id, null);
    for (const row of rows.iterate()) {
      const id = recordId(row);
      if (id !== undefined && (belongs(row) || found.has(id))) found.set(id, owningDay(row['created_at']));
    }
    for (const [id, day] of found) suppress('emails', id, day);
  }

  const ofPerson = (resource: ResourceName): string =>
    `IN (SELECT id FROM mirror_suppressions WHERE resource = '${resource}' AND user_id = ${user})`;

  function removeRelated(relation: RelationTable): void {
    const { resource, relation: name, table, parentColumn } = relation;
    const concerns = (text: unknown): number => {
      const record = parsedObject(text);
      if (record === undefined) return 0;
      return belongs(record) || (name === 'user' && recordId(record) === person.id) ? 1 : 0;
    };
    database.function('concerns', concerns);
    const ofParent = `${quoteName(parentColumn)} ${ofPerson(resource)}`;
    run(table, `DELETE FROM ${quoteName(table)} WHERE ${ofParent} OR concerns("record")`);
    const keys = flatKeys(statements, relation) ?? [];
    const left = keys.filter((key) => !mentions(key));
    if (left.length < keys.length) setFlatKeys(database, statements, relation, left);
  }

  const day = database
    .prepare<[bigint], { created_at: unknown }>('SELECT created_at FROM users WHERE id = ?')
    .get(user);
  suppress('users', person.id, day === undefined ? null : owningDay(day.created_at));
  suppressEmails();
  for (const relation of relationsRead(database)) removeRelated(relation);
  for (const resource of ['users', 'emails'] as const) {
    const ids = database.prepare<[], number>(`SELECT id FROM ${resource} WHERE id ${ofPerson(resource)}`).pluck();
    // Remembered pages hold the creation time of their last record.
    pageForgetter(database, resource)(ids.all());
    run(resource, `DELETE FROM ${resource} WHERE id ${ofPerson(resource)}`);
    const history = historyTableOf(resource);
    run(history, `DELETE FROM ${history} WHERE id ${ofPerson(resource)}`);
  }
  database.function('mentions', (text: unknown) => (mentions(text) ? 1 : 0));
  for (const [table, column] of quotingColumns) {
    run(table, `UPDATE ${table} SET ${column} = ? WHERE mentions(${column})`, takenOut);
  }
  run('mirror_events', `UPDATE mirror_events SET subject = 'event ' || event WHERE mentions(subject)`);
  return { removed, suppressed };
}

type ForgetStore = ReturnType<typeof openForgetStore>;

/** How long the last step waits for readers of an older state. Queries are short, but an export may take minutes. */
const readersMs = 10_000;

/**
 * Opens a mirror to forget people in it. The caller closes it. Throws `FileError`.
 * @param waitMs how long to wait for readers of an older state
 */
export function openForgetStore(file: string, clock: Clock, waitMs = readersMs) {
  // Must not make a mirror if there is none.
  openMirrorForReading(file).close();
  const database = openMirrorFile(file);
  // Overwrites deleted content with zeros.
  database.pragma('secure_delete = ON');
  const statements = new Statements(database);
  const locks = mirrorLocks(database, clock);

  const { whole, step } = stepsIn(database, file, 'remove a person from the mirror', locks);
  // If this step fails, the person is already removed. Forgetting the same person again does the rest.
  const { explained } = stepsIn(
    database,
    file,
    'overwrite what a person, who is removed, has left in the mirror',
    locks,
  );

  return {
    ...personSearch(database),
    acquireLock: (name: string, run: string, command = name): void =>
      whole(() => {
        locks.acquire(name, run, command);
        beginEpoch(database, timestampOf(clock.now()));
      }),
    releaseLock: (name: string, run: string): void => whole(() => locks.release(name, run)),
    /** Removes everything about the person, and keeps the ids from coming back. */
    forget: (person: Person, at: Timestamp) => step(() => personRemoval(database, statements, person, at)),
    /** Lets the person's records come back with the next sync. Returns how many, by resource; empty if none was kept out. */
    undo: (id: number): TableCounts => step(() => undo(database, statements, id)),
    /** Removes the last bytes from the file, its log and its index. Returns false if a reader of an older state prevents it. */
    scrub: (): boolean => explained(() => scrub(database, waitMs)),
    close: (): void => {
      locks.close();
      database.close();
    },
  };
}

/** Ends the suppression, and marks the windows of the records to be read again. */
function undo(database: Database, statements: Statements, id: number): Record<string, number> {
  const kept = statements.all<{ resource: ResourceName; seen_day: Day | null }>(
    'SELECT resource, seen_day FROM mirror_suppressions WHERE user_id = @id',
    { id },
  );
  statements.run('DELETE FROM mirror_suppressions WHERE user_id = @id', { id });
  const counts: Record<string, number> = {};
  for (const { resource, seen_day: day } of kept) {
    counts[resource] = (counts[resource] ?? 0) + 1;
    if (day !== null) resetWalks(statements, resource, day);
  }
  // Other resources may have related records of the person on any page.
  const others = new Set(relationsRead(database).map(({ resource }) => resource)).difference(
    new Set(['users', 'emails']),
  );
  if (kept.length > 0) for (const resource of others) resetWalks(statements, resource);
  return counts;
}

/** Changed rows may have left bytes in the file. Only rewriting it and folding in its log removes them. */
function scrub(database: Database, waitMs: number): boolean {
  database.pragma(`busy_timeout = ${waitMs}`);
  // The index keeps a word that was removed until its parts are merged.
  if (hasUserSearch(database)) database.exec("INSERT INTO users_search (users_search) VALUES ('optimize')");
  database.exec('VACUUM');
  const [result] = database.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
  return result?.busy === 0;
}

/** Parses the text as a JSON object; undefined if it is none. */
function parsedObject(text: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof text !== 'string') return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    return isRecord(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}
