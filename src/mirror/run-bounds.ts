/**
 * Keeps a run within its bounds: how many requests it may send, whatever the server says, and the room on the disk, while its
 * progress is recorded. Section "The cost of a run" of docs/architecture.md.
 */
import type { DayRange } from '../model/era.ts';
import { FileError, OperatorError } from '../model/errors.ts';
import { freeSpace } from '../model/files.ts';
import type { ResourceName } from '../model/resources.ts';
import { bytesText } from '../model/text.ts';
import { secondMs } from '../model/time.ts';
import type { SyncProgress } from '../store/mirror-types.ts';
import type { SyncPorts } from './sync.ts';

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
  readonly #shares = new Map<ResourceName, Share>();
  #sent = 0;

  /** @param budget `sync.requests_per_run` */
  constructor(budget: number) {
    this.#budget = budget;
    this.#common = budget + extra;
  }

  /** Sets how many records a page of the resource has at most. */
  setPageSize(resource: ResourceName, pageSize: number): void {
    this.#shareOf(resource).pageSize = pageSize;
  }

  /** Adds a window to read, with the number of rows held of it. It counts once, however often it is read. */
  allow(resource: ResourceName, window: DayRange, rows: number): void {
    this.#shareOf(resource).note(window, rows, 1);
  }

  /** Notes how many records the window has shown. A piece of a window earns by them alone: it could be cut without end. */
  noteSeen(resource: ResourceName, window: DayRange, records: number): void {
    this.#shareOf(resource).note(window, records, 0);
  }

  /** Requests that the resource may still send. */
  left(resource: ResourceName): number {
    return Math.floor(this.#shareOf(resource).left) + this.#common;
  }

  /** Counts one request. Throws a SpentError if none is left. */
  take(resource: ResourceName): void {
    if (this.mayRetry(resource)) return;
    throw new SpentError(
      `this run has sent the ${this.#sent} requests that it may send, and leaves the rest to the next`,
      {
        advice: `Run the same command again. If it ends in the same way, each run reads the same: raise sync.requests_per_run above ${this.#budget}.`,
      },
    );
  }

  /** Counts one more request, if any is left, and returns whether one was. */
  mayRetry(resource: ResourceName): boolean {
    const share = this.#shareOf(resource);
    if (share.left >= 1) share.used += 1;
    else if (this.#common >= 1) this.#common -= 1;
    else return false;
    this.#sent += 1;
    return true;
  }

  #shareOf(resource: ResourceName): Share {
    let share = this.#shares.get(resource);
    if (share === undefined) this.#shares.set(resource, (share = new Share()));
    return share;
  }
}

/** Every request must pass this gate before it is sent. */
export type RequestGate = Pick<Allowance, 'take' | 'mayRetry'>;

/** The requests of one resource. */
class Share {
  used = 0;
  readonly #windows = new Map<string, { readonly records: number; readonly least: number }>();
  #pageSize = Infinity;
  #pages = 0;

  get left(): number {
    return margin * this.#pages - this.used;
  }

  set pageSize(size: number) {
    if (size >= this.#pageSize) return;
    this.#pageSize = size;
    this.#pages = [...this.#windows.values()].reduce((sum, each) => sum + this.#pagesOf(each), 0);
  }

  note(window: DayRange, records: number, least: number): void {
    const key = keyOf(window);
    const before = this.#windows.get(key) ?? { records: 0, least: 0 };
    const now = { records: Math.max(before.records, records), least: Math.max(before.least, least) };
    this.#windows.set(key, now);
    this.#pages += this.#pagesOf(now) - this.#pagesOf(before);
  }

  #pagesOf({ records, least }: { readonly records: number; readonly least: number }): number {
    return Math.max(least, Math.ceil(records / this.#pageSize));
  }
}

function keyOf({ from, to }: DayRange): string {
  return `${from}..${to}`;
}

type WatchedPorts = SyncPorts & { readonly run: string };

/** The run ends in order while this much is left on the disk: room for what is under way, and for others. */
const leastFree = 100e6;

/** Returns ports whose progress is recorded, and whose signal also stops before the disk is full. */
export function watchRun<P extends WatchedPorts>(ports: P): P {
  const { store, progress, freeSpace: free = freeSpace } = ports;
  const full = new AbortController();
  const recordProgress = progressRecorder(ports);
  return {
    ...ports,
    signal: AbortSignal.any([ports.signal, full.signal]),
    progress: (event) => {
      progress(event);
      recordProgress(event);
      const left = free(store.folder) ?? Infinity;
      if (left >= leastFree || full.signal.aborted) return;
      full.abort(
        new FileError(`no room to sync: ${bytesText(left)} are left on the disk of ${store.folder}`, {
          advice: 'Make room, or use another disk, then run `admin-mirror sync` again. What was read is kept.',
        }),
      );
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
