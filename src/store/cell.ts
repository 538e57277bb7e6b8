/**
 * From a value as the API served it to a cell of the mirror, without losing anything: a conversion happens only where
 * the original can be told from the result, anything else is kept as it came and reported as drift.
 */
import type { Field, FieldType } from '../model/resources.ts';

declare global {
  // In Node since 22, not yet in the language's own declarations.
  interface JSON {
    rawJSON(text: string): unknown;
  }
}

export type Cell = string | bigint | number | null;

/** A cell, and what was odd about the value: its type as served, where that is not the field's. */
export interface Converted {
  readonly cell: Cell;
  readonly odd?: string;
}

// The text that an integer or a short decimal has in exactly one way of writing it, apart from zeros at its end.
const canonicalInteger = /^-?(?:0|[1-9]\d{0,17})$/;
const canonicalDecimal = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/;

// A double carries 15 significant decimal digits there and back.
const exactDigits = 15;

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'bigint') return 'number';
  return typeof value;
}

/** Binds a JavaScript number as SQLite stores it: better-sqlite3 binds every `number` as a REAL, a bigint as INTEGER. */
function numberCell(value: number): Cell {
  return Number.isSafeInteger(value) && !Object.is(value, -0) ? BigInt(value) : value;
}

function bigintCell(value: bigint): Cell {
  return BigInt.asIntN(64, value) === value ? value : value.toString();
}

/** The JSON text of an object or an array; integers beyond 2^53 that were parsed as bigint keep their digits. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'bigint' ? JSON.rawJSON(inner.toString()) : inner,
  );
}

function plain(value: unknown): Cell {
  switch (typeof value) {
    case 'string':
      return value;
    case 'number':
      return numberCell(value);
    case 'bigint':
      return bigintCell(value);
    case 'boolean':
      return value ? 1n : 0n;
    case 'object':
      return value === null ? null : jsonText(value);
    case 'undefined':
      return null;
    case 'function':
    case 'symbol':
      throw new TypeError(`a ${typeof value} cannot come from JSON`);
  }
}

function kept(value: unknown): Converted {
  return { cell: plain(value), odd: typeOf(value) };
}

function integerCell(value: unknown): Converted {
  if (typeof value === 'number') return Number.isInteger(value) ? { cell: numberCell(value) } : kept(value);
  if (typeof value === 'bigint') return { cell: bigintCell(value) };
  if (typeof value === 'boolean') return { cell: value ? 1n : 0n };
  if (typeof value === 'string' && canonicalInteger.test(value)) return { cell: BigInt(value) };
  return kept(value);
}

function decimalCell(value: unknown): Converted {
  if (typeof value === 'number') return { cell: numberCell(value) };
  if (typeof value === 'bigint') return { cell: bigintCell(value) };
  if (typeof value === 'string' && canonicalDecimal.test(value)) {
    const digits = value.replace(/[-.]/g, '').replace(/^0+/, '');
    if (digits.length <= exactDigits) return { cell: numberCell(Number(value)) };
  }
  return kept(value);
}

function textCell(value: unknown): Converted {
  return typeof value === 'string' ? { cell: value } : kept(value);
}

function objectCell(value: unknown): Converted {
  // PHP serves an empty object as an empty array, some days: the same value, and no change of the record.
  if (Array.isArray(value) && value.length === 0) return { cell: '{}' };
  return typeof value === 'object' ? { cell: jsonText(value) } : kept(value);
}

function arrayCell(value: unknown): Converted {
  return Array.isArray(value) ? { cell: jsonText(value) } : kept(value);
}

function converterOf(type: FieldType): (value: unknown) => Converted {
  switch (type) {
    case 'integer':
    case 'flag':
      return integerCell;
    case 'number':
      return decimalCell;
    case 'string':
    case 'timestamp':
      return textCell;
    case 'object':
      return objectCell;
    case 'strings':
      return arrayCell;
    case 'any':
      return (value) => ({ cell: plain(value) });
  }
}

/** The conversion for one field. A null where the reference allows none is stored as null and reported. */
export function cellOf(field: Field): (value: unknown) => Converted {
  const convert = converterOf(field.type);
  const nullCell: Converted = field.nullable ? { cell: null } : { cell: null, odd: 'null' };
  return (value) => (value === null ? nullCell : convert(value));
}
