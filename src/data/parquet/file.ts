/** Parquet: row groups one after the other, then the footer that says where each lies. */
import { counted } from '../../model/counted.ts';
import { type ColumnType, distinct } from '../column-type.ts';
import type { ColumnStrays } from '../encoding.ts';
import type { FileRun } from '../export.ts';
import type { RowSource } from '../source.ts';
import { magicBytes, openParquet, type RowGroup, typeWords } from './group.ts';
import { schemaOf } from './columns.ts';

export async function* parquetChunks(source: RowSource, run: FileRun): AsyncGenerator<Uint8Array> {
  const { columns } = source;
  distinct(columns, 'a Parquet file');
  const strays = columns.map((): ColumnStrays => ({ nulled: 0, rounded: 0 }));
  let types = source.types.map((type) => type ?? 'text');
  const groups: RowGroup[] = [];
  let offset = magicBytes;
  yield openParquet(schemaOf(types, columns)).bytes.getBytes().slice();
  for await (const piece of source.pieces({ kind: 'parquet', types: source.types })) {
    run.onRows(piece.rows);
    run.signal.throwIfAborted();
    // Of what a statement computes, the first rows decide.
    types = [...(piece.types ?? types)];
    for (const group of piece.groups ?? []) groups.push(moved(group, BigInt(offset - magicBytes)));
    for (const [index, { nulled, rounded }] of (piece.strays ?? []).entries()) {
      const sum = strays[index];
      if (sum === undefined) continue;
      sum.nulled += nulled;
      sum.rounded += rounded;
    }
    offset += piece.bytes.length;
    yield piece.bytes;
  }
  for (const warning of warningsOf(source, types, strays)) run.onWarning(warning);
  const { bytes, parquet } = openParquet(schemaOf(types, columns));
  for (const group of groups) parquet.num_rows += group.num_rows;
  parquet.row_groups.push(...groups);
  const footerAt = bytes.offset;
  void parquet.finish();
  yield bytes.getBytes().slice(footerAt);
}

function warningsOf({ columns }: RowSource, types: readonly ColumnType[], strays: readonly ColumnStrays[]): string[] {
  const hasExtra = columns.some(({ name }) => name === '_extra');
  const where = hasExtra
    ? 'they stand whole in _extra'
    : 'with --meta, they stand whole in _extra; CSV and JSON have them as they are';
  return columns.flatMap(({ name }, index) => {
    const { nulled, rounded } = strays[index] ?? { nulled: 0, rounded: 0 };
    const kind = types[index] ?? 'text';
    return [
      ...(nulled === 0
        ? []
        : [`column ${name} holds ${typeWords[kind]}: ${counted(nulled, 'other value')} became null; ${where}`]),
      ...(rounded === 0
        ? []
        : [`column ${name}: ${counted(rounded, 'number')} of more digits became the nearest it holds; ${where}`]),
    ];
  });
}

type ColumnChunk = RowGroup['columns'][number];

/** The group as it lies so many bytes further on. */
function moved(group: RowGroup, by: bigint): RowGroup {
  return { ...group, columns: group.columns.map((chunk) => movedChunk(chunk, by)) };
}

function movedChunk({ meta_data: meta, ...chunk }: ColumnChunk, by: bigint): ColumnChunk {
  const file_offset = chunk.file_offset + by;
  if (meta === undefined) return { ...chunk, file_offset };
  const { dictionary_page_offset: dictionary, data_page_offset } = meta;
  return {
    ...chunk,
    file_offset,
    meta_data: {
      ...meta,
      data_page_offset: data_page_offset + by,
      ...(dictionary === undefined ? {} : { dictionary_page_offset: dictionary + by }),
    },
  };
}
