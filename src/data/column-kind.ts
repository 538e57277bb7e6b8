/** What a column is meant to hold, by its origin: the API's reference for a resource's field, the dictionary for the rest. */
import { dictionary } from './dictionary.ts';
import type { ColumnType } from './reports/reports.ts';
import { UsageError } from '../model/errors.ts';
import { type FieldType, isResourceName, resourceOf } from '../model/resources.ts';
import type { ResultColumn } from '../store/reading-types.ts';

/** `open`: nothing is said of it, so that its values decide. */
export type ColumnKind = 'integer' | 'number' | 'double' | 'time' | 'text' | 'open';

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

/** A function that knows the kind of any column; a computed one is open, and so is one whose values may be anything. */
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

/** Names of columns in which this program itself writes times. */
const ownTimes = /^_?(?:at|since|until|valid_from|valid_to|fresh_as_of|\w+_at)$/;

const kindsOfReports: Readonly<Record<ColumnType, Exclude<ColumnKind, 'open'>>> = {
  text: 'text',
  integer: 'integer',
  number: 'double',
  money: 'number',
  date: 'text',
  time: 'time',
  flag: 'integer',
  json: 'text',
};

/**
 * What each column of a source is declared to hold, whatever it does hold; undefined of what a statement computes. Values of
 * no fixed type are text.
 */
export function declaredKinds(
  columns: readonly ResultColumn[],
  of: { readonly relation?: string; readonly report?: readonly { readonly name: string; readonly type: ColumnType }[] },
): (Exclude<ColumnKind, 'open'> | undefined)[] {
  const kindOf = columnKinds();
  const reported = new Map(of.report?.map(({ name, type }) => [name, kindsOfReports[type]]));
  return columns.map(({ name, table, origin }) => {
    const declared = reported.get(name);
    if (declared !== undefined) return declared;
    // A view computes its columns; the dictionary knows what it holds by the name of the view.
    const [place, field] = table === null ? [of.relation ?? null, name] : [table, origin];
    if (place === null) return undefined;
    const kind = kindOf({ table: place, origin: field });
    if (kind !== 'open') return kind;
    const isOurs = !isResourceName(place) || (field ?? '').startsWith('_');
    return isOurs && !place.endsWith('_flat') && ownTimes.test(field ?? '') ? 'time' : 'text';
  });
}

/** Throws a UsageError where two columns have one name. */
export function distinct(columns: readonly ResultColumn[], holder = 'a JSON object'): readonly ResultColumn[] {
  const names = columns.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return columns;
  throw new UsageError(`two columns are called "${twice}", and ${holder} can hold only one of them`, {
    advice: 'Give one of them another name with AS.',
  });
}
