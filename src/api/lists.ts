/**
 * Requests for lists: checks the parameters against the description of the resource, and writes them as a query with the names of
 * the API's reference. Section "Lists" of docs/api.md.
 */
import { suggestion, UsageError } from '../model/errors.ts';
import {
  type DatePreset,
  datePresets,
  type FilterKey,
  type IncludeName,
  type ResourceName,
  type Resource,
  resourceOf,
  type SortDirection,
  sortDirections,
  type SortKey,
} from '../model/resources.ts';
import { type Day, parseDay } from '../model/time.ts';

export type DateFormat = 'iso' | 'dmy';

/** Two dates as they are sent; the API's reference does not say in which format. */
interface DateRange {
  readonly from: string;
  readonly to: string;
}

type FilterValue = string | number | bigint | boolean;

/** `data->key`: a key inside a JSON column. */
type NestedKey = `${string}->${string}`;

type IncludeOf<R extends ResourceName> = R extends ResourceName ? IncludeName<R> : never;

/** The parameters that all list operations have, with the names that the resource knows. */
export interface ListOptions<R extends ResourceName = ResourceName> {
  readonly paginate?: number;
  /** 1 by default. */
  readonly page?: number;
  readonly include?: readonly IncludeOf<R>[];
  readonly filters?: readonly { readonly key: FilterKey<R> | NestedKey; readonly value: FilterValue }[];
  /** In the order in which they apply. */
  readonly sorts?: readonly { readonly key: SortKey<R>; readonly direction: SortDirection }[];
  readonly date?: DatePreset | DateRange;
}

/** The same parameters as plain text, as flags and settings give them. */
export interface ListWords extends Pick<ListOptions, 'paginate' | 'page'> {
  readonly include?: readonly string[];
  readonly filters?: readonly { readonly key: string; readonly value: FilterValue }[];
  readonly sorts?: readonly { readonly key: string; readonly direction: string }[];
  readonly date?: string | DateRange;
}

/** Writes a range in the server's format. Whether it includes its last day is up to the server. */
export function dateRange(from: Day, to: Day, format: DateFormat): DateRange {
  return format === 'iso' ? { from, to } : { from: turned(from), to: turned(to) };
}

/** `2026-03-11` → `11-03-2026` and back. */
function turned(day: string): string {
  return day.split('-').reverse().join('-');
}

/** Checks the parameters against the resource. Throws a UsageError that suggests similar valid ones. */
export function checkedListOptions<R extends ResourceName>(name: R, words: ListWords): ListOptions<R> {
  const resource = resourceOf(name);
  const { paginate, page, include = [], filters = [], sorts = [], date } = words;
  for (const [what, value] of Object.entries({ paginate, page })) {
    if (value !== undefined && !(Number.isSafeInteger(value) && value > 0)) {
      throw new UsageError(`${what} must be a whole number above 0, not ${value}`);
    }
  }
  for (const each of include) checkWord(resource, 'include', each, resource.includes ?? []);
  for (const { key } of filters) checkFilter(resource, key);
  for (const { key, direction } of sorts) {
    checkWord(resource, 'sort key', key, resource.sortKeys);
    checkWord(resource, 'sort direction', direction, sortDirections);
  }
  const keys = { 'filter key': filters.map(({ key }) => key), 'sort key': sorts.map(({ key }) => key) };
  for (const [what, names] of Object.entries({ include, ...keys })) {
    const twice = names.find((each, index) => names.indexOf(each) !== index);
    if (twice !== undefined) throw new UsageError(`the ${what} "${twice}" is given twice`);
  }
  return { ...words, ...(date === undefined ? {} : { date: checkedDate(date) }) } as ListOptions<R>;
}

function checkWord(resource: Resource, what: string, word: string, valid: readonly string[]): void {
  if (valid.includes(word)) return;
  const advice = valid.length === 0 ? `${resource.name} have no known ${what}.` : suggestion(word, valid);
  throw new UsageError(`${resource.name} have no ${what} "${word}"`, { advice });
}

function checkFilter(resource: Resource, key: string): void {
  const [column = '', ...inner] = key.split('->');
  if (inner.length === 0) return checkWord(resource, 'filter key', key, resource.filterKeys);
  if (resource.jsonColumns.includes(column) && inner.every((each) => each !== '')) return;
  const advice =
    resource.jsonColumns.length === 0
      ? `No column of ${resource.name} can be filtered by a key inside it.`
      : `A key inside a column is written ${resource.jsonColumns.map((each) => `${each}->key`).join(' or ')}.`;
  throw new UsageError(`${resource.name} have no filter key "${key}"`, { advice });
}

function checkedDate(date: string | DateRange): DatePreset | DateRange {
  if (typeof date === 'string') {
    const [from, to, ...more] = date.split(',').map((each) => each.trim());
    if (from !== undefined && to !== undefined && more.length === 0) return checkedDate({ from, to });
    const preset = datePresets.find((each) => each === date);
    if (preset !== undefined) return preset;
    throw new UsageError(`"${date}" is not a date range`, {
      advice: `${suggestion(date, datePresets)} Or give two days, as in 2026-01-01,2026-01-31.`,
    });
  }
  if (checkedDay(date.to) < checkedDay(date.from)) {
    throw new UsageError(`the range ${date.from},${date.to} ends before it begins`, {
      advice: 'Give the earlier day first.',
    });
  }
  return date;
}

function checkedDay(text: string): Day {
  const day = parseDay(text) ?? parseDay(turned(text));
  if (day !== undefined) return day;
  throw new UsageError(`"${text}" is not a day of the calendar`, {
    advice: 'Give a range as two days, 2026-01-01,2026-01-31, or day first, 01-01-2026,31-01-2026.',
  });
}

/** Returns the path of a list with its query. Throws a UsageError for an option that the resource does not have. */
export function listPath<R extends ResourceName>(name: R, options: ListOptions<R>): string {
  const query = listQuery(checkedListOptions(name, options as ListWords) as ListWords);
  return `${resourceOf(name).path}${query === '' ? '' : `?${query}`}`;
}

/** Writes the query string without its `?`, with the parameters in the order of the API's reference. */
function listQuery({ paginate, page, include = [], filters = [], sorts = [], date }: ListWords): string {
  const pairs: [string, string][] = [];
  if (paginate !== undefined) pairs.push(['paginate', String(paginate)]);
  if (page !== undefined) pairs.push(['page', String(page)]);
  if (include.length > 0) pairs.push(['include', include.join(',')]);
  for (const { key, value } of filters)
    pairs.push([`filter[${key}]`, String(typeof value === 'boolean' ? Number(value) : value)]);
  for (const { key, direction } of sorts) pairs.push([`sort[${key}]`, direction]);
  if (date !== undefined) pairs.push(['date', typeof date === 'string' ? date : `${date.from},${date.to}`]);
  return pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&');
}

/** Percent-encodes everything except the comma, which the API's reference does not encode. */
function encode(text: string): string {
  return encodeURIComponent(text).replaceAll('%2C', ',');
}
