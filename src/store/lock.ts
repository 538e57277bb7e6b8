/**
 * Locks by name in an SQLite file: one owner among all processes that use the file. A row says who the owner is, and the kernel says
 * whether it lives: the owner keeps a file beside the database locked, `mirror.db.owner-<run>`, and the kernel releases it however
 * the process ends. So nobody waits for a dead owner, and one that sleeps or is stopped stays the owner.
 *
 * SQLite takes the kernel's lock, since Node cannot. The kernel's locks belong to the whole process. SQLite keeps its connections
 * within a process apart, as long as nothing else opens and closes the file.
 */
import { closeSync, existsSync, openSync, readdirSync, rmSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import type { QueryExecutorProvider } from 'kysely';
import { LockHeldError } from '../model/errors.ts';
import { type Clock, type Timestamp, timestampOf } from '../model/time.ts';
import { sameFile } from './file-kind.ts';

export interface LockOwner {
  readonly run: string;
  /** The command that holds it: `sync`, `forget`. */
  readonly command: string;
  readonly pid: number;
  readonly host: string;
  readonly acquiredAt: Timestamp;
}

/** The words of a kind of locks, for messages. */
export interface LockWords {
  /** `another sync holds the lock`; the owner is named after it. */
  readonly held: (name: string, owner: LockOwner) => string;
  /** What nobody else may write: `the mirror`. */
  readonly what: (name: string) => string;
}

interface LockKind extends LockWords {
  readonly table: string;
  readonly key: string;
}

/** The columns of a table of locks, without the name. */
export const lockColumns = `run TEXT NOT NULL, -- the run that owns it
  command TEXT NOT NULL, -- what it is doing
  pid INTEGER NOT NULL, -- the process
  host TEXT NOT NULL, -- the machine
  acquired_at TEXT NOT NULL -- when it was taken`;

export type Locks = ReturnType<typeof locksIn>;

/** The locks of a store in SQLite or PostgreSQL. What a method changes belongs to the current transaction of its connection. */
export interface StoreLocks {
  /** Returns the living owner of the lock; undefined if it is free. */
  owner(connection: QueryExecutorProvider, name: string): Promise<LockOwner | undefined>;
  /** Throws a LockHeldError that says who has it and since when. */
  acquire(connection: QueryExecutorProvider, name: string, run: string, command: string): Promise<void>;
  release(connection: QueryExecutorProvider, name: string, run: string): Promise<void>;
  /** Gives the lock up without the database, as if its owner had died. */
  abandon(name: string, run: string): void;
  /** Must run in each transaction that writes. Throws a LockHeldError if this process has lost one of its locks. */
  guard(connection: QueryExecutorProvider): Promise<void>;
  /** How long, in ms, this process surely keeps its lock, by clocks that nobody sets; 0 if it does not own the lock. */
  remainingMs(name: string): number;
  /** Aborted when the lock is lost or about to be: what it guards must have ended before others can take it. */
  lost(name: string): AbortSignal;
  close(): Promise<void>;
}

/** Adapts the locks of an SQLite file, which has one connection, so every change belongs to its current transaction. */
export function storeLocks(locks: Locks): StoreLocks {
  return {
    owner: async (_connection, name) => locks.owner(name),
    acquire: async (_connection, name, run, command) => locks.acquire(name, run, command),
    release: async (_connection, name, run) => locks.release(name, run),
    abandon: (name, run) => locks.abandon(name, run),
    guard: async () => locks.guard(),
    // The kernel keeps the lock as long as the process lives.
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
  const owned = new Map<string, { readonly run: string; readonly unlock: () => void }>();
  const isInPlace = sameFile(database);

  /** Returns the living owner of the lock; undefined if it is free or its owner has died. */
  function owner(name: string): LockOwner | undefined {
    const row = one.get(name);
    return row !== undefined && isLocked(fileOf(row.run)) ? row : undefined;
  }

  function unlock(name: string): void {
    const lock = owned.get(name);
    owned.delete(name);
    // A run may own several locks with one file.
    if (![...owned.values()].some(({ run }) => run === lock?.run)) lock?.unlock();
  }

  return {
    owner,
    /**
     * Must run in the transaction of each write. Throws a LockHeldError if this process has lost one of its locks, or somebody else
     * could take it.
     */
    guard: (): void => {
      for (const [name, { run }] of owned) {
        const row = one.get(name);
        if (row?.run !== run) {
          const advice = `The file ${fileOf(run)} was removed meanwhile, or its file system keeps no locks: use a local disk.`;
          throw lostError(what(name), row, advice);
        }
        // A database file that was removed still takes writes, which nobody will ever read. Without the owner's file, the next process
        // sees no living owner.
        const gone = isInPlace() ? (existsSync(fileOf(run)) ? undefined : fileOf(run)) : database.name;
        if (gone === undefined) continue;
        throw new LockHeldError(
          `the lock of ${what(name)} was lost: ${gone} was removed or replaced; nothing was written since`,
          { advice: 'Look at what is there now, and start this again.' },
        );
      }
    },
    /** Must run in an immediate transaction. Throws a LockHeldError that says who has it and since when. */
    acquire: (name: string, run: string, command: string): void => {
      const other = owner(name);
      if (other !== undefined) throw heldError(held(name, other), other, 'at once');
      // Owner files are only made in an immediate transaction such as this one, so each one that is not locked was left by a dead owner.
      removeDeadOwners(database.name);
      const same = [...owned.values()].find((each) => each.run === run);
      owned.set(name, same ?? { run, unlock: lockFile(fileOf(run)) });
      take.run({ name, run, command, pid: process.pid, host: hostname(), at: timestampOf(clock.now()) });
    },
    /** Gives the lock up, if the run still owns it. */
    release: (name: string, run: string): void => {
      drop.run(name, run);
      if (owned.get(name)?.run === run) unlock(name);
    },
    /** Gives the lock up without touching its row, which then names a dead owner. */
    abandon: (name: string, run: string): void => {
      if (owned.get(name)?.run === run) unlock(name);
    },
    close: (): void => {
      for (const name of owned.keys()) unlock(name);
    },
  };
}

/** The locks of the mirror's file. Whoever writes to the mirror takes the lock `sync`, whatever it writes. */
export function mirrorLocks(database: Database, clock: Clock) {
  const kind: LockKind = {
    table: 'mirror_locks',
    key: 'name',
    held: (_name, { command }) => `another ${command} holds the lock`,
    what: () => 'the mirror',
  };
  return locksIn(database, kind, clock);
}

/** @param freed when the lock of a dead owner is free */
export function heldError(held: string, owner: LockOwner, freed: string): LockHeldError {
  const advice = `Wait for it to end, or stop it. If the process dies, its lock is free ${freed}.`;
  return new LockHeldError(`${held}: ${ownerWords(owner)}`, { advice });
}

/** @param owner who has the lock now, if that is known */
export function lostError(what: string, owner: LockOwner | undefined, advice: string): LockHeldError {
  const who = owner === undefined ? 'somebody else' : ownerWords(owner);
  return new LockHeldError(`the lock of ${what} was lost to ${who}; nothing was written since`, { advice });
}

export function ownerWords({ pid, host, acquiredAt, command, run }: LockOwner): string {
  return `process ${pid} on ${host}, since ${acquiredAt} (${command}, run ${run})`;
}

/** Makes the file and keeps it locked. Returns a function that unlocks and removes it. */
function lockFile(file: string): () => void {
  // Made here with `wx`, so that it is surely new and private, and closed before SQLite opens it.
  closeSync(openSync(file, 'wx', 0o600));
  const database = new SqliteDatabase(file, { timeout: 0 });
  try {
    // Nothing is ever written to it, so it needs no journal beside it.
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

/** Whether a living process has the file locked. A file that cannot be opened counts as locked. */
function isLocked(file: string): boolean {
  if (!existsSync(file)) return false;
  let database: Database | undefined;
  try {
    database = new SqliteDatabase(file, { readonly: true, timeout: 0 });
    // Takes a shared lock, so that two processes that look at once do not take each other for the owner.
    database.prepare('SELECT count(*) FROM sqlite_schema').get();
    return false;
  } catch {
    // If it has gone meanwhile, nobody has it locked.
    return existsSync(file);
  } finally {
    database?.close();
  }
}

function removeDeadOwners(file: string): void {
  const prefix = `${basename(file)}.owner-`;
  for (const name of readdirSync(dirname(file))) {
    const left = join(dirname(file), name);
    if (name.startsWith(prefix) && !isLocked(left)) rmSync(left, { force: true });
  }
}
