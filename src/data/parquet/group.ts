/** Row groups of a Parquet file: many rows, column by column, encoded apart from the file that they go into. */
import { zstdCompressSync } from 'node:zlib';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import type { ResultColumn } from '../../store/reading-types.ts';
import { UsageError } from '../../model/errors.ts';
import type { Cell, Row } from '../../store/reading-types.ts';
import type { ColumnType } from '../column-type.ts';
import type { ColumnStrays, EncodedPiece, RowEncoder } from '../encoding.ts';
import { jsonCell } from '../jsonl.ts';
import { weightOf } from '../reading-pace.ts';
import { fitter, type ParquetValue, typeOfValues, schemaOf } from './columns.ts';

/** What the footer of a file says of a row group. */
export type RowGroup = ParquetWriter['row_groups'][number];

/** Text that a row group holds, about: a table of long mails gets groups of fewer rows. */
const groupWeight = 16 * 1024 * 1024;

/** Before the first group stands the mark of the format, four bytes. */
export const magicBytes = 4;

/** @param declared undefined where the values of the first rows decide, once for the whole file */
export function groupEncoder(
  declared: readonly (ColumnType | undefined)[],
  columns: readonly ResultColumn[],
): RowEncoder {
  if (!declared.includes(undefined))
    return typedEncoder(
      declared.map((type) => type ?? 'text'),
      columns,
      [],
    );
  const waiting: Row[] = [];
  let weight = 0;
  let encoder: RowEncoder | undefined;

  function decided(): RowEncoder {
    if (encoder !== undefined) return encoder;
    const types = declared.map((type, index) => type ?? typeOfValues(waiting.map((row) => row[index] ?? null)));
    const computed = [...columns.keys()].filter((index) => declared[index] === undefined);
    encoder = typedEncoder(types, columns, computed);
    encoder.add(waiting.splice(0), 0);
    return encoder;
  }

  return {
    add: (batch, first) => {
      if (encoder !== undefined) return encoder.add(batch, first);
      for (const row of batch) {
        waiting.push(row);
        weight += weightOf(row);
      }
      if (weight >= groupWeight) decided();
    },
    take: () => decided().take(),
  };
}

/** @param computed columns whose type was found by their first values: what does not fit it later is an error */
function typedEncoder(
  types: readonly ColumnType[],
  columns: readonly ResultColumn[],
  computed: readonly number[],
): RowEncoder {
  const schema = schemaOf(types, columns);
  const fit = types.map(fitter);
  const extraAt = columns.findIndex(({ name }) => name === '_extra');
  const noStrays = () => columns.map((): ColumnStrays => ({ nulled: 0, rounded: 0 }));
  let strays = noStrays();
  let writer = openParquet(schema);
  let values = columns.map((): ParquetValue[] => []);
  let held = 0;
  let weight = 0;
  let rows = 0;

  function flush(): void {
    if (held === 0) return;
    const columnData = columns.map(({ name }, index) => ({
      name,
      ...dataOf(types[index], values[index] ?? []),
      // For readers that seek within a group; ours are small.
      offsetIndex: false,
      // The smallest and largest text of each group would be held until the end, and a mail may be long.
      statistics: types[index] !== 'text',
    }));
    void writer.parquet.write({ columnData, rowGroupSize: held });
    values = columns.map(() => []);
    held = 0;
    weight = 0;
  }

  function addRow(row: Row): void {
    let others = '';
    for (const [index, cell] of row.entries()) {
      const fitted = fit[index]?.(cell);
      values[index]?.push(fitted?.value ?? null);
      if (fitted?.isWhole !== false) continue;
      if (computed.includes(index)) throw misfit(columns[index]?.name ?? '', types[index] ?? 'text', cell);
      const count = strays[index];
      if (count !== undefined) count[fitted.value === null ? 'nulled' : 'rounded'] += 1;
      others += `,${JSON.stringify(columns[index]?.name)}:${jsonCell(cell, false)}`;
    }
    if (others !== '' && extraAt !== -1) addExtra(values[extraAt] ?? [], others.slice(1));
    held += 1;
    weight += weightOf(row);
    // After the row, not the batch: the groups are the same however the rows come in.
    if (weight >= groupWeight) flush();
  }

  return {
    add: (batch) => {
      for (const row of batch) addRow(row);
      rows += batch.length;
    },
    take: () => {
      flush();
      const { bytes, parquet } = writer;
      // Sent to another thread, the bytes go without the room that they grew in.
      const piece = { bytes: bytes.getBytes().slice(magicBytes), rows, groups: parquet.row_groups, strays, types };
      strays = noStrays();
      writer = openParquet(schema);
      rows = 0;
      return piece satisfies EncodedPiece;
    },
  };
}

/** What the columns of a type hold, in words. */
export const typeWords: Readonly<Record<ColumnType, string>> = {
  integer: 'whole numbers',
  decimal: 'decimals of 12 digits before the point',
  double: 'numbers',
  time: 'times',
  text: 'text',
};

function misfit(name: string, type: ColumnType, cell: Cell): UsageError {
  return new UsageError(
    `the computed column ${name} holds ${typeWords[type]} in its first rows, and ${jsonCell(cell, false).slice(0, 60)} further on`,
    { advice: `A Parquet column has one type. Give it one in the statement, as in CAST(… AS TEXT) AS ${name}.` },
  );
}

/** Puts the fields into the JSON object that stands last, as text: its numbers have all their digits. */
function addExtra(values: ParquetValue[], fields: string): void {
  const held = values.pop();
  const before = typeof held === 'string' && held !== '{}' ? `${held.slice(0, -1)},` : '{';
  values.push(`${before}${fields}}`);
}

function dataOf(kind: ColumnType | undefined, values: ParquetValue[]) {
  if (kind === 'text') return textColumn(values);
  // A dictionary would take a zero with a sign for one without.
  return kind === 'double' ? { data: values, encoding: 'PLAIN' as const } : { data: values };
}

/** A writer of the library over bytes in memory. */
export function openParquet(schema: ReturnType<typeof schemaOf>): { bytes: ByteWriter; parquet: ParquetWriter } {
  const bytes = new ByteWriter();
  const compressors = { ZSTD: (input: Uint8Array) => zstdCompressSync(input) };
  const parquet = new ParquetWriter({ writer: bytes, schema, codec: 'ZSTD', compressors, createdBy: 'admin-mirror' });
  return { bytes, parquet };
}

type TextColumn =
  | { readonly data: ParquetValue[] }
  /** The bytes of each text, to be written as they are. */
  | { readonly data: (Uint8Array | null)[]; readonly encoding: 'PLAIN' };

const sampled = 500;
/** Parts of a column that differ from each other, from which on a dictionary of them would not pay. */
const mostlyDistinct = 0.8;

/**
 * Texts that repeat go in as they are: the library makes a dictionary of them. Of those that do not, it would make bytes
 * with a memory of their own for each, a million times over; here they share one.
 */
function textColumn(values: ParquetValue[]): TextColumn {
  return repeats(values) ? { data: values } : { data: bytesOf(values), encoding: 'PLAIN' };
}

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
