/** What a column is meant to hold, by its origin: the API's reference for a resource's field, the dictionary for the rest. */
import { type FieldType, isResourceName, resourceOf } from '../model/resources.ts';
import type { ResultColumn } from '../store/ports/reading.ts';
import { dictionary } from './dictionary.ts';

/** `open`: nothing is said of it, so that its values decide. */
export type ColumnKind = 'integer' | 'number' | 'time' | 'text' | 'open';

const kindsOfFields: Readonly<Record<FieldType, ColumnKind>> = {
  integer: 'integer',
  flag: 'integer',
  number: 'number',
  timestamp: 'time',
  string: 'text',
  object: 'text',
  strings: 'text',
  any: 'open',
};

// TEXT of the mirror's own tables may be a time; that is seen in the values.
const kindsOfEntries: Readonly<Record<string, ColumnKind>> = {
  INTEGER: 'integer',
  NUMERIC: 'number',
  'TEXT (JSON)': 'text',
};

/** A function that knows the kind of any column; a computed one is open. */
export function columnKinds(): (column: Pick<ResultColumn, 'table' | 'origin'>) => ColumnKind {
  const entries = new Map(dictionary().map((entry) => [entry.name, entry]));
  return ({ table, origin }) => {
    if (table === null || origin === null) return 'open';
    const field = isResourceName(table) ? resourceOf(table).fields.find(({ name }) => name === origin) : undefined;
    if (field !== undefined) return kindsOfFields[field.type];
    const type = entries.get(table)?.columns.find(({ name }) => name === origin)?.type;
    return kindsOfEntries[type ?? ''] ?? 'open';
  };
}
