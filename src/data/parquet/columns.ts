/** Cells as the values of a Parquet column of a fixed type, and what does not fit it. */
import { instantMicroseconds } from '../../model/api-time.ts';
import { plainText } from '../../store/files/csv.ts';
import type { Cell } from '../../store/reading-types.ts';
import { decimalDigits, type ParquetType } from './types.ts';

export type ParquetValue = bigint | number | string | null;

/** What a cell comes to: its value in the column, and whether that is not all of it: rounded, or null in its place. */
interface Fitted {
  readonly value: ParquetValue;
  readonly isWhole: boolean;
}

const stray: Fitted = { value: null, isWhole: false };
const none: Fitted = { value: null, isWhole: true };
const whole = (value: ParquetValue): Fitted => ({ value, isWhole: true });

/** The conversion for one column. */
export function fitter(type: ParquetType): (cell: Cell) => Fitted {
  switch (type.kind) {
    case 'integer':
      return (cell) => (cell === null ? none : typeof cell === 'bigint' ? whole(cell) : stray);
    case 'decimal':
      return (cell) => (cell === null ? none : decimal(cell, type.places));
    case 'double':
      return (cell) => {
        if (cell === null) return none;
        if (typeof cell === 'bigint') return { value: Number(cell), isWhole: BigInt(Number(cell)) === cell };
        return typeof cell === 'number' ? whole(cell) : stray;
      };
    case 'time':
      return (cell) => {
        if (cell === null) return none;
        const instant = typeof cell === 'string' ? instantMicroseconds(cell) : undefined;
        return instant === undefined ? stray : whole(instant);
      };
    case 'text':
      return (cell) => (cell === null ? none : whole(typeof cell === 'string' ? cell : plainText(cell)));
  }
}

/** Rounded to its places where a number has more: a sum of money must not lose what differs in the seventh place. */
function decimal(cell: Exclude<Cell, null>, places: number): Fitted {
  const end = 10n ** BigInt(decimalDigits - places);
  if (typeof cell === 'bigint') return cell < end && cell > -end ? whole(cell * 10n ** BigInt(places)) : stray;
  if (typeof cell !== 'number' || !(Math.abs(cell) < Number(end))) return stray;
  const factor = 10 ** places;
  const steps = Math.round(cell * factor);
  // Below 2^53 steps a number of JavaScript tells each from the next.
  const value = Number.isSafeInteger(steps) ? BigInt(steps) : BigInt(cell.toFixed(places).replace('.', ''));
  const back = Number.isSafeInteger(steps) ? steps / factor : Number(cell.toFixed(places));
  return { value, isWhole: back === cell };
}
