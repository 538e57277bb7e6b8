/** A consumer that keeps a copy of a mirror by its change cursor, and stops on request. */
import SqliteDatabase from 'better-sqlite3';
import { expect } from 'vitest';
import { type ChangeBatch, changedRows } from './changed-rows.ts';
import { CursorError, type NumberedTable, startCursor } from '../../src/store/cursor.ts';
import type { Cell, Row } from '../../src/data/reading-types.ts';
import { withSnapshot } from './history.ts';

interface Consumer {
  /** Reads batches of one snapshot until `stops` returns true; returns true if it reached the end. */
  read(limit: number, stops: () => boolean): boolean;
  /** Fails unless the copy equals the mirror, cell for cell; call it after a read to the end. */
  expectEqual(): void;
}

interface TableCopy {
  readonly rows: Map<string, Row>;
  /** The cursor as a consumer would store it. */
  cursor: string;
  /** The numbers of all received changes. */
  readonly seen: Set<bigint>;
}

export function consumerOf(file: string): Consumer {
  const copies = new Map<string, TableCopy>();

  function copyOf(name: string): TableCopy {
    const copy = copies.get(name) ?? { rows: new Map<string, Row>(), cursor: startCursor, seen: new Set<bigint>() };
    copies.set(name, copy);
    return copy;
  }

  return {
    read: (limit, stops) =>
      withSnapshot(file, (snapshot) =>
        snapshot.numberedTables().every((table) => {
          const copy = copyOf(table.name);
          for (;;) {
            if (stops()) return false;
            const after = snapshot.seqOf(copy.cursor);
            const batch = changedRows(snapshot, table, after, limit);
            apply(copy, table, batch, after);
            copy.cursor = snapshot.cursor(batch.next);
            if (batch.isLast) return true;
          }
        }),
      ),
    expectEqual: () => {
      const database = new SqliteDatabase(file, { readonly: true });
      try {
        for (const [table, copy] of copies) {
          const rows = database.prepare<[], Row>(`SELECT * FROM "${table}"`).raw().safeIntegers().all();
          const sorted = (list: readonly Row[]) => list.map((row) => row.map(String).join('\t')).sort();
          expect([table, sorted([...copy.rows.values()])]).toEqual([table, sorted(rows)]);
        }
        expect([...copies.keys()]).toEqual(expect.arrayContaining(['users', 'users_history']));
      } finally {
        database.close();
      }
    },
  };
}

function apply(copy: TableCopy, { name, key }: NumberedTable, batch: ChangeBatch, after: number): void {
  const placeOf = (column: string): number => batch.columns.findIndex((each) => each.name === column);
  const keyOf = (cells: readonly Cell[]): string => cells.map(String).join('\n');
  let before = BigInt(after);
  for (const row of batch.rows) {
    const seq = row[placeOf('_seq')] as bigint;
    expect(copy.seen.has(seq), `${name} ${seq} came twice`).toBe(false);
    expect(seq).toBeGreaterThan(before);
    expect(seq).toBeLessThanOrEqual(BigInt(batch.next));
    copy.seen.add(seq);
    before = seq;
    copy.rows.set(keyOf(key.map((column) => row[placeOf(column)] ?? null)), row);
  }
  for (const cells of batch.deleted) copy.rows.delete(keyOf(cells));
}

/** Why the mirror refuses the cursor; undefined if it continues from it. */
export function refusalOf(file: string, cursor: string): CursorError['reason'] | undefined {
  return withSnapshot(file, (snapshot) => {
    try {
      snapshot.seqOf(cursor);
      return undefined;
    } catch (error) {
      if (error instanceof CursorError) return error.reason;
      throw error;
    }
  });
}

export function cursorOf(file: string): string {
  return withSnapshot(file, (snapshot) => snapshot.cursor());
}
