/** Lines of CSV made by SQLite, quicker than by cells; each is looked at, and the row of an odd one read again. */
import type { CsvStyle } from '../store/files/csv.ts';
import { csvCell, tableLines } from '../store/files/csv.ts';
import type { IdRange, Relation, Row } from '../store/reading-types.ts';
import type { Snapshot } from '../store/reading.ts';
import { quoteName } from '../store/schema.ts';
import { readingPace } from './reading-pace.ts';

export interface LineBatch {
  readonly text: string;
  readonly rows: number;
}

/** More were not quicker, and held 30 MB more of garbage. */
const mostRows = 250;
/** A batch with more rows than this share of it that had to be read by cells shows what the columns hold by now. */
const mostSpoilt = 1 / 16;

/** Text that stands in a line as it is: it begins no formula, and splits or ends no cell. Other letters only take longer. */
const bareText = String.raw`[\w'(<[{\u00C0-\u05FF\u3041-\uD7FF][^",;\t\n\r]*`;
const bare = new RegExp(`^${bareText}$`);

interface Column {
  readonly name: string;
  readonly type: string;
}

/** Columns that stand side by side in one value, or a column of its own. */
type Part = { readonly sql: string; readonly isWhole: RegExp } | { readonly sql: string; readonly isWhole: undefined };

const lineTypes = ['INTEGER', 'REAL', 'TEXT'];

/** Whether SQLite can make lines of the table: what a column of a STRICT table is declared to hold is all that it holds. */
export function hasLines({ isStrict, rangeColumn, columns }: Relation): boolean {
  return isStrict && rangeColumn !== null && columns.every(({ type }) => lineTypes.includes(type.toUpperCase()));
}

/** Every row of the table, in order, as lines. */
export function* csvTableLines(
  snapshot: Snapshot,
  relation: Relation,
  names: readonly string[],
  style: CsvStyle,
): Generator<LineBatch> {
  const columns = names.map((name) => ({
    name,
    type: relation.columns.find((column) => column.name === name)?.type.toUpperCase() ?? '',
  }));
  const cellsIn = snapshot.selectRanges(relation, names).rowsIn;
  const linesOf = tableLines(style);
  const cellOf = csvCell(style);
  /** Columns whose values have been seen to need more than to be put there. */
  const apart = new Set<Column>();
  let parts: readonly Part[] | undefined;
  let partsIn: (range: IdRange) => Row[] = cellsIn;
  const learn = (rows: readonly Row[]): void => {
    for (const [index, column] of columns.entries()) {
      const isApart = (row: Row) => typeof row[index] === 'string' && !bare.test(row[index]);
      if (!apart.has(column) && rows.filter(isApart).length > rows.length * mostSpoilt) apart.add(column);
    }
    parts = partsOf(columns, apart, style);
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
      yield { text: linesOf(rows), rows: rows.length };
      continue;
    }
    const rows = partsIn(range);
    if (rows.length === 0) continue;
    let text = '';
    let cells: Row[] | undefined;
    let spoilt = 0;
    for (const [at, row] of rows.entries()) {
      const line = lineOf(row, parts, style.delimiter, cellOf);
      if (line !== undefined) {
        text += line;
        continue;
      }
      spoilt += 1;
      cells ??= cellsIn(range);
      text += linesOf(cells.slice(at, at + 1));
    }
    pace.add(rows.length, text.length);
    yield { text, rows: rows.length };
    if (cells !== undefined && spoilt > rows.length * mostSpoilt) learn(cells);
  }
}

/** The line with its end; undefined where a part of it is not what it has to be. */
function lineOf(
  row: Row,
  parts: readonly Part[],
  delimiter: string,
  cellOf: ReturnType<typeof csvCell>,
): string | undefined {
  let line = '';
  let between = '';
  for (let index = 0; index < parts.length; index += 1) {
    const value = row[index] ?? null;
    const isWhole = parts[index]?.isWhole;
    if (isWhole === undefined) line += between + cellOf(value, false);
    else {
      if (typeof value !== 'string' || !isWhole.test(value)) return undefined;
      line += between + value;
    }
    between = delimiter;
  }
  return `${line}\n`;
}

function partsOf(columns: readonly Column[], apart: ReadonlySet<Column>, { delimiter, guard }: CsvStyle): Part[] {
  const runs: Column[][] = [];
  for (const [index, column] of columns.entries()) {
    const before = columns[index - 1];
    const joins = before !== undefined && !apart.has(before) && !apart.has(column);
    const run = joins ? runs.at(-1) : undefined;
    if (run === undefined) runs.push([column]);
    else run.push(column);
  }
  const sign = delimiter === ',' ? "','" : 'char(9)';
  return runs.map((run, place) => {
    const [first] = run;
    if (first !== undefined && apart.has(first)) return { sql: quoteName(first.name), isWhole: undefined };
    // With as many splits as there are columns but one, every cell between two is a column: none holds one itself.
    const cells = run.map(({ type }, index) => {
      if (type === 'TEXT') return `(?:${bareText})?`;
      // Text behind a negative number at the beginning stands in quotes.
      return place === 0 && index === 0 && guard ? String.raw`[\d.]*` : String.raw`-?[\d.]*`;
    });
    return { sql: joined(run.map(lineSql), sign), isWhole: new RegExp(`^${cells.join(delimiter)}$`) };
  });
}

/** The texts one behind the other, null as nothing; by hundreds, since a function takes 127 values. */
function joined(texts: readonly string[], sign: string): string {
  const pieces: string[] = [];
  for (let at = 0; at < texts.length; at += 50) {
    const end = at + 50 < texts.length ? `, ${sign}` : '';
    pieces.push(`concat(${texts.slice(at, at + 50).join(`, ${sign}, `)}${end})`);
  }
  return pieces.join(' || ');
}

/** A quote that stands alone is in no line that is whole. */
const mark = `'"'`;

/** As SQLite writes it, where this program does so too: a floating-point number may take more than 15 digits. */
function lineSql({ name, type }: Column): string {
  const value = quoteName(name);
  switch (type) {
    case 'INTEGER':
      return value;
    case 'REAL':
      return (
        `CASE WHEN ${value} = CAST(${value} AS INTEGER) AND abs(${value}) < 1e15 THEN CAST(${value} AS INTEGER) ` +
        `WHEN abs(${value}) > 1e10 OR round(${value} * 1e4) / 1e4 <> ${value} THEN ${mark} ELSE ${value} END`
      );
    default:
      // Null is nothing, and empty text is not.
      return `CASE ${value} WHEN '' THEN ${mark} ELSE ${value} END`;
  }
}
