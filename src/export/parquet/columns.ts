/** Cells as the values of a Parquet column of a type that every cell of it fits. */
import { microsecondsSince1970 } from '../../model/api-time.ts';
import { UsageError } from '../../model/errors.ts';
import { plainText } from '../../store/files/csv.ts';
import type { Cell } from '../../store/ports/reading.ts';
import type { ParquetType } from './types.ts';

export type ParquetValue = bigint | number | string | null;

/** The conversion for one column. Throws a UsageError where a query gives other values than when it was first looked at. */
export function valueOf(type: ParquetType, column: string): (cell: Cell) => ParquetValue {
  const unfit = (): never => {
    throw new UsageError(`column ${column} held other values when it was written than when it was looked at`, {
      advice: 'Parquet reads a query twice: leave out what differs each time, such as random().',
    });
  };
  switch (type.kind) {
    case 'integer':
      return (cell) => (cell === null || typeof cell === 'bigint' ? cell : unfit());
    case 'decimal': {
      const factor = 10 ** type.places;
      const whole = BigInt(factor);
      // Exact: the type was chosen so that every value has no more places, and no more digits than a number holds.
      return (cell) => {
        if (cell === null) return null;
        if (typeof cell === 'bigint') return cell * whole;
        return typeof cell === 'number' ? BigInt(Math.round(cell * factor)) : unfit();
      };
    }
    case 'double':
      return (cell) => {
        if (typeof cell === 'bigint') return Number(cell);
        return cell === null || typeof cell === 'number' ? cell : unfit();
      };
    case 'time':
      return (cell) => {
        if (cell === null) return null;
        return typeof cell === 'string' ? microsecondsSince1970(cell) : unfit();
      };
    case 'text':
      return (cell) => (cell === null || typeof cell === 'string' ? cell : plainText(cell));
  }
}
