/**
 * What the sync engine needs of a store. Every method is one durable step: it has happened whole when it returns, or
 * not at all. Section "Windows and walks" of docs/architecture.md.
 */
import type { Actor } from '../model/actor.ts';
import type { DayRange } from '../model/era.ts';
import type { KeptOut, PageRows } from '../model/page-rows.ts';
import type { RecordKey } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Day, Timestamp } from '../model/time.ts';
import type { LockOwner } from './lock.ts';

interface RelationStore {
  /** The relations that the resource's rows were read with: what a run need not read everything again for. */
  includedRelations(resource: ResourceName): readonly string[];
  /**
   * From now on every page of the resource is recorded with these relations. Makes their tables where there are none;
   * where one was not read before, every window of the resource is to be read again.
   */
  includeRelations(resource: ResourceName, relations: readonly string[]): void;
  /** The server would not give them: the resource goes on without, its tables of related records stay as they are. */
  abandonRelations(resource: ResourceName): void;
}

interface SuppressionStore {
  /** Ids of the resource that are kept out of the mirror. */
  suppressedIds(resource: ResourceName): ReadonlySet<number>;
  /**
   * Records of the server that the mirror accounts for: its rows, and what is kept out although the server has it; all,
   * or those that a window of these days owns.
   */
  accountedCount(resource: ResourceName, range?: DayRange): number;
  /** After a consistent walk: what is kept out of the window and was not seen is no longer the server's. */
  releaseUnseen(window: Window, seen: ReadonlySet<RecordKey>): void;
}

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
}

/** How a page's records were written. */
interface PageOutcome {
  readonly inserted: number;
  readonly updated: number;
  readonly unchanged: number;
  /** Records without a usable id, or with the fields of another resource: they stand in the events, and no walk that met one is complete. */
  readonly unusable: number;
  /** Ids under which another record stands than the one that came; no walk that met one is complete. */
  readonly twins: readonly RecordKey[];
}

/** Rows in the order in which they are requested. */
export interface RankedRows {
  readonly ids: ArrayLike<number>;
  /** Rises from one creation time to the next; the same for rows that share one. */
  readonly moments: ArrayLike<number>;
}

export type RunStatus = 'running' | 'complete' | 'partial' | 'failed' | 'interrupted' | 'killed';
export type ResourceStatus = 'running' | 'complete' | 'partial' | 'failed';

export interface ResourceReport {
  readonly status: ResourceStatus;
  readonly requests: number;
  readonly received: number;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
  readonly unchanged: number;
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

interface Footprint {
  readonly folder: string;
  readonly bytes: number;
  readonly records: number;
}

export interface MirrorStore extends RelationStore, SuppressionStore {
  /**
   * Takes the lock of that name for this process, from a dead owner if need be. Throws `LockHeldError` naming a living
   * one; so does every later step that writes, once another process has taken the lock.
   * @param command what the process is doing, for those who meet the lock; the lock's name where it is not given
   */
  acquireLock(name: string, run: string, command?: string): void;
  releaseLock(name: string, run: string): void;
  lockOwner(name: string): LockOwner | undefined;

  /** Records a run and its resources as begun; runs left `running` by a dead process become `killed`. */
  beginRun(run: string, command: string, resources: readonly ResourceName[], actor?: Actor): void;
  finishResource(run: string, resource: ResourceName, report: Omit<ResourceReport, keyof PageCounts>): void;
  finishRun(run: string, end: RunEnd): void;
  /** Notes how far the run is with the resource, for others to see. */
  noteProgress(run: string, resource: ResourceName, progress: RunProgressNote): void;
  runs(limit: number): RunReport[];
  run(run: string): RunDetail | undefined;

  windows(resource: ResourceName): Window[];
  /** Puts new windows in the place of those between the first one's `from` and the last one's `to`, in one step. */
  replaceWindows(resource: ResourceName, windows: readonly NewWindow[]): void;
  /** Puts the windows in the place of all that the resource has, in one step. */
  resetWindows(resource: ResourceName, windows: readonly NewWindow[]): void;
  beginWalk(run: string, window: Window): void;
  /**
   * Upserts the rows with their related records, and advances the window and the run's counters, in one transaction.
   * @param seen ids that the walk has seen before: their rows are replaced by newer versions of the same records alone
   */
  recordPage(run: string, window: Window, rows: PageRows, received: number, seen?: ReadonlySet<RecordKey>): PageOutcome;
  /** Records that pages of the resource are to be read without. */
  keptOut(resource: ResourceName): KeptOut;
  /** Counts pages that came again just as they were, with so many records, of which the window owns so many. */
  recordSamePages(
    run: string,
    resource: ResourceName,
    same: { readonly received: number; readonly owned: number },
  ): void;
  /** Forgets the pages of the window, whose rows are about to be written outside of a walk. */
  forgetPages(window: Window): void;
  /** Windows whose rows are not as their last walk left them, or that `compareAgain` named. */
  alteredWindows(resource: ResourceName): Window[];
  /** From now on the windows of these days are among `alteredWindows`, until they were read. */
  compareAgain(resource: ResourceName, days: DayRange): void;
  /** The emails that wait to be sent. */
  unsentEmails(): { readonly id: RecordKey; readonly createdAt: unknown }[];
  /** The pages of the window's last settled walk; none where it has been written to since, or was not settled. */
  rememberedPages(window: Window): RememberedPage[];
  endWalk(
    run: string,
    window: Window,
    end: {
      state: 'settled' | 'unsettled';
      serverTotal: number | null;
      freshAsOf: Timestamp | null;
      problem: string | null;
      /** The pages of this walk, for the next one to recall. */
      pages?: readonly RememberedPage[];
    },
  ): void;

  unseenIds(window: DayRange & Pick<Window, 'resource'>, seen: ReadonlySet<RecordKey>): RecordKey[];
  /** The resource's rows that were created on these days, or all where the range is one of everything. */
  rankedRows(resource: ResourceName, range: DayRange): RankedRows;
  deleteRecords(run: string, resource: ResourceName, ids: readonly RecordKey[]): void;
  /** Removes up to so many versions from the history that ended before the time; gives how many there were. */
  pruneHistory(resource: ResourceName, before: Timestamp, versions: number): number;
  /**
   * Removes up to so many tombstones of rows that were deleted before the time; gives how many there were. A cursor from
   * before them is refused from now on.
   */
  pruneDeletions(before: Timestamp, tombstones: number): number;
  /** Rows of the resource, all or those that a window of these days owns. */
  liveCount(resource: ResourceName, range?: DayRange): number;

  /** The time of the resource's stalest window; null where one was never read whole. */
  freshAsOf(resource: ResourceName): Timestamp | null;

  capability(name: string, resource: ResourceName | ''): { value: unknown; measuredAt: Timestamp } | undefined;
  recordCapability(name: string, resource: ResourceName | '', value: unknown): void;
  forgetCapability(name: string, resource: ResourceName | ''): void;
  /** Up to so many rows by which the server is recognised: the newest or the oldest with a usable creation time. */
  knownRecords(resource: ResourceName, order: 'newest' | 'oldest', count: number): StoredKnownRecord[];
  recordEvent(run: string, event: Omit<MirrorEvent, 'at'>): void;
  /** The last events, newest first; those of some kinds, or all. */
  events(limit: number, kinds?: readonly string[]): MirrorEvent[];

  /** Removes up to so many runs that began before the time, but for one that goes on; gives how many there were. */
  pruneRuns(before: Timestamp, runs: number): number;
  /** Removes up to so many events from before the time; what shows how records depart from the reference stays. */
  pruneEvents(before: Timestamp, events: number): number;
  /** Lets the database note how large its tables have become, by which it chooses its ways. */
  optimize(): void;
  /** What the mirror takes on the disk without its log, how many records it holds, and the folder that it lies in. */
  footprint(): Footprint;
  /** What the log takes on the disk. */
  logBytes(): number;
  /**
   * Folds the log into the file and begins it anew. Where a reader of an older state holds it back, as much is folded as
   * can be, the log stays as long as it is, and the result is `held`.
   * @param wait whether to give readers some seconds to end
   */
  checkpoint(wait: boolean): 'folded' | 'held';
  close(): void;
}

/** The counters that pages and deletions advance while a run goes on. */
export interface PageCounts {
  readonly received: number;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
  readonly unchanged: number;
}
