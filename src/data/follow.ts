/** Changes as they are written: by a sync in another process, told as soon as they are committed. */
import { Buffer } from 'node:buffer';
import { setTimeout as wait } from 'node:timers/promises';
import type { Timestamp } from '../model/time.ts';
import type { ReadingStore, SharedReading, Snapshot } from '../store/reading.ts';
import { changesOf, type ChangesRequest, changesSince, linesOf, type ReportedChange } from './changes.ts';
import type { QueryFormat } from './formats.ts';

/**
 * Between two looks at the mirror's last number, which is one row of a page that the system has in memory. SQLite tells nobody of a
 * commit, and what tells of a file's changes differs between systems and sees none over a network.
 */
const lookMs = 500;

/** Changes that are written at a time. */
const heldChanges = 100;

interface FollowRequest extends Pick<ChangesRequest, 'resources' | 'ignore'> {
  /** Where to begin: after a cursor, at a time, or now. */
  readonly since: { readonly cursor: string } | { readonly at: Timestamp } | undefined;
  readonly format: QueryFormat;
}

interface FollowPorts {
  readonly store: ReadingStore;
  /** The same mirror, for looking. */
  readonly looking: SharedReading;
  readonly signal: AbortSignal;
  /** Called whenever all changes up to a cursor have been written. */
  readonly onCursor: (cursor: string) => void;
}

/**
 * The changes as text, for ever: of each state that is met, what its changes come to. JSON lines have an object for each change,
 * and the cursor behind those of a state; other formats are those of `changes`. Throws a CursorError where the mirror cannot
 * go on from the cursor, also where another file takes its place meanwhile, and the signal's reason.
 */
export async function* followChunks(request: FollowRequest, ports: FollowPorts): AsyncGenerator<Uint8Array> {
  const { store, looking, signal, onCursor } = ports;
  const { since, format } = request;
  let isFirst = true;
  let cursor = since !== undefined && 'cursor' in since ? since.cursor : undefined;
  /** Nothing from before it is new. */
  let newest: Timestamp | undefined;

  function* toldOf(snapshot: Snapshot, changes: Iterable<ReportedChange & { readonly seq?: number }>) {
    let held: (ReportedChange & { readonly seq?: number })[] = [];
    const take = (): Uint8Array => {
      const lines = linesOf(held, format, isFirst);
      isFirst = false;
      held = [];
      return Buffer.from(lines);
    };
    for (const change of changes) {
      if (change.change === 'inserted' && (newest === undefined || change.at > newest)) newest = change.at;
      held.push(change);
      if (held.length < heldChanges) continue;
      // Whoever comes back from this has written them.
      yield take();
      if (change.seq !== undefined) onCursor(snapshot.cursor(change.seq));
    }
    yield take();
  }

  for (;;) {
    if (cursor === undefined || cursor !== looking.read((snapshot) => snapshot.cursor())) {
      const snapshot = store.snapshot();
      try {
        const changes = changesUpTo(snapshot, request, cursor, newest);
        yield* toldOf(snapshot, changes);
        cursor = snapshot.cursor();
        if (format === 'json' || format === 'jsonl') yield Buffer.from(`${JSON.stringify({ cursor })}\n`);
        onCursor(cursor);
      } finally {
        snapshot.release();
      }
    }
    try {
      await wait(lookMs, undefined, { signal });
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    }
  }
}

function changesUpTo(
  snapshot: Snapshot,
  { resources, ignore, since }: FollowRequest,
  cursor: string | undefined,
  newest: Timestamp | undefined,
): Iterable<ReportedChange & { readonly seq?: number }> {
  if (cursor !== undefined) return changesSince(snapshot, { resources, ignore, after: snapshot.seqOf(cursor), newest });
  if (since === undefined || !('at' in since)) return [];
  const span = { from: since.at, to: '9999-12-31T23:59:59.999999Z' as Timestamp };
  return changesOf(snapshot, { resources, ignore, span });
}
