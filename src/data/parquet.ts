/** Parquet: groups of rows, column by column, then a footer that says where each group lies. */
import { zstdCompressSync } from 'node:zlib';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { instantMicroseconds, wholeSeconds } from '../model/time.ts';
import { counted } from '../model/text.ts';
import { UsageError } from '../model/errors.ts';
import { plainText } from './csv.ts';
import type { Cell, ResultColumn, Row } from './reading-types.ts';
import { type ColumnType, distinctColumns } from './column-type.ts';
import type { FileRun } from './export.ts';
import { jsonCell } from './text-lines.ts';
import { weightOf } from './reading-pace.ts';
import type { RowSource } from './source.ts';

/** Readers are faster with large groups. */
const groupRows = 10_000;
/** The most characters of a group, roughly: a table of long emails gets smaller groups. */
const groupWeight = 16 * 1024 * 1024;

export async function* parquetChunks(source: RowSource, run: FileRun): AsyncGenerator<Uint8Array> {
  distinctColumns(source.columns, 'a Parquet file');
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
  /** The cells of the group that is not full yet, by column, so that the rows themselves can be freed. */
  #cells: Cell[][];
  #rows = 0;
  #weight = 0;
  #file: { readonly types: readonly ColumnType[]; readonly writer: ParquetWriter } | undefined;
  /** For each column: values of another type, which became null, and numbers with more decimals than it has. */
  readonly #strays: { nulled: number; rounded: number }[];

  constructor(source: RowSource) {
    this.#source = source;
    this.#cells = source.columns.map(() => []);
    this.#strays = source.columns.map(() => ({ nulled: 0, rounded: 0 }));
  }

  /** Returns the groups that are full now. Throws a UsageError if a computed column changes its type. */
  add(rows: readonly Row[]): Uint8Array[] {
    const full: Uint8Array[] = [];
    for (const row of rows) {
      for (const [index, cell] of row.entries()) this.#cells[index]?.push(cell);
      this.#rows += 1;
      this.#weight += weightOf(row);
      // Checked after each row, not each batch, so that the groups do not depend on the batches.
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
      // Only helps readers that seek within a group, and ours are small.
      offsetIndex: false,
      // The writer would hold the smallest and largest text of each group until the end, and an email may be long.
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
      ? 'the original values are in _extra'
      : 'with --meta, the original values are in _extra; CSV and JSON have them, too';
    const warnings: string[] = [];
    for (const [index, { name }] of columns.entries()) {
      const { nulled, rounded } = this.#strays[index] ?? { nulled: 0, rounded: 0 };
      const words = typeWords[this.#file?.types[index] ?? 'text'];
      if (nulled > 0) {
        warnings.push(`column ${name} holds ${words}: ${counted(nulled, 'other value')} became null; ${where}`);
      }
      if (rounded > 0) {
        warnings.push(
          `column ${name}: ${counted(rounded, 'number')} with more digits became the nearest it holds; ${where}`,
        );
      }
    }
    return warnings;
  }

  /** Opens the writer with the first group, whose rows decide the types of computed columns for the whole file. */
  #opened() {
    if (this.#file !== undefined) return this.#file;
    const { columns } = this.#source;
    const types = this.#source.types.map((type, index) => type ?? typeOfValues(this.#cells[index] ?? []));
    const compressors = { ZSTD: (input: Uint8Array) => zstdCompressSync(input) };
    const options = { codec: 'ZSTD', compressors, createdBy: 'admin-mirror' } as const;
    const writer = new ParquetWriter({ writer: this.#bytes, schema: schemaOf(types, columns), ...options });
    return (this.#file = { types, writer });
  }

  /** Takes the bytes since the last call. The writer counts offsets by itself. */
  #written(): Uint8Array {
    const written = this.#bytes.getBytes().slice();
    this.#bytes.index = 0;
    return written;
  }

  /** Converts the cells. A value that its column cannot hold goes to `_extra`, if the file has that column. */
  #values(types: readonly ColumnType[]): ParquetValue[][] {
    const { columns, types: declared } = this.#source;
    const others = new Map<number, string>();
    const values = columns.map(({ name }, index) => {
      const type = types[index] ?? 'text';
      const cells = this.#cells[index] ?? [];
      if (type === 'text')
        return cells.map((cell) => (cell === null || typeof cell === 'string' ? cell : plainText(cell)));
      return cells.map((cell, row) => {
        if (cell === null) return null;
        const value = converted(type, cell);
        if (value !== null && isExact(type, cell, value)) return value;
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
      // Joined as text, since parsing would round its numbers.
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

/** Values that repeat are left to the library, which makes a dictionary. Texts share one buffer here: the library would allocate each. */
function dataOf(type: ColumnType | undefined, values: ParquetValue[]) {
  // A dictionary would take -0 for 0.
  if (type !== 'double' && repeats(values)) return { data: values };
  return { data: type === 'text' ? bytesOf(values) : values, encoding: 'PLAIN' as const };
}

const sampleSize = 500;
/** The share of distinct values from which a dictionary does not pay. */
const mostlyDistinct = 0.8;

function repeats(values: readonly ParquetValue[]): boolean {
  const step = Math.max(1, Math.floor(values.length / sampleSize));
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
  // UTF-8 takes at most three bytes for a UTF-16 unit.
  const buffer = new Uint8Array(3 * characters);
  const encoder = new TextEncoder();
  let at = 0;
  return values.map((value) => {
    if (typeof value !== 'string') return null;
    const { written } = encoder.encodeInto(value, buffer.subarray(at));
    const bytes = buffer.subarray(at, at + written);
    at += written;
    return bytes;
  });
}

/** A decimal in 64 bits has 18 digits. */
const decimalDigits = 18;
/** Money has two to four decimals; a number with more is a quotient or a sum of floating-point numbers. */
const decimalPlaces = 6;

type ParquetValue = bigint | number | string | null;

/** Returns the value in the column, rounded if need be; null if the cell is of another type. */
function converted(type: Exclude<ColumnType, 'text'>, cell: Exclude<Cell, null>): bigint | number | null {
  switch (type) {
    case 'integer':
      return typeof cell === 'bigint' ? cell : null;
    case 'decimal':
      return decimal(cell);
    case 'double':
      return typeof cell === 'bigint' || typeof cell === 'number' ? Number(cell) : null;
    case 'time':
      return (typeof cell === 'string' ? instantMicroseconds(cell) : undefined) ?? null;
  }
}

/** Whether nothing of the number was rounded. */
function isExact(type: ColumnType, cell: Exclude<Cell, null>, value: bigint | number): boolean {
  if (type === 'double') return typeof cell !== 'bigint' || BigInt(value) === cell;
  if (type !== 'decimal' || typeof cell !== 'number') return true;
  const steps = Number(value);
  // Up to 2^53, numbers of JavaScript are exact.
  return Number.isSafeInteger(steps) ? steps / decimalSteps === cell : Number(cell.toFixed(decimalPlaces)) === cell;
}

const endOfDecimals = 10n ** BigInt(decimalDigits - decimalPlaces);
const decimalSteps = 10 ** decimalPlaces;

/** Rounds numbers with more decimals, rather than dropping them: a sum of money must not lose a value for its seventh decimal. */
function decimal(cell: Exclude<Cell, null>): bigint | null {
  if (typeof cell === 'bigint') {
    return cell < endOfDecimals && cell > -endOfDecimals ? cell * BigInt(decimalSteps) : null;
  }
  if (typeof cell !== 'number' || !(Math.abs(cell) < Number(endOfDecimals))) return null;
  const steps = Math.round(cell * decimalSteps);
  return BigInt(Number.isSafeInteger(steps) ? steps : cell.toFixed(decimalPlaces).replace('.', ''));
}

const exactInteger = 2n ** 53n;

/** Returns a type for a computed column that fits the values of its first rows. */
function typeOfValues(cells: readonly Cell[]): ColumnType {
  const values = cells.filter((cell) => cell !== null);
  const has = (type: string): boolean => values.some((value) => typeof value === type);
  if (values.length === 0 || has('object')) return 'text';
  if (has('string')) {
    return values.every((value) => typeof value === 'string' && !Number.isNaN(wholeSeconds(value))) ? 'time' : 'text';
  }
  if (!has('number')) return 'integer';
  // A double would round larger whole numbers; text keeps both as they are.
  const fitsDouble = values.every(
    (value) => typeof value !== 'bigint' || (value <= exactInteger && value >= -exactInteger),
  );
  return fitsDouble ? 'double' : 'text';
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
