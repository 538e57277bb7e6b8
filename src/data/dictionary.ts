/**
 * The data dictionary: what every table, view and column of the mirror means. The resources' part comes from their
 * descriptors; a test holds the whole to the tables that a mirror file really has.
 */
import {
  type Field,
  type FieldType,
  type Resource,
  type ResourceName,
  resourceNames,
  resourceOf,
} from '../model/resources.ts';
import { meaningByName } from './dictionary-fields.ts';
import { bookkeeping } from './dictionary-bookkeeping.ts';
import { historyTables } from './dictionary-history.ts';
import { analystViews } from './dictionary-views.ts';

export interface ColumnEntry {
  readonly name: string;
  /** What its values are: `INTEGER`, `NUMERIC`, `TEXT`, `TEXT (JSON)` or `any`. */
  readonly type: string;
  readonly nullable: boolean;
  readonly source: Source;
  readonly meaning: string;
}

/** `document`: a field of the API, as served; `relation`: of related records that came with one; `mirror`: kept by this program. */
export type Source = 'document' | 'relation' | 'mirror';

export interface TableEntry {
  readonly name: string;
  readonly kind: 'table' | 'view';
  readonly summary: string;
  readonly columns: readonly ColumnEntry[];
  /** A query to begin with. */
  readonly example: string;
}

/** Where what a table or view tells comes from: the server's own, where any of it is. */
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

const typeNames: Readonly<Record<FieldType, string>> = {
  integer: 'INTEGER',
  flag: 'INTEGER',
  number: 'NUMERIC',
  string: 'TEXT',
  timestamp: 'TEXT',
  any: 'any',
  object: 'TEXT (JSON)',
  strings: 'TEXT (JSON)',
};

const typeNotes: Readonly<Partial<Record<FieldType, string>>> = {
  flag: '0 or 1',
  timestamp: 'ISO 8601 UTC with microseconds; sorts as text',
  any: 'a scalar as it came, an object or array as JSON text',
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
  return {
    name: resource.name,
    kind: 'table',
    summary: `${resource.summary} Exactly the ${resource.name} that the server was last seen to have, a row each.`,
    columns: [...resource.fields.map((field) => fieldColumn(resource, field)), ...ownColumns],
    example: examples[resource.name],
  };
}

function fieldColumn(resource: Resource, field: Field): ColumnEntry {
  const seen = resource.valuesSeen[field.name];
  const parts = [
    field.name === 'id' ? 'primary key' : field.note || meaningByName(resource.name, field.name),
    typeNotes[field.type] ?? '',
    seen === undefined || field.type === 'flag' ? '' : `values seen: ${seen.join(', ')}`,
  ];
  return {
    name: field.name,
    type: typeNames[field.type],
    nullable: field.nullable,
    source: 'document',
    meaning: parts.filter((part) => part !== '').join('; '),
  };
}

const ownColumns: readonly ColumnEntry[] = [
  {
    name: '_extra',
    type: 'TEXT (JSON)',
    nullable: true,
    source: 'mirror',
    meaning: 'fields that the server sent and the document does not name, as a JSON object',
  },
  {
    name: '_first_seen_at',
    type: 'TEXT',
    nullable: false,
    source: 'mirror',
    meaning: 'when the record first came into the mirror',
  },
  {
    name: '_changed_at',
    type: 'TEXT',
    nullable: false,
    source: 'mirror',
    meaning: 'when a value of the row last changed in the mirror; fields of history.ignore aside',
  },
];
