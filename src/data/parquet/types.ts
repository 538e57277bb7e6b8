/**
 * The type of each Parquet column. It follows from what the column is meant to hold, and never from the values, so that the
 * files of two nights can be read as one. Of a query's computed columns nothing is declared; there alone the values decide.
 */
import type { ColumnFacts } from '../column-facts.ts';
import type { ColumnKind } from '../column-kind.ts';

/** `decimal` has so many places of 18 digits; `double` is floating point; `time` is in microseconds UTC. */
export type ParquetType =
  | { readonly kind: 'integer' }
  | { readonly kind: 'decimal'; readonly places: number }
  | { readonly kind: 'double' }
  | { readonly kind: 'time' }
  | { readonly kind: 'text' };

/** Digits of a decimal in 64 bits. */
export const decimalDigits = 18;
/** Money has two to four; what has more is a quotient or a sum of floating-point numbers. */
const decimalPlaces = 6;
const exactInteger = 2n ** 53n;

/** The type of a column that is declared so. */
export function declaredType(kind: Exclude<ColumnKind, 'open'>): ParquetType {
  switch (kind) {
    case 'number':
      return { kind: 'decimal', places: decimalPlaces };
    case 'integer':
    case 'double':
    case 'time':
    case 'text':
      return { kind };
  }
}

/** The type of a computed column that holds such values: one that all of them fit. */
export function computedType({ integers, reals, texts, blobs, times, smallest, largest }: ColumnFacts): ParquetType {
  const filled = integers + reals + texts + blobs;
  if (filled === 0 || blobs > 0) return { kind: 'text' };
  if (texts > 0) return { kind: texts === filled && times === texts ? 'time' : 'text' };
  if (reals === 0) return { kind: 'integer' };
  // A floating-point number would round whole numbers beyond; text keeps both as they are.
  return { kind: largest <= exactInteger && smallest >= -exactInteger ? 'double' : 'text' };
}
