/** Parquet: rows by groups, column by column, then the footer that says where each group lies. */
import { zstdCompressSync } from 'node:zlib';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { instantMicroseconds, wholeSeconds } from '../model/time.ts';
import { counted } from '../model/text.ts';
import { UsageError } from '../model/errors.ts';
import { plainText } from '../store/files/csv.ts';
import type { Cell, ResultColumn, Row } from '../store/reading-types.ts';
import { type ColumnType, distinct } from './column-type.ts';
import type { FileRun } from './export.ts';
import { jsonCell } from './text-lines.ts';
import { weightOf } from './reading-pace.ts';
import type { RowSource } from './source.ts';

/** Rows of a group: readers gain from many at once. */
const groupRows = 10_000;
/** Text that a group holds, about: a table of long mails gets groups of fewer rows. */
const groupWeight = 16 * 1024 * 1024;

export async function* parquetChunks(source: RowSource, run: FileRun): AsyncGenerator<Uint8Array> {
  distinct(source.columns, 'a Parquet file');
  const file = new ParquetFile(source);
  const groupsOf = (rows: readonly Row[]) => {
    run.onRows(rows.length);
    return file.add(rows);
  };
  for await (const groups of source.pieces(groupsOf)) {
    run.signal.throwIfAborted();
    yield* groups;
  }
  yield file.group();
  for (const warning of file.warnings()) run.onWarning(warning);
  yield file.footer();
}

const typeWords: Readonly<Record<ColumnType, string>> = {
  integer: 'whole numbers',
  decimal: 'decimals of 12 digits before the point',
  double: 'numbers',
  time: 'times',
  text: 'text',
};

class ParquetFile {
  readonly #source: RowSource;
  readonly #bytes = new ByteWriter();
  /** Of the group that is not full yet: by column, since rows would be held as long. */
  #cells: Cell[][];
  #rows = 0;
  #weight = 0;
  #file: { readonly types: readonly ColumnType[]; readonly writer: ParquetWriter } | undefined;
  /** Of each column, values of another type, which became null, and those with more places than it has. */
  readonly #strays: { nulled: number; rounded: number }[];

  constructor(source: RowSource) {
    this.#source = source;
    this.#cells = source.columns.map(() => []);
    this.#strays = source.columns.map(() => ({ nulled: 0, rounded: 0 }));
  }

  /** Gives the groups that are full by now. Throws a UsageError where a computed column comes to hold another type. */
  add(rows: readonly Row[]): Uint8Array[] {
    const full: Uint8Array[] = [];
    for (const row of rows) {
      for (const [index, cell] of row.entries()) this.#cells[index]?.push(cell);
      this.#rows += 1;
      this.#weight += weightOf(row);
      // After the row, not the batch: the groups are the same however the rows come in.
      if (this.#rows === groupRows || this.#weight >= groupWeight) full.push(this.group());
    }
    return full;
  }

  group(): Uint8Array {
    const { types, writer } = this.#opened();
    const values = this.#values(types);
    const columnData = this.#source.columns.map(({ name }, index) => ({
      name,
      ...dataOf(types[index], values[index] ?? []),
      // For readers that seek within a group; ours are small.
      offsetIndex: false,
      // The smallest and largest text of each group would be held until the end, and a mail may be long.
      statistics: types[index] !== 'text',
    }));
    if (this.#rows > 0) void writer.write({ columnData, rowGroupSize: this.#rows });
    this.#cells = this.#source.columns.map(() => []);
    this.#rows = 0;
    this.#weight = 0;
    return this.#written();
  }

  footer(): Uint8Array {
    void this.#opened().writer.finish();
    return this.#written();
  }

  warnings(): string[] {
    const { columns } = this.#source;
    const where = columns.some(({ name }) => name === '_extra')
      ? 'they stand whole in _extra'
      : 'with --meta, they stand whole in _extra; CSV and JSON have them as they are';
    return columns.flatMap(({ name }, index) => {
      const { nulled, rounded } = this.#strays[index] ?? { nulled: 0, rounded: 0 };
      const words = typeWords[this.#file?.types[index] ?? 'text'];
      return [
        ...(nulled === 0
          ? []
          : [`column ${name} holds ${words}: ${counted(nulled, 'other value')} became null; ${where}`]),
        ...(rounded === 0
          ? []
          : [`column ${name}: ${counted(rounded, 'number')} of more digits became the nearest it holds; ${where}`]),
      ];
    });
  }

  /** Of what a statement computes, the first rows decide the type, once for the whole file. */
  #opened() {
    if (this.#file !== undefined) return this.#file;
    const { columns } = this.#source;
    const types = this.#source.types.map((type, index) => type ?? typeOfValues(this.#cells[index] ?? []));
    const compressors = { ZSTD: (input: Uint8Array) => zstdCompressSync(input) };
    const options = { codec: 'ZSTD', compressors, createdBy: 'admin-mirror' } as const;
    const writer = new ParquetWriter({ writer: this.#bytes, schema: schemaOf(types, columns), ...options });
    return (this.#file = { types, writer });
  }

  /** The bytes since the last call; the writer goes on counting. */
  #written(): Uint8Array {
    const written = this.#bytes.getBytes().slice();
    this.#bytes.index = 0;
    return written;
  }

  /** The cells as values of their columns; what a column cannot hold goes to `_extra`, where there is one. */
  #values(types: readonly ColumnType[]): ParquetValue[][] {
    const { columns, types: declared } = this.#source;
    const others = new Map<number, string>();
    const values = columns.map(({ name }, index) => {
      const type = types[index] ?? 'text';
      return (this.#cells[index] ?? []).map((cell, row) => {
        const { value, isWhole } = fitted(type, cell);
        if (isWhole) return value;
        if (declared[index] === undefined) throw misfit(name, type, cell);
        const count = this.#strays[index];
        if (count !== undefined) count[value === null ? 'nulled' : 'rounded'] += 1;
        others.set(row, `${others.get(row) ?? ''},${JSON.stringify(name)}:${jsonCell(cell, false)}`);
        return value;
      });
    });
    const extra = values[columns.findIndex(({ name }) => name === '_extra')];
    if (extra === undefined) return values;
    for (const [row, fields] of others) {
      const held = extra[row];
      // As text: its numbers have all their digits.
      extra[row] =
        typeof held === 'string' && held !== '{}' ? `${held.slice(0, -1)}${fields}}` : `{${fields.slice(1)}}`;
    }
    return values;
  }
}

function misfit(name: string, type: ColumnType, cell: Cell): UsageError {
  return new UsageError(
    `the computed column ${name} holds ${typeWords[type]} in its first rows, and ${jsonCell(cell, false).slice(0, 60)} further on`,
    { advice: `A Parquet column has one type. Give it one in the statement, as in CAST(… AS TEXT) AS ${name}.` },
  );
}

/** Texts that repeat go in as they are, into a dictionary. Of others, the library would allocate each; here they share one memory. */
function dataOf(kind: ColumnType | undefined, values: ParquetValue[]) {
  if (kind === 'text' && !repeats(values)) return { data: bytesOf(values), encoding: 'PLAIN' as const };
  // A dictionary would take a zero with a sign for one without.
  return kind === 'double' ? { data: values, encoding: 'PLAIN' as const } : { data: values };
}

const sampled = 500;
/** Parts of a column that differ from each other, from which on a dictionary of them would not pay. */
const mostlyDistinct = 0.8;

function repeats(values: readonly ParquetValue[]): boolean {
  const step = Math.max(1, Math.floor(values.length / sampled));
  const seen = new Set<ParquetValue>();
  let filled = 0;
  for (let index = 0; index < values.length; index += step) {
    const value = values[index] ?? null;
    if (value === null) continue;
    filled += 1;
    seen.add(value);
  }
  return seen.size < mostlyDistinct * filled;
}

function bytesOf(values: readonly ParquetValue[]): (Uint8Array | null)[] {
  let characters = 0;
  for (const value of values) if (typeof value === 'string') characters += value.length;
  // A character takes three bytes at most; two that make up one take four.
  const room = new Uint8Array(3 * characters);
  const encoder = new TextEncoder();
  let at = 0;
  return values.map((value) => {
    if (typeof value !== 'string') return null;
    const { written } = encoder.encodeInto(value, room.subarray(at));
    const bytes = room.subarray(at, at + written);
    at += written;
    return bytes;
  });
}

/** Digits of a decimal in 64 bits. */
const decimalDigits = 18;
/** Money has two to four; what has more is a quotient or a sum of floating-point numbers. */
const decimalPlaces = 6;

type ParquetValue = bigint | number | string | null;

/** What a cell comes to: its value in the column, and whether that is not all of it: rounded, or null in its place. */
interface Fitted {
  readonly value: ParquetValue;
  readonly isWhole: boolean;
}

const stray: Fitted = { value: null, isWhole: false };
const none: Fitted = { value: null, isWhole: true };
const whole = (value: ParquetValue): Fitted => ({ value, isWhole: true });

function fitted(type: ColumnType, cell: Cell): Fitted {
  if (cell === null) return none;
  switch (type) {
    case 'integer':
      return typeof cell === 'bigint' ? whole(cell) : stray;
    case 'decimal':
      return decimal(cell);
    case 'double':
      if (typeof cell === 'bigint') return { value: Number(cell), isWhole: BigInt(Number(cell)) === cell };
      return typeof cell === 'number' ? whole(cell) : stray;
    case 'time': {
      const instant = typeof cell === 'string' ? instantMicroseconds(cell) : undefined;
      return instant === undefined ? stray : whole(instant);
    }
    case 'text':
      return whole(typeof cell === 'string' ? cell : plainText(cell));
  }
}

const endOfDecimals = 10n ** BigInt(decimalDigits - decimalPlaces);
const decimalSteps = 10 ** decimalPlaces;

/** Rounded to its places where a number has more: a sum of money must not lose what differs in the seventh place. */
function decimal(cell: Exclude<Cell, null>): Fitted {
  if (typeof cell === 'bigint') {
    return cell < endOfDecimals && cell > -endOfDecimals ? whole(cell * BigInt(decimalSteps)) : stray;
  }
  if (typeof cell !== 'number' || !(Math.abs(cell) < Number(endOfDecimals))) return stray;
  const steps = Math.round(cell * decimalSteps);
  // Below 2^53 steps numbers of JavaScript are exact.
  if (Number.isSafeInteger(steps)) return { value: BigInt(steps), isWhole: steps / decimalSteps === cell };
  const text = cell.toFixed(decimalPlaces);
  return { value: BigInt(text.replace('.', '')), isWhole: Number(text) === cell };
}

const exactInteger = 2n ** 53n;

/** The type of a column that a statement computes, by the values of its first rows: one that all of them fit. */
function typeOfValues(cells: readonly Cell[]): ColumnType {
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

function schemaOf(types: readonly ColumnType[], columns: readonly ResultColumn[]): SchemaElement[] {
  const elements = columns.map(({ name }, index): SchemaElement => ({
    name,
    repetition_type: 'OPTIONAL',
    ...elementOf[types[index] ?? 'text'],
  }));
  return [{ name: 'rows', num_children: columns.length }, ...elements];
}

const elementOf: Readonly<Record<ColumnType, Partial<SchemaElement>>> = {
  integer: { type: 'INT64' },
  decimal: { type: 'INT64', converted_type: 'DECIMAL', precision: decimalDigits, scale: decimalPlaces },
  double: { type: 'DOUBLE' },
  time: {
    type: 'INT64',
    converted_type: 'TIMESTAMP_MICROS',
    logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
  },
  text: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
};
