/** What the mirror keeps of its windows, pages, runs and events, as others see it; and what a sync reports while it goes on. */
import type { Actor } from '../model/actor.ts';
import type { RecordKey } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Day, Timestamp } from '../model/time.ts';

/** `pending`: not read yet; `walking`: a walk was begun; `settled`: its last walk was consistent; `unsettled`: it was not. */
export type WindowState = 'pending' | 'walking' | 'settled' | 'unsettled';

/** A half-open range `[from, to)` of creation days, and what is known of it. */
export interface Window {
  readonly resource: ResourceName;
  readonly from: Day;
  readonly to: Day;
  readonly state: WindowState;
  /** Records that the server had in it when it was last counted; an estimate while `pending`; null where never counted. */
  readonly serverTotal: number | null;
  /** Pages of the walk in hand that are in the mirror. */
  readonly pagesRead: number;
  /** Every row of the window was seen on the server at or after this time; null where it was never read whole. */
  readonly freshAsOf: Timestamp | null;
  readonly problem: string | null;
}

export type NewWindow = Pick<Window, 'from' | 'to'> &
  Partial<Pick<Window, 'state' | 'serverTotal' | 'freshAsOf' | 'problem'>>;

/** A page of a window's last settled walk, by the hash of its bytes. */
export interface RememberedPage {
  /** What was requested: the range, the page size and the number. */
  readonly key: string;
  readonly hash: string;
  readonly total: number;
  readonly lastPage: number;
  readonly perPage: number;
  readonly ids: readonly RecordKey[];
  /** How many of its records are the window's own. */
  readonly owned: number;
  readonly lastCreatedAt: string | null;
  /** The sum over its rows as the last walk left them; null where it is to be made of the rows that there are now. */
  readonly rowsSum: number | null;
}

/** Rows in the order in which they are requested. */
export interface RankedRows {
  readonly ids: ArrayLike<number>;
  /** Rises from one creation time to the next; the same for rows that share one. */
  readonly moments: ArrayLike<number>;
}

export type RunStatus = 'running' | 'complete' | 'partial' | 'failed' | 'interrupted' | 'killed';
export type ResourceStatus = 'running' | 'complete' | 'partial' | 'failed';

export interface ResourceReport extends PageCounts {
  readonly status: ResourceStatus;
  readonly requests: number;
  readonly live: number;
  readonly server_total: number | null;
  readonly fresh_as_of: Timestamp | null;
  readonly problem: string | null;
}

export interface RunReport {
  readonly run: string;
  readonly status: RunStatus;
  readonly started_at: Timestamp;
  readonly finished_at: Timestamp | null;
  /** Null where nobody said, as before there were actors. */
  readonly actor: Actor | null;
  readonly requests: number;
  readonly retries: number;
  /** How many responses had each HTTP status; the others had no whole response. */
  readonly answers: Readonly<Record<string, number>>;
  readonly resources: Partial<Record<ResourceName, ResourceReport>>;
}

/** One run whole, while it goes on and after. */
export interface RunDetail extends RunReport {
  /** `sync`. */
  readonly command: string;
  readonly problem: string | null;
  /** Records that it set out to read of each resource, as far as it knows. */
  readonly expected: Partial<Record<ResourceName, number>>;
  /** What it met that is worth telling, the oldest first. */
  readonly events: readonly MirrorEvent[];
}

/** How far a run is with a resource: requests sent, and the records that it will read where that is known anew. */
export interface RunProgressNote {
  readonly requests: number;
  readonly expected?: number;
}

/** What is put on record of a run when it ends. */
export interface RunEnd extends Pick<RunReport, 'status' | 'requests' | 'retries' | 'answers'> {
  readonly problem: string | null;
}

export interface MirrorEvent {
  readonly at: Timestamp;
  readonly resource: ResourceName | null;
  readonly kind: string;
  readonly subject: string;
  readonly detail: string | null;
}

/** A row by which the server that it came from is recognised. */
export interface StoredKnownRecord {
  readonly id: RecordKey;
  readonly createdAt: string;
}

/** The counters that pages and deletions advance while a run goes on. */
export interface PageCounts {
  readonly received: number;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
  readonly unchanged: number;
}

export type SyncEvent =
  /** Records that this run will read of the resource, as far as known; it may grow. */
  | { readonly kind: 'expected'; readonly resource: ResourceName; readonly records: number }
  | { readonly kind: 'page'; readonly resource: ResourceName; readonly records: number }
  /** A comparison has counted one more window, of so many. */
  | { readonly kind: 'window'; readonly resource: ResourceName; readonly of: number }
  | { readonly kind: 'notice'; readonly resource: ResourceName; readonly text: string }
  | { readonly kind: 'end'; readonly resource: ResourceName; readonly status: string; readonly problem: string | null };

export type SyncProgress = (event: SyncEvent) => void;
