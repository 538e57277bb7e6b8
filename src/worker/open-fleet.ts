/**
 * One of several workers for one mirror (docs/worker.md, "Several machines"): PostgreSQL decides which one works, the others wait for
 * their turn. Each has a mirror of its own, and restores that before it works.
 */
import { existsSync } from 'node:fs';
import { type JournalMemory, rememberShared } from '../bulk/journal-memory.ts';
import { LockHeldError, OperatorError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import { withReleases } from '../model/releases.ts';
import { minuteMs, sleepFor, systemClock } from '../model/time.ts';
import { sharedStoreOf } from '../settings/server.ts';
import type { Surroundings } from '../settings/settings.ts';
import { MirrorsJournalMemory } from '../store/journal-memory.ts';

interface Member extends Pick<Surroundings, 'settings' | 'log' | 'signal'> {
  /** Called with the problem that keeps it from waiting or working; with null once that is over. */
  readonly onTrouble: (problem: string | null) => void;
}

/** Pauses between two looks as parts of a lease, which usually lasts 45 seconds: 3 seconds while it waits, 10 while it works. */
const parts = { waiting: 1 / 15, working: 2 / 9 } as const;

/** Pause after a worker could not start. Another one may succeed meanwhile. */
const retryMs = minuteMs;

/**
 * Waits for its turn and works, again and again, until the signal is aborted.
 * @param work runs while this is the mirror's only worker; it must call `prepare` before the first job. Throws LockHeldError if
 *   another worker works, or has taken over
 */
export async function workInFleet(
  { settings, log, signal, onTrouble }: Member,
  work: (prepare: (signal: AbortSignal) => Promise<void>) => Promise<void>,
): Promise<void> {
  const { mirror: file } = settings.store;
  const shared = sharedStoreOf(settings);
  if (shared === undefined) throw new Error('without a shared store there is one worker');
  const { openFleet } = await import('./store/postgres.ts');
  await withReleases(async (releases) => {
    const fleet = releases.add(await openFleet(shared, systemClock));
    const { leaseMs } = fleet;
    let problem: string | null = null;
    let remembered: string | undefined;
    let isWaiting = false;

    const trouble = (error: unknown): void => {
      if (!(error instanceof OperatorError)) throw error;
      if (error.message !== problem) log.error({ advice: error.advice }, error.message);
      onTrouble((problem = error.message));
      isWaiting = false;
    };

    /**
     * Returns whether no worker works; undefined if the store cannot be reached. Remembers the newest step of the journal, so that
     * this machine also notices if an older journal is restored.
     */
    const look = async (): Promise<boolean | undefined> => {
      try {
        const isFree = await fleet.isFree();
        const head = await fleet.head();
        if (head !== undefined && head.hash !== remembered && existsSync(file)) {
          await withMemory(file, (memory) => rememberShared(memory, head, fleet.hasStep, fleet.clock));
        }
        remembered = head?.hash;
        return isFree;
      } catch (error) {
        trouble(error);
        return undefined;
      }
    };

    /** Returns how long to sleep then, ms. */
    const takeTurn = async (): Promise<number> => {
      isWaiting = false;
      const ended = new AbortController();
      const looks = (async () => {
        while (!ended.signal.aborted) {
          await look();
          await sleepFor(leaseMs * parts.working, ended.signal);
        }
      })();
      try {
        await work((stop) => restoreMirror(settings, log, stop));
        problem = null;
      } catch (error) {
        if (!(error instanceof LockHeldError)) {
          trouble(error);
          return retryMs;
        }
        log.warn({ advice: error.advice }, `this worker is no longer active: ${error.message}`);
      } finally {
        ended.abort();
        await looks;
      }
      return leaseMs * parts.waiting;
    };

    while (!signal.aborted) {
      const isFree = await look();
      const rest = isFree === true ? await takeTurn() : leaseMs * parts.waiting;
      if (isFree === false && !isWaiting) {
        isWaiting = true;
        onTrouble((problem = null));
        log.info({}, 'another worker is active; this one waits for its turn');
      }
      await sleepFor(rest, signal);
    }
  });
}

/** Restores the mirror as it was published last, so that nothing of it is read from the server again. */
async function restoreMirror(settings: Member['settings'], log: Log, signal: AbortSignal): Promise<void> {
  const { mirror: file } = settings.store;
  if (settings.publish.url === undefined) return;
  const { openPublisher } = await import('../data/open-publish.ts');
  const publisher = openPublisher({ settings, clock: systemClock, signal, log }, () => {});
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

function withMemory<T>(file: string, work: (memory: JournalMemory) => T | Promise<T>): Promise<T> {
  return withReleases((releases) => work(releases.add(new MirrorsJournalMemory(file))));
}
