/**
 * A whole table as lines of CSV out of SQLite, which makes them quicker than we make them of cells. A line that fails a check is made
 * again from its cells, so the bytes are the same.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import type { Relation, Row } from '../store/reading-types.ts';
import type { Snapshot } from '../store/reading.ts';
import { quoteName } from '../store/schema.ts';
import { csvLines, type CsvStyle } from './csv.ts';
import { readingPace } from './reading-pace.ts';

const lineTypes = ['INTEGER', 'REAL', 'TEXT'];

/** Whether SQLite can make the lines of the table. It must be STRICT, so that each column holds only its declared type. */
export function hasLines({ isStrict, rangeColumn, columns }: Relation): boolean {
  return isStrict && rangeColumn !== null && columns.every(({ type }) => lineTypes.includes(type.toUpperCase()));
}

/** The number if SQLite writes it exactly as this program does, else the mark: SQLite writes only 15 digits of a floating-point number. */
export function realSql(value: string, mark: string): string {
  return (
    `CASE WHEN ${value} = CAST(${value} AS INTEGER) AND abs(${value}) < 1e15 THEN CAST(${value} AS INTEGER) ` +
    `WHEN abs(${value}) > 1e10 OR round(${value} * 1e4) / 1e4 <> ${value} THEN ${mark} ELSE ${value} END`
  );
}

/** More rows at a time were not quicker, and left more garbage. */
const mostRows = 250;
/** If more than this share of a batch had to be read by cells, the columns are judged again. */
const mostOdd = 1 / 16;

/** Yields every row of the table, in order, as lines. */
export function* csvTableLines(
  snapshot: Snapshot,
  relation: Relation,
  names: readonly string[],
  style: CsvStyle,
): Generator<{ readonly lines: Uint8Array; readonly rows: number }> {
  const types = new Map(relation.columns.map(({ name, type }) => [name, type.toUpperCase()]));
  const cells = snapshot.selectRanges(relation, names);
  const linesOf = csvLines(style);
  /** Columns whose texts were seen to need quotes: for these SQLite looks for what must stand in quotes. */
  const quoted = new Set<string>();
  const prepare = () => {
    const starts = names.map((name): Start =>
      types.get(name) !== 'TEXT' ? number : quoted.has(name) ? quotable : text,
    );
    const line = concatSql([
      ...names.flatMap((name, at) => cellSql(name, types.get(name), starts, at)),
      `char(${end})`,
    ]);
    const made = snapshot.selectRanges(relation, names, [`CAST(group_concat(${line}, '') AS BLOB)`, 'count(*)']);
    return { starts, linesIn: made.rowsIn };
  };
  let { starts, linesIn } = prepare();
  const pace = readingPace(mostRows);
  for (const range of snapshot.ranges(relation, pace.rows)) {
    const [[bytes, count] = []] = linesIn(range);
    if (!(bytes instanceof Buffer)) continue;
    const rows = Number(count);
    // Text that is not UTF-8 is written with the signs that stand for damaged characters.
    const odd = isUtf8(bytes) ? finishLines(bytes, rows, starts, style) : undefined;
    const all = odd === undefined || odd.length > rows * mostOdd ? cells.rowsIn(range) : undefined;
    const lineOf = (row: number) => Buffer.from(linesOf(all?.slice(row, row + 1) ?? cells.rowIn(range, row)));
    const lines = odd === undefined ? Buffer.from(linesOf(all ?? [])) : withLines(bytes, odd, lineOf);
    pace.add(rows, lines.length);
    yield { lines, rows };
    if (all === undefined) continue;
    const before = quoted.size;
    for (const name of needQuotes(names, all)) quoted.add(name);
    if (quoted.size > before) ({ starts, linesIn } = prepare());
  }
}

/** Returns the columns in which many texts must stand in quotes. */
function needQuotes(names: readonly string[], rows: readonly Row[]): string[] {
  return names.filter((_, at) => {
    const isOdd = (row: Row) => typeof row[at] === 'string' && /[",;\t\n\r]/.test(row[at]);
    return rows.filter(isOdd).length > rows.length * mostOdd;
  });
}

/**
 * In SQL, cells are separated by bytes that say of which kind the next one is. If a text contains one of these, there are too many of
 * them in the batch.
 */
const [end, text, number, quotable] = [0, 1, 2, 3] as const;
type Start = typeof text | typeof number | typeof quotable;

/** Makes its line odd: no cell may begin with it. */
const mark = `';'`;

/** Returns the separator and the cell. Null is nothing; the writer by cells tells empty text from it. */
function cellSql(name: string, type: string | undefined, starts: readonly Start[], at: number): string[] {
  const cell = quoteName(name);
  const separator = at === 0 ? [] : [`char(${starts[at] ?? text})`];
  if (type === 'INTEGER') return [...separator, cell];
  if (type === 'REAL') return [...separator, realSql(cell, mark)];
  if (starts[at] === text) return [...separator, `CASE ${cell} WHEN '' THEN ${mark} ELSE ${cell} END`];
  const splits = [`'"'`, `','`, `';'`, 'char(9)', 'char(10)', 'char(13)'];
  return [
    ...separator,
    `CASE WHEN ${splits.map((each) => `instr(${cell}, ${each})`).join(' OR ')} THEN '"' || replace(${cell}, '"', '""') || '"' ` +
      `WHEN ${cell} = '' THEN '""' ELSE ${cell} END`,
  ];
}

/** Concatenates the values, null as nothing. In steps of 50, because an SQL function takes at most 127 arguments. */
function concatSql(values: readonly string[]): string {
  const pieces: string[] = [];
  for (let at = 0; at < values.length; at += 50) pieces.push(`concat(${values.slice(at, at + 50).join(', ')})`);
  return pieces.join(' || ');
}

interface OddLine {
  /** The number of the row in its batch. */
  readonly row: number;
  readonly from: number;
  readonly to: number;
}

function withLines(bytes: Buffer, odd: readonly OddLine[], lineOf: (row: number) => Buffer): Buffer {
  if (odd.length === 0) return bytes;
  const pieces: Buffer[] = [];
  let at = 0;
  for (const { row, from, to } of odd) {
    pieces.push(bytes.subarray(at, from), lineOf(row));
    at = to;
  }
  return Buffer.concat([...pieces, bytes.subarray(at)]);
}

const byteOf = (character: string): number => character.charCodeAt(0);
const [newline, quote, comma, space, minus] = ['\n', '"', ',', ' ', '-'].map(byteOf);

function bytesThat(holds: (byte: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (holds(byte) ? 1 : 0));
}

/** Bytes that mean something in a line: the separators of cells, and what makes quotes or a guard necessary. */
const isSpecial = bytesThat((byte) => byte <= quotable || '",;\t\n\r'.includes(String.fromCharCode(byte)));

/** Bytes with which no formula begins, or that follow the cell. Letters of other alphabets only take the slower way. */
const isHarmless = bytesThat(
  (byte) =>
    byte <= quotable ||
    /[\w(<[{]/.test(String.fromCharCode(byte)) ||
    (byte >= 0xc3 && byte <= 0xd7) ||
    (byte >= 0xe4 && byte <= 0xec),
);

/** Whether the cell at the place begins like no formula. */
function beginsHarmlessly(bytes: Buffer, at: number, start: number): boolean {
  if (start === number) return true;
  const byte = bytes[at] ?? end;
  if (start === text || byte !== quote) return isHarmless[byte] === 1;
  const next = bytes[at + 1] ?? end;
  return next > quotable && (isHarmless[next] === 1 || next === quote);
}

/** Whether no formula begins at the place within quotes, after a character at which some spreadsheets split. */
function goesOnHarmlessly(bytes: Buffer, from: number): boolean {
  let at = from;
  while (bytes[at] === space) at += 1;
  const byte = bytes[at] ?? end;
  return byte === quote ? (bytes[at + 1] ?? end) <= quotable : isHarmless[byte] === 1;
}

/** Ends the cells and lines properly. Returns the lines that must be made of cells; undefined if they cannot be told apart. */
function finishLines(
  bytes: Buffer,
  rows: number,
  starts: readonly Start[],
  { guard, delimiter }: CsvStyle,
): OddLine[] | undefined {
  const odd: OddLine[] = [];
  const delimiterByte = byteOf(delimiter);
  const [first = text] = starts;
  // If only `;` splits, a line that begins with a negative number is one cell that begins with a sign.
  const beginsOddly = (at: number) =>
    guard && (first === number ? bytes[at] === minus : !beginsHarmlessly(bytes, at, first));
  let row = 0;
  let from = 0;
  let cells = 0;
  let start: number = first;
  let isOdd = beginsOddly(0);
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? end;
    if (isSpecial[byte] === 0) continue;
    if (byte > quotable) {
      const isQuotable = start === quotable;
      if (!isQuotable || (guard && byte !== quote && byte !== comma && !goesOnHarmlessly(bytes, at + 1))) isOdd = true;
      continue;
    }
    cells += 1;
    if (byte !== end) {
      bytes[at] = delimiterByte;
      start = byte;
      if (guard && !beginsHarmlessly(bytes, at + 1, byte)) isOdd = true;
      continue;
    }
    bytes[at] = newline ?? 0;
    if (isOdd) odd.push({ row, from, to: at + 1 });
    row += 1;
    from = at + 1;
    start = first;
    isOdd = beginsOddly(from);
  }
  return row === rows && cells === rows * starts.length ? odd : undefined;
}
