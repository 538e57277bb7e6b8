/**
 * Locks by name in an SQLite file: one owner among all processes that share the file. A row says who it is. Whether it lives
 * is the kernel's to say: the owner keeps a file beside the database locked, `mirror.db.owner-<run>`, and however it ends, the
 * kernel lets go of it. So nobody waits for a dead owner, and one that sleeps or is stopped stays the owner.
 *
 * SQLite takes the kernel's lock, since Node cannot. Such locks count for a whole process: SQLite keeps those of one process
 * apart, as long as nothing but SQLite opens and closes the file.
 */
import { closeSync, existsSync, openSync, readdirSync, rmSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import type { QueryExecutorProvider } from 'kysely';
import { LockHeldError } from '../model/errors.ts';
import { explainFileError } from '../model/files.ts';
import { type Clock, type Timestamp, timestampOf } from '../model/time.ts';
import { sameFile } from './file-kind.ts';

export interface LockOwner {
  readonly run: string;
  /** What it is doing: `sync`, `forget`. */
  readonly command: string;
  readonly pid: number;
  readonly host: string;
  readonly acquiredAt: Timestamp;
}

/** What is said of locks of a kind. */
export interface LockWords {
  /** `another sync holds the lock`, to be followed by who it is. */
  readonly held: (name: string, owner: LockOwner) => string;
  /** `the mirror`: what nobody else may write. */
  readonly what: (name: string) => string;
}

interface LockKind extends LockWords {
  readonly table: string;
  readonly key: string;
}

/** The columns of a table of locks after that of the name. */
export const lockColumns = `run TEXT NOT NULL,
  command TEXT NOT NULL,
  pid INTEGER NOT NULL,
  host TEXT NOT NULL,
  acquired_at TEXT NOT NULL`;

export type Locks = ReturnType<typeof locksIn>;

/** Locks by name as a store needs them, whatever database it is in: each is of the transaction of the connection. */
export interface StoreLocks {
  owner(connection: QueryExecutorProvider, name: string): Promise<LockOwner | undefined>;
  /** Throws `LockHeldError` saying who has it and since when. */
  acquire(connection: QueryExecutorProvider, name: string, run: string, command: string): Promise<void>;
  release(connection: QueryExecutorProvider, name: string, run: string): Promise<void>;
  /** Gives it up where the database cannot be reached: it is free once its owner counts as dead. */
  abandon(name: string, run: string): void;
  /** Belongs into each transaction that writes: throws `LockHeldError` where somebody else has got a lock of ours. */
  guard(connection: QueryExecutorProvider): Promise<void>;
  /** How long a lock of ours surely stays ours, ms, by clocks that nobody sets; 0 of any other. */
  remainingMs(name: string): number;
  /** Aborted once a lock of ours is lost or about to be: what it guards must have ended when others may take it. */
  lost(name: string): AbortSignal;
  close(): Promise<void>;
}

/** The locks of a file that has one connection: what they change is of the transaction at hand. */
export function storeLocks(locks: Locks): StoreLocks {
  return {
    owner: async (_connection, name) => locks.owner(name),
    acquire: async (_connection, name, run, command) => locks.acquire(name, run, command),
    release: async (_connection, name, run) => locks.release(name, run),
    abandon: (name, run) => locks.abandon(name, run),
    guard: async () => locks.guard(),
    // The kernel keeps it for as long as the process lives.
    remainingMs: () => Infinity,
    lost: () => new AbortController().signal,
    close: async () => locks.close(),
  };
}

export function locksIn(database: Database, { table, key, held, what }: LockKind, clock: Clock) {
  const one = database.prepare<[string], LockOwner>(
    `SELECT run, command, pid, host, acquired_at AS acquiredAt FROM ${table} WHERE ${key} = ?`,
  );
  const drop = database.prepare(`DELETE FROM ${table} WHERE ${key} = ? AND run = ?`);
  const take = database.prepare(
    `INSERT OR REPLACE INTO ${table} (${key}, run, command, pid, host, acquired_at)
     VALUES (@name, @run, @command, @pid, @host, @at)`,
  );
  const fileOf = (run: string) => `${database.name}.owner-${encodeURIComponent(run)}`;
  const owned = new Map<string, { readonly run: string; readonly letGo: () => void }>();
  const isInPlace = sameFile(database.name);

  /** The living owner of the lock, undefined where it is free or its owner has died. */
  function owner(name: string): LockOwner | undefined {
    const row = one.get(name);
    return row !== undefined && isLocked(fileOf(row.run)) ? row : undefined;
  }

  function letGo(name: string): void {
    const { run, letGo: letGoOf } = owned.get(name) ?? {};
    owned.delete(name);
    // A run may own several locks, all by one file.
    if (![...owned.values()].some((each) => each.run === run)) letGoOf?.();
  }

  return {
    owner,
    /** Belongs into the transaction of each write. Throws `LockHeldError` where somebody else has a lock of ours, or may take it. */
    guard: (): void => {
      for (const [name, { run }] of owned) {
        const row = one.get(name);
        if (row?.run !== run) {
          const who = row === undefined ? 'somebody else' : ownerWords(row);
          throw new LockHeldError(`the lock of ${what(name)} was lost to ${who}; nothing was written since`, {
            advice: `The file ${fileOf(run)} was removed meanwhile, or its file system keeps no locks: use a local disk.`,
          });
        }
        // What was removed goes on taking what is written, which nobody will ever read; and whoever comes next finds no owner.
        const gone = isInPlace() ? (existsSync(fileOf(run)) ? undefined : fileOf(run)) : database.name;
        if (gone === undefined) continue;
        const lost = `the lock of ${what(name)} was lost: ${gone} was removed or replaced; nothing was written since`;
        throw new LockHeldError(lost, { advice: 'Look at what is there now, and start this again.' });
      }
    },
    /** In the immediate transaction at hand. Throws `LockHeldError` saying who has it and since when. */
    acquire: (name: string, run: string, command: string): void => {
      const other = owner(name);
      if (other !== undefined) {
        throw heldError(held(name, other), other, 'an owner that died gives way by itself');
      }
      // Whoever makes such a file does it in a transaction as this one is, so what is not locked was left by the dead.
      removeLeft(database.name);
      const same = [...owned.values()].find((each) => each.run === run);
      const mine = same ?? { run, letGo: lockFile(fileOf(run)) };
      owned.set(name, mine);
      take.run({ name, run, command, pid: process.pid, host: hostname(), at: timestampOf(clock.now()) });
    },
    /** Gives the lock up, where it is still owned. */
    release: (name: string, run: string): void => {
      drop.run(name, run);
      if (owned.get(name)?.run === run) letGo(name);
    },
    /** The same without a word in the file: nobody living has it then. */
    abandon: (name: string, run: string): void => {
      if (owned.get(name)?.run === run) letGo(name);
    },
    close: (): void => {
      for (const name of owned.keys()) letGo(name);
    },
  };
}

/** @param what for an error: `write to the mirror` */
export function stepsIn(database: Database, file: string, what: string, locks: Pick<Locks, 'guard'>) {
  /** Gives what `doing` gives; what the system says of the file is thrown as a FileError. */
  function explained<T>(doing: () => T): T {
    try {
      return doing();
    } catch (error) {
      throw explainFileError(error, what, file) ?? error;
    }
  }
  /** The same in one immediate transaction: all of it, or none. */
  const whole = <T>(doing: () => T): T => explained(() => database.transaction(doing).immediate());
  /** The same, and none where a lock of ours was lost. */
  const step = <T>(doing: () => T): T =>
    whole(() => {
      locks.guard();
      return doing();
    });
  return { explained, whole, step };
}

/** Whoever writes the mirror takes its lock `sync`, whatever it writes. */
export function mirrorLocks(database: Database, clock: Clock) {
  const kind: LockKind = {
    table: 'mirror_locks',
    key: 'name',
    held: (_name, { command }) => `another ${command} holds the lock`,
    what: () => 'the mirror',
  };
  return locksIn(database, kind, clock);
}

/** @param gives when a dead owner gives way */
export function heldError(held: string, owner: LockOwner, gives: string): LockHeldError {
  return new LockHeldError(`${held}: ${ownerWords(owner)}`, { advice: `Wait for it to end, or stop it; ${gives}.` });
}

export function ownerWords({ pid, host, acquiredAt, command, run }: LockOwner): string {
  return `process ${pid} on ${host}, since ${acquiredAt} (${command}, run ${run})`;
}

/** Makes the file and keeps it locked until what is given back is called, which removes it. */
function lockFile(file: string): () => void {
  // By us, so that nobody else can lock it; and before SQLite has it open.
  closeSync(openSync(file, 'wx', 0o600));
  const database = new SqliteDatabase(file, { timeout: 0 });
  try {
    // Nothing is ever written to it, so nothing needs to lie beside it.
    database.pragma('journal_mode = MEMORY');
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    rmSync(file, { force: true });
    throw error;
  }
  return () => {
    database.close();
    rmSync(file, { force: true });
  };
}

/** Whether a living process has the file locked. One that cannot be looked at counts as locked. */
function isLocked(file: string): boolean {
  if (!existsSync(file)) return false;
  let database: Database | undefined;
  try {
    database = new SqliteDatabase(file, { readonly: true, timeout: 0 });
    // Takes a lock for readers, which two who look at once can both have.
    database.prepare('SELECT count(*) FROM sqlite_schema').get();
    return false;
  } catch {
    // Gone in between, it was not.
    return existsSync(file);
  } finally {
    database?.close();
  }
}

function removeLeft(file: string): void {
  const prefix = `${basename(file)}.owner-`;
  for (const name of readdirSync(dirname(file))) {
    const left = join(dirname(file), name);
    if (name.startsWith(prefix) && !isLocked(left)) rmSync(left, { force: true });
  }
}
