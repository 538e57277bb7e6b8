/** The mirror's windows, pages, runs and events as other rooms see them, and what a sync reports while it runs. */
import type { Actor } from '../model/actor.ts';
import type { RecordKey } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Day, Timestamp } from '../model/time.ts';

/** `pending`: not read yet; `walking`: a walk has begun; `settled`: its last walk was consistent; `unsettled`: it was not. */
export type WindowState = 'pending' | 'walking' | 'settled' | 'unsettled';

/** Why a window is not settled: one outage is one cause, however many windows it leaves. */
export type WindowCause =
  | 'key_refused'
  | 'server_unreachable'
  | 'server_failed'
  | 'list_contradicts_itself'
  | 'list_changed'
  | 'records_unreadable'
  | 'deletions_refused'
  | 'deletions_unproven'
  | 'requests_spent'
  | 'rows_altered'
  | 'rows_differ'
  | 'not_read';

/** A half-open range `[from, to)` of creation days, and what is known about it. */
export interface Window {
  readonly resource: ResourceName;
  readonly from: Day;
  readonly to: Day;
  readonly state: WindowState;
  /** How many records the server had in it at the last count; an estimate while `pending`; null if never counted. */
  readonly serverTotal: number | null;
  /** How many pages of the current walk are in the mirror. */
  readonly pagesRead: number;
  /** Every row of the window was seen on the server at or after this time; null if the window was never read whole. */
  readonly freshAsOf: Timestamp | null;
  /** Null unless it is `unsettled`. */
  readonly cause: WindowCause | null;
  readonly problem: string | null;
  /** How many records its total counts that no page shows, as the last walk has found. */
  readonly surplus: number;
}

export type NewWindow = Pick<Window, 'from' | 'to'> &
  Partial<Pick<Window, 'state' | 'serverTotal' | 'freshAsOf' | 'cause' | 'problem' | 'surplus'>>;

/** A page of a window's last settled walk, recognised by the hash of its bytes. */
export interface RememberedPage {
  /** The request: the range, the page size and the page number. */
  readonly key: string;
  readonly hash: string;
  readonly total: number;
  readonly lastPage: number;
  readonly perPage: number;
  readonly ids: readonly RecordKey[];
  /** How many of its records belong to the window. */
  readonly owned: number;
  readonly lastCreatedAt: string | null;
  /** A hash of each record, one after the other; null if they could not be told apart. */
  readonly records: string | null;
}

export type RunStatus = 'running' | 'complete' | 'partial' | 'failed' | 'interrupted' | 'killed';
type ResourceStatus = 'running' | 'complete' | 'partial' | 'failed';

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
  /** Null if unknown, as for runs from before actors were recorded. */
  readonly actor: Actor | null;
  readonly requests: number;
  readonly retries: number;
  /** How many responses had each HTTP status. Requests without a whole response are not in it. */
  readonly answers: Readonly<Record<string, number>>;
  readonly resources: Partial<Record<ResourceName, ResourceReport>>;
}

/** How a run ended, and what became of one resource in it. */
export interface LastEnd extends Pick<RunReport, 'run' | 'started_at' | 'status'> {
  readonly outcome: ResourceReport['status'];
  /** Why the resource is not complete; null if it is, or if the run came to nothing. */
  readonly problem: string | null;
}

/** The syncs of one day, by UTC. */
export interface RunDay {
  readonly day: Day;
  readonly runs: number;
  /** That of its last run. */
  readonly status: RunStatus;
  /** Of all its runs. */
  readonly requests: number;
  readonly seconds: number;
  /** How many rows each resource had after the last run that counted them. */
  readonly live: Partial<Record<ResourceName, number>>;
}

/** Everything about one run, during it and afterwards. */
export interface RunDetail extends RunReport {
  /** `sync`. */
  readonly command: string;
  readonly problem: string | null;
  /** How many records of each resource it expects to read, as far as it knows. */
  readonly expected: Partial<Record<ResourceName, number>>;
  /** Oldest first. */
  readonly events: readonly MirrorEvent[];
}

/** How far a run is with a resource: the requests sent, and how many records it expects to read, if that has changed. */
export interface RunProgressNote {
  readonly requests: number;
  readonly expected?: number;
}

/** What is recorded when a run ends. */
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

/** The kinds of schema drift. Each field has at most one event of each kind. */
export const driftKinds: readonly string[] = [
  'unknown_field',
  'missing_field',
  'changed_type',
  'unreadable_text',
  'relation_absent',
];

/** A row by which the mirror recognises its server. */
export interface StoredKnownRecord {
  readonly id: RecordKey;
  readonly createdAt: string;
}

/** Counters that pages and deletions advance during a run. */
export interface PageCounts {
  readonly received: number;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
  readonly unchanged: number;
}

export type SyncEvent =
  /** How many records of the resource this run expects to read; may grow. */
  | { readonly kind: 'expected'; readonly resource: ResourceName; readonly records: number }
  | { readonly kind: 'page'; readonly resource: ResourceName; readonly records: number }
  /** A comparison has counted one more window out of `of`. */
  | { readonly kind: 'window'; readonly resource: ResourceName; readonly of: number }
  | { readonly kind: 'notice'; readonly resource: ResourceName; readonly text: string }
  | { readonly kind: 'end'; readonly resource: ResourceName; readonly status: string; readonly problem: string | null };

export type SyncProgress = (event: SyncEvent) => void;
