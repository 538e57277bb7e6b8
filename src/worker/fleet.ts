/** Several workers for one mirror: PostgreSQL decides who works, and here is when to try (docs/fleet.md, "Several workers"). */
import { LockHeldError, OperatorError } from '../model/errors.ts';
import { type Clock, clockDifference, minuteMs } from '../model/time.ts';
import type { Sleep } from './sleep.ts';

/** How the mirror of this machine stands to what was published: nothing newer is there, something is, or there is no mirror. */
export type MirrorState = 'current' | 'behind' | 'absent';

/** The newest step of the journal. */
interface JournalHead {
  readonly journal: string;
  readonly step: number;
  readonly hash: string;
}

export interface FleetLook {
  /** How long nobody has been working for the mirror, ms; undefined while somebody does. */
  readonly freeForMs: number | undefined;
  /** Whether another worker is there, and lately was, whose mirror is current. */
  readonly isBetterWaiting: boolean;
}

export interface FleetPlace {
  /** How long a worker may be silent before another one takes over. */
  readonly leaseMs: number;
  /** By which every worker goes. */
  readonly clock: Clock;
  /** Says that this worker is there, and how its mirror is. */
  look(mirror: MirrorState): Promise<FleetLook>;
  /** Undefined where there is no journal yet. */
  head(): Promise<JournalHead | undefined>;
  hasStep(step: Pick<JournalHead, 'step' | 'hash'>): Promise<boolean>;
  close(): Promise<void>;
}

/** A look is so small a part of a lease: with the usual one, 3 seconds; and while this worker works, 10. */
const lookPart = 1 / 15;
const workingPart = 2 / 9;
/** How long a worker leaves a free place to one with a better mirror, as a part of a lease: 10 seconds. */
const courtesyPart = 2 / 9;
/** Before a worker that could not begin tries again; another one may do better meanwhile. */
const againMs = minuteMs;

/** Whether a worker tries to take over now. One that must restore its mirror first leaves it to others for a moment. */
export function mayTake({ freeForMs, isBetterWaiting }: FleetLook, mirror: MirrorState, leaseMs: number): boolean {
  if (freeForMs === undefined) return false;
  return mirror === 'current' || !isBetterWaiting || freeForMs >= leaseMs * courtesyPart;
}

export interface FleetPorts {
  readonly place: FleetPlace;
  /** That of this machine. */
  readonly clock: Clock;
  readonly mirror: (isWorking: boolean) => Promise<MirrorState>;
  /** Keeps it on this machine, so that a journal that was put back from a copy is known here, too. */
  readonly remember: (head: JournalHead, hasStep: FleetPlace['hasStep']) => Promise<void>;
  /** Works until the signal is aborted. Throws LockHeldError where another worker is at it, or has taken over. */
  readonly work: () => Promise<void>;
  readonly sleep: Sleep;
  readonly signal: AbortSignal;
  readonly emit: (event: FleetEvent) => void;
}

export type FleetEvent =
  /** Another worker works. */
  | { readonly kind: 'waiting' }
  /** It was this worker's turn, and is no longer. */
  | { readonly kind: 'replaced'; readonly error: LockHeldError }
  /** The clock of this machine differs from that of the others by more than a minute, or, with null, no longer. */
  | { readonly kind: 'clock'; readonly difference: string | null }
  | { readonly kind: 'trouble'; readonly error: OperatorError };

/** Waits for its turn and works, again and again, until the signal is aborted. */
export async function workInFleet(ports: FleetPorts): Promise<void> {
  const { place, clock, sleep, signal, emit } = ports;
  const { leaseMs } = place;
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

  /** Nothing goes by the clock of this machine, so nothing else would show that it is wrong. */
  function lookAtClock(): void {
    const difference = clockDifference(clock.now() - place.clock.now());
    if ((difference !== null) === isClockWrong) return;
    isClockWrong = difference !== null;
    emit({ kind: 'clock', difference });
  }

  /** Undefined where the store is away. */
  async function look(
    isWorking: boolean,
  ): Promise<{ readonly found: FleetLook; readonly mirror: MirrorState } | undefined> {
    try {
      const mirror = await ports.mirror(isWorking);
      const found = await place.look(mirror);
      lookAtClock();
      const head = await place.head();
      if (head !== undefined && head.hash !== remembered?.hash)
        await ports.remember(head, (step) => place.hasStep(step));
      remembered = head;
      return { found, mirror };
    } catch (error) {
      trouble(error);
      return undefined;
    }
  }

  async function lookWhileWorking(ended: AbortSignal): Promise<void> {
    while (!ended.aborted) {
      await look(true);
      await sleep(leaseMs * workingPart, ended);
    }
  }

  while (!signal.aborted) {
    let rest = leaseMs * lookPart;
    const looked = await look(false);
    if (looked !== undefined && mayTake(looked.found, looked.mirror, leaseMs)) {
      isWaiting = false;
      const ended = new AbortController();
      const looking = lookWhileWorking(ended.signal);
      try {
        await ports.work();
        problem = undefined;
      } catch (error) {
        if (error instanceof LockHeldError) emit({ kind: 'replaced', error });
        else {
          trouble(error);
          rest = againMs;
        }
      } finally {
        ended.abort();
        await looking;
      }
    } else if (looked !== undefined && !isWaiting) {
      isWaiting = true;
      problem = undefined;
      emit({ kind: 'waiting' });
    }
    if (!signal.aborted) await sleep(rest, signal);
  }
}
