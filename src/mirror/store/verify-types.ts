/** What verifying needs of a mirror: to compare and to count, and nothing that could change it. */
import type { ServedRecord, RecordKey } from '../../model/records.ts';
import type { ResourceName } from '../../model/resources.ts';
import type { MirrorStore } from '../../store/mirror-types.ts';

/** What the mirror holds for a record of the server. */
export type Comparison =
  /** `hidden`: it is kept out on purpose. */
  | { readonly kind: 'equal' | 'missing' | 'hidden'; readonly id: RecordKey }
  /** Columns whose value is another: fields of the reference, or `_extra`. */
  | { readonly kind: 'different'; readonly id: RecordKey; readonly fields: readonly string[] }
  /** Without an id there is nothing to compare it with. */
  | { readonly kind: 'unusable' };

/** From a moment on and before another, both as text that sorts with timestamps. */
export interface Stretch {
  readonly from: string;
  readonly to: string;
}

export interface VerifyStore extends Pick<
  MirrorStore,
  'windows' | 'unseenIds' | 'liveCount' | 'accountedCount' | 'suppressedIds' | 'freshAsOf' | 'capability' | 'close'
> {
  /** Looks through the file itself, where it is not too large for that. Throws a FileError where it is damaged. */
  checkSoundness(): void;
  /** Each record against its row as a sync would have stored it; in the order of the records. */
  compare(resource: ResourceName, records: readonly ServedRecord[]): Comparison[];
  /** Rows with a creation time of the usual form, in the stretch or at any time. */
  createdCount(resource: ResourceName, stretch?: Stretch): number;
  /** Differs between two calls exactly where something was committed to the mirror between them. */
  commitMark(): number;
}
