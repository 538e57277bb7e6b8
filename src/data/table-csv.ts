/**
 * A whole table as lines of CSV out of SQLite, which makes them quicker than we make them of cells. A line that fails a check is made
 * again from its cells, so the bytes are the same.
 */
import { guardedText } from '../model/spreadsheet.ts';
import type { Cell, IdRange, Relation, Row } from './reading-types.ts';
import type { Snapshot } from './reading.ts';
import { quoteName } from '../store/schema.ts';
import { csvLines, type CsvStyle, plainText } from './csv.ts';
import { readingPace } from './reading-pace.ts';

/** More were not quicker, and left 30 MB more of garbage. */
const mostRows = 250;
/** If more than this share of a batch had to be read by cells, the columns are judged again. */
const mostOdd = 1 / 16;

/** Text that needs no quotes and no guard. Other alphabets may need none either; they only take the slower way. */
const bareText = String.raw`[\w(<[{\u00C0-\u05FF\u3041-\uD7FF][^",;\t\n\r]*`;
const bare = new RegExp(`^${bareText}$`);

interface Column {
  readonly name: string;
  readonly type: string;
}

/** Several columns joined in one value, with the pattern of a line that needs no quotes; or a single column. */
type Part = { readonly sql: string; readonly isWhole: RegExp } | { readonly sql: string; readonly isWhole: undefined };

const lineTypes = ['INTEGER', 'REAL', 'TEXT'];

/** Whether SQLite can make the lines of the table. It must be STRICT, so that each column holds only its declared type. */
export function hasLines({ isStrict, rangeColumn, columns }: Relation): boolean {
  return isStrict && rangeColumn !== null && columns.every(({ type }) => lineTypes.includes(type.toUpperCase()));
}

/** Yields every row of the table, in order, as lines. */
export function* csvTableLines(
  snapshot: Snapshot,
  relation: Relation,
  names: readonly string[],
  style: CsvStyle,
): Generator<{ readonly lines: string; readonly rows: number }> {
  const columns = names.map((name) => ({
    name,
    type: relation.columns.find((column) => column.name === name)?.type.toUpperCase() ?? '',
  }));
  const cellsIn = snapshot.selectRanges(relation, names).rowsIn;
  const linesOf = csvLines(style);
  const cellOf = cellText(style);
  /** Columns that were seen to need quotes or a guard. */
  const separate = new Set<Column>();
  let parts: readonly Part[] | undefined;
  let partsIn: (range: IdRange) => Row[] = cellsIn;
  const learn = (rows: readonly Row[]): void => {
    for (const [index, column] of columns.entries()) {
      const isOdd = (row: Row) => typeof row[index] === 'string' && !bare.test(row[index]);
      if (rows.filter(isOdd).length > rows.length * mostOdd) separate.add(column);
    }
    parts = partsOf(columns, separate, style);
    partsIn = snapshot.selectRanges(
      relation,
      names,
      parts.map(({ sql }) => sql),
    ).rowsIn;
  };

  const pace = readingPace(mostRows);
  for (const range of snapshot.ranges(relation, pace.rows)) {
    if (parts === undefined || parts.length > columns.length / 2) {
      const rows = cellsIn(range);
      if (rows.length === 0) continue;
      pace.addRows(rows);
      if (parts === undefined) learn(rows);
      yield { lines: linesOf(rows), rows: rows.length };
      continue;
    }
    const rows = partsIn(range);
    if (rows.length === 0) continue;
    let text = '';
    let cells: Row[] | undefined;
    let odd = 0;
    for (const [at, row] of rows.entries()) {
      const line = lineOf(row, parts, style.delimiter, cellOf);
      if (line !== undefined) {
        text += line;
        continue;
      }
      odd += 1;
      cells ??= cellsIn(range);
      text += linesOf(cells.slice(at, at + 1));
    }
    pace.add(rows.length, text.length);
    yield { lines: text, rows: rows.length };
    if (cells !== undefined && odd > rows.length * mostOdd) learn(cells);
  }
}

/** Returns the line with its line break; undefined if a part of it does not match its pattern. */
function lineOf(
  row: Row,
  parts: readonly Part[],
  delimiter: string,
  cellOf: (cell: Cell) => string,
): string | undefined {
  let line = '';
  let between = '';
  for (let index = 0; index < parts.length; index += 1) {
    const value = row[index] ?? null;
    const isWhole = parts[index]?.isWhole;
    if (isWhole === undefined) line += between + cellOf(value);
    else {
      if (typeof value !== 'string' || !isWhole.test(value)) return undefined;
      line += between + value;
    }
    between = delimiter;
  }
  return `${line}\n`;
}

/** Text with one of these is quoted, as by the writer by cells. */
const quoted = /[",;\t\n\r]/;

/** Returns a function that writes one cell of a row that does not begin with a negative number. */
function cellText({ guard }: CsvStyle): (cell: Cell) => string {
  return (cell) => {
    if (cell === null) return '';
    if (cell === '') return '""';
    if (typeof cell !== 'string') return plainText(cell);
    const text = guard ? guardedText(cell) : cell;
    return quoted.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
}

/** Joins neighbouring columns, except for those that need quotes or a guard. */
function partsOf(columns: readonly Column[], separate: ReadonlySet<Column>, { delimiter, guard }: CsvStyle): Part[] {
  const runs: Column[][] = [];
  for (const [index, column] of columns.entries()) {
    const before = columns[index - 1];
    const joins = before !== undefined && !separate.has(before) && !separate.has(column);
    const run = joins ? runs.at(-1) : undefined;
    if (run === undefined) runs.push([column]);
    else run.push(column);
  }
  const delimiterSql = delimiter === ',' ? "','" : 'char(9)';
  return runs.map((run, place) => {
    const [first] = run;
    if (first !== undefined && separate.has(first)) return { sql: quoteName(first.name), isWhole: undefined };
    // No cell of the pattern can contain a delimiter, so a line that matches has exactly these cells.
    const cells = run.map(({ type }, index) => {
      if (type === 'TEXT') return `(?:${bareText})?`;
      // If a row begins with a negative number, its text stands in quotes: that is left to the writer by cells.
      return place === 0 && index === 0 && guard ? String.raw`[\d.]*` : String.raw`-?[\d.]*`;
    });
    return { sql: joined(run.map(lineSql), delimiterSql), isWhole: new RegExp(`^${cells.join(delimiter)}$`) };
  });
}

/** Concatenates the values, null as nothing. In steps of 50, because an SQL function takes at most 127 arguments. */
function joined(values: readonly string[], delimiterSql: string): string {
  const pieces: string[] = [];
  for (let at = 0; at < values.length; at += 50) {
    const end = at + 50 < values.length ? `, ${delimiterSql}` : '';
    pieces.push(`concat(${values.slice(at, at + 50).join(`, ${delimiterSql}, `)}${end})`);
  }
  return pieces.join(' || ');
}

/** Makes the line fail its pattern, which allows no quote. */
const odd = `'"'`;

/** The number if SQLite writes it exactly as this program does, else the mark: SQLite writes only 15 digits of a floating-point number. */
export function realSql(value: string, mark: string): string {
  return (
    `CASE WHEN ${value} = CAST(${value} AS INTEGER) AND abs(${value}) < 1e15 THEN CAST(${value} AS INTEGER) ` +
    `WHEN abs(${value}) > 1e10 OR round(${value} * 1e4) / 1e4 <> ${value} THEN ${mark} ELSE ${value} END`
  );
}

function lineSql({ name, type }: Column): string {
  const value = quoteName(name);
  if (type === 'INTEGER') return value;
  // The writer by cells tells empty text from null.
  return type === 'REAL' ? realSql(value, odd) : `CASE ${value} WHEN '' THEN ${odd} ELSE ${value} END`;
}
