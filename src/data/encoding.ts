/**
 * From rows to the bytes of a format, piece by piece. What is to be done is plain data, so that a thread can be sent it; a
 * file is the pieces in their order, with what its format puts around them.
 */
import type { ResultColumn, Row } from '../store/reading-types.ts';
import type { ColumnType } from './column-type.ts';
import type { TextFormat } from './formats.ts';
import type { RowGroup } from './parquet/group.ts';

export interface TextStyle {
  readonly format: TextFormat;
  /** Text cells as they are, without the guard against formulas. */
  readonly raw: boolean;
}

export type Encoding =
  | {
      readonly kind: 'text';
      readonly style: TextStyle;
      /** Whether the bytes of a piece are done with when the next one is taken. */
      readonly isRoomKept: boolean;
    }
  | { readonly kind: 'parquet'; readonly types: readonly (ColumnType | undefined)[] }
  | { readonly kind: 'xlsx'; readonly types: readonly (ColumnType | undefined)[]; readonly sheetRows: number };

/** What was made of some rows in a row. */
export interface EncodedPiece {
  readonly bytes: Uint8Array;
  readonly rows: number;
  /** Parquet: what the footer says of the row groups in the bytes, as if the file began with them. */
  readonly groups?: readonly RowGroup[];
  /** Excel: cells whose text was too long, and how wide the columns should be. */
  readonly cut?: number;
  readonly widths?: readonly number[];
  readonly types?: readonly ColumnType[];
  /** Parquet: of each column, values that it could not hold whole. */
  readonly strays?: readonly ColumnStrays[];
}

export interface ColumnStrays {
  /** Of another type, or out of its bounds: null in the column. */
  nulled: number;
  /** With more places than the column has. */
  rounded: number;
}

/** Rows go in by batches; what was made of them comes out by `take`. */
export interface RowEncoder {
  /** @param first the place of the first row in the whole result, from 0 */
  readonly add: (rows: readonly Row[], first: number) => void;
  readonly take: () => EncodedPiece;
}

/** Rows that go into a piece where the format gains from many at once: a row group of Parquet is read side by side. */
const manyRows = 10_000;

/** How many rows a piece should hold, at most; undefined where a single batch does as well. */
export function rowsOfPiece({ kind }: Encoding): number | undefined {
  return kind === 'parquet' ? manyRows : undefined;
}

/** The encoder; loads what its format needs. */
export async function openEncoder(encoding: Encoding, columns: readonly ResultColumn[]): Promise<RowEncoder> {
  switch (encoding.kind) {
    case 'text':
      return (await import('./text-lines.ts')).textEncoder(encoding.style, columns, encoding.isRoomKept);
    case 'parquet':
      return (await import('./parquet/group.ts')).groupEncoder(encoding.types, columns);
    case 'xlsx':
      return (await import('./xlsx/file.ts')).sheetEncoder(encoding.types, columns, encoding.sheetRows);
  }
}
