/** The page of a table or view of the mirror: filtered, sorted, page by page. */
import { declaredTypes } from '../../data/column-type.ts';
import { type ExportFormat, exportFormats } from '../../data/formats.ts';
import { type InventoryTable, inventory } from '../../data/inventory.ts';
import {
  type Browse,
  browseLimits,
  browseOf,
  browseQuery,
  type BrowsePage,
  type CommonValue,
  exportOf,
  shownColumns,
} from '../../data/browse.ts';
import { type Filter, type Operator, operators } from '../../data/browse-filter.ts';
import { isPersonal } from '../../data/personal.ts';
import { counted, grouped } from '../../model/text.ts';
import { type RecordKey, writtenId } from '../../model/records.ts';
import { isResourceName } from '../../model/resources.ts';
import type { Cell, Relation, Row } from '../../data/reading-types.ts';
import {
  anchor,
  cellTag,
  choiceTags,
  type Column,
  html,
  type Html,
  optionTag,
  selectTag,
  type Part,
  sideOf,
  tableTag,
} from '../html.ts';
import { actorOf, type ConsolePorts, notFound, page, type Reply, type Visit } from '../route.ts';
import { downloadOf, isMaskedFor, maskedNote } from './results.ts';

/** A part of a page that is still being counted. The script puts the part of the same id in its place, from an address that waits. */
export function laterTag(id: string, address: string, body: Part = null): Html {
  return html`<div id="${id}" data-later="${address}">
    <p class="soft">Counting… <noscript>Load the page again to see the counts.</noscript></p>
    ${body}
  </div>`;
}

export function dataPath(...parts: readonly (string | number | bigint)[]): string {
  return ['/data', ...parts.map((part) => encodeURIComponent(String(part)))].join('/');
}

/** Columns with few values, which say most about a table. The first that exists is shown beside it. */
const summaryColumns = [
  'status',
  'is_sent',
  'change',
  'kind',
  'state',
  'coupon_type',
  'service',
  'currency',
  'language',
];

/** What the address of the page asks for, and how to make the address of another view of the same table. */
interface TableView {
  readonly visit: Visit;
  readonly relation: Relation;
  readonly table: InventoryTable;
  readonly browse: Browse;
  readonly columns: readonly string[];
  /** The column whose common values are shown beside the rows; null for none. */
  readonly beside: string | null;
  readonly isMasked: boolean;
  readonly href: (changed: Partial<Browse>, more?: Readonly<Record<string, string>>) => string;
}

function viewOf(visit: Visit, { readers }: ConsolePorts): TableView {
  const name = visit.params['relation'] ?? '';
  const relations = readers.read((snapshot) => snapshot.relations());
  const relation = relations.find((each) => each.name === name);
  const table = inventory(relations).find((each) => each.name === name);
  if (relation === undefined || table === undefined) throw notFound(`the mirror has no table or view "${name}"`);
  const browse = browseOf(name, visit.query);
  const isMasked = isMaskedFor(visit);
  const known = relation.columns.map((column) => column.name);
  const chosen = visit.query.get('beside') ?? summaryColumns.find((each) => known.includes(each)) ?? '';
  const beside = known.includes(chosen) && !(isMasked && isPersonal(name, chosen)) ? chosen : null;
  return {
    visit,
    relation,
    table,
    browse,
    columns: shownColumns(relation, browse),
    beside,
    isMasked,
    href: (changed, more = {}) => {
      const query = browseQuery({ ...browse, from: null, ...changed });
      if (visit.query.has('beside')) query.set('beside', chosen);
      for (const [key, value] of Object.entries(more)) query.set(key, value);
      const text = query.toString();
      return `${visit.link(dataPath(name))}${text === '' ? '' : `?${text}`}`;
    },
  };
}

export async function relationPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { readers } = ports;
  const view = viewOf(visit, ports);
  const { browse, beside, isMasked, table, relation } = view;
  const head = isMasked ? maskedNote : null;
  if (visit.refusal !== null) return page(relation.name, html`${head} ${filterForm(view)}`);
  const isWhole = visit.query.has('whole');
  const counts = { part: 'values', browse: { ...browse, from: null, sort: null }, column: beside ?? '' } as const;
  const values = beside === null ? null : valuesTag(view, beside, await readers.beside(counts, isMasked, isWhole));
  // Only what the page still lacks: no row is shown, so nobody was looked at.
  if (isWhole) return page(relation.name, html`${values}`);
  const found = await readers.part({ part: 'page', browse }, isMasked, visit.signal);
  if (found.rows.length > 0) await noteView(visit, ports, relation.name, personIn(view));
  const body = html`${head}
    <div class="beside">
      <div>${filterForm(view)} ${rowsTag(view, found)} ${pagerTag(view, found)} ${downloadsTag(view)}</div>
      <aside aria-label="Common values">${values}</aside>
    </div>
    <h2>Columns</h2>
    <p>${table.summary}</p>
    ${tableTag(
      'Columns, and what they hold',
      [
        ['Column', ({ name }) => html`<code>${name}</code>`],
        ['Type', ({ type }) => type],
        ['Meaning', ({ name, meaning }) => [meaning, isPersonal(relation.name, name) ? ' (personal)' : '']],
      ],
      table.columns.filter((column) => column.in_file),
    )}`;
  return page(relation.name, body);
}

/** Records in the journal that the caller looked at the data of one person. */
export async function noteView(
  visit: Visit,
  ports: ConsolePorts,
  relation: string,
  user: RecordKey | undefined,
): Promise<void> {
  if (user === undefined) return;
  await ports.journal.by(actorOf(visit, ports)).viewed(user, relation === 'emails' ? 'emails' : 'record');
}

/** The person whose data is shown, if the filter selects one person. */
function personIn({ relation, browse }: TableView): RecordKey | undefined {
  const of = browse.filters.find(
    ({ column, operator }) =>
      operator === 'is' && (column === 'user_id' || (column === 'id' && /^users(?:_|$)/.test(relation.name))),
  );
  return of === undefined ? undefined : writtenId(of.value.trim());
}

function filterForm({ visit, relation, browse, columns, beside, isMasked, href }: TableView): Html {
  const named = relation.columns.map(({ name }) => name);
  const open = named.filter((name) => !(isMasked && isPersonal(relation.name, name)));
  const columnSelect = (label: string, name: string, chosen: string, none: string): Html =>
    selectTag(label, name, [optionTag('', chosen, none), ...open.map((each) => optionTag(each, chosen))]);
  const comparisons = Object.keys(operators) as Operator[];
  const order = browse.sort?.isDescending === true ? 'desc' : 'asc';
  // A refused filter comes back into the form, to be corrected there.
  const kept = visit.refusal === null ? browse.filters : browse.filters.slice(0, -1);
  const edited = browse.filters[kept.length] ?? { column: '', operator: 'is', value: '' };
  return html`<form method="get" action="${visit.link(dataPath(relation.name))}">
    ${kept.map(({ column, operator, value }) =>
      Object.entries({ field: column, is: operator, value }).map(
        ([name, text]) => html`<input type="hidden" name="${name}" value="${text}" />`,
      ),
    )}
    <div class="fields" role="group" aria-label="Filter">
      ${columnSelect('Column', 'field', edited.column, '–')}
      ${selectTag(
        'Comparison',
        'is',
        comparisons.map((each) => optionTag(each, edited.operator, operators[each])),
      )}
      <label>Value <input name="value" value="${edited.value}" /></label>
      <button>Show</button> <a class="button quiet" href="${visit.link(dataPath(relation.name))}">Reset</a>
      ${kept.map((filter) => chipTag(filter, href({ filters: kept.filter((each) => each !== filter) })))}
    </div>
    <details>
      <summary>Columns and order</summary>
      <div class="fields">
        ${columnSelect('Sorted by', 'sort', browse.sort?.column ?? '', 'the usual order')}
        ${selectTag('Order', 'order', [optionTag('asc', order, 'smallest first'), optionTag('desc', order, 'largest first')])}
        ${columnSelect('Common values of', 'beside', beside ?? '', 'no column')}
      </div>
      <fieldset>
        <legend>Columns</legend>
        ${choiceTags('show', named, columns)}
      </fieldset>
    </details>
  </form>`;
}

/** A filter that is in force. A click ends it. */
function chipTag({ column, operator, value }: Filter, without: string): Html {
  return html`<a class="chip" href="${without}" title="Remove this filter"
    >${column} <span class="soft">${operators[operator]}</span> <bdi>${value}</bdi> <span aria-hidden="true">×</span></a
  >`;
}

function rowsTag({ visit, relation, table, browse, isMasked, href }: TableView, { columns, rows }: BrowsePage): Html {
  const types = declaredTypes(columns, [relation], { relation: relation.name });
  const { sort } = browse;
  const shown = columns.map(({ name }, at): Column<Row> => {
    const isSorted = sort?.column === name;
    const isDescending = isSorted && !sort.isDescending;
    const sign = !isSorted ? '' : sort.isDescending ? ' ▼' : ' ▲';
    const meaning = table.columns.find((each) => each.name === name)?.meaning ?? '';
    return [
      name,
      (row) => linked(visit, relation.name, name, row[at] ?? null, cellTag(row[at] ?? null, types[at])),
      sideOf(types[at]),
      isMasked && isPersonal(relation.name, name)
        ? undefined
        : html`<a href="${href({ sort: { column: name, isDescending } })}" title="${meaning}">${name}${sign}</a>`,
    ];
  });
  return tableTag<Row>(`Rows of ${relation.name}`, shown, rows, 'No rows match.');
}

/** Makes a cell that is the id of a record a link to it. */
export function linked({ link }: Visit, relation: string, column: string, cell: Cell, tag: Part): Part {
  const to = recordNamed(relation, column);
  return to === null || typeof cell !== 'bigint' || cell < 1n ? tag : anchor(link(dataPath(to, cell)), tag);
}

function recordNamed(relation: string, column: string): string | null {
  if (column === 'user_id') return 'users';
  if (column === 'package_id') return 'packages';
  const of = relation.replace(/_(?:history|live_age)$/, '');
  return column === 'id' && isResourceName(of) ? of : null;
}

function pagerTag({ browse, href }: TableView, { rows, next, previous }: BrowsePage): Html {
  const to = (values: readonly Cell[] | null, isBefore: boolean, words: string, rel: string): Part =>
    values === null
      ? null
      : html`<a class="button quiet" rel="${rel}" href="${href({ from: { values, isBefore } })}">${words}</a> `;
  return html`<p class="pager">
    ${browse.from === null ? null : html`<a class="button quiet" href="${href({})}">First page</a> `}
    ${to(previous, true, 'Previous page', 'prev')} ${to(next, false, 'Next page', 'next')}
    <span class="soft">${counted(rows.length, 'row')} on this page</span>
  </p>`;
}

function downloadsTag({ relation, visit, browse }: TableView): Html {
  const query = (format: ExportFormat): string => {
    const parts = browseQuery({ ...browse, from: null });
    parts.set('format', format);
    return `${visit.link(dataPath(relation.name, 'download'))}?${parts.toString()}`;
  };
  return html`<p>
    Download all rows that the filter finds:
    ${exportFormats.map((format) => html`<a href="${query(format)}">${format}</a> `)}
  </p>`;
}

function valuesTag(
  { href, browse, relation, beside }: TableView,
  column: string,
  values: readonly CommonValue[] | undefined,
): Html {
  const heading = html`<h2>${column}</h2>`;
  if (values === undefined) return laterTag('values', href({}, { beside: beside ?? '', whole: '1' }), heading);
  const [type] = declaredTypes([{ name: column, table: null, origin: null }], [relation], { relation: relation.name });
  const others = browse.filters.filter((filter) => filter.column !== column);
  const withValue = (value: Cell): string =>
    href({
      filters: [
        ...others,
        value === null ? { column, operator: 'empty', value: '' } : { column, operator: 'is', value: String(value) },
      ],
    });
  return html`<div id="values">
    ${heading}
    ${tableTag<CommonValue>(
      `Common values of ${column}`,
      [
        [
          'Value',
          ({ value }) =>
            value instanceof Uint8Array || (typeof value === 'string' && value.length > browseLimits.value)
              ? cellTag(value, undefined)
              : anchor(withValue(value), value === null ? 'empty' : cellTag(value, type)),
        ],
        ['Rows', ({ rows }) => grouped(rows), 'number'],
      ],
      values,
    )}
  </div>`;
}

/** All rows that the filter finds, as a file. */
export async function downloadData(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const view = viewOf(visit, ports);
  const { browse, isMasked, relation } = view;
  const what = ports.readers.read((snapshot) => exportOf(snapshot, browse, isMasked), isMasked);
  await noteView(visit, ports, relation.name, personIn(view));
  return downloadOf(visit, ports, relation.name, what);
}
