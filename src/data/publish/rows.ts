/** Rows into a table of PostgreSQL by COPY. SQLite makes the lines; cells that PostgreSQL holds in another way are written here. */
import type { Database as Mirror } from 'better-sqlite3';
import { instantMicroseconds, wholeSeconds } from '../../model/time.ts';
import type { Cell, Row } from '../../store/reading-types.ts';
import { quoteName } from '../../store/schema.ts';
import { readingPace } from '../reading-pace.ts';
import { lineSql, type PublishedColumn, type PublishedTable, columnList } from './layout.ts';
import { type Database, isRefusedValue } from './database.ts';

/** Of rows that are written cell by cell; of a bare one only what identifies it, with all else in `_raw`. */
type Care = 'careful' | 'bare';

type LineReader = ReturnType<typeof lineReader>;

/** Reads the table in the order of the column, rows whose number is in `(from, to]`. */
export function lineReader(
  mirror: Mirror,
  table: PublishedTable,
  { order, from, to }: { readonly order: string; readonly from: bigint; readonly to: bigint },
) {
  const at = quoteName(order);
  const number = quoteName(table.number);
  const isByNumber = order === table.number;
  // By the sign, SQLite does not try to find the rows by their numbers, and to sort them each time.
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
    /** The next lines behind the place, and where those after them begin; undefined at the end. */
    next: (after: bigint) => {
      const found = batch.get({ ...bounds(after), rows: pace.rows() });
      const [rows, plain, text, last] = found ?? [0n, 0n, null, 0n];
      if (rows === 0n) return undefined;
      const others = rows === plain ? [] : odd.all({ ...bounds(after), last });
      const lines = others.map((row) => lineOf(table, row, 'careful'));
      const bytes = Buffer.concat([text ?? Buffer.alloc(0), Buffer.from(lines.join(''))]);
      pace.add(Number(rows), bytes.length);
      return { bytes, rows: Number(rows), last };
    },
    single: (after: bigint, last: bigint, care: Care): readonly string[] =>
      cells.all({ ...bounds(after), last }).map((row) => lineOf(table, row, care)),
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

/** Numbers as they are read again without a loss; bytes that damage has left as text. */
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

/** PostgreSQL's text has no NUL; the sign for one stands in its place. */
function withoutNul(name: string, cell: string, raw: Record<string, string>): string {
  if (!cell.includes('\0')) return cell;
  raw[name] = cell;
  return cell.replaceAll('\0', '\u2400');
}

/** The same instant as PostgreSQL reads it; null where the text is none. */
function instantOf(text: string): string | null {
  const micros = instantMicroseconds(text);
  if (micros === undefined) return null;
  const [ms, rest] = [micros / 1_000n, micros % 1_000n];
  // Division rounds towards zero; a time before 1970 has a rest below it.
  const [floorMs, floorRest] = rest < 0n ? [ms - 1n, rest + 1_000n] : [ms, rest];
  return `${new Date(Number(floorMs)).toISOString().slice(0, -1)}${String(floorRest).padStart(3, '0')}Z`;
}

/** Whether jsonb can hold it: no NUL, no half of a surrogate pair, no number beyond what numeric holds. */
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
  return field.replace(/[\\\t\n\r]/g, (sign) => escapes[sign] ?? sign).toWellFormed();
}

/** What is copied where. */
export interface Copying {
  readonly database: Database;
  readonly table: PublishedTable;
  /** As it stands in a statement. */
  readonly name: string;
  readonly signal: AbortSignal;
  /** Called with rows that were written. */
  readonly wrote: (rows: number) => void;
}

/** Below every number that SQLite has. */
export const firstPlace = -(2n ** 63n);

/** Copies up to so many rows behind the place, in the transaction at hand; gives the place behind them, if any. */
export async function copyRows(
  copying: Copying,
  reader: LineReader,
  after = firstPlace,
  most = Number.POSITIVE_INFINITY,
): Promise<bigint | undefined> {
  try {
    return await copying.database.part(() => copyLines(copying, reader, after, most));
  } catch (error) {
    if (!isRefusedValue(error)) throw error;
    return copyCarefully(copying, reader, after, most);
  }
}

const copySql = ({ table, name }: Copying) => `COPY ${name} (${columnList(table)}) FROM STDIN`;

async function copyLines(
  copying: Copying,
  reader: LineReader,
  after: bigint,
  most: number,
): Promise<bigint | undefined> {
  let rows = 0;
  let at: bigint | undefined = after;
  await copying.database.copyIn(copySql(copying), async (write) => {
    while (rows < most) {
      copying.signal.throwIfAborted();
      const lines = reader.next(at ?? after);
      at = lines?.last;
      if (lines === undefined || at === undefined) break;
      await write(lines.bytes);
      rows += lines.rows;
    }
  });
  copying.wrote(rows);
  return at;
}

/** Where PostgreSQL refused a row: some hundreds at a time, those among them one by one, and the row itself as text. */
async function copyCarefully(
  copying: Copying,
  reader: LineReader,
  after: bigint,
  most: number,
): Promise<bigint | undefined> {
  const { database, signal, wrote } = copying;
  const put = (text: Uint8Array) => database.part(() => database.copyIn(copySql(copying), (write) => write(text)));
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
  for (let rows = 0; rows < most;) {
    signal.throwIfAborted();
    const lines = reader.next(at);
    if (lines === undefined) return undefined;
    if (!(await fits(lines.bytes))) {
      const bare = reader.single(at, lines.last, 'bare');
      for (const [index, line] of reader.single(at, lines.last, 'careful').entries()) {
        if (!(await fits(Buffer.from(line)))) await put(Buffer.from(bare[index] ?? ''));
      }
    }
    wrote(lines.rows);
    rows += lines.rows;
    at = lines.last;
  }
  return at;
}
