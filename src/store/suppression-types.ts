/**
 * Records that must not come back: those of people who were forgotten. Pages are recorded without them, and they count
 * where the mirror proves that it has what the server has. Section "Forgetting a person" of docs/architecture.md.
 */
import type { RecordKey } from '../model/records.ts';
import type { DayRange } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Window } from './mirror-types.ts';

export interface SuppressionStore {
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
