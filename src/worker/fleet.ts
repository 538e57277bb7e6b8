/** One of several workers for one mirror: PostgreSQL decides which one works, the others wait for their turn here. */
import { LockHeldError, OperatorError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import { type Clock, minuteMs, type Sleep } from '../model/time.ts';

/** The newest step of the journal. */
interface JournalHead {
  readonly journal: string;
  readonly step: number;
  readonly hash: string;
}

/** This worker as one of several. */
export interface Membership {
  /** How long a worker may be silent before another one takes over. */
  readonly leaseMs: number;
  /** The clock that all workers use. */
  readonly clock: Clock;
  /** Tells the others that this worker is there. Returns whether no worker works. */
  heartbeat(): Promise<boolean>;
  /** Undefined if there is no journal yet. */
  head(): Promise<JournalHead | undefined>;
  hasStep(step: Pick<JournalHead, 'step' | 'hash'>): Promise<boolean>;
  close(): Promise<void>;
}

/** Pauses between heartbeats as parts of a lease, which usually lasts 45 seconds: 3 seconds while it waits, 10 while it works. */
const parts = { waiting: 1 / 15, working: 2 / 9 } as const;

/** Pause after a worker could not start. Another one may succeed meanwhile. */
const retryMs = minuteMs;

export interface TurnPorts {
  readonly membership: Membership;
  /** Keeps the head on this machine, so that this machine also notices if an older journal is restored. */
  readonly remember: (head: JournalHead) => Promise<void>;
  /** Works until the signal is aborted. Throws LockHeldError if another worker works, or has taken over. */
  readonly work: () => Promise<void>;
  readonly sleep: Sleep;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Called with the problem that keeps it from waiting or working; with null once that is over. */
  readonly onTrouble: (problem: string | null) => void;
}

/** Waits for its turn and works, again and again, until the signal is aborted. */
export async function takeTurns({ membership, sleep, log, signal, ...ports }: TurnPorts): Promise<void> {
  const { leaseMs } = membership;
  let problem: string | null = null;
  let remembered: string | undefined;
  let isWaiting = false;

  const trouble = (error: unknown): void => {
    if (!(error instanceof OperatorError)) throw error;
    if (error.message !== problem) log.error({ advice: error.advice }, error.message);
    ports.onTrouble((problem = error.message));
    isWaiting = false;
  };

  /** Returns undefined if the store cannot be reached. */
  async function heartbeat(): Promise<boolean | undefined> {
    try {
      const isFree = await membership.heartbeat();
      const head = await membership.head();
      if (head !== undefined && head.hash !== remembered) await ports.remember(head);
      remembered = head?.hash;
      return isFree;
    } catch (error) {
      trouble(error);
      return undefined;
    }
  }

  /** Returns how long to sleep then, ms. */
  async function work(): Promise<number> {
    isWaiting = false;
    const ended = new AbortController();
    const beat = async (): Promise<void> => {
      while (!ended.signal.aborted) {
        await heartbeat();
        await sleep(leaseMs * parts.working, ended.signal);
      }
    };
    const beats = beat();
    try {
      await ports.work();
      problem = null;
    } catch (error) {
      if (!(error instanceof LockHeldError)) {
        trouble(error);
        return retryMs;
      }
      log.warn({ advice: error.advice }, `this worker is no longer active: ${error.message}`);
    } finally {
      ended.abort();
      await beats;
    }
    return leaseMs * parts.waiting;
  }

  while (!signal.aborted) {
    const isFree = await heartbeat();
    const rest = isFree === true ? await work() : leaseMs * parts.waiting;
    if (isFree === false && !isWaiting) {
      isWaiting = true;
      ports.onTrouble((problem = null));
      log.info({}, 'another worker is active; this one waits for its turn');
    }
    if (!signal.aborted) await sleep(rest, signal);
  }
}
