/** What is asked of mirror and journal again and again while others write them: a few numbers, never a row of theirs. */
import type { ResourceName } from '../../model/resources.ts';
import type { Timestamp } from '../../model/time.ts';
import type { BatchState } from '../../journal/port.ts';
import type { WindowState } from '../../store/mirror-types.ts';

export interface ResourceHealth {
  readonly resource: ResourceName;
  /** null where a part of it was never read whole. */
  readonly freshAsOf: Timestamp | null;
  /** The latest time that any run has proven; where none has, when it was first asked for. */
  readonly knownAt: Timestamp;
  readonly windows: Readonly<Record<WindowState, number>>;
  /** Rows at the end of its last run; null before the first has ended. */
  readonly live: number | null;
  /** Records that the server counted then; null where it could not be asked. */
  readonly serverTotal: number | null;
  /** Windows in which rows are kept that the server no longer seems to have, because they would be too many. */
  readonly heldBack: number;
}

export interface MirrorHealth {
  /** Those that a sync was ever asked for, in the order of the reference. */
  readonly resources: readonly ResourceHealth[];
}

/** A row whose outcome is open. */
export type OpenState = 'sending' | 'acknowledged' | 'unknown' | 'needs_human';

export interface OpenBatch {
  readonly batch: string;
  readonly rows: Readonly<Record<OpenState, number>>;
  /** Whether a living process is at it. */
  readonly isInHand: boolean;
}

export interface JournalHealth {
  readonly batches: Readonly<Record<BatchState, number>>;
  /** Batches with rows whose outcome is open, by name. */
  readonly open: readonly OpenBatch[];
}

/** What a look at a file came to: `absent` where there is none, and else why it could not be read. */
export type Look<T> = { readonly found: T } | { readonly absent: true } | { readonly problem: string };

/** Looks at the files as they are at that moment, also where they were replaced; waits for nobody, and never throws. */
export interface HealthStore {
  mirror(): Look<MirrorHealth>;
  journal(): Look<JournalHealth>;
  close(): void;
}
