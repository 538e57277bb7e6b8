/** Row groups of a Parquet file: many rows, column by column, encoded apart from the file that they go into. */
import { zstdCompressSync } from 'node:zlib';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import type { ResultColumn } from '../../store/reading-types.ts';
import type { ColumnStrays, RowEncoder } from '../encoding.ts';
import { jsonCell } from '../jsonl.ts';
import { weightOf } from '../reading-pace.ts';
import { fitter, type ParquetValue } from './columns.ts';
import { schemaOf } from './schema.ts';
import { textColumn } from './text-column.ts';
import type { ParquetType } from './types.ts';

/** What the footer of a file says of a row group. */
export type RowGroup = ParquetWriter['row_groups'][number];

/** Text that a row group holds, about: a table of long mails gets groups of fewer rows. */
const groupWeight = 16 * 1024 * 1024;

/** Before the first group stands the mark of the format, four bytes. */
export const magicBytes = 4;

export function groupEncoder(types: readonly ParquetType[], columns: readonly ResultColumn[]): RowEncoder {
  const schema = schemaOf(types, columns);
  const fit = columns.map((_, index) => fitter(types[index] ?? { kind: 'text' }));
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
      ...dataOf(types[index]?.kind, values[index] ?? []),
      // For readers that seek within a group; ours are small.
      offsetIndex: false,
      // The smallest and largest text of each group would be held until the end, and a mail may be long.
      statistics: types[index]?.kind !== 'text',
    }));
    void writer.parquet.write({ columnData, rowGroupSize: held });
    values = columns.map(() => []);
    held = 0;
    weight = 0;
  }

  return {
    add: (batch) => {
      for (const row of batch) {
        let others = '';
        for (const [index, cell] of row.entries()) {
          const fitted = fit[index]?.(cell);
          values[index]?.push(fitted?.value ?? null);
          if (fitted?.isWhole !== false) continue;
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
      rows += batch.length;
    },
    take: () => {
      flush();
      const { bytes, parquet } = writer;
      // Sent to another thread, the bytes go without the room that they grew in.
      const piece = { bytes: bytes.getBytes().slice(magicBytes), rows, groups: parquet.row_groups, strays };
      strays = noStrays();
      writer = openParquet(schema);
      rows = 0;
      return piece;
    },
  };
}

/** Puts the fields into the JSON object that stands last, as text: its numbers have all their digits. */
function addExtra(values: ParquetValue[], fields: string): void {
  const held = values.pop();
  const before = typeof held === 'string' && held !== '{}' ? `${held.slice(0, -1)},` : '{';
  values.push(`${before}${fields}}`);
}

function dataOf(kind: ParquetType['kind'] | undefined, values: ParquetValue[]) {
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
