/** The type of each Parquet column: what its origin says, where every value fits it, else one that every value fits. */
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
/** Money has two, and a column that has fewer today may have them tomorrow. */
const fewestPlaces = 2;
/** What has more is a quotient or a sum of floating-point numbers, and no amount. */
const mostPlaces = 6;
const exactInteger = 2n ** 53n;

export interface TypedColumn {
  readonly type: ParquetType;
  /** Why the column is text though that was not meant: `it holds 2 × whole number and 1 × text`; null elsewhere. */
  readonly mixed: string | null;
}

/** The type of a column of that kind that holds such values. */
export function parquetType(kind: ColumnKind, facts: ColumnFacts): TypedColumn {
  const { integers, reals, texts, blobs, times } = facts;
  const filled = integers + reals + texts + blobs;
  if (filled === 0) return { type: emptyType(kind), mixed: null };
  if (texts === filled) {
    const isTime = times === texts && (kind === 'time' || kind === 'open');
    // Text where a number or a time was meant is worth a word.
    const mixed = isTime || kind === 'text' || kind === 'open' ? null : mixture(facts, kind);
    return { type: { kind: isTime ? 'time' : 'text' }, mixed };
  }
  if (texts + blobs > 0 || kind === 'text' || kind === 'time') {
    return { type: { kind: 'text' }, mixed: blobs === filled ? null : mixture(facts, kind) };
  }
  const type = numericType(kind, facts);
  return { type, mixed: type.kind === 'text' ? mixture(facts, kind) : null };
}

function emptyType(kind: ColumnKind): ParquetType {
  switch (kind) {
    case 'integer':
    case 'time':
    case 'text':
      return { kind };
    case 'number':
      return { kind: 'decimal', places: fewestPlaces };
    case 'open':
      return { kind: 'text' };
  }
}

function numericType(kind: ColumnKind, facts: ColumnFacts): ParquetType {
  if (facts.reals === 0 && kind !== 'number') return { kind: 'integer' };
  const places = Math.max(fewestPlaces, facts.places);
  if (places <= mostPlaces && fitsDecimal(facts, places)) return { kind: 'decimal', places };
  if (facts.reals === 0) return { kind: 'integer' };
  // A floating-point number would round what lies beyond; text keeps both as they are.
  const isExact = facts.largest <= exactInteger && facts.smallest >= -exactInteger;
  return { kind: isExact ? 'double' : 'text' };
}

function fitsDecimal({ smallest, largest, magnitude }: ColumnFacts, places: number): boolean {
  const end = 10n ** BigInt(decimalDigits - places);
  // Beyond 2^53 steps, the decimal of a floating-point number is no longer told by multiplying.
  return largest < end && smallest > -end && magnitude * 10 ** places <= Number(exactInteger);
}

/** Why nothing but text holds every value. */
function mixture({ integers, reals, texts, blobs }: ColumnFacts, kind: ColumnKind): string {
  if (integers + reals + blobs === 0) {
    return kind === 'time' ? 'not every text in it is a time' : 'it holds text where numbers were expected';
  }
  const parts = [
    { count: integers, word: 'whole number' },
    { count: reals, word: 'floating-point number' },
    { count: texts, word: 'text' },
    { count: blobs, word: 'bytes' },
  ];
  const told = parts
    .filter(({ count }) => count > 0)
    .map(({ count, word }) => `${count.toLocaleString('en')} × ${word}`);
  return `it holds ${told.join(' and ')}`;
}
