/** What is known to be about nobody, in one list. All else is personal, new fields of a server among it. */
import type { ResultColumn, Cell, RecordChange, Row, Rows } from '../store/reading-types.ts';
import type { ReadingStore, Snapshot } from '../store/reading.ts';
import { type ResourceName, resourceOf } from '../model/resources.ts';

/** What the value of a field must look like to be kept. */
export type Shape = 'id' | 'number' | 'time' | 'word' | 'label';

/** Characters as both GLOB and a regular expression list them, and how many; any of the forms will do. */
interface Form {
  readonly of: string;
  readonly least?: number;
  readonly most?: number;
}

const forms: Readonly<Record<Exclude<Shape, 'label'>, readonly Form[]>> = {
  // Whole numbers, and UUIDs.
  id: [{ of: '0-9' }, { of: '0-9a-fA-F-', least: 36, most: 36 }],
  number: [{ of: '0-9.e+-', most: 24 }],
  time: [{ of: '0-9TZ:. +-', most: 32 }],
  word: [{ of: 'a-zA-Z0-9_+=.:/-', most: 40 }],
};

const patterns = new Map(
  Object.entries(forms).map(([shape, list]) => [
    shape,
    new RegExp(`^(?:${list.map(({ of, least = 0, most }) => `[${of}]{${least},${most ?? ''}}`).join('|')})$`),
  ]),
);

/** Whether the text is of the shape, as SQL. */
export function shapeSql(shape: Shape, value: string): string {
  if (shape === 'label') return 'true';
  const ofForm = ({ of, least, most }: Form): string =>
    [
      ...(least === undefined ? [] : [`length(${value}) >= ${least}`]),
      ...(most === undefined ? [] : [`length(${value}) <= ${most}`]),
      `${value} NOT GLOB '*[^${of}]*'`,
    ].join(' AND ');
  return `(${forms[shape].map(ofForm).join(' OR ')})`;
}

/** Fields that are known to be about nobody, by the shape of what they hold. A field that is not here is personal. */
const harmless: Readonly<Record<Exclude<Shape, 'label'>, string>> = {
  id:
    'id user_id category_id order_id package_id price_id payment_id email_id staff_id parent_id group_id coupon_id role_id ' +
    'suborder_id transaction_id subscription_id affiliate_id',
  number:
    'balance is_subscribed order global_quantity client_quantity require_domain allow_coupons allow_notes is_sent resent ' +
    'discount_amount allowed_uses amount price renewal_price setup_fee cancellation_fee upgrade_fee fee total subtotal tax ' +
    'tax_rate discount balance_before_transaction balance_after_transaction commission quantity uses clicks count position ' +
    'read is_online is_active is_revoked is_default verified sort_order _seq _deleted',
  time:
    'created_at updated_at email_verified_at last_seen_at last_login_at scheduled_at expires_at deleted_at sent_at ' +
    'cancelled_at last_renewed_at due_date paid_at read_at starts_at ends_at suspended_at terminated_at activated_at ' +
    '_first_seen_at _changed_at valid_from valid_to',
  word:
    'status visibility language service setup_on discount_type currency coupon_type applicable_products type state result ' +
    'driver method period interval locale country device_type platform change',
};

/** What is sold, and how accounts are grouped: names and descriptions of these are nobody's. */
const catalogue: ReadonlySet<string> = new Set(
  'packages package_category package_prices package_features user_groups user_permissions'.split(' '),
);
const labels: ReadonlySet<string> = new Set('name description icon title slug label link path'.split(' '));

/** What this program itself writes about its work; not who ran it, nor words of a server. */
const ownColumns: ReadonlySet<string> = new Set(
  (
    'run command status started_at finished_at requests retries answers resource received inserted updated deleted ' +
    'unchanged live server_total fresh_as_of expected from_day to_day state pages_read begins_at windows unsettled event at ' +
    'kind name relation table_name included since version applied_at measured_at seen_day page total last_page per_page ' +
    'owned last_created_at rows_sum id user_id mirror seq deletions_from from_seq epoch began_at'
  ).split(' '),
);

const shapeByField = new Map(
  Object.entries(harmless).flatMap(([shape, names]) => names.split(' ').map((name) => [name, shape as Shape] as const)),
);

/** The shape of what is about nobody; undefined of a personal field. */
export function shapeOf(table: string, field: string): Shape | undefined {
  const of = table.replace(/_flat$/, '');
  if (catalogue.has(of) && labels.has(field)) return 'label';
  if (of.startsWith('mirror_')) return ownColumns.has(field) ? 'label' : undefined;
  return shapeByField.get(field);
}

/** Whether the column of the table or view holds what is about people. */
export function isPersonal(relation: string, column: string): boolean {
  return shapeOf(relation, column) === undefined;
}

/** What stands in the place of a text that is not shown. */
export const maskedText = '(masked)';

function masked(shape: Shape | undefined, cell: Cell): Cell {
  if (cell === null) return null;
  if (shape === undefined) return typeof cell === 'string' ? maskedText : null;
  if (typeof cell !== 'string' || shape === 'label' || patterns.get(shape)?.test(cell) === true) return cell;
  return shape === 'word' ? maskedText : null;
}

const day = /^\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?)?)?$/;

/** Of what a statement computes nobody knows what it was made of: numbers, days and times of it are shown. */
function maskedComputed(cell: Cell): Cell {
  return typeof cell !== 'string' || day.test(cell) ? (cell instanceof Uint8Array ? null : cell) : maskedText;
}

function maskerOf({ name, table, origin }: ResultColumn, relation: string | undefined): (cell: Cell) => Cell {
  if (table !== null && origin !== null) {
    const shape = shapeOf(table, origin);
    return (cell) => masked(shape, cell);
  }
  // The views of related records take each column from the record.
  if (relation?.endsWith('_flat') !== true) return maskedComputed;
  const shape = shapeOf(relation, name);
  return (cell) => masked(shape, cell);
}

/** Of several statements put together, SQLite names the columns of one alone. */
const compound = /\b(?:union|intersect|except)\b/i;

function maskedRows({ columns, batches }: Rows, relation?: string, isComputed = false): Rows {
  const maskers = columns.map((column) => (isComputed ? maskedComputed : maskerOf(column, relation)));
  const rowOf = (row: Row): Row => row.map((cell, at) => maskers[at]?.(cell) ?? null);
  return {
    columns,
    batches: function* batchesMasked(wanted) {
      for (const rows of batches(wanted)) yield rows.map(rowOf);
    },
  };
}

function* maskedChanges<C extends RecordChange>(resource: ResourceName, changes: Iterable<C>): Generator<C> {
  const shapes = [...resourceOf(resource).fields.map(({ name }) => shapeOf(resource, name)), undefined];
  const rowOf = (row: Row | null): Row | null => row?.map((cell, at) => masked(shapes[at], cell)) ?? null;
  for (const change of changes) yield { ...change, before: rowOf(change.before), after: rowOf(change.after) };
}

/** The same snapshot as whoever may not see people's data reads it. */
export function maskedSnapshot(snapshot: Snapshot): Snapshot {
  // Ranges may be read as lines that SQLite made, in which no cell can be told from the next.
  const relations = snapshot.relations().map((each) => ({ ...each, rangeColumn: null }));
  return {
    ...snapshot,
    relations: () => relations,
    select: (selection) => maskedRows(snapshot.select(selection), selection.relation),
    changed: (selection) => maskedRows(snapshot.changed(selection), selection.table.name),
    selectRanges: () => {
      throw new Error('a masked table is not read by ranges');
    },
    changes: (resource, span) => maskedChanges(resource, snapshot.changes(resource, span)),
    changesAfter: (resource, after, since) => maskedChanges(resource, snapshot.changesAfter(resource, after, since)),
    query: (sql, values, part) => maskedRows(snapshot.query(sql, values, part), undefined, compound.test(sql)),
  };
}

/** The same store as whoever may not see people's data reads it, whatever the statement. */
export function maskedStore(store: ReadingStore): ReadingStore {
  return { snapshot: () => maskedSnapshot(store.snapshot()), close: () => store.close() };
}
