/**
 * Copies of the mirror and of the journal that are made while others write: whole, of one moment, and looked through
 * before they count as made. Section "Copies" of docs/architecture.md.
 */
import type { ResourceName } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';

/** What a copy holds. */
export interface CopyContents {
  readonly bytes: number;
  /** The time of the stalest resource; null where one was never read whole. */
  readonly fresh_as_of: Timestamp | null;
  readonly resources: Readonly<
    Partial<Record<ResourceName, { readonly rows: number; readonly fresh_as_of: Timestamp | null }>>
  >;
}

export interface CopyRun {
  readonly signal: AbortSignal;
  /** Told how much of the work is done, from 0 to 1. */
  readonly progress: (share: number) => void;
}

/**
 * How a copy is checked: `opened`, and as long as it should be; `rows`, every page and row looked at; `whole`, each index
 * compared with its table as well.
 */
export type Thoroughness = 'opened' | 'rows' | 'whole';

/** A mirror or journal to be copied. */
export interface CopySource {
  /** `mirror` or `journal`. */
  readonly name: string;
  readonly file: string;
  /** Bytes that a copy of it may take on the disk while it is made; undefined where there is none. */
  readonly size: () => number | undefined;
  /** Whether a file may be replaced by a copy: an earlier copy that nothing writes to, or an empty file. */
  readonly replaceable: (path: string) => boolean;
  /** Makes `target`, which must not be there, a copy of the state of now, and checks it. Throws a FileError. */
  readonly copy: (target: string, run: CopyRun, thoroughness: Thoroughness) => Promise<void>;
}

export interface MirrorCopySource extends CopySource {
  /** A copy without whatever tells of people; its rows are looked at in any case. Throws a FileError. */
  readonly copyAnonymous: (target: string, run: CopyRun, thoroughness: Thoroughness) => Promise<void>;
  /** What a copy holds. */
  readonly contents: (copy: string) => CopyContents;
}
