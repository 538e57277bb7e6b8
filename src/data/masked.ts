/** The mirror as an export shall see it. What masks is loaded where there is something to mask only. */
import type { Mask, ReadingStore } from '../store/reading-types.ts';

export async function masked(store: ReadingStore, mask: Mask | undefined): Promise<ReadingStore> {
  if (mask === undefined) return store;
  const { maskedStore } = await import('./mask.ts');
  return maskedStore(store, mask);
}
