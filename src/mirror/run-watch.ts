/** Watches a sync: records its progress, and stops it in order if the disk has no room or the mirror's log grows too large. */
import { freeSpace } from '../model/files.ts';
import { IncompleteError, type OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { bytesText } from '../model/text.ts';
import { secondMs } from '../model/time.ts';
import { type FreeSpace, requireSpace } from '../store/files/durable-file.ts';
import type { SyncProgress } from '../store/mirror-types.ts';
import type { SyncPorts } from './run.ts';
import type { MirrorStore } from './store/mirror-store.ts';

type WatchedPorts = SyncPorts & { readonly run: string };

/** Returns ports whose progress is watched, and whose signal also stops for a full disk or a large log. */
export function watchRun<P extends WatchedPorts>(ports: P, maxLogBytes = Infinity): P {
  const { store, progress, run } = ports;
  const stopping = new AbortController();
  const stop = (reason: OperatorError): void => stopping.abort(reason);
  let resource: ResourceName = 'users';
  const emit = (text: string): void => progress({ kind: 'notice', resource, text });
  const recordProgress = progressRecorder(ports);
  const checkSpace = watchSpace(store, ports.freeSpace ?? freeSpace, stop);
  const checkLog = watchLog({ store, run, emit, stop }, maxLogBytes);
  return {
    ...ports,
    signal: AbortSignal.any([ports.signal, stopping.signal]),
    progress: (event) => {
      progress(event);
      recordProgress(event);
      resource = event.resource;
      checkSpace(event);
      if (event.kind === 'page') checkLog();
    },
  };
}

/** Records expected records at once, and requests once a second: a write for each page would cost too much. */
function progressRecorder({ store, source, clock, run }: WatchedPorts): SyncProgress {
  const recordedAt = new Map<ResourceName, number>();
  return ({ resource, ...event }) => {
    const isDue = clock.now() - (recordedAt.get(resource) ?? -Infinity) >= secondMs;
    if (event.kind !== 'expected' && !(event.kind === 'page' && isDue)) return;
    recordedAt.set(resource, clock.now());
    const requests = source.requests(resource);
    store.noteProgress(run, resource, event.kind === 'expected' ? { requests, expected: event.records } : { requests });
  };
}

interface LogWatchPorts {
  readonly store: Pick<MirrorStore, 'logBytes' | 'checkpoint' | 'recordEvent'>;
  readonly run: string;
  readonly emit: (text: string) => void;
  /** Ends the run in order. */
  readonly stop: (reason: IncompleteError) => void;
}

/** The log is reported when it reaches this fraction of the limit, and at each doubling from there. */
const firstReport = 1 / 16;

/** Returns a function to call after each write. Most calls only look at the size of a file. */
export function watchLog({ store, run, emit, stop }: LogWatchPorts, limit: number): () => void {
  const first = limit * firstReport;
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

/** This many records show how much room one takes, indices included. */
const enoughRecords = 1_000;

/** With this many records, the size of an empty mirror no longer matters. */
const manyRecords = 10 * enoughRecords;

/**
 * Calls `stop`, once, if the disk has no room for the records still to come. A filled mirror shows how much room each takes; for
 * a small one, the first new records show it.
 */
function watchSpace(
  store: Pick<MirrorStore, 'footprint' | 'liveCount'>,
  free: FreeSpace,
  stop: (reason: OperatorError) => void,
): SyncProgress {
  const before = store.footprint();
  const isFilled = before.records >= manyRecords;
  let [growth, received, next, stopped] = [0, 0, enoughRecords, false];
  return (event) => {
    if (event.kind === 'expected') growth += Math.max(0, event.records - store.liveCount(event.resource));
    if (event.kind === 'page') received += event.records;
    if (stopped || (isFilled ? event.kind !== 'expected' : received < next)) return;
    next = received * 2;
    const { folder, bytes, records } = store.footprint();
    const added = records - before.records;
    if (!isFilled && added < enoughRecords) return;
    const each = isFilled ? bytes / records : (bytes - before.bytes) / added;
    try {
      requireSpace('sync', folder, (growth - added) * each, free);
    } catch (error) {
      stopped = true;
      stop(error as OperatorError);
    }
  };
}
