/**
 * Where the rows of an export come from: a table read by ranges, a selection from one, or a statement. SQLite can make the
 * lines of a CSV itself, which is quicker than reading cells. A line that fails a check is made again from its cells.
 */
import { setImmediate } from 'node:timers/promises';
import { UsageError } from '../model/errors.ts';
import type { IdRange, Relation, ResultColumn, Row } from '../store/reading-types.ts';
import type { Snapshot } from '../store/reading.ts';
import { csvCell, type CsvStyle, tableLines } from '../store/files/csv.ts';
import { quoteName } from '../store/schema.ts';
import { checkAsOf, isWhole, resolveSelection, type TableRequest } from './selection.ts';
import { type ColumnContext, type ColumnType, declaredTypes } from './column-type.ts';
import { readingPace } from './reading-pace.ts';
import { type ReportRequest, reportRows } from './reports/run.ts';

/** A table or view, a statement of the operator's, or a saved report. */
export type SourceRequest = TableRequest | { readonly sql: string } | ReportRequest;

export interface RowSource {
  /** The name of the table or report, or `query`. */
  readonly name: string;
  readonly columns: readonly ResultColumn[];
  /** The declared type of each column; undefined for a computed one. */
  readonly types: readonly (ColumnType | undefined)[];
  /**
   * Yields what `make` makes of each batch of rows, in order. The rows themselves are not yielded, because the consumer would
   * hold them until the next batch.
   * @param maxRows the limit for the next batch; without it, the reading pace alone decides
   */
  readonly pieces: <T>(make: (rows: readonly Row[]) => T, maxRows?: () => number) => AsyncGenerator<T>;
  /** CSV made by SQLite; only for whole tables that allow it. */
  readonly lines?: ((style: CsvStyle) => Iterable<LineBatch>) | undefined;
}

/** Throws a UsageError for a name that the mirror does not know, or SQL that does more than read. */
export function sourceOf(snapshot: Snapshot, request: SourceRequest, onWarning: (warning: string) => void): RowSource {
  const withTypes = (name: string, rows: SourceRows, context?: ColumnContext): RowSource =>
    rowsSource(name, rows, declaredTypes(rows.columns, snapshot.relations(), context));
  if ('sql' in request) return withTypes('query', snapshot.query(request.sql));
  if ('report' in request) {
    const { name, columns } = request.report;
    return withTypes(name, reportRows(snapshot, request, onWarning), { report: columns });
  }
  const { relation, selection } = resolveSelection(snapshot, request);
  if (request.changedSince !== undefined) {
    const rows = changedSource(snapshot, relation, selection.columns, request.changedSince);
    const types = declaredTypes(rows.columns.slice(0, -1), snapshot.relations(), { relation: relation.name });
    return rowsSource(relation.name, rows, [...types, 'integer']);
  }
  const { asOf } = selection;
  const warning = asOf === undefined ? undefined : checkAsOf(snapshot, relation.name, asOf);
  if (warning !== undefined) onWarning(warning);
  const isRanged = isWhole(request) && relation.rangeColumn !== null;
  const rows = isRanged ? tableRows(snapshot, relation, selection.columns) : snapshot.select(selection);
  return withTypes(relation.name, rows, { relation: relation.name });
}

type SourceRows = Pick<RowSource, 'columns' | 'lines'> & {
  readonly batches: (batchSize: () => number) => Iterable<readonly Row[]> | AsyncIterable<readonly Row[]>;
};

/** A source of these rows. Without `types`, every column counts as computed. */
export function rowsSource(
  name: string,
  { columns, batches, lines }: SourceRows,
  types: RowSource['types'] = columns.map(() => undefined),
): RowSource {
  return {
    name,
    columns,
    types,
    lines,
    pieces: async function* paced(make, maxRows = () => Infinity) {
      const pace = readingPace();
      for await (const batch of batches(() => Math.min(pace.rows(), maxRows()))) {
        pace.addRows(batch);
        yield make(batch);
        // Lets signals be handled between two batches.
        await setImmediate();
      }
    },
  };
}

/** The rows that changed after the cursor: the key of each, the selected columns, and `_deleted`. */
function changedSource(
  snapshot: Snapshot,
  relation: Relation,
  selected: readonly string[],
  cursor: string,
): SourceRows {
  const numbered = snapshot.numberedTables();
  const table = numbered.find(({ name }) => name === relation.name);
  if (table === undefined) {
    throw new UsageError(`${relation.name} has no change cursor: its rows are not numbered`, {
      advice: `These have one: ${numbered.map(({ name }) => name).join(', ')}.`,
    });
  }
  const names = [...table.key.filter((name) => !selected.includes(name)), ...selected];
  const { columns, batches } = snapshot.changed({ table, columns: names, after: snapshot.seqOf(cursor) });
  const seqAt = names.length;
  return {
    columns: columns.toSpliced(seqAt, 1),
    batches: function* batchesOfChanges(batchSize) {
      for (const batch of batches(batchSize)) yield batch.map((row) => row.toSpliced(seqAt, 1));
    },
  };
}

/** A whole table, read by ranges of its ids: far quicker than stepping from row to row. */
function tableRows(snapshot: Snapshot, relation: Relation, names: readonly string[]): SourceRows {
  const { columns, rowsIn } = snapshot.selectRanges(relation, names);
  return {
    columns,
    batches: function* batches(batchSize) {
      for (const range of snapshot.ranges(relation, batchSize)) {
        const rows = rowsIn(range);
        if (rows.length > 0) yield rows;
      }
    },
    lines: hasLines(relation) ? (style) => csvTableLines(snapshot, relation, names, style) : undefined,
  };
}

export interface LineBatch {
  readonly text: string;
  readonly rows: number;
}

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
function hasLines({ isStrict, rangeColumn, columns }: Relation): boolean {
  return isStrict && rangeColumn !== null && columns.every(({ type }) => lineTypes.includes(type.toUpperCase()));
}

/** Yields every row of the table, in order, as lines. */
function* csvTableLines(
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
      yield { text: linesOf(rows), rows: rows.length };
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
    yield { text, rows: rows.length };
    if (cells !== undefined && odd > rows.length * mostOdd) learn(cells);
  }
}

/** Returns the line with its line break; undefined if a part of it does not match its pattern. */
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

/** The value if SQLite writes it exactly as this program does, else the mark: SQLite writes only 15 digits of a floating-point number. */
function lineSql({ name, type }: Column): string {
  const value = quoteName(name);
  switch (type) {
    case 'INTEGER':
      return value;
    case 'REAL':
      return (
        `CASE WHEN ${value} = CAST(${value} AS INTEGER) AND abs(${value}) < 1e15 THEN CAST(${value} AS INTEGER) ` +
        `WHEN abs(${value}) > 1e10 OR round(${value} * 1e4) / 1e4 <> ${value} THEN ${odd} ELSE ${value} END`
      );
    default:
      // The writer by cells tells empty text from null.
      return `CASE ${value} WHEN '' THEN ${odd} ELSE ${value} END`;
  }
}
