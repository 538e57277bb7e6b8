/** Copies rows into a table of PostgreSQL by COPY. SQLite makes the lines, except for rows that must be written cell by cell. */
import type { Database as Mirror } from 'better-sqlite3';
import { instantMicroseconds, wholeSeconds } from '../../model/time.ts';
import type { Cell, Row } from '../reading-types.ts';
import { quoteName } from '../../store/schema.ts';
import { readingPace } from '../reading-pace.ts';
import { lineSql, type PublishedColumn, type PublishedTable, columnList } from './layout.ts';
import { type Database, isRefusedValue } from './database.ts';

/** How to write a row cell by cell: `careful`, each cell in its column; `bare`, only the key, with everything else in `_raw`. */
type Care = 'careful' | 'bare';

interface Lines {
  readonly bytes: Uint8Array;
  readonly rows: number;
  /** The same rows, each as a line of its own. */
  readonly single: (care: Care) => readonly string[];
}

/** The smallest integer of SQLite, before every row. */
const lowestPlace = -(2n ** 63n);

/** Yields the rows as lines of COPY. @param after only those with a higher change number; undefined: every row */
function* linesOf(mirror: Mirror, table: PublishedTable, after: number | undefined): Generator<Lines> {
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
    const others = rows === plain ? [] : odd.all(range).map((row) => lineOf(table, row, 'careful'));
    const bytes = Buffer.concat([text ?? Buffer.alloc(0), Buffer.from(others.join(''))]);
    pace.add(Number(rows), bytes.length);
    const single = (care: Care) => cells.all(range).map((row) => lineOf(table, row, care));
    yield { bytes, rows: Number(rows), single };
    place = last;
  }
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
  const copyIn = (fill: Parameters<Database['copyIn']>[1]) =>
    database.savepoint(() => database.copyIn(`COPY ${name} (${columnList(table)}) FROM STDIN`, fill));
  /** Returns false if PostgreSQL refuses a value. */
  const fits = async (fill: Parameters<Database['copyIn']>[1]): Promise<boolean> => {
    try {
      await copyIn(fill);
      return true;
    } catch (error) {
      if (!isRefusedValue(error)) throw error;
      return false;
    }
  };
  const batches = function* () {
    for (const lines of linesOf(mirror, table, after)) {
      signal.throwIfAborted();
      onRows(lines.rows);
      yield lines;
    }
  };
  let rows = 0;
  const areAllIn = await fits(async (write) => {
    for (const lines of batches()) {
      await write(lines.bytes);
      rows += lines.rows;
    }
  });
  if (areAllIn) return rows;
  rows = 0;
  // Batch by batch; a refused batch row by row; a refused row with its cells in `_raw`.
  for (const lines of batches()) {
    rows += lines.rows;
    if (await fits((write) => write(lines.bytes))) continue;
    const bare = lines.single('bare');
    for (const [index, line] of lines.single('careful').entries()) {
      if (await fits((write) => write(Buffer.from(line)))) continue;
      await copyIn((write) => write(Buffer.from(bare[index] ?? '')));
    }
  }
  return rows;
}
