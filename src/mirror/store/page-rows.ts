/**
 * Records of a page as rows in JSON, which one statement takes in: to bind each cell costs more than to store it. What the cells are
 * is decided in cell.ts. Rows that did not change are not written.
 */
import { type DayRange, eraStart, startsWithDay } from '../../model/era.ts';
import { otherResourceOf, keyOf, keysJson, recordKey, type RecordKey, type ServedRecord } from '../../model/records.ts';
import type { RecordRows, SchemaDrift } from '../../model/page-rows.ts';
import { type Field, type FieldType, type Resource, type ResourceName, resourceOf } from '../../model/resources.ts';
import { type Cell, cellOf, type Converted, jsonText } from '../../store/cell.ts';
import type { Database, Statement } from 'better-sqlite3';
import type { PageCounts } from '../../store/mirror-types.ts';
import { releaseBytes } from '../../model/memory.ts';
import type { Day, Timestamp } from '../../model/time.ts';
import { type Differs, isReused } from './history.ts';
import type { pageForgetter } from './page-memory.ts';
import { numbersIn } from '../../store/cursor.ts';
import { historyTableOf, quoteName, servedColumns } from '../../store/schema.ts';

// Its bytes have memory of their own, which is given back once they are written.
const encoder = new TextEncoder();

/** What a decoder puts in the place of bytes that are no text. */
export const replaced = '\uFFFD';

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

/** A function that turns records of the resource into rows; undefined where it can be none of them: of no integer id, or of another resource. */
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

/** What is reported of a null where the reference allows none. */
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
      report({ kind: 'unreadable_text', subject: name, detail: `bytes that are no UTF-8 are kept as ${replaced}` });
    }
  }
}

const makers = new Map<ResourceName, ReturnType<typeof rowMaker>>();

export function recordRows(name: ResourceName, records: readonly ServedRecord[]): RecordRows {
  let make = makers.get(name);
  if (make === undefined) makers.set(name, (make = rowMaker(resourceOf(name))));
  return make(records);
}

/** The rows of a page in SQL, each with its place as `key`. Of bytes SQLite would guess whether they are text or its own form of JSON. */
export const eachRow = `jsonb_each(CAST(? AS TEXT), '$.data')`;

/** The cell of a row of the page, in SQL. */
export function cellIn(column: string): string {
  return `value ->> '$.${column}'`;
}

interface UpsertShape {
  /** Which rows of the page are meant, in SQL. */
  readonly rows?: string;
  /** The cell of `_extra`: to look for what no record has takes a tenth of the reading of all cells. */
  readonly extra?: string;
  /** Whether versions may have ended later than now: a clock was set back, or another machine's was ahead. */
  readonly setBack?: boolean;
}

/** Each row's number is its place on the page behind the last one given. The times of a record never run backward. */
function upsertSql(resource: Resource, significant: Differs, shape: UpsertShape = {}): string {
  const { rows = 'true', extra = cellIn('_extra'), setBack = false } = shape;
  const table = quoteName(resource.name);
  const stored = servedColumns(resource);
  const changing = stored.slice(1).map(quoteName);
  const columns = [...stored, '_first_seen_at', '_changed_at', '_seq'];
  const cells = [...stored.slice(0, -1).map(cellIn), extra];
  const assignments = changing.map((name) => `${name} = excluded.${name}`);
  // A row's version begins where the one before it ended: what makes no version does not move its beginning.
  const reused = isReused(resource.name)(table, 'excluded');
  const later = `max(excluded."_changed_at", ${table}."_changed_at")`;
  assignments.push(
    `"_seq" = excluded."_seq"`,
    // A record that has the id of another one is seen for the first time.
    `"_first_seen_at" = CASE WHEN ${reused} THEN ${later} ELSE ${table}."_first_seen_at" END`,
    `"_changed_at" = CASE WHEN ${significant(table, 'excluded')} OR ${reused} THEN ${later} ELSE ${table}."_changed_at" END`,
  );
  const differs = changing.map((name) => `${name} IS NOT excluded.${name}`);
  const ended = `(SELECT max(valid_to) FROM ${historyTableOf(resource.name)} AS version WHERE version.id = ${cellIn('id')})`;
  const at = setBack ? `max(?, coalesce(${ended}, ''))` : '?';
  return [
    `INSERT INTO ${table} (${columns.map(quoteName).join(', ')})`,
    `SELECT ${cells.join(', ')}, ${at}, ${at}, ? + key FROM ${eachRow} WHERE ${rows}`,
    `ON CONFLICT ("id") DO UPDATE SET ${assignments.join(', ')}`,
    // A version of the same record is taken as it comes. Any other is looked at more closely, which few rows need.
    `WHERE (${differs.join(' OR ')}) AND CASE`,
    `WHEN excluded."updated_at" > ${table}."updated_at" AND NOT ${reused} THEN true`,
    `ELSE takes_place(excluded."id", ${reused}, ${table}."_seq") END`,
  ].join('\n');
}

/** Refuses a record where the walk, or the run, has already stored another one under its id, unless it is a newer version of the same. */
export function duplicateGuard(database: Database) {
  let runBeganAfter: number | undefined;
  let seen: ReadonlySet<RecordKey> | undefined;
  let refused = new Set<RecordKey>();
  const everRefused = new Set<RecordKey>();
  database.function('takes_place', { safeIntegers: true }, (id, reused, seq) => {
    const key = keyOf(id as bigint);
    const writtenByRun = everRefused.has(key) || (runBeganAfter !== undefined && Number(seq) > runBeganAfter);
    if (seen?.has(key) !== true && !(reused === 1n && writtenByRun)) return 1;
    refused.add(key);
    everRefused.add(key);
    return 0;
  });
  return {
    /** A run begins. @param last the last number that was given; times do not tell, since clocks are set back */
    begin: (last: number): void => {
      runBeganAfter = last;
      everRefused.clear();
    },
    /** @param ids that the walk has seen before; undefined where there is no walk */
    guard: (ids: ReadonlySet<RecordKey> | undefined): void => {
      seen = ids;
    },
    /** The ids that were refused since this was called last. */
    refused: (): RecordKey[] => {
      const ids = [...refused];
      refused = new Set();
      return ids;
    },
  };
}

/**
 * Upserts rows within the transaction at hand, and counts. `duplicateIds`: rows that another record was kept from replacing.
 * @param significant the changes that move a row's `_changed_at`; any other is written all the same
 */
export function pageUpsert(
  database: Database,
  resource: Resource,
  significant: Differs,
  duplicates: ReturnType<typeof duplicateGuard>,
  forgetPages: ReturnType<typeof pageForgetter>,
): (
  rows: RecordRows,
  window: DayRange,
  at: Timestamp,
  seen?: ReadonlySet<RecordKey>,
) => Omit<PageCounts, 'received' | 'deleted'> & { readonly duplicateIds: readonly RecordKey[] } {
  const numbers = numbersIn(database);
  const upsert = database.prepare(upsertSql(resource, significant));
  const upsertServed = database.prepare(upsertSql(resource, significant, { extra: 'NULL' }));
  const some = 'key IN (SELECT value FROM json_each(?))';
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

  /** Where a record was in another window until now, no page of that stands for its row any more. */
  function countKnown(ids: readonly RecordKey[], { from, to }: DayRange): number {
    if (ids.length === 0) return 0;
    // The ids of new records mostly follow each other, and one look shows that none is known.
    const least = ids.reduce((before, id) => (id < before ? id : before));
    const most = ids.reduce((before, id) => (id > before ? id : before));
    const some = between.get(BigInt(least), BigInt(most));
    const [count, moved] = (some === 1 ? existing.get(from, to, keysJson(ids)) : undefined) ?? [0, 0];
    if (moved > 0) forgetPages(ids, from);
    return count;
  }

  /** Where an id comes twice on one page: the first of each as ever, then the others, as if they came on another page. */
  function upsertTwice({ json, ids }: RecordRows, at: Timestamp, first: bigint, setBack: boolean): number {
    const statement = database.prepare(upsertSql(resource, significant, { rows: some, setBack }));
    const firsts = new Set(new Map(ids.map((id, at) => [id, at] as const).toReversed()).values());
    const others = [...ids.keys()].filter((index) => !firsts.has(index));
    const written = statement.run(at, at, first, json, JSON.stringify([...firsts])).changes;
    duplicates.guard(new Set(ids));
    return written + statement.run(at, at, first, json, JSON.stringify(others)).changes;
  }

  return (rows, window, at, seen) => {
    const { json, ids, isServed } = rows;
    const setBack = (lastEnd.get() ?? '') > at;
    const usual = isServed === true ? upsertServed : upsert;
    // Hardly ever, so it is prepared each time. `_extra` is looked for although no record served has one.
    const whole = setBack ? database.prepare(upsertSql(resource, significant, { setBack })) : usual;
    const known = countKnown(ids, window);
    const distinct = new Set(ids).size;
    duplicates.guard(seen);
    const last = numbers.last();
    // Before the rows: their versions then have higher numbers than they, and who has read a row has its version before it.
    numbers.setLast(last + ids.length);
    const first = BigInt(last + 1);
    const written =
      distinct === ids.length ? whole.run(at, at, first, json).changes : upsertTwice(rows, at, first, setBack);
    if (written === 0) numbers.setLast(last);
    releaseBytes(json);
    const inserted = distinct - known;
    return {
      inserted,
      updated: written - inserted,
      unchanged: ids.length - written,
      duplicateIds: duplicates.refused(),
    };
  };
}
