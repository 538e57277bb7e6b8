/** Several workers for one mirror: PostgreSQL decides who works, this file decides when to try (docs/fleet.md, "Several workers"). */
import { LockHeldError, OperatorError } from '../model/errors.ts';
import { type Clock, clockDifference, minuteMs } from '../model/time.ts';
import type { Sleep } from './sleep.ts';

/** The mirror of this machine compared with the published one. `current`: nothing newer is published. `absent`: there is no mirror. */
export type MirrorState = 'current' | 'behind' | 'absent';

/** The newest step of the journal. */
interface JournalHead {
  readonly journal: string;
  readonly step: number;
  readonly hash: string;
}

export interface FleetState {
  /** How long no worker has been working, ms; undefined while one does. */
  readonly freeForMs: number | undefined;
  /** Whether another worker whose mirror is current was there recently. */
  readonly isBetterWaiting: boolean;
}

/** This worker as one of several. */
export interface Membership {
  /** How long a worker may be silent before another one takes over. */
  readonly leaseMs: number;
  /** The clock that all workers use. */
  readonly clock: Clock;
  /** Tells the others that this worker is there, and the state of its mirror. Returns what the others do. */
  heartbeat(mirror: MirrorState): Promise<FleetState>;
  /** Undefined if there is no journal yet. */
  head(): Promise<JournalHead | undefined>;
  hasStep(step: Pick<JournalHead, 'step' | 'hash'>): Promise<boolean>;
  close(): Promise<void>;
}

/** Intervals as parts of a lease, which usually lasts 45 seconds. */
const parts = {
  /** Between two heartbeats of a worker that waits: 3 seconds. */
  waiting: 1 / 15,
  /** Between two heartbeats of the worker that works: 10 seconds. */
  working: 2 / 9,
  /** How long a worker leaves its turn to one with a better mirror: 10 seconds. */
  courtesy: 2 / 9,
} as const;

/** Pause after a worker could not start. Another one may succeed meanwhile. */
const retryMs = minuteMs;

/** Whether a worker may try to take over now. One that must restore its mirror first gives the others a moment. */
export function mayTake({ freeForMs, isBetterWaiting }: FleetState, mirror: MirrorState, leaseMs: number): boolean {
  if (freeForMs === undefined) return false;
  return mirror === 'current' || !isBetterWaiting || freeForMs >= leaseMs * parts.courtesy;
}

export interface FleetPorts {
  readonly membership: Membership;
  /** The clock of this machine. */
  readonly clock: Clock;
  readonly mirror: (isWorking: boolean) => Promise<MirrorState>;
  /** Keeps the head on this machine, so that this machine also notices if an older journal is restored. */
  readonly remember: (head: JournalHead, hasStep: Membership['hasStep']) => Promise<void>;
  /** Works until the signal is aborted. Throws LockHeldError if another worker works, or has taken over. */
  readonly work: () => Promise<void>;
  readonly sleep: Sleep;
  readonly signal: AbortSignal;
  readonly emit: (event: FleetEvent) => void;
}

export type FleetEvent =
  /** Another worker works. */
  | { readonly kind: 'waiting' }
  /** This worker lost its turn. */
  | { readonly kind: 'replaced'; readonly error: LockHeldError }
  /** The clock of this machine differs from the common one by more than a minute; null: no longer. */
  | { readonly kind: 'clock'; readonly difference: string | null }
  | { readonly kind: 'trouble'; readonly error: OperatorError };

/** Waits for its turn and works, again and again, until the signal is aborted. */
export async function workInFleet(ports: FleetPorts): Promise<void> {
  const { membership, clock, sleep, signal, emit } = ports;
  const { leaseMs } = membership;
  let problem: string | undefined;
  let remembered: JournalHead | undefined;
  let isWaiting = false;
  let isClockWrong = false;

  const trouble = (error: unknown): void => {
    if (!(error instanceof OperatorError)) throw error;
    if (error.message !== problem) emit({ kind: 'trouble', error });
    problem = error.message;
    isWaiting = false;
  };

  /** Nothing uses the clock of this machine, so nothing else would show that it is wrong. */
  function compareClocks(): void {
    const difference = clockDifference(clock.now() - membership.clock.now());
    if ((difference !== null) === isClockWrong) return;
    isClockWrong = difference !== null;
    emit({ kind: 'clock', difference });
  }

  /** Returns undefined if the store cannot be reached. */
  async function heartbeat(
    isWorking: boolean,
  ): Promise<{ readonly fleet: FleetState; readonly mirror: MirrorState } | undefined> {
    try {
      const mirror = await ports.mirror(isWorking);
      const fleet = await membership.heartbeat(mirror);
      compareClocks();
      const head = await membership.head();
      if (head !== undefined && head.hash !== remembered?.hash) {
        await ports.remember(head, (step) => membership.hasStep(step));
      }
      remembered = head;
      return { fleet, mirror };
    } catch (error) {
      trouble(error);
      return undefined;
    }
  }

  async function heartbeatsUntil(ended: AbortSignal): Promise<void> {
    while (!ended.aborted) {
      await heartbeat(true);
      await sleep(leaseMs * parts.working, ended);
    }
  }

  /** Works while it is this worker's turn; returns how long to sleep then, ms. */
  async function takeTurn(): Promise<number> {
    isWaiting = false;
    const ended = new AbortController();
    const heartbeats = heartbeatsUntil(ended.signal);
    try {
      await ports.work();
      problem = undefined;
    } catch (error) {
      if (!(error instanceof LockHeldError)) {
        trouble(error);
        return retryMs;
      }
      emit({ kind: 'replaced', error });
    } finally {
      ended.abort();
      await heartbeats;
    }
    return leaseMs * parts.waiting;
  }

  while (!signal.aborted) {
    let rest = leaseMs * parts.waiting;
    const found = await heartbeat(false);
    if (found !== undefined && mayTake(found.fleet, found.mirror, leaseMs)) rest = await takeTurn();
    else if (found !== undefined && !isWaiting) {
      isWaiting = true;
      problem = undefined;
      emit({ kind: 'waiting' });
    }
    if (!signal.aborted) await sleep(rest, signal);
  }
}
