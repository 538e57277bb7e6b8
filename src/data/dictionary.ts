/** The data dictionary: what every table, view and column of the mirror means. A test compares it with a real mirror. */
import {
  type RelationTable,
  relationTables,
  type Field,
  type FieldType,
  type Resource,
  type ResourceName,
  resourceNames,
  resourceOf,
  sqlTypeOf,
} from '../model/resources.ts';
import { mirrorNumbering } from '../store/cursor.ts';
import { relationTableSql } from '../store/relations.ts';
import { historyTableOf, mirrorTables } from '../store/schema.ts';
import type { Relation } from './reading-types.ts';

/** Queries to begin with. For the others, that is to look at them. */
const examplesByName: Readonly<Record<string, string>> = {
  mirror_runs: 'SELECT started_at, status, requests, problem FROM mirror_runs ORDER BY started_at DESC LIMIT 10',
  mirror_run_resources:
    'SELECT resource, sum(inserted) AS inserted, sum(updated) AS updated, sum(deleted) AS deleted FROM mirror_run_resources GROUP BY resource',
  mirror_windows: "SELECT * FROM mirror_windows WHERE state <> 'settled' ORDER BY resource, from_day",
  mirror_events: 'SELECT at, resource, kind, subject, detail FROM mirror_events ORDER BY at DESC LIMIT 20',
  mirror_relations: 'SELECT resource, relation, table_name FROM mirror_relations WHERE included = 1',
  mirror_suppressions:
    'SELECT user_id, min(since) AS since, count(*) AS records FROM mirror_suppressions GROUP BY user_id',
  mirror_touched: 'SELECT resource, count(*) AS days FROM mirror_touched GROUP BY resource',
  mirror_deletions: 'SELECT table_name, count(*) AS deletions FROM mirror_deletions GROUP BY table_name',
  mirror_freshness: 'SELECT resource, fresh_as_of FROM mirror_freshness',
  users_live_age:
    'SELECT days_since_seen / 30 AS months_away, count(*) AS users FROM users_live_age GROUP BY 1 ORDER BY 1',
  users_by_day: "SELECT * FROM users_by_day WHERE day >= date('now', '-14 days') ORDER BY day",
  emails_by_day: "SELECT * FROM emails_by_day WHERE day >= date('now', '-14 days') ORDER BY day",
  emails_by_user: 'SELECT * FROM emails_by_user WHERE user_id IN (1, 2, 3)',
  emails_by_domain: 'SELECT * FROM emails_by_domain ORDER BY emails DESC LIMIT 10',
  mirror_epochs: 'SELECT from_seq, began_at FROM mirror_epochs ORDER BY from_seq DESC LIMIT 10',
};

/**
 * Reads the entry of a table or view from the statement that makes it. A column is nullable if the statement lets it be; that of a view
 * has its type, with a question mark if it may be null, before its meaning.
 */
function described(statement: string, example?: string): TableEntry {
  const [, word, name = '', summary = ''] =
    /^CREATE (TABLE|VIEW) "?(\w+)"? (?:AS|\()(?: -- (.*))?/.exec(statement) ?? [];
  const isView = word === 'VIEW';
  const lines = isView
    ? statement.matchAll(/^  (?:.*[ .])?(?<column>\w+),? -- (?<type>\w+)(?<rules>\??): (?<meaning>.*)$/gm)
    : statement.matchAll(/^  "?(?<column>\w+)"? (?<type>INTEGER|TEXT)(?<rules>.*) -- (?<meaning>.*)$/gm);
  const columns = Array.from(lines, ({ 0: line, groups = {} }): ColumnEntry => {
    const { column = '', type = '', rules = '', meaning = '' } = groups;
    const nullable = isView ? rules === '?' : !/NOT NULL|PRIMARY KEY/.test(rules);
    return { name: column, type: /json/i.test(line) ? `${type} (JSON)` : type, nullable, source: 'mirror', meaning };
  });
  const toBegin = example ?? examplesByName[name] ?? `SELECT * FROM ${name} LIMIT 10`;
  return { name, kind: isView ? 'view' : 'table', summary, columns, example: toBegin };
}

const statements = [...mirrorTables, ...mirrorNumbering];

function entriesOf(beginning: RegExp): TableEntry[] {
  return statements.filter((statement) => beginning.test(statement)).map((statement) => described(statement));
}

const bookkeeping = [...entriesOf(/^CREATE TABLE mirror_/), ...entriesOf(/^CREATE VIEW mirror_/)];

/** Views that compute something from the records. */
export const analystViews: readonly TableEntry[] = entriesOf(/^CREATE VIEW (?!mirror_)/);

/** Meanings of fields that the reference only names. */
const commonFields: Readonly<Record<string, string>> = {
  created_at: 'when the record was created on the server',
  updated_at: 'when the server last changed the record',
};

const resourceFields: Readonly<Record<ResourceName, Readonly<Record<string, string>>>> = {
  users: {
    username: 'name of the account',
    email: "the person's address",
    first_name: 'given name',
    last_name: 'family name',
    visibility: 'whether the person is shown as present',
    email_verified_at: 'when the address was confirmed; null if it never was',
    last_seen_at: 'when the person was last active',
    last_login_at: 'when the person last logged in',
  },
  packages: {
    category_id: 'the category that it belongs to; the API does not show categories',
    name: 'its name',
    icon: 'its picture',
    service: 'the service that it belongs to',
    global_quantity: 'how many there are for all customers',
    client_quantity: 'how many one customer may have',
    require_domain: 'whether an order must name a domain',
    allow_coupons: 'whether coupons can be used for it',
    allow_notes: 'whether an order can have notes',
  },
  emails: {
    subject: 'its subject',
    content: 'its body',
    is_sent: 'whether it was sent',
    resent: 'how often it was sent again',
    scheduled_at: 'when it is or was due to be sent',
  },
  coupons: {
    code: 'the code that customers enter',
    discount_type: 'how the discount is calculated',
    discount_amount: 'the size of the discount, in the unit of discount_type',
    allowed_uses: 'how often it can be used',
    coupon_type: 'what kind of coupon it is',
    notes: 'notes about it',
    expires_at: 'when it expires',
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
  described(tableStatement(historyTableOf(name)), historyExamples[name]),
);

function tableStatement(name: string): string {
  const found = statements.find((statement) => new RegExp(`^CREATE TABLE "?${name}"? `).test(statement));
  if (found === undefined) throw new Error(`no statement makes ${name}`);
  return found;
}

/** Describes the tables and views of related records that are in the file. */
export function relationEntries(relations: readonly Pick<Relation, 'name' | 'columns'>[]): readonly TableEntry[] {
  const inFile = new Map(relations.map((each) => [each.name, each]));
  return relationTables.flatMap((each) => {
    const found = inFile.get(each.view);
    return [
      ...(inFile.has(each.table) ? [relationTableEntry(each)] : []),
      ...(found === undefined ? [] : [relationViewEntry(each, found.columns)]),
    ];
  });
}

/** Describes all tables and views of related records that a mirror can have. Nobody knows the keys of the records in advance. */
export function possibleRelationEntries(): readonly TableEntry[] {
  return relationTables.flatMap((each) => [relationTableEntry(each), relationViewEntry(each, [])]);
}

/** Advises which setting adds the table or view of related records; undefined if the name is not one of those. */
export function settingBehind(name: string): string | undefined {
  const found = relationTables.find(({ table, view }) => table === name || view === name);
  return found && `Add ${found.relation} to resources.${found.resource}.include, and run \`admin-mirror sync\`.`;
}

function relationTableEntry(relation: RelationTable): TableEntry {
  const { table, parentColumn } = relation;
  const entry = described(
    relationTableSql(relation),
    `SELECT ${parentColumn}, count(*) AS records FROM ${table} GROUP BY ${parentColumn} ORDER BY records DESC LIMIT 10`,
  );
  const columns = entry.columns.map((each) =>
    each.name.startsWith('_') ? each : { ...each, source: 'relation' as const },
  );
  return { ...entry, columns };
}

/** @param columns those of the view in the file */
function relationViewEntry(relation: RelationTable, columns: Relation['columns']): TableEntry {
  const { view: name, table, parentColumn } = relation;
  const others = columns.filter((each) => each.name !== parentColumn);
  const parents = relationTableEntry(relation).columns.slice(0, 1);
  return {
    name,
    kind: 'view',
    summary: `${table} with a column for every key seen so far; new keys add columns.`,
    columns: [
      ...parents,
      ...others.map(({ name: key }): ColumnEntry => ({
        name: key,
        type: 'any',
        nullable: true,
        source: 'relation',
        meaning: 'as it came; objects and arrays as JSON',
      })),
    ],
    example: `SELECT * FROM ${name} LIMIT 10`,
  };
}

export interface ColumnEntry {
  readonly name: string;
  /** The declared type: `INTEGER`, `REAL` or `TEXT`, and `TEXT (JSON)` for JSON. */
  readonly type: string;
  readonly nullable: boolean;
  readonly source: Source;
  readonly meaning: string;
}

/** `document`: a field of the API, as served; `relation`: part of a related record; `mirror`: kept by this program. */
type Source = 'document' | 'relation' | 'mirror';

export interface TableEntry {
  readonly name: string;
  readonly kind: 'table' | 'view';
  readonly summary: string;
  readonly columns: readonly ColumnEntry[];
  /** A query to begin with. */
  readonly example: string;
}

/** Returns where the data of a table or view comes from: from the server, if any column does. */
export function sourceOf({ columns }: { readonly columns: readonly { readonly source: string }[] }): Source {
  const sources = new Set(columns.map(({ source }) => source));
  return (['relation', 'document'] as const).find((source) => sources.has(source)) ?? 'mirror';
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
  const own = described(tableStatement(resource.name), examples[resource.name]);
  return {
    ...own,
    summary: `${resource.summary} Exactly the ${resource.name} that the server was last seen to have, one row each.`,
    columns: [...resource.fields.map((field) => fieldColumn(resource, field)), ...own.columns],
  };
}

function fieldColumn(resource: Resource, field: Field): ColumnEntry {
  const seen = resource.valuesSeen[field.name];
  const parts = [
    field.name === 'id'
      ? 'primary key'
      : field.note || resourceFields[resource.name][field.name] || commonFields[field.name] || '',
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

const entries: readonly TableEntry[] = [
  ...resourceNames.map((name) => resourceTable(resourceOf(name))),
  ...analystViews,
  ...historyTables,
  ...bookkeeping,
];

/** Lists every table and view except for those of related records, resources first. */
export function dictionary(): readonly TableEntry[] {
  return entries;
}
