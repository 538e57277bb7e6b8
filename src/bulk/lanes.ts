/** Rows side by side, except those of one user, which go one after the other in the order in which they came. */
import pLimit from 'p-limit';

export interface Lanes {
  /** Begins the work as soon as there is room for it; resolves when the next one may be given. */
  give(subject: string, work: () => Promise<void>): Promise<void>;
  /** Resolves when all is done; throws what a work threw first. */
  end(): Promise<void>;
}

/** @param concurrency works under way at once */
export function openLanes(concurrency: number): Lanes {
  const limit = pLimit(concurrency);
  const last = new Map<string, Promise<void>>();
  const underWay = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;

  return {
    give: async (subject, work) => {
      const before = last.get(subject);
      const run = limit(async () => {
        // It was begun earlier, so that it has its place and waits for nobody behind it.
        await before;
        if (failure === undefined) await work();
      })
        .catch((error: unknown) => {
          failure ??= { error };
        })
        .finally(() => {
          underWay.delete(run);
          if (last.get(subject) === run) last.delete(subject);
        });
      last.set(subject, run);
      underWay.add(run);
      while (underWay.size >= concurrency) await Promise.race(underWay);
    },
    end: async () => {
      await Promise.all(underWay);
      if (failure !== undefined) throw failure.error;
    },
  };
}
