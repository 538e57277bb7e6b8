/** Where the rows of a file come from: a table read by ranges, a selection of one, or a statement. */
import { setImmediate } from 'node:timers/promises';
import { UsageError } from '../model/errors.ts';
import type { Relation, ResultColumn, Row } from '../store/reading-types.ts';
import type { Snapshot } from '../store/reading.ts';
import type { CsvStyle } from '../store/files/csv.ts';
import { checkAsOf, isWhole, resolveSelection, type TableRequest } from './selection.ts';
import { type ColumnType, declaredTypes } from './column-type.ts';
import { csvTableLines, hasLines, type LineBatch } from './csv-lines.ts';
import { readingPace } from './reading-pace.ts';
import { type ReportRequest, reportRows } from './reports/run.ts';

/** A table or view, what one statement of the operator's gives, or a saved report. */
export type SourceRequest = TableRequest | { readonly sql: string } | ReportRequest;

export interface RowSource {
  /** What a person calls it: the table's or report's name, or `query`. */
  readonly name: string;
  readonly columns: readonly ResultColumn[];
  /** What each column is declared to hold; undefined of what a statement computes. */
  readonly types: readonly (ColumnType | undefined)[];
  /**
   * What is made of all rows, in order, some at a time. Rows that were given themselves would be held until the next ones.
   * @param most how many the next ones may be; without it as many as are worth a reading
   */
  readonly pieces: <T>(make: (rows: readonly Row[]) => T, most?: () => number) => AsyncGenerator<T>;
  readonly lines?: ((style: CsvStyle) => Iterable<LineBatch>) | undefined;
}

/** Throws a UsageError for what the mirror does not know, or SQL that would do more than read. */
export function sourceOf(snapshot: Snapshot, request: SourceRequest, onWarning: (warning: string) => void): RowSource {
  const typed = (name: string, rows: SourceRows, of?: Parameters<typeof declaredTypes>[2]): RowSource =>
    rowsSource(name, rows, declaredTypes(rows.columns, snapshot.relations(), of));
  if ('sql' in request) return typed('query', snapshot.query(request.sql));
  if ('report' in request) {
    const { name, columns } = request.report;
    return typed(name, reportRows(snapshot, request, onWarning), { report: columns });
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
  return typed(relation.name, rows, { relation: relation.name });
}

type SourceRows = Pick<RowSource, 'columns' | 'lines'> & {
  readonly batches: (wanted: () => number) => Iterable<readonly Row[]> | AsyncIterable<readonly Row[]>;
};

/** Rows that come one after the other; without types as if all of them were computed. */
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
    pieces: async function* paced(make, most = () => Infinity) {
      const pace = readingPace();
      for await (const batch of batches(() => Math.min(pace.rows(), most()))) {
        pace.addRows(batch);
        yield make(batch);
        // Signals are heard between two batches.
        await setImmediate();
      }
    },
  };
}

/** What changed after the cursor: the key of each row, what is wanted of it, and `_deleted`. */
function changedSource(snapshot: Snapshot, relation: Relation, wanted: readonly string[], cursor: string): SourceRows {
  const table = snapshot.numberedTables().find(({ name }) => name === relation.name);
  if (table === undefined) {
    throw new UsageError(`${relation.name} has no change cursor: its rows are not numbered`, {
      advice: `These have one: ${snapshot
        .numberedTables()
        .map(({ name }) => name)
        .join(', ')}.`,
    });
  }
  const names = [...table.key.filter((name) => !wanted.includes(name)), ...wanted];
  const { columns, batches } = snapshot.changed({ table, columns: names, after: snapshot.seqOf(cursor) });
  const seqAt = names.length;
  return {
    columns: columns.toSpliced(seqAt, 1),
    batches: function* batchesOfChanges(rows) {
      for (const batch of batches(rows)) yield batch.map((row) => row.toSpliced(seqAt, 1));
    },
  };
}

/** A table by ranges of its ids: far quicker than stepping from row to row. */
function tableRows(snapshot: Snapshot, relation: Relation, names: readonly string[]): SourceRows {
  const { columns, rowsIn } = snapshot.selectRanges(relation, names);
  return {
    columns,
    batches: function* batches(wanted) {
      for (const range of snapshot.ranges(relation, wanted)) {
        const rows = rowsIn(range);
        if (rows.length > 0) yield rows;
      }
    },
    lines: hasLines(relation) ? (style) => csvTableLines(snapshot, relation, names, style) : undefined,
  };
}
