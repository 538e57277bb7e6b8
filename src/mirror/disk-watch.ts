/**
 * Watches the mirror's log while a run writes. A reader of an older state keeps the log from being begun anew, and then
 * every page makes it longer: that is reported, and bounded. Section "The mirror file" of docs/architecture.md.
 */
import { bytesText } from '../model/bytes.ts';
import { IncompleteError, type OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { type FreeSpace, requireSpace } from '../store/files/disk-space.ts';
import type { MirrorStore } from '../store/mirror-types.ts';

interface LogWatchPorts {
  readonly store: Pick<MirrorStore, 'logBytes' | 'checkpoint' | 'recordEvent'>;
  readonly run: string;
  readonly emit: (text: string) => void;
  /** Ends the run in order. */
  readonly stop: (reason: IncompleteError) => void;
}

/** It is reported first at this part of the limit, and at each doubling from there. */
const firstPart = 16;

/** A function to be called after each step that writes; looking at the size of a file is all that it mostly does. */
export function watchLog({ store, run, emit, stop }: LogWatchPorts, limit: number): () => void {
  const first = limit / firstPart;
  let next = first;
  let stopped = false;
  return () => {
    const bytes = store.logBytes();
    if (bytes < next || stopped) return;
    if (store.checkpoint(false) === 'folded') {
      next = first;
      return;
    }
    next = Math.min(bytes * 2, Math.max(limit, bytes + 1));
    const text = `the mirror's log has grown to ${bytesText(bytes)}, because another process reads an older state of the mirror and keeps the log from being folded in`;
    // Once a run: it stays in the mirror for who looks later.
    store.recordEvent(run, { resource: null, kind: 'log_held', subject: `${run} ${bytesText(bytes)}`, detail: text });
    emit(text);
    if (bytes < limit) return;
    stopped = true;
    stop(
      new IncompleteError(`${text}; ${bytesText(limit)} is the most that it may take`, {
        advice:
          'End exports, queries and other programs that have the mirror open, then run `admin-mirror sync` again.',
      }),
    );
  };
}

/** Of a record with its indices, where the mirror does not yet show how much it is. */
const usualBytes = 1_500;

/** From so many records on the mirror itself shows it. */
const enoughRecords = 1_000;

/**
 * A function to be called with how many records of a resource are going to be read. Where those that are new to the mirror have
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
