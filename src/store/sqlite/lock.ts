/** A lock by name in the mirror file: one holder among all processes that share it, and a dead holder gives way. */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { LockHeldError } from '../../model/errors.ts';
import { minuteMs, parseInstant, timestampOf, type Clock, type Timestamp } from '../../model/time.ts';
import type { LockOwner } from '../ports/mirror-store.ts';
import { build, type Runner } from './tables.ts';

/**
 * A process of another host cannot be looked at: its lock counts as given up when it has not shown itself for this long.
 * A living holder shows itself with every page it stores, and pages are far less than this apart.
 */
const foreignLeaseMs = 15 * minuteMs;

/** When the process was started, as the kernel counts it; a re-used pid has another one. Null where it cannot be told. */
function processStarted(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is the program's name in parentheses and may hold spaces; the start time is the 20th after it.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null;
  } catch {
    return null;
  }
}

function isRunning(pid: number, started: string | null): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it is there, and someone else's.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
  const now = processStarted(pid);
  return started === null || now === null || now === started;
}

/** What is on record of a holder. */
export interface Holder {
  readonly pid: number;
  readonly process_started: string | null;
  readonly host: string;
  readonly beat_at: string;
}

/** This process as a holder, from now on. */
export function thisHolder(clock: Clock): Holder {
  const beat_at = timestampOf(clock.now());
  return { pid: process.pid, process_started: processStarted(process.pid), host: hostname(), beat_at };
}

export function isAlive(held: Holder, clock: Clock): boolean {
  if (held.host === hostname()) return isRunning(held.pid, held.process_started);
  return Math.abs(clock.now() - (parseInstant(held.beat_at) ?? 0)) < foreignLeaseMs;
}

/** The living holder of the lock, undefined where it is free or its holder has died. */
export function lockOwner(runner: Runner, clock: Clock, name: string): LockOwner | undefined {
  const held = runner.first(build.selectFrom('mirror_locks').selectAll().where('name', '=', name));
  if (held === undefined || !isAlive(held, clock)) return undefined;
  return { run: held.run, pid: held.pid, host: held.host, acquiredAt: held.acquired_at as Timestamp };
}

/** Takes the lock, in the transaction at hand, or throws `LockHeldError` saying who holds it and since when. */
export function acquireLock(runner: Runner, clock: Clock, name: string, run: string): void {
  const owner = lockOwner(runner, clock, name);
  if (owner !== undefined) {
    throw new LockHeldError(
      `another ${name} holds the lock: process ${owner.pid} on ${owner.host}, since ${owner.acquiredAt} (run ${owner.run})`,
      { advice: 'Wait for it to end, or stop it; a holder that died gives way by itself.' },
    );
  }
  runner.run(build.deleteFrom('mirror_locks').where('name', '=', name));
  const holder = thisHolder(clock);
  runner.run(build.insertInto('mirror_locks').values({ name, run, acquired_at: holder.beat_at, ...holder }));
}

/** Shows that the holder lives. Belongs into a transaction that is made anyway. */
export function beatLock(runner: Runner, clock: Clock, run: string): void {
  runner.run(
    build
      .updateTable('mirror_locks')
      .set({ beat_at: timestampOf(clock.now()) })
      .where('run', '=', run),
  );
}

export function releaseLock(runner: Runner, name: string, run: string): void {
  runner.run(build.deleteFrom('mirror_locks').where('name', '=', name).where('run', '=', run));
}
