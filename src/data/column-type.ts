/** Types of columns in files: by declaration, never by values, so that files of two nights can be read as one. */
import { UsageError } from '../model/errors.ts';
import { isResourceName, resourceOf } from '../model/resources.ts';
import type { Relation, ResultColumn } from '../store/reading-types.ts';
import { dictionary } from './dictionary.ts';
import type { ColumnType as ReportType } from './reports/reports.ts';

/** `decimal` is for money, `double` floating point; `time` is a text that is one. */
export type ColumnType = 'integer' | 'decimal' | 'double' | 'time' | 'text';

const ofReports: Readonly<Record<ReportType, ColumnType>> = {
  text: 'text',
  integer: 'integer',
  number: 'double',
  money: 'decimal',
  date: 'text',
  time: 'time',
  flag: 'integer',
  json: 'text',
};

/** Names of columns in which this program itself writes times. */
const ownTimes = /^_?(?:at|since|until|valid_from|valid_to|fresh_as_of|\w+_at)$/;

function isTime(place: string, name: string): boolean {
  const field = isResourceName(place) ? resourceOf(place).fields.find((each) => each.name === name) : undefined;
  if (field !== undefined) return field.type === 'timestamp';
  const isOurs = !isResourceName(place) || name.startsWith('_');
  return isOurs && !place.endsWith('_flat') && ownTimes.test(name);
}

/** @param of the table or view that is read whole, or the columns that a report promises */
export function declaredTypes(
  columns: readonly ResultColumn[],
  relations: readonly Relation[],
  of: {
    readonly relation?: string;
    readonly report?: readonly { readonly name: string; readonly type: ReportType }[];
  } = {},
): (ColumnType | undefined)[] {
  const promised = new Map(of.report?.map(({ name, type }) => [name, ofReports[type]]));
  const described = dictionary();
  /** As SQLite has it of a table; a view computes, and the dictionary says what. */
  const sqlTypeOf = (place: string, name: string): string | undefined => {
    const declared = relations.find((each) => each.name === place)?.columns.find((each) => each.name === name)?.type;
    if (declared) return declared;
    return described.find((each) => each.name === place)?.columns.find((each) => each.name === name)?.type;
  };
  return columns.map(({ name, table, origin }) => {
    const ofReport = promised.get(name);
    if (ofReport !== undefined) return ofReport;
    const [place, column] = table === null || origin === null ? [of.relation, name] : [table, origin];
    if (place === undefined) return undefined;
    const type = sqlTypeOf(place, column);
    if (type === 'INTEGER') return 'integer';
    if (type === 'REAL') return 'decimal';
    return isTime(place, column) ? 'time' : 'text';
  });
}

/** Throws a UsageError where two columns have one name. */
export function distinct(columns: readonly ResultColumn[], format = 'a JSON object'): readonly ResultColumn[] {
  const names = columns.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return columns;
  throw new UsageError(`two columns are called "${twice}", and ${format} can hold only one of them`, {
    advice: 'Give one of them another name with AS.',
  });
}
