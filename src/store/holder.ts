/** A process as the holder of a lock: who it is, and whether it is still there. */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname, uptime } from 'node:os';
import { minuteMs, parseInstant, secondMs } from '../model/time.ts';

/** A holder shows itself this often. */
export const beatEveryMs = 10 * secondMs;

/** A process of the same machine that cannot be looked at, in another container: both go by one clock. */
const unseenLeaseMs = minuteMs;

/**
 * A process of another machine counts as gone when it has not shown itself for this long: by its own clock, which may
 * differ from ours by nearly as much. One that lives all the same finds out before it next writes.
 */
const foreignLeaseMs = 5 * minuteMs;

/** Which process on which machine. */
export interface Holder {
  readonly pid: number;
  /** When it was started, as the kernel counts it: a pid that is used again has another. */
  readonly process_started: string | null;
  readonly host: string;
  /** The kernel that it runs on, from one start of the machine to the next; names of machines change, and are given twice. */
  readonly boot: string | null;
  /** Pids count in it alone: each container has a process 1. */
  readonly pid_namespace: string | null;
}

function read(doing: () => string): string | null {
  try {
    return doing().trim();
  } catch {
    // Only Linux has these.
    return null;
  }
}

/** The kernel's own words on a process, from its state on; the program's name before them may hold anything. */
function statOf(pid: number): readonly string[] {
  const stat = read(() => readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? '';
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** This process. */
export function thisProcess(): Holder {
  return {
    pid: process.pid,
    process_started: statOf(process.pid)[19] ?? null,
    host: hostname(),
    boot: read(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')),
    pid_namespace: read(() => readlinkSync('/proc/self/ns/pid')),
  };
}

function isRunning(pid: number, started: string | null): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it is there, and someone else's.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
  const { 0: state, 19: now } = statOf(pid);
  // It has ended, and whoever started it has not asked how: in a container, perhaps nobody ever does.
  if (state === 'Z') return false;
  return started === null || now === undefined || now === started;
}

/**
 * Whether the holder still lives, as far as this process can tell.
 * @param beatAt when it last showed itself, by its own clock
 * @param now ms since 1970
 */
export function isAlive(held: Holder, beatAt: string, self: Holder, now: number): boolean {
  const beat = parseInstant(beatAt) ?? 0;
  const sameKernel = held.boot === null || self.boot === null ? held.host === self.host : held.boot === self.boot;
  if (sameKernel && held.pid_namespace === self.pid_namespace) return isRunning(held.pid, held.process_started);
  if (sameKernel) return Math.abs(now - beat) < unseenLeaseMs;
  if (held.host === self.host && diedWithMachine(beat, now)) return false;
  return Math.abs(now - beat) < foreignLeaseMs;
}

/** The last sign of life came before this machine started, and one of another of its name would have come since. */
function diedWithMachine(beat: number, now: number): boolean {
  const upMs = uptime() * secondMs;
  return upMs > 3 * beatEveryMs && beat < now - upMs;
}
