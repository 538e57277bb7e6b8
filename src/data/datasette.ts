/** The data dictionary as the metadata of Datasette, which serves an SQLite file to browsers: https://docs.datasette.io */
import { isResourceName, resourceOf, type Resource } from '../model/resources.ts';
import type { InventoryTable } from './inventory.ts';

interface TableMetadata {
  readonly title: string;
  readonly description: string;
  /** Meanings by column. */
  readonly columns: Readonly<Record<string, string>>;
  /** Columns whose values are counted beside the rows. */
  readonly facets?: readonly string[];
  readonly sort_desc?: string;
  /** What stands for a row where another table refers to it. */
  readonly label_column?: string;
  readonly hidden?: true;
}

interface DatasetteMetadata {
  readonly title: string;
  readonly description: string;
  readonly databases: Readonly<
    Record<
      string,
      {
        readonly tables: Readonly<Record<string, TableMetadata>>;
        readonly queries: Readonly<Record<string, { readonly title: string; readonly sql: string }>>;
      }
    >
  >;
}

/** Of use to the program alone. */
const inner = new Set(['mirror_locks', 'mirror_migrations', 'mirror_pages', 'mirror_suppressions']);

/** A name that people know a record by, the first that it has. */
const labels = ['username', 'name', 'code', 'subject'];

/** More would have their values counted on every page. */
const mostFacets = 4;

/** @param database the name of the file without its ending, as Datasette calls it */
export function datasetteMetadata(database: string, tables: readonly InventoryTable[]): DatasetteMetadata {
  const present = tables.filter(({ in_file }) => in_file !== false);
  const queries = present
    .filter(({ name, source }) => !inner.has(name) && source !== 'file')
    .map(({ name, summary, example }) => [`${name}_example`, { title: `${name}: ${summary}`, sql: example }] as const);
  return {
    title: 'admin-mirror',
    description:
      'A mirror of what an Administration API holds. The view mirror_freshness tells up to when it is known to be true.',
    databases: {
      [database]: {
        tables: Object.fromEntries(present.map((table) => [table.name, tableMetadata(table)])),
        queries: Object.fromEntries(queries),
      },
    },
  };
}

function tableMetadata({ name, summary, columns }: InventoryTable): TableMetadata {
  const described = columns.filter(({ in_file, meaning }) => in_file !== false && meaning !== '');
  return {
    title: name,
    description: summary,
    columns: Object.fromEntries(described.map((column) => [column.name, column.meaning])),
    ...(isResourceName(name) ? ofResource(resourceOf(name)) : {}),
    ...(inner.has(name) ? { hidden: true as const } : {}),
  };
}

function ofResource({ fields, valuesSeen }: Resource): Partial<TableMetadata> {
  const names = fields.map((field) => field.name);
  const facets = fields.filter(({ name, type }) => type === 'flag' || valuesSeen[name] !== undefined);
  const label = labels.find((each) => names.includes(each));
  return {
    facets: facets.slice(0, mostFacets).map(({ name }) => name),
    // It has an index.
    sort_desc: 'created_at',
    ...(label === undefined ? {} : { label_column: label }),
  };
}
