/**
 * Copies of the mirror and of the journal that are made while others write: whole, of one moment, and looked through
 * before they count as made. Section "Copies" of docs/architecture.md.
 */
import type { ResourceName } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import type { Cell } from '../store/reading-types.ts';

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

/** What stands in the place of what tells of people. */
export interface Pseudonyms {
  readonly place: (table: string) => Place;
  /** The cell of a field of the API's reference, or of a related record's `id`. */
  readonly cell: (field: string, cell: Cell, place: Place) => Cell;
  /** The text of a JSON object or list, each of its fields by its name. */
  readonly json: (text: string, place: Place) => string;
  /** The name of a field: as it is where it is a known one, else a made-up name. */
  readonly name: (field: string) => string;
  /** Whether every number of that field is kept, which spares asking for each. */
  readonly keepsNumbers: (field: string) => boolean;
}

/** `catalogue`: what is sold and the like, whose names and descriptions are nobody's; `people`: everything else. */
export type Place = 'catalogue' | 'people';

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
  /** What it takes on the disk, its log included; undefined where there is none. */
  readonly size: () => number | undefined;
  /** Whether a file may be replaced by a copy: an earlier copy that nothing writes to, or an empty file. */
  readonly replaceable: (path: string) => boolean;
  /** Makes `target`, which must not be there, a copy of the state of now, and checks it. Throws a FileError. */
  readonly copy: (target: string, run: CopyRun, thoroughness: Thoroughness) => Promise<void>;
}

export interface MirrorCopySource extends CopySource {
  /** A copy with pseudonyms in the place of whatever tells of people; its rows are looked at in any case. Throws a FileError. */
  readonly copyAnonymous: (
    target: string,
    pseudonyms: Pseudonyms,
    run: CopyRun,
    thoroughness: Thoroughness,
  ) => Promise<void>;
  /** What a copy holds. */
  readonly contents: (copy: string) => CopyContents;
}
