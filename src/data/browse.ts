/**
 * Browses a table or view, page by page. A page begins after the key of the last row before it, so the thousandth page costs as much
 * as the first. SQLite's own plan shows which pages could be slow; another process reads those.
 */
import { serialize } from 'node:v8';
import { UsageError } from '../model/errors.ts';
import { relationTables } from '../model/resources.ts';
import type { Cell, Relation, ResultColumn, Row } from './reading-types.ts';
import type { Snapshot } from './reading.ts';
import { quoteName } from '../store/schema.ts';
import {
  conditionsOf,
  type Filter,
  isRange,
  literal,
  longestValue,
  type Operator,
  operators,
} from './browse-filter.ts';
import { findPeople, hasWords } from './find-people.ts';
import { isPersonal, maskedText } from './personal.ts';
import { resolveSelection, type TableRequest } from './selection.ts';

/** What a page shows. The address of the page holds all of it. */
export interface Browse {
  readonly relation: string;
  /** Empty: the default ones. */
  readonly columns: readonly string[];
  readonly filters: readonly Filter[];
  readonly sort: { readonly column: string; readonly isDescending: boolean } | null;
  /** The sort values of a row: the page comes after it, or before it. Null: the first page. */
  readonly from: { readonly values: readonly Cell[]; readonly isBefore: boolean } | null;
}

export interface BrowsePage {
  readonly columns: readonly ResultColumn[];
  readonly rows: readonly Row[];
  /** The sort values of the last row, and of the first; null if there is no page beyond it. */
  readonly next: readonly Cell[] | null;
  readonly previous: readonly Cell[] | null;
}

export interface CommonValue {
  readonly value: Cell;
  readonly rows: number;
}

export const browseLimits = { rows: 50, filters: 10, value: longestValue, values: 12 } as const;

/** The columns shown by default: those that tell one record from the next at a glance. */
const defaultNames: Readonly<Record<string, string>> = {
  users: 'id username email status balance last_seen_at created_at',
  packages: 'id name service status created_at updated_at',
  emails: 'id user_id receiver subject is_sent created_at',
  coupons: 'id code discount_type discount_amount currency allowed_uses expires_at',
};
const mostDefaultColumns = 8;

/** Reads the query of an address. Throws a UsageError for one that no form of ours sends. */
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

/** Writes the query of the address that `browseOf` reads. */
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

/** Checks the request and turns it into SQL. Throws a UsageError for an unknown name, a value of the wrong type, and a masked column. */
function resolveBrowse(snapshot: Snapshot, browse: Browse, isMasked: boolean) {
  const { filters, sort } = browse;
  const named = [...filters.map(({ column }) => column), ...(sort === null ? [] : [sort.column])];
  const { relation } = resolveSelection(snapshot, {
    relation: browse.relation,
    columns: [...browse.columns, ...named],
    meta: true,
  });
  const hidden = isMasked ? named.find((name) => isPersonal(relation.name, name)) : undefined;
  if (hidden !== undefined) {
    throw new UsageError(`the column ${hidden} is masked for your roles, so you cannot search or sort by it`, {
      advice: 'Filter or sort by another column.',
    });
  }
  if (filters.length > browseLimits.filters)
    throw new UsageError(`there can be at most ${browseLimits.filters} filters`);
  const conditions = conditionsOf(relation, filters);
  const key = keyOf(relation);
  const order = sort === null ? key : [sort.column, ...key.filter((name) => name !== sort.column)];
  const hasMaskedOrder = isMasked && order.some((name) => isPersonal(relation.name, name));
  if (hasMaskedOrder && browse.from !== null) {
    // By choosing where the page begins, the reader would learn which values lie beyond that.
    throw new UsageError(
      'the rows are sorted by a column that is masked for your roles, so only the first page is shown',
    );
  }
  return {
    relation,
    columns: shownColumns(relation, browse),
    condition: conditions.length === 0 ? undefined : conditions.join(' AND '),
    /** The sort column, then the key of the row. */
    order,
    /** No other page can begin from these rows, because a column of the order is masked. */
    hasMaskedOrder,
  };
}

export function shownColumns({ name, columns }: Relation, browse: Browse): readonly string[] {
  if (browse.columns.length > 0) return browse.columns;
  const known = columns.map((column) => column.name);
  const names = (defaultNames[name]?.split(' ') ?? []).filter((each) => known.includes(each));
  return names.length > 0 ? names : known.slice(0, mostDefaultColumns);
}

/** A view has no key. Its first columns tell most rows apart; in views of related records, the parent's id and their own. */
function keyOf({ name, key, columns }: Relation): readonly string[] {
  if (key.length > 0) return key;
  const isFlat = relationTables.some(({ view }) => view === name);
  const known = columns.map((column) => column.name);
  return isFlat && known.includes('id') ? [known[0] ?? 'id', 'id'] : known.slice(0, isFlat ? 1 : 6);
}

/** Returns conditions that together select the rows beyond a row. An index serves each of them, but not all of them joined by OR. */
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

function readingOf({ relation, columns, condition, order }: ReturnType<typeof resolveBrowse>, { sort, from }: Browse) {
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

/** Any statement on a table of so few rows is quick. */
const fewRows = 2_000;

function countOf(snapshot: Snapshot, from: string): number {
  const [[count] = []] = [...snapshot.query(`SELECT count(*) FROM ${from}`).batches(() => 1)].flat();
  return Number(count);
}

function isSmall(snapshot: Snapshot, { name, kind }: Relation): boolean {
  // SQLite does not tell which tables a view reads: these are the candidates.
  const tables = kind === 'table' ? [name] : ['users', 'emails', name.replace(/_flat$/, '')];
  const known = snapshot.relations();
  return tables
    .filter((table) => known.some((each) => each.name === table && each.kind === 'table'))
    .every((table) => countOf(snapshot, `(SELECT 1 FROM ${quoteName(table)} LIMIT ${fewRows + 1})`) <= fewRows);
}

/** Whether the page takes a few milliseconds, however many rows there are: an index finds its rows, in order. */
function isQuickPage(snapshot: Snapshot, browse: Browse, isMasked: boolean): boolean {
  const resolved = resolveBrowse(snapshot, browse, isMasked);
  const { relation } = resolved;
  if (isSmall(snapshot, relation)) return true;
  if (relation.kind === 'view') return false;
  return readingOf(resolved, browse).selections.every((selection) => {
    const steps = snapshot.stepsOf({ ...selection, limit: browseLimits.rows });
    if (steps.some((step) => step.includes('TEMP B-TREE'))) return false;
    const served = new Set(steps.flatMap((step) => [...step.matchAll(/[( ](\w+)[<>=]/g)].map(([, name = '']) => name)));
    return browse.filters.every(
      ({ column, operator }) =>
        isRange(operator) && (served.has(column) || (column === relation.rangeColumn && served.has('rowid'))),
    );
  });
}

function pageOf(snapshot: Snapshot, browse: Browse, isMasked: boolean): BrowsePage {
  const resolved = resolveBrowse(snapshot, browse, isMasked);
  const { selections, isBackward } = readingOf(resolved, browse);
  // One more than the page shows, to see whether there is another page.
  const wanted = browseLimits.rows + 1;
  const found: Row[] = [];
  let columns: readonly ResultColumn[] = [];
  for (const selection of selections) {
    const rows = snapshot.select({ ...selection, limit: wanted - found.length });
    columns = rows.columns;
    for (const batch of rows.batches(() => wanted)) found.push(...batch);
    if (found.length >= wanted) break;
  }
  const shown = resolved.columns.length;
  const keyOfRow = (row: Row): readonly Cell[] => row.slice(shown);
  const kept = keptRows(found, (row) => keyOfRow(row).join('\0'), resolved.relation.kind === 'view');
  const hasMore = found.length > kept.length;
  if (isBackward) kept.reverse();
  // The key of a single row may be masked, too, if it is not of the expected shape.
  const cursor = (row: Row | undefined): readonly Cell[] | null =>
    row === undefined || resolved.hasMaskedOrder || keyOfRow(row).includes(maskedText) ? null : keyOfRow(row);
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

/** Cuts the page. Rows with the same key stay on one page, because the next page begins after all of them. */
function keptRows(found: readonly Row[], keyOfRow: (row: Row) => string, mayRepeat: boolean): Row[] {
  let end = Math.min(found.length, browseLimits.rows);
  if (!mayRepeat || found.length <= browseLimits.rows) return found.slice(0, end);
  const keys = found.map(keyOfRow);
  while (end > 0 && keys[end - 1] === keys[end]) end -= 1;
  return found.slice(0, end === 0 ? browseLimits.rows : end);
}

function commonValues(snapshot: Snapshot, browse: Browse, column: string, isMasked: boolean): readonly CommonValue[] {
  const { relation, condition } = resolveBrowse(
    snapshot,
    { ...browse, sort: { column, isDescending: false } },
    isMasked,
  );
  const sql = `SELECT ${quoteName(column)}, count(*) AS rows FROM ${quoteName(relation.name)}
    ${condition === undefined ? '' : `WHERE ${condition}`} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ${browseLimits.values}`;
  return [...snapshot.query(sql).batches(() => browseLimits.values)]
    .flat()
    .map(([value = null, rows = 0n]) => ({ value, rows: Number(rows) }));
}

function tableSizes(snapshot: Snapshot): ReadonlyMap<string, number> {
  const tables = snapshot.relations().filter(({ kind }) => kind === 'table');
  return new Map(tables.map(({ name }) => [name, countOf(snapshot, quoteName(name))] as const));
}

/** Returns the same rows as a request for an export. Throws what the page would throw. */
export function exportOf(snapshot: Snapshot, browse: Browse, isMasked: boolean): TableRequest {
  const { relation, columns, condition, order } = resolveBrowse(snapshot, browse, isMasked);
  return {
    relation: relation.name,
    columns,
    meta: true,
    ...(condition !== undefined && { where: condition }),
    ...(browse.sort !== null && { order: orderSql(order, browse.sort.isDescending) }),
  };
}

export type BrowseJob =
  | { readonly part: 'page'; readonly browse: Browse }
  | { readonly part: 'values'; readonly browse: Browse; readonly column: string }
  | { readonly part: 'sizes' }
  | { readonly part: 'people'; readonly text: string };

export interface BrowseParts {
  readonly page: BrowsePage;
  readonly values: readonly CommonValue[];
  readonly sizes: ReadonlyMap<string, number>;
  /** Users that a text finds. */
  readonly people: readonly Row[];
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
    case 'people':
      return findPeople(snapshot, job.text, isMasked);
  }
}

/** Whether the part takes a few milliseconds, so that it can be read in the console's own thread. */
export function isQuickPart(snapshot: Snapshot, job: BrowseJob, isMasked: boolean): boolean {
  if (job.part === 'page') return isQuickPage(snapshot, job.browse, isMasked);
  if (job.part === 'people' && (isMasked || hasWords(snapshot))) return true;
  const relations = snapshot
    .relations()
    .filter(({ kind, name }) => kind === 'table' && (job.part === 'sizes' || name === 'users'));
  const read = job.part !== 'values' ? relations : [resolveBrowse(snapshot, job.browse, isMasked).relation];
  return read.every((relation) => isSmall(snapshot, relation));
}

/** Returns the part as bytes for another process. */
export function browseBytes(snapshot: Snapshot, job: BrowseJob & { readonly isMasked?: boolean }): Uint8Array {
  return serialize(partOf(snapshot, job, job.isMasked === true));
}
