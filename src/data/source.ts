/** Where the rows of an export come from: a table read by ranges, a selection from one, a statement, or a saved report. */
import { setImmediate } from 'node:timers/promises';
import { UsageError } from '../model/errors.ts';
import type { Relation, ResultColumn, Row } from './reading-types.ts';
import type { Snapshot } from './reading.ts';
import { checkAsOf, isWhole, resolveSelection, type TableRequest } from './selection.ts';
import { type ColumnContext, type ColumnType, declaredTypes } from './column-type.ts';
import { jsonTableLines } from './table-json.ts';
import { csvTableLines, hasLines } from './table-csv.ts';
import { csvStyle, isJson, type TextStyle } from './text-lines.ts';
import { readingPace } from './reading-pace.ts';
import { type ReportRequest, reportRows } from './reports/run.ts';

/** A table or view, a statement of the operator's, or a saved report. */
export type SourceRequest = TableRequest | { readonly sql: string } | ReportRequest;

export interface LineBatch {
  readonly lines: Uint8Array | string;
  readonly rows: number;
}

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
  /** Lines made by SQLite; only for whole tables that allow it. */
  readonly lines?: ((style: TextStyle) => Iterable<LineBatch>) | undefined;
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
    lines: hasLines(relation)
      ? (style) =>
          isJson(style)
            ? jsonTableLines(snapshot, relation, names)
            : csvTableLines(snapshot, relation, names, csvStyle(style))
      : undefined,
  };
}
