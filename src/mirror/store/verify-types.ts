/** What verifying needs of a mirror: to compare and to count, and nothing that could change it. */
import type { PageRows } from '../../model/page-rows.ts';
import type { RecordKey } from '../../model/records.ts';
import type { ResourceName } from '../../model/resources.ts';
import type { MirrorStore } from '../../store/mirror-types.ts';

/** What the mirror holds for a record of the server. */
export type Comparison =
  /** `hidden`: it is kept out on purpose. */
  | { readonly kind: 'equal' | 'missing' | 'hidden'; readonly id: RecordKey }
  /** Columns whose value is another: fields of the reference, or `_extra`. */
  | { readonly kind: 'different'; readonly id: RecordKey; readonly fields: readonly string[] };

/** From a moment on and before another, both as text that sorts with timestamps. */
export interface Stretch {
  readonly from: string;
  readonly to: string;
}

export interface VerifyStore extends Pick<
  MirrorStore,
  | 'windows'
  | 'keptOut'
  | 'unseenIds'
  | 'liveCount'
  | 'accountedCount'
  | 'freshAsOf'
  | 'capability'
  | 'knownRecords'
  | 'close'
> {
  /** Looks through the file itself, where it is not too large for that. Throws a FileError where it is damaged. */
  checkSoundness(): void;
  /** Each record of the page against its row, as a sync would have stored it. */
  compare(resource: ResourceName, rows: PageRows): Comparison[];
  /** Rows with a creation time of the usual form, in the stretch or at any time. */
  createdCount(resource: ResourceName, stretch?: Stretch): number;
  /** Differs between two calls exactly where something was committed to the mirror between them. */
  commitMark(): number;
}
