/** Copies rows into a table of PostgreSQL by COPY. SQLite makes the lines, except for rows that must be written cell by cell. */
import type { Database as Mirror } from 'better-sqlite3';
import { instantMicroseconds, wholeSeconds } from '../../model/time.ts';
import type { Cell, Row } from '../reading-types.ts';
import { quoteName } from '../../store/schema.ts';
import { readingPace } from '../reading-pace.ts';
import { lineSql, type PublishedColumn, type PublishedTable, columnList } from './layout.ts';
import { type Database, isRefusedValue } from './database.ts';

/** The smallest integer of SQLite, before every row. */
const lowestPlace = -(2n ** 63n);

/**
 * Yields the rows as lines of COPY.
 * @param after only those with a higher change number; undefined: every row
 * @param isCareful writes every row cell by cell
 */
function* linesOf(mirror: Mirror, table: PublishedTable, after: number | undefined, isCareful: boolean) {
  const order = quoteName(after === undefined ? table.order : table.number);
  const names = table.columns.map(({ name }) => quoteName(name)).join(', ');
  const rowsOf = <T>(what: string, rest: string) =>
    mirror
      .prepare<[object], T>(`${what} FROM ${quoteName(table.name)} WHERE ${order} > @after ${rest}`)
      .raw(true)
      .safeIntegers(true);
  const batch = rowsOf<[bigint, bigint, Buffer | null, bigint]>(
    `SELECT count(*), count(line), CAST(group_concat(line, '') AS BLOB), max(at) FROM (SELECT ${lineSql(table)} AS line, ${order} AS at`,
    `ORDER BY ${order} LIMIT @rows)`,
  );
  const cells = rowsOf<Row>(`SELECT ${names}`, `AND ${order} <= @last ORDER BY ${order}`);
  const odd = rowsOf<Row>(`SELECT ${names}`, `AND ${order} <= @last AND (${lineSql(table)}) IS NULL`);
  const pace = readingPace();
  for (let place = after === undefined ? lowestPlace : BigInt(after); ;) {
    const [rows, plain, text, last] = batch.get({ after: place, rows: pace.rows() }) ?? [0n, 0n, null, 0n];
    if (rows === 0n) return;
    const range = { after: place, last };
    const others = isCareful ? cells.all(range) : rows === plain ? [] : odd.all(range);
    const careful = Buffer.from(others.map((row) => lineOf(table, row)).join(''));
    const bytes = isCareful || text === null ? careful : Buffer.concat([text, careful]);
    pace.add(Number(rows), bytes.length);
    yield { bytes, rows: Number(rows) };
    place = last;
  }
}

function lineOf({ columns }: PublishedTable, row: Row): string {
  const raw: Record<string, string> = {};
  const fields = columns.flatMap((column, index) => fieldsOf(column, textOf(row[index]), raw));
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

interface CopyTarget {
  readonly database: Database;
  readonly table: PublishedTable;
  /** The name of the table to fill, quoted. */
  readonly name: string;
  readonly signal: AbortSignal;
  /** Called with the number of rows just written. */
  readonly onRows: (rows: number) => void;
}

/** Copies rows in the open transaction, and returns how many. @param after only those with a higher change number; undefined: every row */
export async function copyRows(target: CopyTarget, mirror: Mirror, after?: number): Promise<number> {
  const { database, table, name, signal, onRows } = target;
  const copy = (isCareful: boolean) =>
    database.savepoint(async () => {
      let rows = 0;
      await database.copyIn(`COPY ${name} (${columnList(table)}) FROM STDIN`, async (write) => {
        for (const lines of linesOf(mirror, table, after, isCareful)) {
          signal.throwIfAborted();
          onRows(lines.rows);
          await write(lines.bytes);
          rows += lines.rows;
        }
      });
      return rows;
    });
  try {
    return await copy(false);
  } catch (error) {
    // Only PostgreSQL knows a day that no month has.
    if (isRefusedValue(error)) return copy(true);
    throw error;
  }
}
