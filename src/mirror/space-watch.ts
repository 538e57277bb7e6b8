/** Refuses a run that the disk has no room for, before its pages are read. */
import type { OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { type FreeSpace, requireSpace } from '../store/files/disk-space.ts';
import type { MirrorStore } from '../store/mirror-types.ts';

/** Of a record with its indices, where the mirror does not yet show how much it is. */
const usualBytes = 1_500;

/** From so many records on the mirror itself shows it. */
const enoughRecords = 1_000;

/**
 * A function to be told how many records of a resource are going to be read. Where those that are new to the mirror have
 * no room, `stop` is called, once.
 */
export function watchSpace(
  store: Pick<MirrorStore, 'footprint' | 'liveCount'>,
  free: FreeSpace,
  stop: (reason: OperatorError) => void,
): (resource: ResourceName, records: number) => void {
  const { folder, bytes, records: held } = store.footprint();
  const each = held < enoughRecords ? usualBytes : bytes / held;
  let growth = 0;
  let stopped = false;
  return (resource, records) => {
    growth += Math.max(0, records - store.liveCount(resource));
    if (stopped) return;
    try {
      requireSpace('sync', folder, growth * each, free);
    } catch (error) {
      stopped = true;
      stop(error as OperatorError);
    }
  };
}
