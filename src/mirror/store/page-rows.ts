/**
 * Records of a page as rows in JSON: one statement takes them all in, where binding each cell from JavaScript costs more
 * than storing it. What the cells are is decided in cell.ts; here they are only written so that SQLite reads the same.
 */
import { otherResourceOf } from '../../model/foreign-records.ts';
import type { RecordRows, SchemaDrift } from '../../model/page-rows.ts';
import { recordKey, type RecordKey, type ServedRecord } from '../../model/records.ts';
import { type Field, type FieldType, type Resource, type ResourceName, resourceOf } from '../../model/resources.ts';
import { type Cell, cellOf, type Converted, jsonText } from '../../store/cell.ts';

// Its bytes have memory of their own, which is given back once they are written.
const encoder = new TextEncoder();

/** What a decoder puts in the place of bytes that are no text. */
const replaced = '\uFFFD';

/** A value that `JSON.stringify` writes as the cell. */
type JsonCell = string | number | null | object;

/** The cell as JSON: an integer without a point, a real never without one or an exponent. */
export function jsonCell(cell: Cell): JsonCell {
  if (typeof cell === 'bigint') return JSON.rawJSON(cell.toString()) as object;
  // Half of a surrogate pair is no character in UTF-8.
  if (typeof cell === 'string') return cell.toWellFormed();
  if (cell === null || !Number.isInteger(cell)) return cell;
  return JSON.rawJSON(Object.is(cell, -0) ? '-0.0' : cell.toExponential()) as object;
}

/** The JSON text of the value; undefined where it holds a bigint, which is for `jsonText` to write. */
function textOf(value: object): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** The cell of a value with nothing odd about it, as almost every one is; undefined where it takes a closer look. */
function plainCell(type: FieldType, nullable: boolean, value: unknown): JsonCell | undefined {
  if (value === null) return nullable ? null : undefined;
  if (typeof value === 'string') {
    return (type === 'string' || type === 'timestamp' || type === 'any') && value.isWellFormed() ? value : undefined;
  }
  if (typeof value === 'number') {
    if (type !== 'integer' && type !== 'flag' && type !== 'number') return undefined;
    if (Number.isSafeInteger(value)) return Object.is(value, -0) ? undefined : value;
    return type === 'number' && !Number.isInteger(value) ? value : undefined;
  }
  if (typeof value !== 'object') return undefined;
  return type === 'any' || type === (Array.isArray(value) ? 'strings' : 'object') ? textOf(value) : undefined;
}

interface RecordRow {
  readonly id: RecordKey;
  /** The document's fields in order, then `_extra`. */
  readonly cells: Cell[];
}

type Report = (drift: SchemaDrift) => void;

/** A function that turns records of the resource into rows; undefined where it can be none of them: of no integer id, or of another resource. */
function rowReader(resource: Resource): (record: ServedRecord, report: Report) => RecordRow | undefined {
  const columns = resource.fields.map((field) => ({ field, convert: cellOf(field) }));
  const known = new Set(resource.fields.map(({ name }) => name));
  return (record, report) => {
    const other = otherResourceOf(record, resource.name);
    if (other !== undefined) {
      report({ kind: 'foreign_record', subject: other, detail: jsonText(record) });
      return undefined;
    }
    const cells: Cell[] = [];
    const strays = new Set<string>();
    let present = 0;
    for (const { field, convert } of columns) {
      const value = record[field.name];
      if (value === undefined) {
        cells.push(null);
        report({ kind: 'missing_field', subject: field.name, detail: 'the field is absent; stored as null' });
        continue;
      }
      present += 1;
      const converted = convert(value);
      if (converted.odd !== undefined) report(changedType(field, converted));
      if (converted.stray === true) strays.add(field.name);
      cells.push(converted.cell);
    }
    cells.push(extrasOf(record, known, strays, present, report));
    const id = recordKey(record);
    if (id === undefined) {
      report({ kind: 'unusable_id', subject: jsonText(record['id'] ?? null), detail: jsonText(record) });
      return undefined;
    }
    return { id, cells };
  };
}

function changedType(field: Field, { odd, stray, cell }: Converted): SchemaDrift {
  const kept = stray === true ? '; null in its column, whole in _extra' : '; kept as text';
  return {
    kind: 'changed_type',
    subject: field.name,
    detail: `${odd ?? 'a value'} served for ${field.type}${cell === null && stray !== true ? '' : kept}`,
  };
}

/** What no column holds: fields that the reference does not know, and values that their columns cannot hold. */
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
  // Not by assignment, to which `__proto__` means something else.
  const held = names.filter((name) => strays.has(name) || !known.has(name));
  return jsonText(Object.fromEntries(held.map((name) => [name, record[name]])));
}

function rowMaker(resource: Resource): (records: readonly ServedRecord[]) => RecordRows {
  const { fields } = resource;
  const read = rowReader(resource);

  /** The record's row where every field is there and as expected; undefined where it takes a closer look. */
  function plainRow(record: ServedRecord): JsonCell[] | undefined {
    const cells: JsonCell[] = [];
    for (const { name, type, nullable } of fields) {
      const cell = plainCell(type, nullable, record[name]);
      if (cell === undefined) return undefined;
      cells.push(cell);
    }
    cells.push(null);
    return Object.keys(record).length === fields.length ? cells : undefined;
  }

  return (records) => {
    const drifts = new Map<string, SchemaDrift>();
    const report = (drift: SchemaDrift): void => {
      const key = `${drift.kind} ${drift.subject}`;
      if (!drifts.has(key)) drifts.set(key, drift);
    };
    const ids: RecordKey[] = [];
    const rows: JsonCell[][] = [];
    for (const record of records) {
      const plain = plainRow(record);
      if (plain !== undefined) {
        ids.push(plain[0] as number);
        rows.push(plain);
        continue;
      }
      const row = read(record, report);
      if (row === undefined) continue;
      ids.push(row.id);
      rows.push(row.cells.map(jsonCell));
    }
    const unusable = records.length - rows.length;
    const json = JSON.stringify(rows);
    if (json.includes(replaced)) reportReplaced(rows, report);
    return { json: encoder.encode(json), ids, drifts: [...drifts.values()], unusable };
  };

  function reportReplaced(rows: readonly JsonCell[][], report: Report): void {
    for (const [at, name] of [...fields.map((field) => field.name), '_extra'].entries()) {
      if (!rows.some((cells) => typeof cells[at] === 'string' && cells[at].includes(replaced))) continue;
      report({ kind: 'unreadable_text', subject: name, detail: `bytes that are no UTF-8 are kept as ${replaced}` });
    }
  }
}

const makers = new Map<ResourceName, ReturnType<typeof rowMaker>>();

/** The records as rows of the resource's table. */
export function recordRows(name: ResourceName, records: readonly ServedRecord[]): RecordRows {
  let make = makers.get(name);
  if (make === undefined) makers.set(name, (make = rowMaker(resourceOf(name))));
  return make(records);
}
