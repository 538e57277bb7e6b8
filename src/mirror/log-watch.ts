/**
 * Watches the mirror's log while a run writes. A reader of an older state keeps the log from being begun anew, and then
 * every page makes it longer: that is told, and bounded. Section "The mirror file" of docs/architecture.md.
 */
import { bytesText } from '../model/bytes.ts';
import { IncompleteError } from '../model/errors.ts';
import type { MirrorStore } from '../store/mirror-types.ts';

interface LogWatchPorts {
  readonly store: Pick<MirrorStore, 'logBytes' | 'checkpoint' | 'recordEvent'>;
  readonly run: string;
  /** Tells the operator. */
  readonly tell: (text: string) => void;
  /** Ends the run in order. */
  readonly stop: (reason: IncompleteError) => void;
}

/** It is told of first at this part of the limit, and at each doubling from there. */
const firstPart = 16;

/** A function to be called after each step that writes; looking at the size of a file is all that it mostly does. */
export function watchLog({ store, run, tell, stop }: LogWatchPorts, limit: number): () => void {
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
    tell(text);
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
