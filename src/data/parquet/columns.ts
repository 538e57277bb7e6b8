/** Cells as the values of a Parquet column of a fixed type, and what does not fit it. */
import { instantMicroseconds, wholeSeconds } from '../../model/api-time.ts';
import { plainText } from '../../store/files/csv.ts';
import type { Cell, ResultColumn } from '../../store/reading-types.ts';
import type { ColumnType } from '../column-type.ts';
import type { ParquetWriter } from 'hyparquet-writer';

/** Digits of a decimal in 64 bits. */
const decimalDigits = 18;
/** Money has two to four; what has more is a quotient or a sum of floating-point numbers. */
const decimalPlaces = 6;

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
export function fitter(type: ColumnType): (cell: Cell) => Fitted {
  switch (type) {
    case 'integer':
      return (cell) => (cell === null ? none : typeof cell === 'bigint' ? whole(cell) : stray);
    case 'decimal':
      return (cell) => (cell === null ? none : decimal(cell, decimalPlaces));
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
  // Below 2^53 steps numbers of JavaScript are exact.
  const value = Number.isSafeInteger(steps) ? BigInt(steps) : BigInt(cell.toFixed(places).replace('.', ''));
  const back = Number.isSafeInteger(steps) ? steps / factor : Number(cell.toFixed(places));
  return { value, isWhole: back === cell };
}

const exactInteger = 2n ** 53n;

/** The type of a column that a statement computes, by the values of its first rows: one that all of them fit. */
export function typeOfValues(cells: readonly Cell[]): ColumnType {
  const values = cells.filter((cell) => cell !== null);
  const has = (type: string): boolean => values.some((value) => typeof value === type);
  if (values.length === 0 || has('object')) return 'text';
  if (has('string')) {
    return values.every((value) => typeof value === 'string' && !Number.isNaN(wholeSeconds(value))) ? 'time' : 'text';
  }
  if (!has('number')) return 'integer';
  // A floating-point number would round whole numbers beyond; text keeps both as they are.
  const isExact = values.every(
    (value) => typeof value !== 'bigint' || (value <= exactInteger && value >= -exactInteger),
  );
  return isExact ? 'double' : 'text';
}

type SchemaElement = ParquetWriter['schema'][number];

export function schemaOf(types: readonly ColumnType[], columns: readonly ResultColumn[]): SchemaElement[] {
  const elements = columns.map(({ name }, index): SchemaElement => ({
    name,
    repetition_type: 'OPTIONAL',
    ...elementOf(types[index] ?? 'text'),
  }));
  return [{ name: 'rows', num_children: columns.length }, ...elements];
}

function elementOf(type: ColumnType): Partial<SchemaElement> {
  switch (type) {
    case 'integer':
      return { type: 'INT64' };
    case 'decimal':
      return { type: 'INT64', converted_type: 'DECIMAL', precision: decimalDigits, scale: decimalPlaces };
    case 'double':
      return { type: 'DOUBLE' };
    case 'time':
      return {
        type: 'INT64',
        converted_type: 'TIMESTAMP_MICROS',
        logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
      };
    case 'text':
      return { type: 'BYTE_ARRAY', converted_type: 'UTF8' };
  }
}
