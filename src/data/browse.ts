/**
 * Looking through a table or view, a page at a time. A page begins behind the values of the last row of the one before, so the
 * thousandth costs what the first one does. SQLite's own plan tells what could take long, and is read in another process.
 */
import { serialize } from 'node:v8';
import { UsageError } from '../model/errors.ts';
import { relationTables } from '../model/resources.ts';
import type { Cell, Relation, ResultColumn, Row, Selection } from '../store/reading-types.ts';
import type { Snapshot } from '../store/reading.ts';
import { quoteName, quoteText } from '../store/schema.ts';
import { declaredTypes } from './column-type.ts';
import { dictionary } from './dictionary.ts';
import { isPersonal, maskedText } from './personal.ts';
import { resolveSelection, type TableRequest } from './selection.ts';

/** By what an operator is called in a form, in the order of the form. */
export const operators = {
  is: 'is',
  'is-not': 'is not',
  contains: 'contains',
  begins: 'begins with',
  more: 'is more than',
  'at-least': 'is at least',
  less: 'is less than',
  'at-most': 'is at most',
  empty: 'is empty',
  filled: 'is not empty',
} as const;
export type Operator = keyof typeof operators;

export interface Filter {
  readonly column: string;
  readonly operator: Operator;
  readonly value: string;
}

/** What somebody looks at; the whole of it stands in the address of the page. */
export interface Browse {
  readonly relation: string;
  /** Empty: the usual ones. */
  readonly columns: readonly string[];
  readonly filters: readonly Filter[];
  readonly sort: { readonly column: string; readonly isDescending: boolean } | null;
  /** The values of a row by which the order goes: the page after it, or before it. Null: the first page. */
  readonly from: { readonly values: readonly Cell[]; readonly isBefore: boolean } | null;
}

export interface BrowsePage {
  readonly columns: readonly ResultColumn[];
  readonly rows: readonly Row[];
  /** Where the next page begins, and where the one before ends; null where there is none. */
  readonly next: readonly Cell[] | null;
  readonly previous: readonly Cell[] | null;
}

export interface CommonValue {
  readonly value: Cell;
  readonly rows: number;
}

export const browseLimits = { rows: 50, filters: 10, value: 1_000, values: 12 } as const;

/** Columns to begin with: those that tell one record from the next at a glance. */
const usual: Readonly<Record<string, string>> = {
  users: 'id username email status balance last_seen_at created_at',
  packages: 'id name service status created_at updated_at',
  emails: 'id user_id receiver subject is_sent created_at',
  coupons: 'id code discount_type discount_amount currency allowed_uses expires_at',
};
const mostUsual = 8;

/** What the address says. Throws a UsageError for what no form of ours could have sent. */
export function browseOf(relation: string, query: URLSearchParams): Browse {
  const [operatorNames, values] = [query.getAll('is'), query.getAll('value')];
  const filters = query.getAll('field').flatMap((column, at): Filter[] => {
    const operator = operatorNames[at] ?? 'is';
    if (!Object.hasOwn(operators, operator)) throw new UsageError(`there is no comparison "${operator}"`);
    return column === '' ? [] : [{ column, operator: operator as Operator, value: values[at] ?? '' }];
  });
  const sort = query.get('sort') ?? '';
  const [after, before] = [query.get('after'), query.get('before')];
  const from = before ?? after;
  return {
    relation,
    columns: [...new Set(query.getAll('show'))],
    filters,
    sort: sort === '' ? null : { column: sort, isDescending: query.get('order') === 'desc' },
    from: from === null ? null : { values: cursorOf(from), isBefore: before !== null },
  };
}

/** The address of it, as `browseOf` reads it. */
export function browseQuery({ columns, filters, sort, from }: Browse): URLSearchParams {
  const query = new URLSearchParams();
  for (const { column, operator, value } of filters) {
    query.append('field', column);
    query.append('is', operator);
    query.append('value', value);
  }
  if (sort !== null) query.append('sort', sort.column);
  if (sort?.isDescending === true) query.append('order', 'desc');
  for (const column of columns) query.append('show', column);
  if (from !== null) query.append(from.isBefore ? 'before' : 'after', cursorText(from.values));
  return query;
}

function cursorText(values: readonly Cell[]): string {
  const plain = values.map((value) => (typeof value === 'bigint' ? { i: String(value) } : value));
  return Buffer.from(JSON.stringify(plain)).toString('base64url');
}

function cursorOf(text: string): Cell[] {
  try {
    const values = JSON.parse(Buffer.from(text, 'base64url').toString()) as unknown[];
    return values.map((value) => {
      if (value === null || typeof value === 'string' || typeof value === 'number') return value;
      return BigInt((value as { readonly i: string }).i);
    });
  } catch (error) {
    throw new UsageError('the address does not say where the page begins', {
      advice: 'A part of it was lost. Go to the first page.',
      cause: error,
    });
  }
}

/** Throws a UsageError for what the mirror does not know, a value of another type, and a masked column. */
function lookedAt(snapshot: Snapshot, browse: Browse, isMasked: boolean) {
  const { filters, sort } = browse;
  const named = [...filters.map(({ column }) => column), ...(sort === null ? [] : [sort.column])];
  const { relation } = resolveSelection(snapshot, {
    relation: browse.relation,
    columns: [...browse.columns, ...named],
    meta: true,
  });
  const hidden = isMasked ? named.find((name) => isPersonal(relation.name, name)) : undefined;
  if (hidden !== undefined) {
    throw new UsageError(`the column ${hidden} is masked for your roles, so rows cannot be found by it`, {
      advice: 'Filter or sort by another column.',
    });
  }
  if (filters.length > browseLimits.filters) throw new UsageError(`there can be ${browseLimits.filters} filters`);
  const declared = declaredTypes(
    filters.map(({ column }) => ({ name: column, table: null, origin: null })),
    [relation],
    { relation: relation.name },
  );
  const conditions = filters.map((filter, at) =>
    conditionSql(declared[at] === 'time' ? timeFilter(filter) : filter, typeOf(relation, filter.column)),
  );
  const key = keyOf(relation);
  const order = sort === null ? key : [sort.column, ...key.filter((name) => name !== sort.column)];
  const leadsNowhere = isMasked && order.some((name) => isPersonal(relation.name, name));
  if (leadsNowhere && browse.from !== null) {
    // Whoever chose where the page begins would learn of each value whether it is beyond that.
    throw new UsageError('what the rows are ordered by is masked for your roles, so no page but the first is shown');
  }
  return {
    relation,
    columns: browse.columns.length > 0 ? browse.columns : usualColumns(relation),
    condition: conditions.length === 0 ? undefined : conditions.join(' AND '),
    /** The row's own key last. */
    order,
    /** Something of the order is masked: no other page is begun from it. */
    leadsNowhere,
  };
}

export function usualColumns({ name, columns }: Relation): readonly string[] {
  const known = columns.map((column) => column.name);
  const wanted = (usual[name]?.split(' ') ?? []).filter((each) => known.includes(each));
  return wanted.length > 0 ? wanted : known.slice(0, mostUsual);
}

/** A view has no key of its own: its first column, and for related records the id with it, tell most rows apart. */
function keyOf({ name, key, columns }: Relation): readonly string[] {
  if (key.length > 0) return key;
  const isFlat = relationTables.some(({ view }) => view === name);
  const known = columns.map((column) => column.name);
  return isFlat && known.includes('id') ? [known[0] ?? 'id', 'id'] : known.slice(0, isFlat ? 1 : 6);
}

function typeOf(relation: Relation, column: string): string {
  const declared = relation.columns.find(({ name }) => name === column)?.type ?? '';
  if (declared !== '') return declared.toUpperCase();
  const described = dictionary().find(({ name }) => name === relation.name);
  return described?.columns.find(({ name }) => name === column)?.type ?? '';
}

function literal(value: Cell): string {
  if (value === null || value instanceof Uint8Array) return 'NULL';
  if (typeof value !== 'string') return String(value);
  if (value.includes('\0')) throw new UsageError('a value holds a NUL character, which no filter can find');
  return quoteText(value);
}

const signs = { is: '=', more: '>', 'at-least': '>=', less: '<', 'at-most': '<=' } as const;

const partOfTime = /^\d{4}(?:-\d\d(?:-\d\d(?:T\d\d(?::\d\d(?::\d\d(?:\.\d{1,6})?)?)?)?)?)?$/;

/**
 * Times sort as texts: a day, or any other beginning of one, stands for all that begin so, and comes after none and before all of
 * them. Throws a UsageError where a text that is no time would be compared with times, which finds what it may.
 */
function timeFilter(filter: Filter): Filter {
  const { column, operator, value } = filter;
  const text = value.trim().replace(' ', 'T').replace(/Z$/, '');
  if (!(operator in signs)) return filter;
  if (partOfTime.test(text)) {
    if (operator === 'is') return { column, operator: 'begins', value: text };
    return { column, operator, value: operator === 'more' || operator === 'at-most' ? `${text}\u{10FFFF}` : text };
  }
  // What is no time is found as it stands.
  if (operator === 'is') return filter;
  throw new UsageError(`${column} holds times, and "${value}" is none`, {
    advice: 'Write a day as in 2026-03-11, or a time (UTC) as in 2026-03-11 14:30.',
  });
}

/** The condition as SQL in which nothing of the value can be anything but a value. */
function conditionSql({ column, operator, value }: Filter, type: string): string {
  const name = quoteName(column);
  if (value.length > browseLimits.value) {
    throw new UsageError(`the value for ${column} is longer than ${browseLimits.value} characters`);
  }
  switch (operator) {
    case 'empty':
      return `(${name} IS NULL OR ${name} = '')`;
    case 'filled':
      return `(${name} IS NOT NULL AND ${name} <> '')`;
    case 'contains':
      return `${name} LIKE ${literal(`%${value.replaceAll(/[\\%_]/g, '\\$&')}%`)} ESCAPE '\\'`;
    case 'begins':
      // As a range, for which an index serves.
      return `(${name} >= ${literal(value)} AND ${name} < ${literal(`${value}\u{10FFFF}`)})`;
    case 'is-not':
      return type === '' ? `CAST(${name} AS TEXT) IS NOT ${literal(value)}` : `${name} IS NOT ${typed()}`;
    case 'is':
      return type === '' ? `CAST(${name} AS TEXT) = ${literal(value)}` : `${name} = ${typed()}`;
    case 'more':
    case 'at-least':
    case 'less':
    case 'at-most': {
      const sign = signs[operator];
      if (type !== '') return `${name} ${sign} ${typed()}`;
      return decimal.test(value.trim())
        ? `(typeof(${name}) <> 'text' AND ${name} ${sign} ${Number(value)})`
        : `(typeof(${name}) = 'text' AND ${name} ${sign} ${literal(value)})`;
    }
  }

  function typed(): string {
    const text = value.trim();
    if (type.startsWith('INTEGER') && !whole.test(text)) {
      throw new UsageError(`${column} holds whole numbers, and "${value}" is none`);
    }
    if (type.startsWith('REAL') && !decimal.test(text)) {
      throw new UsageError(`${column} holds numbers, and "${value}" is none`, { advice: 'Write it as in 12.50.' });
    }
    if (type.startsWith('INTEGER')) return String(BigInt(text));
    return type.startsWith('REAL') ? String(Number(text)) : literal(value);
  }
}

const whole = /^-?\d{1,18}$/;
const decimal = /^-?\d{1,15}(?:\.\d{1,15})?$/;

/** The rows beyond a row, as conditions that an index can serve one by one, which one with OR it cannot. */
function segmentsBeyond(order: readonly string[], values: readonly Cell[], isDescending: boolean): string[] {
  const same = (at: number): string =>
    values[at] === null
      ? `${quoteName(order[at] ?? '')} IS NULL`
      : `${quoteName(order[at] ?? '')} = ${literal(values[at] ?? null)}`;
  return order
    .map((column, at) => {
      const name = quoteName(column);
      const like = order.slice(0, at).map((_, each) => same(each));
      const value = values[at] ?? null;
      const under = (condition: string): string => [...like, condition].join(' AND ');
      // NULL comes before everything else.
      if (isDescending) return value === null ? [] : [under(`${name} < ${literal(value)}`), under(`${name} IS NULL`)];
      return [under(value === null ? `${name} IS NOT NULL` : `${name} > ${literal(value)}`)];
    })
    .reverse()
    .flat();
}

interface Reading {
  readonly selections: readonly Omit<Selection, 'limit'>[];
  readonly isBackward: boolean;
}

function readingOf(
  { relation, columns, condition, order }: ReturnType<typeof lookedAt>,
  { sort, from }: Browse,
): Reading {
  const isBackward = from?.isBefore ?? false;
  const isDescending = (sort?.isDescending ?? false) !== isBackward;
  if (from !== null && from.values.length !== order.length) {
    throw new UsageError('the address does not say where the page begins', { advice: 'Go to the first page.' });
  }
  const segments = from === null ? [undefined] : segmentsBeyond(order, from.values, isDescending);
  return {
    isBackward,
    selections: segments.map((segment) => {
      const where = [condition, segment].filter((each) => each !== undefined);
      return {
        relation: relation.name,
        columns: [...columns, ...order],
        ...(where.length > 0 && { where: where.join(' AND ') }),
        order: orderSql(order, isDescending),
      };
    }),
  };
}

function orderSql(order: readonly string[], isDescending: boolean): string {
  return order.map((name) => `${quoteName(name)}${isDescending ? ' DESC' : ''}`).join(', ');
}

/** Rows of a table up to which anything is quick. */
const fewRows = 2_000;

function isSmall(snapshot: Snapshot, { name, kind }: Relation): boolean {
  // What a view reads, it does not say.
  const tables = kind === 'table' ? [name] : ['users', 'emails', name.replace(/_flat$/, '')];
  const known = snapshot.relations();
  return tables
    .filter((table) => known.some((each) => each.name === table && each.kind === 'table'))
    .every((table) => {
      const sql = `SELECT count(*) FROM (SELECT 1 FROM ${quoteName(table)} LIMIT ${fewRows + 1})`;
      const [[count] = []] = [...snapshot.query(sql).batches(() => 1)].flat();
      return Number(count) <= fewRows;
    });
}

const ranged: ReadonlySet<Operator> = new Set(['is', 'begins', ...(Object.keys(signs) as Operator[])]);

/** Whether the page costs a few milliseconds however many rows there are: an index leads to each of its rows, in order. */
function isQuick(snapshot: Snapshot, browse: Browse, isMasked: boolean): boolean {
  const looked = lookedAt(snapshot, browse, isMasked);
  const { relation } = looked;
  if (isSmall(snapshot, relation)) return true;
  if (relation.kind === 'view') return false;
  return readingOf(looked, browse).selections.every((selection) => {
    const steps = snapshot.stepsOf({ ...selection, limit: browseLimits.rows });
    if (steps.some((step) => step.includes('TEMP B-TREE'))) return false;
    const served = new Set(steps.flatMap((step) => [...step.matchAll(/[( ](\w+)[<>=]/g)].map(([, name = '']) => name)));
    return browse.filters.every(
      ({ column, operator }) =>
        ranged.has(operator) && (served.has(column) || (column === relation.rangeColumn && served.has('rowid'))),
    );
  });
}

/** One page. Throws a UsageError for what the mirror does not know. */
function pageOf(snapshot: Snapshot, browse: Browse, isMasked: boolean): BrowsePage {
  const looked = lookedAt(snapshot, browse, isMasked);
  const { selections, isBackward } = readingOf(looked, browse);
  const wanted = browseLimits.rows + 1;
  const found: Row[] = [];
  let columns: readonly ResultColumn[] = [];
  for (const selection of selections) {
    const rows = snapshot.select({ ...selection, limit: wanted - found.length });
    columns = rows.columns;
    for (const batch of rows.batches(() => wanted)) found.push(...batch);
    if (found.length >= wanted) break;
  }
  const shown = looked.columns.length;
  const keyOfRow = (row: Row | undefined): readonly Cell[] => row?.slice(shown) ?? [];
  const kept = keptRows(found, (row) => keyOfRow(row).join('\0'), looked.relation.kind === 'view');
  const hasMore = found.length > kept.length;
  if (isBackward) kept.reverse();
  // A single key may be masked, too: a code where a number was expected.
  const cursor = (row: Row | undefined): readonly Cell[] | null =>
    row === undefined || looked.leadsNowhere || keyOfRow(row).includes(maskedText) ? null : keyOfRow(row);
  const [first, last] = [kept[0], kept.at(-1)];
  const hasBefore = isBackward ? hasMore : browse.from !== null;
  const hasAfter = isBackward ? true : hasMore;
  return {
    columns: columns.slice(0, shown),
    rows: kept.map((row) => row.slice(0, shown)),
    next: hasAfter ? cursor(last) : null,
    previous: hasBefore ? cursor(first) : null,
  };
}

/** Rows that the order cannot tell apart stay on one page, since the next one begins beyond all of them. */
function keptRows(found: readonly Row[], keyOfRow: (row: Row) => string, mayRepeat: boolean): Row[] {
  let end = Math.min(found.length, browseLimits.rows);
  if (!mayRepeat || found.length <= browseLimits.rows) return found.slice(0, end);
  const keys = found.map(keyOfRow);
  while (end > 0 && keys[end - 1] === keys[end]) end -= 1;
  return found.slice(0, end === 0 ? browseLimits.rows : end);
}

function commonValues(snapshot: Snapshot, browse: Browse, column: string, isMasked: boolean): readonly CommonValue[] {
  const { relation, condition } = lookedAt(snapshot, { ...browse, sort: { column, isDescending: false } }, isMasked);
  const sql = `SELECT ${quoteName(column)}, count(*) AS rows FROM ${quoteName(relation.name)}
    ${condition === undefined ? '' : `WHERE ${condition}`} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ${browseLimits.values}`;
  return [...snapshot.query(sql).batches(() => browseLimits.values)]
    .flat()
    .map(([value = null, rows = 0n]) => ({ value, rows: Number(rows) }));
}

function tableSizes(snapshot: Snapshot): ReadonlyMap<string, number> {
  const tables = snapshot.relations().filter(({ kind }) => kind === 'table');
  return new Map(
    tables.map(({ name }) => {
      const [[count] = []] = [...snapshot.query(`SELECT count(*) FROM ${quoteName(name)}`).batches(() => 1)].flat();
      return [name, Number(count)] as const;
    }),
  );
}

/** What is looked at as a table to be exported. Throws what a page of it would. */
export function exportOf(snapshot: Snapshot, browse: Browse, isMasked: boolean): TableRequest {
  const { relation, columns, condition, order } = lookedAt(snapshot, browse, isMasked);
  return {
    relation: relation.name,
    columns,
    meta: true,
    ...(condition !== undefined && { where: condition }),
    ...(browse.sort !== null && { order: orderSql(order, browse.sort.isDescending) }),
  };
}

/** What another process looks up. */
export type BrowseJob =
  | { readonly part: 'page'; readonly browse: Browse }
  | { readonly part: 'values'; readonly browse: Browse; readonly column: string }
  | { readonly part: 'sizes' };

export interface BrowseParts {
  readonly page: BrowsePage;
  readonly values: readonly CommonValue[];
  readonly sizes: ReadonlyMap<string, number>;
}

export type JobOf<P extends keyof BrowseParts> = Extract<BrowseJob, { readonly part: P }>;

export function partOf(snapshot: Snapshot, job: BrowseJob, isMasked: boolean): BrowseParts[keyof BrowseParts] {
  switch (job.part) {
    case 'page':
      return pageOf(snapshot, job.browse, isMasked);
    case 'values':
      return commonValues(snapshot, job.browse, job.column, isMasked);
    case 'sizes':
      return tableSizes(snapshot);
  }
}

/** Whether the part takes a few milliseconds, so that nobody waits for it who looks at something else. */
export function isQuickPart(snapshot: Snapshot, job: BrowseJob, isMasked: boolean): boolean {
  if (job.part === 'page') return isQuick(snapshot, job.browse, isMasked);
  const relations = snapshot.relations().filter(({ kind }) => kind === 'table');
  const named = job.part === 'sizes' ? relations : [lookedAt(snapshot, job.browse, isMasked).relation];
  return named.every((relation) => isSmall(snapshot, relation));
}

/** The part as bytes that another process reads. */
export function browseBytes(snapshot: Snapshot, job: BrowseJob & { readonly isMasked?: boolean }): Uint8Array {
  return serialize(partOf(snapshot, job, job.isMasked === true));
}
