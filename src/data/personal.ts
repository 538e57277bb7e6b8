/** The list of fields that are about nobody. Everything else is personal, including new fields of a server. */
import type { ResultColumn, Cell, RecordChange, Row, Rows } from './reading-types.ts';
import type { ReadingStore, Snapshot } from './reading.ts';
import { isResourceName, type ResourceName, resourceOf } from '../model/resources.ts';
import { servedColumns } from '../store/schema.ts';
import { extrasOf } from './changes.ts';

/** What a field's value must look like to be kept; any text is a `label`. */
type Shape = 'id' | 'number' | 'time' | 'word' | 'label';

const patterns: Readonly<Record<Exclude<Shape, 'label'>, RegExp>> = {
  // Whole numbers, and UUIDs.
  id: /^(?:[0-9]*|[0-9a-fA-F-]{36})$/,
  number: /^[0-9.e+-]{0,24}$/,
  time: /^[0-9TZ:. +-]{0,32}$/,
  word: /^[a-zA-Z0-9_+=.:/-]{0,40}$/,
};

/** The fields that are about nobody, by the shape of their values. */
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

/** Products and groups of accounts: their names and descriptions are about nobody. */
const catalogueTables: ReadonlySet<string> = new Set(
  'packages package_category package_prices package_features user_groups user_permissions'.split(' '),
);
const labelFields: ReadonlySet<string> = new Set('name description icon title slug label link path'.split(' '));

/** This program's notes about its own work, without the person who ran it and without a server's words. */
const ownColumns: ReadonlySet<string> = new Set(
  (
    'run command status started_at finished_at requests retries answers resource received inserted updated deleted ' +
    'unchanged live server_total fresh_as_of expected from_day to_day state pages_read begins_at windows unsettled event at ' +
    'kind name relation table_name included since version applied_at measured_at seen_day page total last_page per_page ' +
    'owned last_created_at day records one id user_id mirror seq deletions_from from_seq epoch began_at'
  ).split(' '),
);

const shapeByField = new Map(
  Object.entries(harmless).flatMap(([shape, names]) => names.split(' ').map((name) => [name, shape as Shape] as const)),
);

/** Returns the shape of a field that is about nobody; undefined for a personal field. */
function shapeOf(relation: string, field: string): Shape | undefined {
  const table = relation.replace(/_flat$/, '');
  if (catalogueTables.has(table) && labelFields.has(field)) return 'label';
  if (table.startsWith('mirror_')) return ownColumns.has(field) ? 'label' : undefined;
  return shapeByField.get(field);
}

/** Whether the column of the table or view may hold personal data. */
export function isPersonal(relation: string, column: string): boolean {
  return shapeOf(relation, column) === undefined;
}

/** Replaces text that is not shown. */
export const maskedText = '(masked)';

function masked(shape: Shape | undefined, cell: Cell): Cell {
  if (cell === null) return null;
  if (shape === undefined) return typeof cell === 'string' ? maskedText : null;
  if (typeof cell !== 'string' || shape === 'label' || patterns[shape].test(cell)) return cell;
  return shape === 'word' ? maskedText : null;
}

/** Masks each value of `_extra`, which stays JSON for those who read it: the names of its fields are about nobody. */
function maskedExtra(relation: string, cell: Cell): Cell {
  if (cell === null) return null;
  const fields = [...extrasOf(cell)].map(([name, { cell: value, json }]) => {
    const shown = masked(shapeOf(relation, name), value);
    return `${JSON.stringify(name)}:${shown === value ? json : JSON.stringify(shown)}`;
  });
  return `{${fields.join(',')}}`;
}

function fieldMasker(relation: string, field: string): (cell: Cell) => Cell {
  if (field === '_extra' && isResourceName(relation)) return (cell) => maskedExtra(relation, cell);
  const shape = shapeOf(relation, field);
  return (cell) => masked(shape, cell);
}

const dayOrTime = /^\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?)?)?$/;

/** Masks a computed value, which may come from any field: only numbers, days and times are shown. */
function maskedComputed(cell: Cell): Cell {
  if (cell instanceof Uint8Array) return null;
  return typeof cell !== 'string' || dayOrTime.test(cell) ? cell : maskedText;
}

function maskerOf({ name, table, origin }: ResultColumn, relation: string | undefined): (cell: Cell) => Cell {
  if (table !== null && origin !== null) return fieldMasker(table, origin);
  // The columns of these views are computed, but each shows a field of the related record.
  return relation?.endsWith('_flat') === true ? fieldMasker(relation, name) : maskedComputed;
}

/** For a compound statement, SQLite reports only the columns of one part. */
const compound = /\b(?:union|intersect|except)\b/i;

function maskedRows({ columns, batches }: Rows, relation?: string, isComputed = false): Rows {
  const maskers = columns.map((column) => (isComputed ? maskedComputed : maskerOf(column, relation)));
  const rowOf = (row: Row): Row => row.map((cell, at) => maskers[at]?.(cell) ?? null);
  return {
    columns,
    batches: function* maskedBatches(batchSize) {
      for (const rows of batches(batchSize)) yield rows.map(rowOf);
    },
  };
}

function* maskedChanges<C extends RecordChange>(resource: ResourceName, changes: Iterable<C>): Generator<C> {
  const maskers = servedColumns(resourceOf(resource)).map((name) => fieldMasker(resource, name));
  const rowOf = (row: Row | null): Row | null => row?.map((cell, at) => maskers[at]?.(cell) ?? null) ?? null;
  for (const change of changes) yield { ...change, before: rowOf(change.before), after: rowOf(change.after) };
}

/** Returns the snapshot for a reader who may not see personal data. */
export function maskedSnapshot(snapshot: Snapshot): Snapshot {
  // Without ranges: they may be read as lines made by SQLite, in which single cells cannot be masked.
  const relations = snapshot.relations().map((each) => ({ ...each, rangeColumn: null }));
  return {
    ...snapshot,
    relations: () => relations,
    select: (selection) => maskedRows(snapshot.select(selection), selection.relation),
    changed: (selection) => maskedRows(snapshot.changed(selection), selection.table.name),
    selectRanges: () => {
      throw new Error('a masked table cannot be read by ranges');
    },
    changes: (resource, span) => maskedChanges(resource, snapshot.changes(resource, span)),
    changesAfter: (resource, after, since) => maskedChanges(resource, snapshot.changesAfter(resource, after, since)),
    query: (sql, values, part) => maskedRows(snapshot.query(sql, values, part), undefined, compound.test(sql)),
  };
}

/** Returns the store for a reader who may not see personal data. */
export function maskedStore(store: ReadingStore): ReadingStore {
  return { snapshot: () => maskedSnapshot(store.snapshot()), close: () => store.close() };
}
