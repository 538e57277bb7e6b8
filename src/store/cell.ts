/** Values as served become cells, and related records rows. A value that its column cannot hold is null there, and whole in `_extra`. */
import { startsWithDay } from '../model/era.ts';
import { isRecord } from '../model/records.ts';
import type { Field, FieldType } from '../model/resources.ts';
import { firstFree } from '../model/files.ts';
import type { RelatedRow } from '../model/page-rows.ts';

declare global {
  // In Node since 22, not yet in the language's own declarations.
  interface JSON {
    rawJSON(text: string): unknown;
  }
}

/** Integers as bigint, which better-sqlite3 binds as INTEGER; a number it binds as REAL. */
export type Cell = string | bigint | number | null;

export interface Converted {
  readonly cell: Cell;
  /** The value's type as served, where that is not the field's. */
  readonly odd?: string;
  /** The column cannot hold the value. */
  readonly stray?: true;
}

const canonicalDecimal = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/;
const wholeDecimal = /^(-?(?:0|[1-9]\d{0,18}))(?:\.0+)?$/;

// A double carries 15 significant decimal digits there and back.
const exactDigits = 15;

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'bigint') return 'number';
  return typeof value;
}

/** The JSON text of a value; integers beyond 2^53 that were parsed as bigint keep their digits. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'bigint' ? JSON.rawJSON(inner.toString()) : inner,
  );
}

function stray(value: unknown): Converted {
  return { cell: null, odd: typeOf(value), stray: true };
}

function integerCell(value: unknown): Converted {
  const whole = wholeOf(value);
  return whole !== undefined && BigInt.asIntN(64, whole) === whole ? { cell: whole } : stray(value);
}

function wholeOf(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return value;
  if (typeof value === 'boolean') return value ? 1n : 0n;
  if (typeof value === 'number') return Number.isInteger(value) ? BigInt(value) : undefined;
  const [, digits] = typeof value === 'string' ? (wholeDecimal.exec(value) ?? []) : [];
  return digits === undefined ? undefined : BigInt(digits);
}

function realCell(value: unknown): Converted {
  if (typeof value === 'number') return { cell: value };
  // Beyond 2^53 a double does not show which whole number it was.
  if (typeof value === 'bigint') return stray(value);
  if (typeof value === 'string' && canonicalDecimal.test(value)) {
    const digits = value.replace(/[-.]/g, '').replace(/^0+/, '');
    if (digits.length <= exactDigits) return { cell: Number(value) };
  }
  return stray(value);
}

function textCell(value: unknown): Converted {
  if (typeof value === 'string') return { cell: value };
  // Its digits are the whole of a number; of an object its JSON would be taken for what a person wrote.
  if (typeof value === 'number' || typeof value === 'bigint') return { cell: String(value), odd: 'number' };
  return stray(value);
}

/** A document of JSON; an object where a list is expected, and a list for an object, is one too. */
function documentCell(value: unknown, isExpected: boolean): Converted {
  if (typeof value !== 'object') return stray(value);
  return isExpected ? { cell: jsonText(value) } : { cell: jsonText(value), odd: typeOf(value) };
}

function objectCell(value: unknown): Converted {
  // PHP serves an empty object as an empty array, some days: the same value, and no change of the record.
  if (Array.isArray(value) && value.length === 0) return { cell: '{}' };
  return documentCell(value, !Array.isArray(value));
}

function converterOf(type: FieldType): (value: unknown) => Converted {
  switch (type) {
    case 'integer':
    case 'flag':
      return integerCell;
    case 'number':
      return realCell;
    case 'string':
      return textCell;
    case 'timestamp':
      // A number would sort among the days as if it were one.
      return (value) => {
        if (typeof value !== 'string') return stray(value);
        return startsWithDay(value) ? { cell: value } : { cell: value, odd: 'text that begins with no day' };
      };
    case 'object':
      return objectCell;
    case 'strings':
      return (value) => documentCell(value, Array.isArray(value));
    case 'any':
      return (value) => ({ cell: typeof value === 'string' ? value : jsonText(value) });
  }
}

/** The conversion for one field. A null where the reference allows none is stored as null and reported. */
export function cellOf(field: Field): (value: unknown) => Converted {
  const convert = converterOf(field.type);
  const nullCell: Converted = field.nullable ? { cell: null } : { cell: null, odd: 'null' };
  return (value) => (value === null ? nullCell : convert(value));
}

const idCell = cellOf({ name: 'id', type: 'any', nullable: true, note: '' });

const place = /^(?:0|[1-9]\d*)$/;

/** The related records, whether they come as a list, as one record, or as none. */
export function relatedList(value: unknown): readonly unknown[] {
  if (value === null || value === undefined) return [];
  if (Array.isArray(value)) return value.filter((each) => each !== null);
  if (!isRecord(value)) return [value];
  const keys = Object.keys(value);
  // PHP writes a list that elements were taken out of as an object of places; an empty one is no record either.
  if (keys.every((key) => place.test(key) && isRecord(value[key]))) return Object.values(value);
  return [value];
}

/** A row for each of a parent's related records. */
export function relatedRows(list: readonly unknown[]): RelatedRow[] {
  const taken = new Set<string>();
  // A record can come twice under one parent, by way of two others.
  const freeKey = (id: string): string => {
    const key = firstFree(
      (tried) => taken.has(tried),
      (number) => (number === null ? id : `${id}#${number}`),
    );
    taken.add(key);
    return key;
  };
  return list.map((each, index) => {
    const { cell: id } = idCell(isRecord(each) ? (each['id'] ?? null) : null);
    return {
      key: freeKey(id === null ? `#${index + 1}` : String(id)),
      id,
      record: jsonText(each),
      keys: isRecord(each) ? Object.keys(each) : [null],
    };
  });
}
