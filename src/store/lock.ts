/**
 * Locks by name in an SQLite file: one holder among all processes that share the file, and a dead holder gives way. Who
 * held a lock and lost it finds out in the transaction of its next write, so that there are never two writers.
 */
import type { Database } from 'better-sqlite3';
import { LockHeldError } from '../model/errors.ts';
import { type Clock, type Timestamp, timestampOf } from '../model/time.ts';
import type { LockOwner } from './lock-types.ts';
import { beatEveryMs, type Holder, isAlive, thisProcess } from './holder.ts';

type LockRow = Holder & {
  readonly run: string;
  readonly command: string;
  readonly acquired_at: string;
  readonly beat_at: string;
};

export interface LockKind {
  readonly table: string;
  /** The column of the name. */
  readonly key: string;
  /** `another sync holds the lock`, to be followed by who it is. */
  readonly held: (name: string, owner: LockOwner) => string;
  /** `the mirror`: what nobody else may write. */
  readonly what: (name: string) => string;
}

/** The columns of a table of locks after that of the name. */
export const lockColumns = `run TEXT NOT NULL,
  command TEXT NOT NULL,
  pid INTEGER NOT NULL,
  process_started TEXT,
  host TEXT NOT NULL,
  boot TEXT,
  pid_namespace TEXT,
  acquired_at TEXT NOT NULL,
  beat_at TEXT NOT NULL`;

export interface Locks {
  /** The living holder of the lock, undefined where it is free or its holder has died. */
  owner(name: string): LockOwner | undefined;
  /** Takes the lock, in the transaction at hand, or throws `LockHeldError` saying who holds it and since when. */
  acquire(name: string, run: string, command: string): void;
  /** Gives the lock up, where it is still held. */
  release(name: string, run: string): void;
  /** To be called in the transaction of each write: throws `LockHeldError` where a lock was lost, and shows that the holder lives. */
  guard(): void;
  /** To be called when the file is closed. */
  close(): void;
}

/** The locks of a file. A holder that has nothing to write shows itself by a timer, as long as its event loop turns. */
export function locksIn(database: Database, kind: LockKind, clock: Clock, self: () => Holder = thisProcess): Locks {
  const { table, key } = kind;
  const one = database.prepare<[string], LockRow>(`SELECT * FROM ${table} WHERE ${key} = ?`);
  const drop = database.prepare(`DELETE FROM ${table} WHERE ${key} = ? AND run = ?`);
  const take = database.prepare(
    `INSERT OR REPLACE INTO ${table}
       (${key}, run, command, pid, process_started, host, boot, pid_namespace, acquired_at, beat_at)
     VALUES (@name, @run, @command, @pid, @process_started, @host, @boot, @pid_namespace, @at, @at)`,
  );
  const beat = database.prepare(`UPDATE ${table} SET beat_at = ? WHERE ${key} = ? AND run = ?`);
  const holderOf = database.prepare<[string], string>(`SELECT run FROM ${table} WHERE ${key} = ?`).pluck();
  const held = new Map<string, string>();
  let beatAt = 0;
  let timer: NodeJS.Timeout | undefined;

  function owner(name: string): LockOwner | undefined {
    const row = one.get(name);
    if (row === undefined || !isAlive(row, row.beat_at, self(), clock.now())) return undefined;
    const { run, command, pid, host, acquired_at } = row;
    return { run, command, pid, host, acquiredAt: acquired_at as Timestamp };
  }

  function guard(): void {
    const now = clock.now();
    // A clock that was set back must not keep it from showing itself.
    const isDue = Math.abs(now - beatAt) >= beatEveryMs;
    for (const [name, run] of held) {
      if (holderOf.get(name) !== run) throw lost(kind, name, owner(name));
      if (isDue) beat.run(timestampOf(now), name, run);
    }
    if (isDue) beatAt = now;
  }

  function showLife(): void {
    try {
      database.transaction(guard).immediate();
    } catch {
      // The next write tells; until then there is nobody to tell it to.
    }
  }

  function rest(): void {
    if (held.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  return {
    owner,
    guard,
    acquire: (name, run, command) => {
      const other = owner(name);
      if (other !== undefined) {
        throw new LockHeldError(`${kind.held(name, other)}: ${ownerWords(other)}`, {
          advice: 'Wait for it to end, or stop it; a holder that died gives way by itself.',
        });
      }
      const at = timestampOf(clock.now());
      take.run({ name, run, command, at, ...self() });
      held.set(name, run);
      timer ??= setInterval(showLife, beatEveryMs).unref();
    },
    release: (name, run) => {
      drop.run(name, run);
      held.delete(name);
      rest();
    },
    close: () => {
      held.clear();
      rest();
    },
  };
}

function ownerWords({ pid, host, acquiredAt, command, run }: LockOwner): string {
  return `process ${pid} on ${host}, since ${acquiredAt} (${command}, run ${run})`;
}

function lost(kind: LockKind, name: string, taker: LockOwner | undefined): LockHeldError {
  const who = taker === undefined ? 'somebody else' : ownerWords(taker);
  return new LockHeldError(`the lock of ${kind.what(name)} was lost to ${who}; nothing was written since`, {
    advice:
      'This process had not shown itself for so long that it counted as dead: the machine slept, or its clock is far off.',
  });
}
