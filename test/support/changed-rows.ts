/** The changes of a table since a number, in batches, as read by a consumer that keeps a copy of the mirror. */
import type { NumberedTable } from '../../src/store/cursor.ts';
import type { Cell, ResultColumn, Row } from '../../src/data/reading-types.ts';
import type { Snapshot } from '../../src/data/reading.ts';

export interface ChangeBatch {
  /** The table's columns in order, including `_seq`. */
  readonly columns: readonly ResultColumn[];
  /** New and changed rows with their current values, in the order of `_seq`; each replaces a row with the same key. */
  readonly rows: readonly Row[];
  /**
   * The `table.key` values of deleted rows. None of them is among the rows, now or in a later batch of this snapshot.
   */
  readonly deleted: readonly (readonly Cell[])[];
  /**
   * After this batch, continue after this number, in this snapshot or a later one (`snapshot.cursor(next)` is its
   * cursor as text). It is valid for this table: other tables may not have been read as far.
   */
  readonly next: number;
  /** Whether there are no more changes up to the snapshot's state; `next` is then the snapshot's last number. */
  readonly isLast: boolean;
}

/**
 * The changes of one table after a number, at most `limit` of them.
 *
 * - `after` is the result of `seqOf(cursor)`, the `next` of an earlier batch, or 0. After 0 every row comes, without deletions
 *   that a new reader does not need.
 * - A reader may stop after any batch and continue from its `next` in a later snapshot: it gets each change that it has not
 *   seen once. A row that changed again meanwhile has a higher number and comes then.
 * - The copy is a state of the mirror only after the last batch of every table was applied. Before that it mixes current and
 *   older rows; apply all batches of a snapshot in one transaction if readers must not see that.
 * - `key` of the table names the columns that identify a row: `id` of a resource; the parent's id and `_key` of related
 *   records; `_seq` of a history, whose rows never change: a changed one is deleted under its old number and comes with a new one.
 * - Versions that end before `historyReach(resource).beginsAt` are pruned in the mirror without a change; do the same.
 *
 * @param columns of the table, in this order, including its key; all by default
 */
export function changedRows(
  snapshot: Pick<Snapshot, 'changed' | 'lastSeq' | 'relations'>,
  table: NumberedTable,
  after: number,
  limit: number,
  columns: readonly string[] = columnsOf(snapshot, table),
): ChangeBatch {
  const changed = snapshot.changed({ table, columns, after, limit });
  const rows: Row[] = [];
  const deleted: Row[] = [];
  let count = 0;
  let next = after;
  for (const batch of changed.batches(() => limit)) {
    for (const row of batch) {
      count += 1;
      next = Number(row[columns.length]);
      const cells = row.slice(0, columns.length);
      if (row[columns.length + 1] === 0n) rows.push(cells);
      else deleted.push(table.key.map((name) => cells[columns.indexOf(name)] ?? null));
    }
  }
  const isLast = count < limit;
  return {
    columns: changed.columns.slice(0, columns.length),
    rows,
    deleted,
    next: isLast ? snapshot.lastSeq() : next,
    isLast,
  };
}

function columnsOf(snapshot: Pick<Snapshot, 'relations'>, table: NumberedTable): string[] {
  const relation = snapshot.relations().find(({ name }) => name === table.name);
  if (relation === undefined) throw new Error(`the mirror has no table ${table.name}`);
  return relation.columns.map(({ name }) => name);
}
