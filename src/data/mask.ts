/** Exports with pseudonyms in some columns: the mirror as it is, read through a mask. */
import { UsageError } from '../model/errors.ts';
import { suggestion } from '../model/nearest.ts';
import type { Mask, ReadingStore, ResultColumn, Row, Snapshot } from '../store/reading-types.ts';
import { anonymiser } from './anonymise.ts';

/**
 * The same store with pseudonyms in the place of what stands in the masked columns, whichever way rows are read. Reading
 * throws a UsageError where a result has no column of one of the names.
 */
export function maskedStore(store: ReadingStore, mask: Mask): ReadingStore {
  return {
    ...store,
    source: { ...store.source, mask },
    snapshot: () => maskedSnapshot(store.snapshot(), mask),
  };
}

function maskedSnapshot(snapshot: Snapshot, mask: Mask): Snapshot {
  const { mask: replace } = anonymiser(mask.secret);

  function maskOf(columns: readonly ResultColumn[]): (rows: Row[]) => Row[] {
    const names = columns.map(({ name }) => name);
    const unknown = mask.columns.find((name) => !names.includes(name));
    if (unknown !== undefined) {
      throw new UsageError(`--mask names "${unknown}", which is no column of what is exported`, {
        advice: suggestion(unknown, names),
      });
    }
    const masked = names.map((name) => mask.columns.includes(name));
    return (rows) => rows.map((row) => row.map((cell, at) => (masked[at] ? replace(names[at] ?? '', cell) : cell)));
  }

  const marked = (columns: readonly ResultColumn[]): ResultColumn[] =>
    columns.map((column) => (mask.columns.includes(column.name) ? { ...column, isMasked: true } : column));

  return {
    ...snapshot,
    select: (selection) => maskedRows(snapshot.select(selection)),
    query: (...asked) => maskedRows(snapshot.query(...asked)),
    selectRanges: (relation, columns) => {
      const ranged = snapshot.selectRanges(relation, columns);
      const apply = maskOf(ranged.columns);
      return { ...ranged, columns: marked(ranged.columns), rowsIn: (range) => apply(ranged.rowsIn(range)) };
    },
  };

  function maskedRows(result: ReturnType<Snapshot['query']>): ReturnType<Snapshot['query']> {
    const apply = maskOf(result.columns);
    return {
      ...result,
      columns: marked(result.columns),
      batches: function* batches(wanted) {
        for (const rows of result.batches(wanted)) yield apply(rows);
      },
    };
  }
}
