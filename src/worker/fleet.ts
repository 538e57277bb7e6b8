/**
 * One of several workers for one mirror: PostgreSQL decides which one works. The others wait for their turn here, and restore the
 * mirror before they work (docs/worker.md, "Several machines").
 */
import { existsSync } from 'node:fs';
import { type JournalMemory, rememberShared } from '../bulk/journal-memory.ts';
import { LockHeldError, OperatorError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import { withReleases } from '../model/releases.ts';
import { type Clock, minuteMs, systemClock } from '../model/time.ts';
import type { Surroundings } from '../settings/settings.ts';
import { MirrorsJournalMemory } from '../store/journal-memory.ts';
import { openFleetMembership } from './open-store.ts';
import { type Sleep, sleepFor } from './sleep.ts';

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

export interface Member extends Pick<Surroundings, 'settings' | 'log' | 'signal'>, Pick<TurnPorts, 'onTrouble'> {
  /** Its name among the workers. */
  readonly id: string;
}

/**
 * Waits for its turn and works, until the signal is aborted.
 * @param work runs while this is the mirror's only worker; it must call `prepare` before the first job
 */
export async function workInFleet(
  member: Member,
  work: (prepare: (signal: AbortSignal) => Promise<void>) => Promise<void>,
): Promise<void> {
  const { settings, id, log } = member;
  const { mirror: file } = settings.store;

  /** Restores the mirror as it was published last, so that nothing of it is read from the server again. */
  async function prepare(signal: AbortSignal): Promise<void> {
    if (settings.publish.url === undefined) return;
    const { openPublisher } = await import('../data/open-publish.ts');
    const publisher = await openPublisher({ settings, clock: systemClock, signal, log }, () => {});
    const found = await publisher.compare();
    if (found === 'current' || found === 'unpublished') return;
    const known = existsSync(file) ? await withMemory(file, (memory) => memory.recall()) : null;
    const { published_at: at } = await publisher.renew();
    await withMemory(file, (memory) => {
      const published = memory.recall();
      if (known === null || (published?.journal === known.journal && published.step > known.step)) return;
      memory.remember(known, published);
    });
    log.info({ published_at: at, mirror: found }, `the mirror was restored from what was published at ${at}`);
  }

  await withReleases(async (releases) => {
    const membership = await openFleetMembership(settings, id, systemClock, releases);
    const { clock } = membership;
    await takeTurns({
      ...member,
      membership,
      remember: async (head) => {
        if (!existsSync(file)) return;
        await withMemory(file, (memory) => rememberShared(memory, head, (step) => membership.hasStep(step), clock));
      },
      work: () => work(prepare),
      sleep: sleepFor,
    });
  });
}

function withMemory<T>(file: string, work: (memory: JournalMemory) => T | Promise<T>): Promise<T> {
  return withReleases((releases) => work(releases.add(new MirrorsJournalMemory(file, systemClock))));
}
