/**
 * The four resources of the Administration API, one descriptor each. Everything that the API's reference says about a resource
 * is here and nowhere else: tables, TypeScript types, flag validation, the data dictionary, the sandbox's rules and docs/api.md
 * are all derived from it.
 */

/**
 * What a field holds. `flag` is an integer 0 or 1, `timestamp` is ISO 8601 UTC with microseconds and `Z`, `any` is a value
 * whose type the reference leaves open, `object` and `strings` are JSON.
 */
export type FieldType = 'integer' | 'number' | 'string' | 'flag' | 'timestamp' | 'any' | 'object' | 'strings';

export type SqlType = 'INTEGER' | 'REAL' | 'TEXT';

const sqlTypes: Readonly<Record<FieldType, SqlType>> = {
  integer: 'INTEGER',
  flag: 'INTEGER',
  number: 'REAL',
  string: 'TEXT',
  timestamp: 'TEXT',
  // Strings as they are, other values as their JSON.
  any: 'TEXT',
  object: 'TEXT',
  strings: 'TEXT',
};

/** Returns the declared type of a field's column. A value that does not fit it goes into `_extra`. */
export function sqlTypeOf(type: FieldType): SqlType {
  return sqlTypes[type];
}

export interface Field {
  readonly name: string;
  readonly type: FieldType;
  readonly nullable: boolean;
  /** What the reference says about the field beyond its type, in our words; may be empty. */
  readonly note: string;
}

export interface Resource {
  /** The plural in paths, tables and on the command line. */
  readonly name: ResourceName;
  readonly singular: string;
  readonly path: string;
  readonly summary: string;
  /** In the order of the reference, which is the order of the mirror's columns. */
  readonly fields: readonly Field[];
  /** Names accepted by `include`; null if the reference does not show any. */
  readonly includes: readonly string[] | null;
  readonly filterKeys: readonly string[];
  readonly sortKeys: readonly string[];
  /** Columns whose inner keys can be filtered with `filter[column->key]`. */
  readonly jsonColumns: readonly string[];
  /** The order in which two requests are most likely to agree: creation, then the key that breaks ties best. */
  readonly walkOrder: readonly string[];
  /** Values that have been seen in state-like fields; never a complete list. */
  readonly valuesSeen: Readonly<Record<string, readonly (string | number)[]>>;
}

export type ResourceName = 'users' | 'packages' | 'emails' | 'coupons';

export const resourceNames = ['users', 'packages', 'emails', 'coupons'] as const satisfies readonly ResourceName[];

type FieldOptions = { readonly nullable?: boolean; readonly note?: string };

function field<const N extends string, const T extends FieldType, const O extends FieldOptions>(
  name: N,
  type: T,
  options?: O,
) {
  return {
    name,
    type,
    nullable: (options?.nullable ?? false) as O extends { nullable: true } ? true : false,
    note: options?.note ?? '',
  };
}

const nullable = { nullable: true } as const;

const users = {
  name: 'users',
  singular: 'user',
  path: '/api/v1/users',
  summary: 'People with an account, and the balance they hold.',
  fields: [
    field('id', 'integer'),
    field('username', 'string'),
    field('email', 'string'),
    field('first_name', 'string'),
    field('last_name', 'string'),
    field('status', 'string', { note: 'state of the account' }),
    field('balance', 'number', { note: 'money; decimal' }),
    field('avatar', 'any', { nullable: true, note: 'type not documented' }),
    field('is_subscribed', 'flag', { note: 'the sample filter uses 0 for subscribed users' }),
    field('visibility', 'string'),
    field('language', 'string', { note: 'language code' }),
    field('data', 'any', { nullable: true, note: 'contents not documented' }),
    field('email_verified_at', 'timestamp', nullable),
    field('last_seen_at', 'timestamp'),
    field('last_login_at', 'timestamp'),
    field('created_at', 'timestamp'),
    field('updated_at', 'timestamp'),
  ],
  includes: [
    'balance_transactions',
    'notifications',
    'punishments',
    'permissions',
    'affiliate',
    'suborder',
    'orders',
    'payments',
    'devices',
    'address',
    'groups',
    'emails',
    'oauth',
    'ips',
  ],
  filterKeys: ['first_name', 'last_name', 'username', 'email', 'is_subscribed', 'is_online', 'created_at'],
  sortKeys: ['first_name', 'last_name', 'username', 'email', 'balance', 'created_at'],
  jsonColumns: [],
  walkOrder: ['created_at', 'username'],
  valuesSeen: { status: ['active'], visibility: ['online'], is_subscribed: [0, 1] },
} as const satisfies Resource;

const packages = {
  name: 'packages',
  singular: 'package',
  path: '/api/v1/packages',
  summary: 'What can be ordered.',
  fields: [
    field('id', 'integer'),
    field('order', 'integer', { note: 'display order' }),
    field('category_id', 'integer'),
    field('name', 'string'),
    field('description', 'string', { note: 'may be empty' }),
    field('icon', 'string'),
    field('service', 'string'),
    field('status', 'string', { note: 'state of the package' }),
    field('global_quantity', 'integer'),
    field('client_quantity', 'integer'),
    field('require_domain', 'flag'),
    field('allow_coupons', 'flag'),
    field('allow_notes', 'flag'),
    field('data', 'object', { note: 'key/value pairs; filterable by key' }),
    field('setup_on', 'string', { note: 'when a bought package is set up' }),
    field('created_at', 'timestamp'),
    field('updated_at', 'timestamp'),
  ],
  includes: ['category', 'prices', 'features', 'orders', 'emails', 'webhooks'],
  filterKeys: [
    'id',
    'category_id',
    'name',
    'description',
    'service',
    'status',
    'global_quantity',
    'client_quantity',
    'require_domain',
    'allow_notes',
    'data',
    'created_at',
  ],
  sortKeys: [
    'id',
    'name',
    'service',
    'status',
    'global_quantity',
    'client_quantity',
    'require_domain',
    'allow_notes',
    'allow_coupons',
    'created_at',
    'order',
  ],
  jsonColumns: ['data'],
  walkOrder: ['created_at', 'id'],
  valuesSeen: { status: ['restricted'], setup_on: ['payment_received'] },
} as const satisfies Resource;

const emails = {
  name: 'emails',
  singular: 'email',
  path: '/api/v1/emails',
  summary: 'Messages sent, or waiting to be sent, to users.',
  fields: [
    field('id', 'integer'),
    field('user_id', 'integer', { note: 'the user the message belongs to' }),
    field('sender', 'string', { note: 'address' }),
    field('receiver', 'string', { note: 'address' }),
    field('subject', 'string'),
    field('content', 'string'),
    field('button', 'any', { nullable: true, note: 'type not documented' }),
    field('attachment', 'any', { nullable: true, note: 'type not documented' }),
    field('is_sent', 'flag'),
    field('resent', 'integer'),
    field('scheduled_at', 'timestamp', nullable),
    field('created_at', 'timestamp'),
    field('updated_at', 'timestamp'),
  ],
  includes: ['user'],
  filterKeys: ['id', 'user_id', 'sender', 'receiver', 'subject', 'content', 'button', 'attachment', 'is_sent'],
  sortKeys: ['id', 'user_id', 'receiver', 'sender', 'is_sent', 'created_at'],
  jsonColumns: [],
  walkOrder: ['created_at', 'id'],
  valuesSeen: { is_sent: [0, 1] },
} as const satisfies Resource;

const coupons = {
  name: 'coupons',
  singular: 'coupon',
  path: '/api/v1/coupons',
  summary: 'Codes that give a discount.',
  fields: [
    field('id', 'integer'),
    field('code', 'string'),
    field('discount_type', 'string'),
    field('discount_amount', 'number'),
    field('currency', 'string', { note: 'currency code' }),
    field('allowed_uses', 'integer'),
    field('coupon_type', 'string'),
    field('applicable_products', 'strings', { note: 'product identifiers' }),
    field('notes', 'string', nullable),
    field('expires_at', 'timestamp', nullable),
    field('created_at', 'timestamp'),
    field('updated_at', 'timestamp'),
  ],
  includes: null,
  filterKeys: [
    'id',
    'code',
    'discount_type',
    'discount_amount',
    'currency',
    'allowed_uses',
    'applicable_products',
    'notes',
    'expires_at',
    'created_at',
  ],
  sortKeys: ['id', 'code', 'discount_type', 'discount_amount', 'currency', 'allowed_uses', 'expires_at', 'created_at'],
  jsonColumns: [],
  walkOrder: ['created_at', 'id'],
  valuesSeen: {},
} as const satisfies Resource;

/** Every resource by name. Its literal types carry the field names and keys. */
export const resources = { users, packages, emails, coupons } as const;

/** Returns a resource with its types widened, for code that treats all four alike. */
export function resourceOf(name: ResourceName): Resource {
  return resources[name];
}

export function isResourceName(name: string): name is ResourceName {
  return (resourceNames as readonly string[]).includes(name);
}

type ValueOf<T extends FieldType> = T extends 'integer' | 'number' | 'flag'
  ? number
  : T extends 'string' | 'timestamp'
    ? string
    : T extends 'object'
      ? Readonly<Record<string, unknown>>
      : T extends 'strings'
        ? readonly string[]
        : unknown;

/** A record as the reference describes it. A real server may send others: nothing in the mirror relies on it. */
export type RecordOf<R extends ResourceName> = {
  readonly [F in (typeof resources)[R]['fields'][number] as F['name']]: F['nullable'] extends true
    ? ValueOf<F['type']> | null
    : ValueOf<F['type']>;
};

export type User = RecordOf<'users'>;
export type Package = RecordOf<'packages'>;
export type Email = RecordOf<'emails'>;
export type Coupon = RecordOf<'coupons'>;

export type FilterKey<R extends ResourceName> = (typeof resources)[R]['filterKeys'][number];
export type SortKey<R extends ResourceName> = (typeof resources)[R]['sortKeys'][number];
export type IncludeName<R extends ResourceName> = (typeof resources)[R]['includes'] extends readonly (infer I)[]
  ? I
  : never;

/** Names accepted by `GET /users/{user}`: the list's includes, but `suborders` in the plural. */
export const userRelations = [
  'balance_transactions',
  'notifications',
  'payments',
  'orders',
  'suborders',
  'affiliate',
  'permissions',
  'punishments',
  'address',
  'devices',
  'groups',
  'emails',
  'oauth',
  'ips',
] as const;

export type UserRelation = (typeof userRelations)[number];

/** Words accepted by `date` besides a range of two days. */
export const datePresets = ['today', 'yesterday', '3days', '7days', '14days', '30days', '90days'] as const;

export type DatePreset = (typeof datePresets)[number];

export const sortDirections = ['asc', 'desc', 'random'] as const;

export type SortDirection = (typeof sortDirections)[number];

export const defaultPageSize = 15;

/** Related records of one name, and where the mirror keeps them. */
export interface RelationTable {
  readonly resource: ResourceName;
  /** As `include` names it. */
  readonly relation: string;
  /** `user_orders` */
  readonly table: string;
  /** `user_orders_flat`: a column for every key seen so far. */
  readonly view: string;
  /** `user_id` */
  readonly parentColumn: string;
}

/** Returns where related records of this name are kept. The reference need not have the name. */
export function relationTable(resource: ResourceName, relation: string): RelationTable {
  const { singular } = resourceOf(resource);
  const table = `${singular}_${relation}`;
  return { resource, relation, table, view: `${table}_flat`, parentColumn: `${singular}_id` };
}

/** Every table of related records that a mirror can have, in the order of the reference. */
export const relationTables: readonly RelationTable[] = resourceNames.flatMap((resource) =>
  (resourceOf(resource).includes ?? []).map((relation) => relationTable(resource, relation)),
);
