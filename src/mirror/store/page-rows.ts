/**
 * Records of a page as rows in JSON: one statement takes them all in, where binding each cell from JavaScript costs more
 * than storing it. What the cells are is decided in cell.ts; here they are only written so that SQLite reads the same.
 */
import type { RecordRows, RowMaker, Surprise } from '../../model/page-rows.ts';
import { resourceNames, resourceOf, type FieldType, type Resource, type ResourceName } from '../../model/resources.ts';
import type { ServedRecord, RecordKey } from '../../model/records.ts';
import type { Cell } from '../../store/cell.ts';
import { type Report, rowReader } from '../../store/record-row.ts';

// Its bytes have memory of their own, not a piece of what many share: they can go to another thread without a copy.
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
    const surprises = new Map<string, Surprise>();
    const report = (surprise: Surprise): void => {
      const key = `${surprise.kind} ${surprise.subject}`;
      if (!surprises.has(key)) surprises.set(key, surprise);
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
    return { json: encoder.encode(json), ids, surprises: [...surprises.values()], unusable };
  };

  function reportReplaced(rows: readonly JsonCell[][], report: Report): void {
    for (const [at, name] of [...fields.map((field) => field.name), '_extra'].entries()) {
      if (!rows.some((cells) => typeof cells[at] === 'string' && cells[at].includes(replaced))) continue;
      report({ kind: 'unreadable_text', subject: name, detail: `bytes that are no UTF-8 are kept as ${replaced}` });
    }
  }
}

/** The rows of a page for this store. */
export function openRowMaker(): RowMaker {
  const makers = new Map<ResourceName, ReturnType<typeof rowMaker>>(
    resourceNames.map((name) => [name, rowMaker(resourceOf(name))]),
  );
  return (resource, records) => {
    const make = makers.get(resource);
    if (make === undefined) throw new Error(`no rows of ${resource}`);
    return make(records);
  };
}
