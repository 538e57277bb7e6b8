/** Turns the records of a page into rows in JSON. `cell.ts` decides what becomes of a value. */
import { startsWithDay } from '../model/era.ts';
import {
  otherResourceOf,
  recordKey,
  type RecordKey,
  type RecordRows,
  type SchemaDrift,
  type ServedRecord,
} from '../model/records.ts';
import { type Field, type FieldType, type Resource, type ResourceName, resourceOf } from '../model/resources.ts';
import { type Cell, cellOf, type Converted, jsonText } from './cell.ts';
import { servedColumns } from '../store/schema.ts';

// The encoded bytes have memory of their own, which is released once they are written.
const encoder = new TextEncoder();

/** The character that a decoder puts in place of bytes that are not UTF-8. */
export const replaced = '\uFFFD';

/** A value that `JSON.stringify` writes as the cell. */
type JsonCell = string | number | null | object;

/** Returns the cell for JSON: an integer without a point, a real always with a point or an exponent. */
function jsonCell(cell: Cell): JsonCell {
  if (typeof cell === 'bigint') return JSON.rawJSON(cell.toString());
  // UTF-8 has no half surrogate pairs.
  if (typeof cell === 'string') return cell.toWellFormed();
  if (cell === null || !Number.isInteger(cell)) return cell;
  return JSON.rawJSON(Object.is(cell, -0) ? '-0.0' : cell.toExponential());
}

/** Returns the JSON text of the value; undefined if it holds a bigint, which only `jsonText` can write. */
function textOf(value: object): string | undefined {
  try {
    const json = JSON.stringify(value);
    // Half a surrogate pair: jsonText takes it out.
    return json.includes('\\ud') ? undefined : json;
  } catch {
    return undefined;
  }
}

/** Returns the cell of an ordinary value, as almost every value is; undefined if it needs a closer look. */
function plainCell(type: FieldType, nullable: boolean, value: unknown): JsonCell | undefined {
  if (value === null) return nullable ? null : undefined;
  if (typeof value === 'string') {
    const isPlain = type === 'string' || type === 'any' || (type === 'timestamp' && startsWithDay(value));
    return isPlain && value.isWellFormed() ? value : undefined;
  }
  if (typeof value === 'number') {
    if (type !== 'integer' && type !== 'flag' && type !== 'number') return undefined;
    if (Number.isSafeInteger(value)) return Object.is(value, -0) ? undefined : value;
    return type === 'number' && !Number.isInteger(value) ? value : undefined;
  }
  if (typeof value !== 'object') return undefined;
  return type === 'any' || type === (Array.isArray(value) ? 'strings' : 'object') ? textOf(value) : undefined;
}

type Report = (drift: SchemaDrift) => void;

interface Row {
  readonly [column: string]: JsonCell;
}

/** Returns a function that turns a record into a row, or into undefined if it has no integer id or is of another resource. */
function rowReader(
  resource: Resource,
): (record: ServedRecord, report: Report) => { id: RecordKey; row: Row } | undefined {
  const columns = resource.fields.map((field) => ({ field, convert: cellOf(field) }));
  const known = new Set(resource.fields.map(({ name }) => name));
  return (record, report) => {
    const other = otherResourceOf(record, resource.name);
    if (other !== undefined) {
      report({ kind: 'foreign_record', subject: other, detail: jsonText(record) });
      return undefined;
    }
    const row: Record<string, JsonCell> = {};
    const strays = new Set<string>();
    let present = 0;
    for (const { field, convert } of columns) {
      const { name, type, nullable } = field;
      const value = record[name];
      if (value === undefined) {
        row[name] = null;
        report({ kind: 'missing_field', subject: name, detail: 'the field is absent; stored as null' });
        continue;
      }
      present += 1;
      const plain = plainCell(type, nullable, value);
      if (plain !== undefined) {
        row[name] = plain;
        continue;
      }
      const converted = convert(value);
      if (converted.odd !== undefined) report(changedType(field, converted));
      if (converted.stray === true) strays.add(name);
      row[name] = jsonCell(converted.cell);
    }
    row['_extra'] = jsonCell(extrasOf(record, known, strays, present, report));
    const id = recordKey(record);
    if (id === undefined) {
      report({ kind: 'unusable_id', subject: jsonText(record['id'] ?? null), detail: jsonText(record) });
      return undefined;
    }
    return { id, row };
  };
}

/** The drift of a null where the API's reference allows none. */
export function nullDrift(field: Field): SchemaDrift {
  return changedType(field, cellOf(field)(null));
}

function changedType(field: Field, { odd, stray, cell }: Converted): SchemaDrift {
  const kept = stray === true ? '; null in its column, whole in _extra' : '; kept as text';
  return {
    kind: 'changed_type',
    subject: field.name,
    detail: `${odd ?? 'a value'} served for ${field.type}${cell === null && stray !== true ? '' : kept}`,
  };
}

/** Returns what no column can hold, as JSON: fields that the reference does not know, and values of a wrong type. */
function extrasOf(
  record: ServedRecord,
  known: ReadonlySet<string>,
  strays: ReadonlySet<string>,
  present: number,
  report: Report,
): string | null {
  const names = Object.keys(record);
  if (names.length === present && strays.size === 0) return null;
  const unknown = names.filter((name) => !known.has(name));
  for (const name of unknown) {
    report({ kind: 'unknown_field', subject: name, detail: 'not in the reference; kept in _extra' });
  }
  // `fromEntries` rather than assignment, which would treat `__proto__` differently.
  const held = names.filter((name) => strays.has(name) || !known.has(name));
  return jsonText(Object.fromEntries(held.map((name) => [name, record[name]])));
}

function rowMaker(resource: Resource): (records: readonly ServedRecord[]) => RecordRows {
  const columns = servedColumns(resource);
  const readRow = rowReader(resource);

  return (records) => {
    const drifts = new Map<string, SchemaDrift>();
    const report = (drift: SchemaDrift): void => {
      const key = `${drift.kind} ${drift.subject}`;
      if (!drifts.has(key)) drifts.set(key, drift);
    };
    const ids: RecordKey[] = [];
    const rows: Row[] = [];
    for (const record of records) {
      const read = readRow(record, report);
      if (read === undefined) continue;
      ids.push(read.id);
      rows.push(read.row);
    }
    const unusable = records.length - rows.length;
    const json = JSON.stringify({ data: rows });
    if (json.includes(replaced)) reportReplaced(rows, report);
    return { json: encoder.encode(json), ids, drifts: [...drifts.values()], unusable };
  };

  function reportReplaced(rows: readonly Row[], report: Report): void {
    for (const name of columns) {
      if (!rows.some(({ [name]: cell }) => typeof cell === 'string' && cell.includes(replaced))) continue;
      report(replacedIn(name));
    }
  }
}

/** The drift of a column, or of related records, whose text was not well-formed. */
export function replacedIn(subject: string): SchemaDrift {
  return {
    kind: 'unreadable_text',
    subject,
    detail: `bytes that are no UTF-8, and halves of surrogate pairs, are kept as ${replaced}`,
  };
}

const makers = new Map<ResourceName, ReturnType<typeof rowMaker>>();

export function recordRows(name: ResourceName, records: readonly ServedRecord[]): RecordRows {
  let make = makers.get(name);
  if (make === undefined) makers.set(name, (make = rowMaker(resourceOf(name))));
  return make(records);
}
