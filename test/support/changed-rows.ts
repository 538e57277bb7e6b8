/** What changed of a table since a number, in batches, as somebody reads it who keeps a copy of the mirror elsewhere. */
import type { NumberedTable } from '../../src/store/cursor.ts';
import type { Cell, ResultColumn, Row } from '../../src/store/reading-types.ts';
import type { Snapshot } from '../../src/store/reading.ts';

export interface ChangeBatch {
  /** Of the rows: the table's columns in its order, `_seq` among them. */
  readonly columns: readonly ResultColumn[];
  /** Rows that came or changed, each whole as it is now, in the order of `_seq`: to be put in the place of any of the same key. */
  readonly rows: readonly Row[];
  /** Of what went: the values of `table.key`. None of them is among the rows, now or in a later batch of this snapshot. */
  readonly deleted: readonly (readonly Cell[])[];
  /**
   * Whoever has applied the batch goes on after this number, in this snapshot or in a later one (`snapshot.cursor(next)` is
   * its cursor as text). It is the table's: other tables may have been read less far.
   */
  readonly next: number;
  /** Whether nothing more changed up to the snapshot's state; `next` is then the snapshot's last number. */
  readonly isLast: boolean;
}

/**
 * The changes of one table after a number, at most so many.
 *
 * - `after` is what `seqOf(cursor)` gave, the `next` of an earlier batch, or 0, after which every row comes, and no deletion
 *   that a reader of nothing would need.
 * - A reader may stop after any batch and go on with its `next` in a later snapshot: it gets each change that it has not
 *   seen, none twice. A row that changed again meanwhile has moved to a higher number and comes then.
 * - Only where the last batch of every table was applied is the copy a state that the mirror was in. Before that it holds
 *   some rows of now beside some of before; put all batches of a snapshot into one transaction where readers must not see that.
 * - `key` of the table says which columns a row is known by: `id` of a resource; the parent's id and `_key` of related
 *   records; `_seq` of a history, whose rows never change: one that does is gone under its old number and comes with a new one.
 * - Versions that end before `historyReach(resource).beginsAt` are pruned in the mirror without a word; do the same.
 *
 * @param columns of the table, in this order, its key among them; all without it
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
