/** Copies rows into a table of PostgreSQL by COPY. SQLite makes the lines, except for rows that must be written cell by cell. */
import type { Database as Mirror } from 'better-sqlite3';
import { instantMicroseconds, wholeSeconds } from '../../model/time.ts';
import type { Cell, Row } from '../../store/reading-types.ts';
import { quoteName } from '../../store/schema.ts';
import { readingPace } from '../reading-pace.ts';
import { lineSql, type PublishedColumn, type PublishedTable, columnList } from './layout.ts';
import { type Database, isRefusedValue } from './database.ts';

/** How to write a row cell by cell: `careful`, each cell in its column; `bare`, only the key, with everything else in `_raw`. */
type Care = 'careful' | 'bare';

interface CopyReader {
  /** Returns the next lines after the place, and the place of the last one; undefined at the end. */
  readonly next: (
    after: bigint,
  ) => { readonly bytes: Uint8Array; readonly rows: number; readonly last: bigint } | undefined;
  /** Returns the same rows, each as a line of its own. */
  readonly single: (after: bigint, last: bigint, care: Care) => readonly string[];
}

/** Reads the rows whose number is in `(from, to]`, in the order of the column, as lines of COPY. */
export function copyReader(
  mirror: Mirror,
  table: PublishedTable,
  { order, from, to }: { readonly order: string; readonly from: bigint; readonly to: bigint },
): CopyReader {
  const at = quoteName(order);
  const number = quoteName(table.number);
  const isByNumber = order === table.number;
  // The unary plus keeps SQLite from using the index on the number, which would need a sort for each batch.
  const within = isByNumber ? `${at} <= @to` : `+${number} > @from AND +${number} <= @to`;
  const names = table.columns.map(({ name }) => quoteName(name)).join(', ');
  const rowsOf = <T>(what: string, rest: string) =>
    mirror
      .prepare<[object], T>(`${what} FROM ${quoteName(table.name)} WHERE ${at} > @after AND ${within} ${rest}`)
      .raw(true)
      .safeIntegers(true);
  const batch = rowsOf<[bigint, bigint, Buffer | null, bigint]>(
    `SELECT count(*), count(line), CAST(group_concat(line, '') AS BLOB), max(at) FROM (SELECT ${lineSql(table)} AS line, ${at} AS at`,
    `ORDER BY ${at} LIMIT @rows)`,
  );
  const cells = rowsOf<Row>(`SELECT ${names}`, `AND ${at} <= @last ORDER BY ${at}`);
  const odd = rowsOf<Row>(`SELECT ${names}`, `AND ${at} <= @last AND (${lineSql(table)}) IS NULL`);
  const pace = readingPace();
  const bounds = (after: bigint) => (isByNumber ? { to, after: after < from ? from : after } : { from, to, after });
  return {
    next: (after) => {
      const found = batch.get({ ...bounds(after), rows: pace.rows() });
      const [rows, plain, text, last] = found ?? [0n, 0n, null, 0n];
      if (rows === 0n) return undefined;
      const others = rows === plain ? [] : odd.all({ ...bounds(after), last });
      const lines = others.map((row) => lineOf(table, row, 'careful'));
      const bytes = Buffer.concat([text ?? Buffer.alloc(0), Buffer.from(lines.join(''))]);
      pace.add(Number(rows), bytes.length);
      return { bytes, rows: Number(rows), last };
    },
    single: (after, last, care) => cells.all({ ...bounds(after), last }).map((row) => lineOf(table, row, care)),
  };
}

function lineOf({ columns, key, number }: PublishedTable, row: Row, care: Care): string {
  const raw: Record<string, string> = {};
  const fields = columns.flatMap((column, index) => {
    const cell = textOf(row[index]);
    const isKey = key.includes(column.name) || column.name === number;
    if (care !== 'bare' || isKey) return fieldsOf(column, cell, raw);
    if (cell !== null) raw[column.name] = cell;
    return column.kind === 'json' ? [null, null] : [null];
  });
  const names = Object.keys(raw);
  return `${[...fields, names.length === 0 ? null : JSON.stringify(raw)].map(fieldText).join('\t')}\n`;
}

/** Writes a cell so that nothing is lost. Only a damaged file has bytes, which become text. */
function textOf(cell: Cell | undefined): string | null {
  if (cell === null || cell === undefined) return null;
  if (cell instanceof Uint8Array) return Buffer.from(cell).toString('utf8');
  if (typeof cell === 'number' && !Number.isFinite(cell)) return cell < 0 ? '-9e999' : '9e999';
  return String(cell);
}

function fieldsOf(
  { name, kind }: PublishedColumn,
  cell: string | null,
  raw: Record<string, string>,
): (string | null)[] {
  if (cell === null) return kind === 'json' ? [null, null] : [null];
  switch (kind) {
    case 'bigint':
      return [cell];
    case 'numeric':
      if (Number.isFinite(Number(cell))) return [cell];
      raw[name] = cell;
      return [null];
    case 'timestamptz': {
      if (!Number.isNaN(wholeSeconds(cell)) && cell >= '1000') return [cell];
      raw[name] = cell;
      return [instantOf(cell)];
    }
    case 'text':
      return [withoutNul(name, cell, raw)];
    case 'json':
      return [withoutNul(name, cell, raw), isStorable(cell) ? cell : null];
  }
}

/** Replaces NUL, which PostgreSQL's text cannot hold, by its symbol. */
function withoutNul(name: string, cell: string, raw: Record<string, string>): string {
  if (!cell.includes('\0')) return cell;
  raw[name] = cell;
  return cell.replaceAll('\0', '\u2400');
}

/** Returns the same instant in a form that PostgreSQL reads; null if the text is no time. */
function instantOf(text: string): string | null {
  const micros = instantMicroseconds(text);
  if (micros === undefined) return null;
  const [ms, rest] = [micros / 1_000n, micros % 1_000n];
  // Division rounds towards zero, so a time before 1970 has a negative rest.
  const [floorMs, floorRest] = rest < 0n ? [ms - 1n, rest + 1_000n] : [ms, rest];
  return `${new Date(Number(floorMs)).toISOString().slice(0, -1)}${String(floorRest).padStart(3, '0')}Z`;
}

/** Whether jsonb can hold the text: valid JSON without NUL, halves of surrogate pairs, and numbers too large for numeric. */
function isStorable(text: string): boolean {
  const withoutPairs = text.replace(/\\ud[89ab][\da-f]{2}\\ud[c-f][\da-f]{2}/gi, '');
  if (/\\u(?:0000|d[89a-f])|\d[eE][+-]?\d{4}|\0/i.test(withoutPairs)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };

function fieldText(field: string | null): string {
  if (field === null) return '\\N';
  return field.replace(/[\\\t\n\r]/g, (character) => escapes[character] ?? character).toWellFormed();
}

export interface CopyTarget {
  readonly database: Database;
  readonly table: PublishedTable;
  /** The name of the table to fill, quoted. */
  readonly name: string;
  readonly signal: AbortSignal;
  /** Called with the number of rows just written. */
  readonly onRows: (rows: number) => void;
}

/** The smallest integer of SQLite, before every row. */
export const lowestPlace = -(2n ** 63n);

/**
 * Copies rows after the place, in the open transaction. Returns the place of the last one; undefined if there are no more rows.
 * @param atLeast stops after the batch that reaches this number of rows
 */
export async function copyRows(
  target: CopyTarget,
  reader: CopyReader,
  after = lowestPlace,
  atLeast = Infinity,
): Promise<bigint | undefined> {
  try {
    return await target.database.savepoint(() => copyLines(target, reader, after, atLeast));
  } catch (error) {
    if (!isRefusedValue(error)) throw error;
    return copyCarefully(target, reader, after, atLeast);
  }
}

const copySql = ({ table, name }: CopyTarget) => `COPY ${name} (${columnList(table)}) FROM STDIN`;

async function copyLines(
  target: CopyTarget,
  reader: CopyReader,
  after: bigint,
  atLeast: number,
): Promise<bigint | undefined> {
  let rows = 0;
  let at: bigint | undefined = after;
  await target.database.copyIn(copySql(target), async (write) => {
    while (rows < atLeast) {
      target.signal.throwIfAborted();
      const lines = reader.next(at ?? after);
      at = lines?.last;
      if (lines === undefined || at === undefined) break;
      await write(lines.bytes);
      rows += lines.rows;
    }
  });
  target.onRows(rows);
  return at;
}

/** Copies rows of which PostgreSQL refuses some: batch by batch; a refused batch row by row; a refused row with its cells in `_raw`. */
async function copyCarefully(
  target: CopyTarget,
  reader: CopyReader,
  after: bigint,
  atLeast: number,
): Promise<bigint | undefined> {
  const { database, signal, onRows } = target;
  const put = (text: Uint8Array) => database.savepoint(() => database.copyIn(copySql(target), (write) => write(text)));
  const fits = async (text: Uint8Array) => {
    try {
      await put(text);
      return true;
    } catch (error) {
      if (!isRefusedValue(error)) throw error;
      return false;
    }
  };
  let at = after;
  for (let rows = 0; rows < atLeast;) {
    signal.throwIfAborted();
    const lines = reader.next(at);
    if (lines === undefined) return undefined;
    if (!(await fits(lines.bytes))) {
      const bare = reader.single(at, lines.last, 'bare');
      for (const [index, line] of reader.single(at, lines.last, 'careful').entries()) {
        if (!(await fits(Buffer.from(line)))) await put(Buffer.from(bare[index] ?? ''));
      }
    }
    onRows(lines.rows);
    rows += lines.rows;
    at = lines.last;
  }
  return at;
}
