/** Turns served values into cells, and related records into rows. A value that its column cannot hold is NULL there and stands whole in `_extra`. */
import { startsWithDay } from '../model/era.ts';
import { isRecord, type RelatedRow } from '../model/records.ts';
import type { Field, FieldType } from '../model/resources.ts';
import { firstFree } from '../model/files.ts';

declare global {
  // Node has it since 22; TypeScript's declarations do not have it yet.
  interface JSON {
    rawJSON(text: string): object;
  }
}

/** Integers are bigint, which better-sqlite3 binds as INTEGER. It binds a number as REAL. */
export type Cell = string | bigint | number | null;

export interface Converted {
  readonly cell: Cell;
  /** The type as served, if it is not the field's type. */
  readonly odd?: string;
  /** The column cannot hold the value. */
  readonly stray?: true;
}

const canonicalDecimal = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/;
const wholeDecimal = /^(-?(?:0|[1-9]\d{0,18}))(?:\.0+)?$/;

// A decimal of up to 15 significant digits survives the conversion to a double and back.
const exactDigits = 15;

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'bigint') return 'number';
  return typeof value;
}

/** An escape of JSON; the group is half of a surrogate pair, since `JSON.stringify` escapes no whole one. */
const jsonEscape = /\\(?:u(d[89a-f][0-9a-f]{2})|.)/g;

/**
 * The value as JSON. Integers beyond 2^53, which are parsed as bigint, keep their digits. Half a surrogate pair, at which pandas,
 * DuckDB, jq and PostgreSQL stumble, becomes U+FFFD, as it does in a column of text.
 */
export function jsonText(value: unknown): string {
  const json = JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'bigint' ? JSON.rawJSON(inner.toString()) : inner,
  );
  if (!json.includes('\\ud')) return json;
  return json.replaceAll(jsonEscape, (escape, half?: string) => (half === undefined ? escape : '\uFFFD'));
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
  // Beyond 2^53 several whole numbers become the same double.
  if (typeof value === 'bigint') return stray(value);
  if (typeof value === 'string' && canonicalDecimal.test(value)) {
    const digits = value.replace(/[-.]/g, '').replace(/^0+/, '');
    if (digits.length <= exactDigits) return { cell: Number(value) };
  }
  return stray(value);
}

function textCell(value: unknown): Converted {
  if (typeof value === 'string') return { cell: value };
  // The digits are all there is to a number. The JSON of an object would look like text that a person wrote.
  if (typeof value === 'number' || typeof value === 'bigint') return { cell: String(value), odd: 'number' };
  return stray(value);
}

/** JSON of an object or a list, also if the field should hold the other of the two. */
function documentCell(value: unknown, isExpected: boolean): Converted {
  if (typeof value !== 'object') return stray(value);
  return isExpected ? { cell: jsonText(value) } : { cell: jsonText(value), odd: typeOf(value) };
}

function objectCell(value: unknown): Converted {
  // PHP sometimes serves an empty object as an empty array. The value is the same, so the record must not count as changed.
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
      // A number would sort among the days as if it were a day.
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

/** Returns the conversion for one field. A null that the reference does not allow is stored as NULL and reported. */
export function cellOf(field: Field): (value: unknown) => Converted {
  const convert = converterOf(field.type);
  const nullCell: Converted = field.nullable ? { cell: null } : { cell: null, odd: 'null' };
  return (value) => (value === null ? nullCell : convert(value));
}

const idCell = cellOf({ name: 'id', type: 'any', nullable: true, note: '' });

const listIndex = /^(?:0|[1-9]\d*)$/;

/** Returns the related records as a list, whether they were served as a list, as one record or as nothing. */
export function relatedList(value: unknown): readonly unknown[] {
  if (value === null || value === undefined) return [];
  if (Array.isArray(value)) return value.filter((each) => each !== null);
  if (!isRecord(value)) return [value];
  const keys = Object.keys(value);
  // PHP serves a list from which elements were removed as an object with indices as keys. An empty object is no record either.
  if (keys.every((key) => listIndex.test(key) && isRecord(value[key]))) return Object.values(value);
  return [value];
}

/** Returns a row for each related record of one parent. */
export function relatedRows(list: readonly unknown[]): RelatedRow[] {
  const taken = new Set<string>();
  // One parent can have the same record twice, each by way of another record.
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
