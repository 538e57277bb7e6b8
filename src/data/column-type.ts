/** The types of columns in files. They follow from declarations, never from values, so that the files of two nights fit together. */
import { UsageError } from '../model/errors.ts';
import { isResourceName, resourceOf } from '../model/resources.ts';
import type { Relation, ResultColumn } from './reading-types.ts';
import { dictionary } from './dictionary.ts';
import type { ColumnType as ReportType } from './reports/reports.ts';

/** `decimal` is for money, `double` for floating-point numbers; a `time` is stored as text. */
export type ColumnType = 'integer' | 'decimal' | 'double' | 'time' | 'text';

const typeOfReportColumn: Readonly<Record<ReportType, ColumnType | undefined>> = {
  text: 'text',
  integer: 'integer',
  number: 'double',
  money: 'decimal',
  date: 'text',
  time: 'time',
  flag: 'integer',
  json: 'text',
  // As in a statement: what the column is made of says it.
  mixed: undefined,
};

/** Names of columns in which this program writes times of its own. */
const ownTimes = /^_?(?:at|since|until|valid_from|valid_to|fresh_as_of|\w+_at)$/;

function isTime(place: string, name: string): boolean {
  const field = isResourceName(place) ? resourceOf(place).fields.find((each) => each.name === name) : undefined;
  if (field !== undefined) return field.type === 'timestamp';
  const isOurs = !isResourceName(place) || name.startsWith('_');
  return isOurs && !place.endsWith('_flat') && ownTimes.test(name);
}

/** Returns the column's SQL type: a table declares it, and the dictionary has that of a view's computed column. */
export function sqlTypeIn(relations: readonly Relation[], place: string, column: string): string | undefined {
  const typeIn = (entries: readonly TypedTable[]) =>
    entries.find(({ name }) => name === place)?.columns.find(({ name }) => name === column)?.type;
  return typeIn(relations) || typeIn(dictionary());
}

interface TypedTable {
  readonly name: string;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
}

/** What the columns belong to; empty for a statement. */
export interface ColumnContext {
  /** The table or view that is read. */
  readonly relation?: string;
  /** The columns that a report declares. */
  readonly report?: readonly { readonly name: string; readonly type: ReportType }[];
}

/** Returns the declared type of each column; undefined for a computed one. */
export function declaredTypes(
  columns: readonly ResultColumn[],
  relations: readonly Relation[],
  { relation, report = [] }: ColumnContext = {},
): (ColumnType | undefined)[] {
  const reportTypes = new Map(report.map(({ name, type }) => [name, typeOfReportColumn[type]]));
  return columns.map(({ name, table, origin }) => {
    const reportType = reportTypes.get(name);
    if (reportType !== undefined) return reportType;
    const [place, column] = table === null || origin === null ? [relation, name] : [table, origin];
    if (place === undefined) return undefined;
    const type = sqlTypeIn(relations, place, column);
    if (type === 'INTEGER') return 'integer';
    if (type === 'REAL') return 'decimal';
    return isTime(place, column) ? 'time' : 'text';
  });
}

/** Returns the columns. Throws a UsageError if two of them have the same name. */
export function distinctColumns(columns: readonly ResultColumn[], format = 'a JSON object'): readonly ResultColumn[] {
  const names = columns.map(({ name }) => name);
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  if (repeated === undefined) return columns;
  throw new UsageError(`two columns are called "${repeated}", and ${format} can hold only one of them`, {
    advice: 'Give one of them another name with AS.',
  });
}
