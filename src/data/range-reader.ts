/** Reads a table of a snapshot range by range and makes pieces of it; the same on the main thread and on others. */
import type { Snapshot } from '../store/reading-types.ts';
import { type EncodedPiece, openEncoder } from './encoding.ts';
import type { RangeTask, TaskRange } from './range-task.ts';
import { mostRows, readingPace, weightOfRows } from './reading-pace.ts';

/** Opens the table; what it gives encodes one range after the other. */
export async function openRangeReader(
  snapshot: Snapshot,
  { relation, columns, encoding }: RangeTask,
): Promise<(asked: TaskRange) => EncodedPiece> {
  const ranged = snapshot.selectRanges(relation, columns);
  const encoder = await openEncoder(encoding, ranged.columns);
  const pace = readingPace();
  return ({ range, rows, first }) => {
    if (rows <= mostRows) {
      encoder.add(ranged.rowsIn(range), first);
      return encoder.take();
    }
    // As many rows make a piece, fewer are held as rows of the database.
    let at = first;
    for (const part of snapshot.ranges(relation, pace.rows, range)) {
      const batch = ranged.rowsIn(part);
      pace.add({ weight: weightOfRows(batch), rows: batch.length });
      encoder.add(batch, at);
      at += batch.length;
    }
    return encoder.take();
  };
}
