/** Parquet: row groups one after the other, then the footer that says where each lies. */
import { mergeFacts, noFacts } from '../column-facts.ts';
import { counted } from '../../model/counted.ts';
import { distinct } from '../column-kind.ts';
import type { ColumnStrays } from '../encoding.ts';
import type { FileRun } from '../export.ts';
import type { RowSource } from '../source.ts';
import { magicBytes, openParquet, type RowGroup } from './group.ts';
import { schemaOf } from './schema.ts';
import { computedType, declaredType, type ParquetType } from './types.ts';

export async function* parquetChunks(source: RowSource, run: FileRun): AsyncGenerator<Uint8Array> {
  const { columns } = source;
  distinct(columns, 'a Parquet file');
  const types = await typesOf(source, run.signal);
  const { bytes, parquet } = openParquet(schemaOf(types, columns));
  const strays = columns.map((): ColumnStrays => ({ nulled: 0, rounded: 0 }));
  let offset = magicBytes;
  yield bytes.getBytes().slice();
  for await (const piece of source.pieces({ kind: 'parquet', types })) {
    run.onRows(piece.rows);
    run.signal.throwIfAborted();
    for (const group of piece.groups ?? []) {
      parquet.row_groups.push(moved(group, BigInt(offset - magicBytes)));
      parquet.num_rows += group.num_rows;
    }
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
  const footerAt = bytes.offset;
  void parquet.finish();
  yield bytes.getBytes().slice(footerAt);
}

/** What is declared, else what the values say: then they are all looked at first. */
async function typesOf({ kinds, pieces }: RowSource, signal: AbortSignal): Promise<ParquetType[]> {
  const facts = kinds.map(noFacts);
  if (kinds.includes(undefined)) {
    const open = kinds.map((kind) => kind ?? ('open' as const));
    for await (const piece of pieces({ kind: 'facts', kinds: open })) {
      signal.throwIfAborted();
      mergeFacts(facts, piece.facts ?? []);
    }
  }
  return kinds.map((kind, index) =>
    kind === undefined ? computedType(facts[index] ?? noFacts()) : declaredType(kind),
  );
}

const typeWords: Readonly<Record<ParquetType['kind'], string>> = {
  integer: 'whole numbers',
  decimal: 'decimals of 12 digits before the point',
  double: 'numbers',
  time: 'times',
  text: 'text',
};

function warningsOf({ columns }: RowSource, types: readonly ParquetType[], strays: readonly ColumnStrays[]): string[] {
  const hasExtra = columns.some(({ name }) => name === '_extra');
  const where = hasExtra
    ? 'they stand whole in _extra'
    : 'with --meta, they stand whole in _extra; CSV and JSON have them as they are';
  return columns.flatMap(({ name }, index) => {
    const { nulled, rounded } = strays[index] ?? { nulled: 0, rounded: 0 };
    const kind = types[index]?.kind ?? 'text';
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
