/** One state of the mirror, and the threads that read it beside this one where there is much to read. */
import { availableParallelism } from 'node:os';
import type { ReadingStore, Relation, Snapshot } from '../store/reading-types.ts';
import { agreeOnSnapshot, RangeThread } from './range-pool.ts';

export interface ReadingTeam {
  readonly snapshot: Snapshot;
  /** All of the same state as the snapshot; none where this thread reads alone. */
  readonly threads: readonly RangeThread[];
  readonly release: () => Promise<void>;
}

/** Two make up for what formatting costs over the database's own shell; each more would take some 40 MB. */
const mostThreads = 2;

/** A table with fewer rows is written before a thread has started. */
const largeTable = 20_000;

/**
 * Opens the state of this moment.
 * @param wantsThreads looks at the mirror first, and throws where what was asked for is not in it
 * @param threads at most; 2 unless told or where there are fewer processors
 */
export async function openTeam(
  store: ReadingStore,
  wantsThreads: (snapshot: Snapshot) => boolean,
  { threads: asked = mostThreads, signal }: { readonly threads?: number | undefined; readonly signal: AbortSignal },
): Promise<ReadingTeam> {
  const first = store.snapshot();
  const threads: RangeThread[] = [];
  const stop = async () => void (await Promise.all(threads.map((thread) => thread.stop())));
  try {
    const wanted = Math.min(asked, availableParallelism(), mostThreads);
    if (wanted > 1 && wantsThreads(first)) {
      for (let count = 0; count < wanted; count += 1) threads.push(new RangeThread(store.source));
      const agreed = await agreeOnSnapshot(store, threads, signal);
      if (agreed !== undefined) {
        first.release();
        return { snapshot: agreed, threads, release: () => stop().finally(agreed.release) };
      }
      // Where the writer never paused for long enough, one thread reads the state that it already has.
      await stop();
    }
  } catch (error) {
    await stop();
    first.release();
    throw error;
  }
  return { snapshot: first, threads: [], release: async () => first.release() };
}

export function isLarge(snapshot: Snapshot, relation: Relation): boolean {
  const [first, second] = snapshot.ranges(relation, () => largeTable);
  return first !== undefined && second !== undefined;
}
