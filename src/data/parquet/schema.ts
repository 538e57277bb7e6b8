/** The schema of a Parquet file. Every column may be null: the mirror's may, whatever the API's reference says. */
import type { ParquetWriter } from 'hyparquet-writer';
import type { ResultColumn } from '../../store/reading-types.ts';
import type { ColumnType } from '../column-type.ts';
import { decimalDigits, decimalPlaces } from './columns.ts';

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
