/** What every table, view and column of the mirror means; a test holds it to the tables of a real mirror. */
import { bookkeeping, column, table, view } from './dictionary-bookkeeping.ts';
import { type RelationTable, relationTables } from '../model/relations.ts';
import {
  type Field,
  type FieldType,
  type Resource,
  type ResourceName,
  resourceNames,
  resourceOf,
  sqlTypeOf,
} from '../model/resources.ts';
import type { Relation } from '../store/reading-types.ts';

const ofAll: Readonly<Record<string, string>> = {
  created_at: 'when the record was made on the server',
  updated_at: 'when the server last changed the record',
};

const ofOne: Readonly<Record<ResourceName, Readonly<Record<string, string>>>> = {
  users: {
    username: 'name of the account',
    email: "the person's address",
    first_name: 'given name',
    last_name: 'family name',
    visibility: 'whether the person is shown as present',
    email_verified_at: 'when the address was confirmed; null where it never was',
    last_seen_at: 'when the person was last there',
    last_login_at: 'when the person last logged in',
  },
  packages: {
    category_id: 'the category that it stands in; the API does not show categories',
    name: 'what it is called',
    icon: 'its picture',
    service: 'the service that it is of',
    global_quantity: 'how many there are for all',
    client_quantity: 'how many one customer may have',
    require_domain: 'whether an order has to name a domain',
    allow_coupons: 'whether coupons can be used on it',
    allow_notes: 'whether an order can have notes',
  },
  emails: {
    subject: 'its subject',
    content: 'its body',
    is_sent: 'whether it went out',
    resent: 'how often it was sent again',
    scheduled_at: 'when it is to go out, or was',
  },
  coupons: {
    code: 'what is typed in to use it',
    discount_type: 'how the discount is counted',
    discount_amount: 'how much is taken off, in what discount_type says',
    allowed_uses: 'how often it can be used',
    coupon_type: 'what kind of coupon it is',
    notes: 'notes on it',
    expires_at: 'from when on it is no longer valid',
  },
};

const historyExamples: Readonly<Record<ResourceName, string>> = {
  users:
    "SELECT id, valid_to AS changed_at, record ->> 'username' AS username, record ->> 'balance' AS balance FROM users_history ORDER BY id, valid_to",
  packages:
    "SELECT id, valid_from, valid_to, record ->> 'status' AS status FROM packages_history ORDER BY id, valid_to",
  emails:
    "SELECT id, valid_to AS deleted_at, record ->> 'subject' AS subject FROM emails_history WHERE change = 'deleted' ORDER BY valid_to",
  coupons:
    "SELECT id, valid_to AS deleted_at, record ->> 'code' AS code FROM coupons_history WHERE change = 'deleted' ORDER BY valid_to",
};

const historyTables: readonly TableEntry[] = resourceNames.map((name) =>
  table(
    `${name}_history`,
    `Every earlier version of a row of ${name}, in the order in which they ended. \`export ${name} --as-of\` puts them together again.`,
    historyExamples[name],
    column('id INTEGER', `the ${resourceOf(name).singular}; one may have many versions`),
    column(
      'change TEXT',
      'what ended the version: updated, another took its place; deleted, the record left the table',
    ),
    column('valid_from TEXT', 'from when on the mirror held it: the _changed_at of the row'),
    column('valid_to TEXT', 'when the mirror saw the change; it no longer held the version then'),
    column('record TEXT (JSON)', 'the row as it was: every column of the table but _changed_at'),
    column('_seq INTEGER', 'the number of the change that ended it; grows with each'),
  ),
);

/** The entries of those that are in the file. */
export function relationEntries(relations: readonly Pick<Relation, 'name' | 'columns'>[]): readonly TableEntry[] {
  const inFile = new Map(relations.map((each) => [each.name, each]));
  return relationTables.flatMap((each) => {
    const found = inFile.get(each.view);
    return [
      ...(inFile.has(each.table) ? [tableEntry(each)] : []),
      ...(found === undefined ? [] : [viewEntry(each, found)]),
    ];
  });
}

/** The entries of all that a mirror can have; which keys the records will have, nobody knows before they came. */
export function possibleRelationEntries(): readonly TableEntry[] {
  return relationTables.flatMap((each) => [tableEntry(each), viewEntry(each, { columns: [] })]);
}

/** The setting that a table or view of that name would be there by; undefined where it is none of related records. */
export function settingBehind(name: string): string | undefined {
  const found = relationTables.find(({ table, view }) => table === name || view === name);
  return found && `Add ${found.relation} to resources.${found.resource}.include, and run \`admin-mirror sync\`.`;
}

const seqColumn = column('_seq INTEGER', 'the number of the row’s last change; grows with each (mirror_cursor)');

function parentEntry({ resource, parentColumn }: RelationTable): ColumnEntry {
  const meaning = `the ${resourceOf(resource).singular} that it came with`;
  return { ...column(`${parentColumn} INTEGER`, meaning), source: 'relation' };
}

function tableEntry(relation: RelationTable): TableEntry {
  const { resource, relation: name, table: called, parentColumn } = relation;
  return table(
    called,
    `What the server sends as ${name} of ${resource}, a row each, in whatever shape it comes. ` +
      `Read as resources.${resource}.include says; mirror_relations shows whether it still is.`,
    `SELECT ${parentColumn}, count(*) AS records FROM ${called} GROUP BY ${parentColumn} ORDER BY records DESC LIMIT 10`,
    parentEntry(relation),
    { ...column('id TEXT?', 'of the related record, where it has one; a number as its digits'), source: 'relation' },
    { ...column('record TEXT (JSON)', 'the related record as it came'), source: 'relation' },
    column('_key TEXT', `distinguishes it from others of the same ${parentColumn}: its id, else # and its place`),
    seqColumn,
  );
}

function viewEntry(relation: RelationTable, { columns }: Pick<Relation, 'columns'>): TableEntry {
  const { view: called, table: of, parentColumn } = relation;
  const others = columns.filter(({ name }) => name !== parentColumn);
  return view(
    called,
    `${of} with a column for every key that was seen so far; more come as they are seen.`,
    `SELECT * FROM ${called} LIMIT 10`,
    parentEntry(relation),
    ...others.map(({ name }) => ({
      ...column('key any?', 'as it came; objects and arrays as JSON'),
      name,
      source: 'relation' as const,
    })),
  );
}

export const analystViews: readonly TableEntry[] = [
  view(
    'users_live_age',
    'The users that the server has, with how many whole days ago what happened to each; counted to now.',
    'SELECT days_since_seen / 30 AS months_away, count(*) AS users FROM users_live_age GROUP BY 1 ORDER BY 1',
    column('id INTEGER', 'the user'),
    column('username TEXT', 'user name'),
    column('email TEXT', 'email address'),
    column('status TEXT', 'status'),
    column('balance REAL', 'balance'),
    column('verified INTEGER', '1 where the email address is verified'),
    column('days_old INTEGER?', 'since the sign-up'),
    column('days_since_seen INTEGER?', 'since the user was last seen'),
    column('days_since_login INTEGER?', 'since the last login'),
    column('days_since_change INTEGER', 'since a value of the row last changed in the mirror'),
  ),
  view(
    'users_by_day',
    'How many users signed up on each day.',
    "SELECT * FROM users_by_day WHERE day >= date('now', '-14 days') ORDER BY day",
    column('day TEXT?', 'the day, as 2026-03-11; null of users without a creation time'),
    column('users INTEGER', 'users created on it'),
    column('verified INTEGER', 'how many of them have a verified email address by now'),
  ),
  view(
    'emails_by_day',
    'How many emails were made on each day.',
    "SELECT * FROM emails_by_day WHERE day >= date('now', '-14 days') ORDER BY day",
    column('day TEXT?', 'the day, as 2026-03-11; null of emails without a creation time'),
    column('emails INTEGER', 'emails made on it'),
    column('sent INTEGER?', 'how many of them are sent'),
    column('unsent INTEGER?', 'how many of them are not'),
  ),
  view(
    'emails_by_user',
    'How many emails each user was sent or is to be sent; users without any stand with 0.',
    'SELECT * FROM emails_by_user WHERE user_id IN (1, 2, 3)',
    column('user_id INTEGER', 'the user'),
    column('email TEXT', "the user's address of now"),
    column('emails INTEGER', 'emails of the user'),
    column('unsent INTEGER', 'how many of them are not sent'),
    column('last_created_at TEXT?', 'when the newest of them was made'),
  ),
  view(
    'emails_by_domain',
    'How many emails go to each domain, in small letters.',
    'SELECT * FROM emails_by_domain ORDER BY emails DESC LIMIT 10',
    column('domain TEXT?', 'what follows the @ of the receiver; null where there is no @'),
    column('emails INTEGER', 'emails to it'),
    column('unsent INTEGER?', 'how many of them are not sent'),
    column('users INTEGER', 'users whose emails they are'),
  ),
];

export interface ColumnEntry {
  readonly name: string;
  /** What it is declared as: `INTEGER`, `REAL` or `TEXT`, and `TEXT (JSON)` where it holds JSON. */
  readonly type: string;
  readonly nullable: boolean;
  readonly source: Source;
  readonly meaning: string;
}

/** `document`: a field of the API, as served; `relation`: of related records that came with one; `mirror`: kept by this program. */
type Source = 'document' | 'relation' | 'mirror';

export interface TableEntry {
  readonly name: string;
  readonly kind: 'table' | 'view';
  readonly summary: string;
  readonly columns: readonly ColumnEntry[];
  /** A query to begin with. */
  readonly example: string;
}

/** Where the data of a table or view comes from: the server's own, where any of it is. */
export function sourceOf({ columns }: { readonly columns: readonly { readonly source: string }[] }): Source {
  const sources = new Set(columns.map(({ source }) => source));
  return (['relation', 'document'] as const).find((source) => sources.has(source)) ?? 'mirror';
}

/** Every table and view, resources first. */
export function dictionary(): readonly TableEntry[] {
  return [
    ...resourceNames.map((name) => resourceTable(resourceOf(name))),
    ...analystViews,
    ...historyTables,
    ...bookkeeping,
  ];
}

const typeNotes: Readonly<Partial<Record<FieldType, string>>> = {
  flag: '0 or 1',
  timestamp: 'ISO 8601 UTC with microseconds; sorts as text',
  any: 'text as it came, anything else as JSON',
  object: 'JSON object',
  strings: 'JSON array of strings',
};

const examples: Readonly<Record<ResourceName, string>> = {
  users: 'SELECT status, count(*) AS users, sum(balance) AS balance FROM users GROUP BY status ORDER BY users DESC',
  packages: 'SELECT service, status, count(*) AS packages FROM packages GROUP BY service, status ORDER BY service',
  emails:
    'SELECT substr(created_at, 1, 7) AS month, count(*) AS emails, sum(is_sent) AS sent FROM emails GROUP BY month ORDER BY month',
  coupons:
    'SELECT coupons.code, product.value AS product FROM coupons, json_each(coupons.applicable_products) AS product ORDER BY code',
};

function resourceTable(resource: Resource): TableEntry {
  return table(
    resource.name,
    `${resource.summary} Exactly the ${resource.name} that the server was last seen to have, a row each.`,
    examples[resource.name],
    ...resource.fields.map((field) => fieldColumn(resource, field)),
    ...ownColumns,
  );
}

function fieldColumn(resource: Resource, field: Field): ColumnEntry {
  const seen = resource.valuesSeen[field.name];
  const parts = [
    field.name === 'id' ? 'primary key' : field.note || ofOne[resource.name][field.name] || ofAll[field.name] || '',
    typeNotes[field.type] ?? '',
    seen === undefined || field.type === 'flag' ? '' : `values seen: ${seen.join(', ')}`,
  ];
  return {
    name: field.name,
    type: field.type === 'object' || field.type === 'strings' ? 'TEXT (JSON)' : sqlTypeOf(field.type),
    nullable: field.nullable,
    source: 'document',
    meaning: parts.filter((part) => part !== '').join('; '),
  };
}

const ownColumns: readonly ColumnEntry[] = [
  column(
    '_extra TEXT (JSON)?',
    'as a JSON object: fields that the document does not name, and values that their columns cannot hold',
  ),
  column('_first_seen_at TEXT', 'when the record first came into the mirror'),
  column('_changed_at TEXT', 'when a value of the row last changed in the mirror; fields of history.ignore aside'),
  seqColumn,
];
