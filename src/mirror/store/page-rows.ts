/**
 * Turns the records of a page into rows in JSON, and stores them with one statement: binding each cell costs more than storing
 * it. `cell.ts` decides what becomes of a value. Unchanged rows are not written.
 */
import { type DayRange, eraStart, startsWithDay } from '../../model/era.ts';
import {
  keysJson,
  otherResourceOf,
  recordKey,
  type RecordKey,
  type RecordRows,
  type SchemaDrift,
  type ServedRecord,
} from '../../model/records.ts';
import { type Field, type FieldType, type Resource, type ResourceName, resourceOf } from '../../model/resources.ts';
import { type Cell, cellOf, type Converted, jsonText } from '../../store/cell.ts';
import type { Database, Statement } from 'better-sqlite3';
import type { PageCounts } from '../../store/mirror-types.ts';
import type { Day, Timestamp } from '../../model/time.ts';
import { type Differs, isReused } from './history.ts';
import type { pageForgetter } from './page-memory.ts';
import { numbersIn } from '../../store/cursor.ts';
import { historyTableOf, quoteName, servedColumns } from '../../store/schema.ts';

// The encoded bytes have memory of their own, which is released once they are written.
const encoder = new TextEncoder();

/** The character that a decoder puts in place of bytes that are not UTF-8. */
export const replaced = '\uFFFD';

/** A value that `JSON.stringify` writes as the cell. */
type JsonCell = string | number | null | object;

/** Returns the cell for JSON: an integer without a point, a real always with a point or an exponent. */
export function jsonCell(cell: Cell): JsonCell {
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

/**
 * The rows of a page in SQL, each with its place as `key`. Without the cast, SQLite would guess whether the bytes are text or its
 * binary JSON.
 */
export const eachRow = `jsonb_each(CAST(? AS TEXT), '$.data')`;

/** The cell of a row of the page, in SQL. */
export function cellIn(column: string): string {
  return `value ->> '$.${column}'`;
}

interface UpsertShape {
  /** The cell of `_extra`. Looking for it when no record has it costs a tenth of reading all cells. */
  readonly extra?: string;
  /** Whether versions may have ended later than now, after a clock was set back or another machine's was ahead. */
  readonly setBack?: boolean;
}

/** Numbers the rows by their places on the page. The times of a record never run backward. */
function upsertSql(resource: Resource, significant: Differs, shape: UpsertShape = {}): string {
  const { extra = cellIn('_extra'), setBack = false } = shape;
  const table = quoteName(resource.name);
  const stored = servedColumns(resource);
  const changing = stored.slice(1).map(quoteName);
  const columns = [...stored, '_first_seen_at', '_changed_at', '_seq'];
  const cells = [...stored.slice(0, -1).map(cellIn), extra];
  const assignments = changing.map((name) => `${name} = excluded.${name}`);
  // A version begins where the one before it ended. A change that makes no version does not move its beginning.
  const reused = isReused(resource.name)(table, 'excluded');
  const later = `max(excluded."_changed_at", ${table}."_changed_at")`;
  assignments.push(
    `"_seq" = excluded."_seq"`,
    // A record that reuses the id of another one is seen for the first time.
    `"_first_seen_at" = CASE WHEN ${reused} THEN ${later} ELSE ${table}."_first_seen_at" END`,
    `"_changed_at" = CASE WHEN ${significant(table, 'excluded')} OR ${reused} THEN ${later} ELSE ${table}."_changed_at" END`,
  );
  const differs = changing.map((name) => `${name} IS NOT excluded.${name}`);
  const ended = `(SELECT max(valid_to) FROM ${historyTableOf(resource.name)} AS version WHERE version.id = ${cellIn('id')})`;
  const at = setBack ? `max(?, coalesce(${ended}, ''))` : '?';
  return [
    `INSERT INTO ${table} (${columns.map(quoteName).join(', ')})`,
    `SELECT ${cells.join(', ')}, ${at}, ${at}, ? + key FROM ${eachRow} WHERE true`,
    `ON CONFLICT ("id") DO UPDATE SET ${assignments.join(', ')}`,
    `WHERE ${differs.join(' OR ')}`,
  ].join('\n');
}

/**
 * Returns a function that upserts the rows of a page, within the caller's transaction, and counts.
 * @param significant which changes move a row's `_changed_at`; all changes are written
 */
export function pageUpsert(
  database: Database,
  resource: Resource,
  significant: Differs,
  forgetPages: ReturnType<typeof pageForgetter>,
): (rows: RecordRows, window: DayRange, at: Timestamp) => Omit<PageCounts, 'received' | 'deleted'> {
  const numbers = numbersIn(database);
  const upsert = database.prepare(upsertSql(resource, significant));
  const upsertServed = database.prepare(upsertSql(resource, significant, { extra: 'NULL' }));
  const lastEnd = database
    .prepare<[], string | null>(`SELECT max(valid_to) FROM ${historyTableOf(resource.name)}`)
    .pluck();
  const table = quoteName(resource.name);
  const existing: Statement<[Day, Day, string], [count: number, moved: number]> = database
    .prepare<[Day, Day, string], [number, number]>(
      `SELECT count(*), count(*) FILTER (WHERE "created_at" >= '${eraStart}' AND ("created_at" < ? OR "created_at" >= ?))
       FROM ${table} WHERE "id" IN (SELECT value FROM json_each(?))`,
    )
    .raw(true);
  const between: Statement<[bigint, bigint], number> = database
    .prepare<[bigint, bigint], number>(`SELECT EXISTS (SELECT 1 FROM ${table} WHERE "id" BETWEEN ? AND ?)`)
    .pluck();

  /** Counts the records that have a row. If one was in another window until now, the pages of that window are forgotten. */
  function countKnown(ids: readonly RecordKey[], { from, to }: DayRange): number {
    if (ids.length === 0) return 0;
    // New records mostly have consecutive ids, and one query shows that none of them has a row.
    const least = ids.reduce((before, id) => (id < before ? id : before));
    const most = ids.reduce((before, id) => (id > before ? id : before));
    const isAnyKnown = between.get(BigInt(least), BigInt(most)) === 1;
    const [count, moved] = (isAnyKnown ? existing.get(from, to, keysJson(ids)) : undefined) ?? [0, 0];
    if (moved > 0) forgetPages(ids, from);
    return count;
  }

  return (rows, window, at) => {
    const { json, ids, isServed } = rows;
    const setBack = (lastEnd.get() ?? '') > at;
    const usual = isServed === true ? upsertServed : upsert;
    // A clock is hardly ever set back, so this statement is prepared each time, and always reads `_extra`.
    const whole = setBack ? database.prepare(upsertSql(resource, significant, { setBack })) : usual;
    const known = countKnown(ids, window);
    const last = numbers.last();
    // Set before the rows are written: the versions that they end then get higher numbers than the rows.
    numbers.setLast(last + ids.length);
    const first = BigInt(last + 1);
    const written = whole.run(at, at, first, json).changes;
    if (written === 0) numbers.setLast(last);
    const inserted = new Set(ids).size - known;
    return { inserted, updated: written - inserted, unchanged: ids.length - written };
  };
}
