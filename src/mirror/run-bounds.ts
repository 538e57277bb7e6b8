/**
 * Keeps a run within its bounds: how many requests it may send, whatever the server says, and the room on the disk and in the
 * mirror's log, while its progress is recorded. Section "The cost of a run" of docs/architecture.md.
 */
import { coverageOf, type DayRange } from '../model/era.ts';
import { IncompleteError, OperatorError } from '../model/errors.ts';
import { freeSpace } from '../model/files.ts';
import type { ResourceName } from '../model/resources.ts';
import { bytesText } from '../model/text.ts';
import { secondMs } from '../model/time.ts';
import { type FreeSpace, requireSpace } from '../store/files/durable-file.ts';
import type { SyncProgress } from '../store/mirror-types.ts';
import type { SyncPorts } from './run.ts';
import type { MirrorStore } from './store/mirror-store.ts';

/** The run has used up its requests. What it has read is kept, and the next run continues. */
export class SpentError extends OperatorError {
  override readonly name = 'SpentError';
  override readonly exitCode = 5;
}

/** Pages come and go, and finding the end of a window takes requests: nearly a third more than the known pages. */
const margin = 1.3;
/** For requests other than pages: checking the server, measuring it, comparing sums. */
const extra = 50;

/**
 * The requests of one run: for each resource, 1.3 times the pages of the windows that it reads; for all together, the budget and
 * 50. A resource that uses up its own share takes from the common part, never from another resource.
 *
 * Pages follow from records that are known to exist: rows held before the run, or records shown in it. Totals do not count, since
 * a server may count records that no page shows. So a window that turns out to be large earns its requests page by page.
 */
export class Allowance {
  readonly #budget: number;
  #common: number;
  readonly #own = new Map<ResourceName, Share>();
  #sent = 0;

  /** @param budget `sync.requests_per_run` */
  constructor(budget: number) {
    this.#budget = budget;
    this.#common = budget + extra;
  }

  /** Adds windows to read, with the number of rows held of each. A window counts once, and so does any part of it. */
  allow(resource: ResourceName, read: readonly (DayRange & { readonly rows: number })[], pageSize: number): void {
    const own = this.#ownOf(resource);
    own.setPageSize(pageSize);
    for (const { rows, ...days } of read) own.add(days, rows);
  }

  /** From now on, pages of the resource are no larger than this, so there are more of them. */
  allowSmaller(resource: ResourceName, pageSize: number): void {
    this.#ownOf(resource).setPageSize(pageSize);
  }

  /** Notes how many records the window has shown. This earns requests only for a window to read, or a part of one. */
  noteSeen(resource: ResourceName, days: DayRange, records: number): void {
    this.#ownOf(resource).noteSeen(days, records);
  }

  /** Requests that the resource may still send. */
  left(resource: ResourceName): number {
    return Math.floor(this.#ownOf(resource).left) + this.#common;
  }

  /** Counts one request. Throws a SpentError if none is left. */
  take(resource: ResourceName | null): void {
    if (this.mayRetry(resource)) return;
    throw new SpentError(
      `this run has sent the ${this.#sent} requests that it may send, and leaves the rest to the next`,
      {
        advice: `Run \`admin-mirror sync\` again. If it ends in the same way, each run reads the same: raise sync.requests_per_run above ${this.#budget}.`,
      },
    );
  }

  /** Counts one more request, if any is left, and returns whether one was. */
  mayRetry(resource: ResourceName | null): boolean {
    const own = resource === null ? undefined : this.#ownOf(resource);
    if (own !== undefined && own.left >= 1) own.used += 1;
    else if (this.#common >= 1) this.#common -= 1;
    else return false;
    this.#sent += 1;
    return true;
  }

  #ownOf(resource: ResourceName): Share {
    let own = this.#own.get(resource);
    if (own === undefined) this.#own.set(resource, (own = new Share()));
    return own;
  }
}

/** Every request must pass this gate before it is sent. */
export type RequestGate = Pick<Allowance, 'take' | 'mayRetry'>;

/** A window to read, or a part that was cut off one. */
interface Known {
  readonly days: DayRange;
  parent: Known | null;
  records: number;
  /** Pages by its own records, and by those of its parts; the larger number counts. */
  own: number;
  inParts: number;
  readonly parts: Known[];
}

const pagesOf = ({ own, inParts }: Known): number => Math.max(own, inParts);

/** The requests of one resource. */
class Share {
  used = 0;
  #pages = 0;
  #pageSize = Infinity;
  #windows: Known[] = [];
  readonly #found = new Map<string, Known | null>();

  get left(): number {
    return margin * this.#pages - this.used;
  }

  setPageSize(pageSize: number): void {
    if (pageSize >= this.#pageSize) return;
    this.#pageSize = pageSize;
    const count = (known: Known): number => {
      known.own = this.#ownPages(known);
      known.inParts = known.parts.reduce((sum, part) => sum + count(part), 0);
      return pagesOf(known);
    };
    this.#pages = this.#windows.reduce((sum, window) => sum + count(window), 0);
  }

  add(days: DayRange, rows: number): void {
    const known = this.#find(days);
    if (known !== null) return this.#raise(known, rows);
    const parts = this.#windows.filter((window) => contains(days, window.days));
    const inParts = parts.reduce((sum, part) => sum + pagesOf(part), 0);
    const window: Known = { days, parent: null, records: rows, own: 0, inParts, parts };
    window.own = this.#ownPages(window);
    for (const part of parts) part.parent = window;
    this.#windows = [...this.#windows.filter((each) => !parts.includes(each)), window];
    this.#pages += pagesOf(window) - inParts;
    this.#found.clear();
  }

  noteSeen(days: DayRange, records: number): void {
    const known = this.#find(days);
    if (known !== null) this.#raise(known, records);
  }

  #raise(known: Known, records: number): void {
    if (records <= known.records) return;
    known.records = records;
    let before = pagesOf(known);
    known.own = this.#ownPages(known);
    let more = pagesOf(known) - before;
    for (let above = known.parent; above !== null && more > 0; above = above.parent) {
      before = pagesOf(above);
      above.inParts += more;
      more = pagesOf(above) - before;
    }
    this.#pages += more;
  }

  /** A window takes a request even if it is empty; a part of one earns requests only by its records. */
  #ownPages({ records, parent }: Known): number {
    return Math.max(parent === null ? 1 : 0, Math.ceil(records / this.#pageSize));
  }

  /** Finds or makes the entry for these days: a window to read, or a part of one; null if no window to read holds them. */
  #find(days: DayRange): Known | null {
    const key = `${days.from}..${days.to}`;
    const found = this.#found.get(key);
    if (found !== undefined) return found;
    let known: Known | null = null;
    for (let among = this.#windows; ; among = known.parts) {
      const within: Known | undefined = among.find((each) => contains(each.days, days));
      if (within === undefined) break;
      known = within;
    }
    if (known !== null && !contains(days, known.days)) {
      const part: Known = { days, parent: known, records: 0, own: 0, inParts: 0, parts: [] };
      known.parts.push(part);
      known = part;
    }
    this.#found.set(key, known);
    return known;
  }
}

/** Whether all of the inner range lies in the outer one. The window of records outside of all days lies in no range of days. */
function contains(outer: DayRange, inner: DayRange): boolean {
  const [a, b] = [coverageOf(outer), coverageOf(inner)];
  return a === b ? outer.from <= inner.from && inner.to <= outer.to : a === 'everything';
}

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
