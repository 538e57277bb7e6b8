/**
 * Parquet: row groups one after the other, then the footer that says where each lies. All values are looked at before
 * the first is written, since a column has one type from the beginning of the file to its end.
 */
import { mergeFacts, noFacts } from '../column-facts.ts';
import { columnKinds } from '../column-kind.ts';
import { distinct } from '../distinct.ts';
import type { FileRun } from '../file-run.ts';
import type { RowSource } from '../source.ts';
import { magicBytes, openParquet, type RowGroup } from './group.ts';
import { schemaOf } from './schema.ts';
import { parquetType, type TypedColumn } from './types.ts';

export async function* parquetChunks(source: RowSource, run: FileRun): AsyncGenerator<Uint8Array> {
  const { columns } = source;
  distinct(columns, 'a Parquet file');
  const typed = await typesOf(source, run.signal);
  for (const [index, { mixed }] of typed.entries()) {
    if (mixed !== null) run.onWarning(`column ${columns[index]?.name} is written as text: ${mixed}`);
  }
  const types = typed.map(({ type }) => type);
  const { bytes, parquet } = openParquet(schemaOf(types, columns));
  let offset = magicBytes;
  yield bytes.getBytes().slice();
  for await (const piece of source.pieces({ kind: 'parquet', types })) {
    run.onRows(piece.rows);
    run.signal.throwIfAborted();
    for (const group of piece.groups ?? []) {
      parquet.row_groups.push(moved(group, BigInt(offset - magicBytes)));
      parquet.num_rows += group.num_rows;
    }
    offset += piece.bytes.length;
    yield piece.bytes;
  }
  const footerAt = bytes.offset;
  void parquet.finish();
  yield bytes.getBytes().slice(footerAt);
}

async function typesOf(source: RowSource, signal: AbortSignal): Promise<TypedColumn[]> {
  const kindOf = columnKinds();
  const kinds = source.columns.map(kindOf);
  const facts = source.columns.map(noFacts);
  for await (const piece of source.pieces({ kind: 'facts', kinds })) {
    signal.throwIfAborted();
    mergeFacts(facts, piece.facts ?? []);
  }
  return facts.map((each, index) => parquetType(kinds[index] ?? 'open', each));
}

type ColumnChunk = RowGroup['columns'][number];

/** The group as it is told of so many bytes further on. */
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
