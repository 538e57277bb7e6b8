/** The data dictionary of related records: tables and views that a mirror has for what the settings ask for. */
import { type RelationTable, relationTables } from '../model/relations.ts';
import { resourceOf } from '../model/resources.ts';
import type { Relation } from '../store/reading-types.ts';
import { column } from './dictionary-bookkeeping.ts';
import type { ColumnEntry, TableEntry } from './dictionary.ts';

/** The entries of those that are in the file. */
export function relationEntries(relations: readonly Relation[]): readonly TableEntry[] {
  const inFile = new Map(relations.map((each) => [each.name, each]));
  return relationTables.flatMap((each) => {
    const view = inFile.get(each.view);
    return [
      ...(inFile.has(each.table) ? [tableEntry(each)] : []),
      ...(view === undefined ? [] : [viewEntry(each, view)]),
    ];
  });
}

/** The entries of all that a mirror can have; which keys the records will have, nobody knows before they came. */
export function possibleRelationEntries(): readonly TableEntry[] {
  return relationTables.flatMap((each) => [
    tableEntry(each),
    viewEntry(each, { columns: [{ name: each.parentColumn, type: '', notNull: false }] }),
  ]);
}

/** The setting that a table or view of that name would be there by; undefined where it is none of related records. */
export function settingBehind(name: string): string | undefined {
  const found = relationTables.find(({ table, view }) => table === name || view === name);
  return found && `Add ${found.relation} to resources.${found.resource}.include, and run \`admin-mirror sync\`.`;
}

function parentEntry({ resource, parentColumn }: RelationTable): ColumnEntry {
  const meaning = `the ${resourceOf(resource).singular} that it came with`;
  return { ...column(`${parentColumn} INTEGER`, meaning), source: 'relation' };
}

function tableEntry(relation: RelationTable): TableEntry {
  const { resource, relation: name, table, parentColumn } = relation;
  return {
    name: table,
    kind: 'table',
    summary:
      `What the server sends as ${name} of ${resource}, a row each, in whatever shape it comes. ` +
      `Read as resources.${resource}.include says; mirror_relations tells whether it still is.`,
    columns: [
      parentEntry(relation),
      { ...column('id ANY?', 'of the related record, where it has one; may be text'), type: 'any', source: 'relation' },
      { ...column('record TEXT', 'the related record as it came'), type: 'TEXT (JSON)', source: 'relation' },
      {
        ...column('_key ANY', `tells it from others of the same ${parentColumn}: its id as text, else its place`),
        type: 'any',
      },
    ],
    example: `SELECT ${parentColumn}, count(*) AS records FROM ${table} GROUP BY ${parentColumn} ORDER BY records DESC LIMIT 10`,
  };
}

function viewEntry(relation: RelationTable, { columns }: Pick<Relation, 'columns'>): TableEntry {
  return {
    name: relation.view,
    kind: 'view',
    summary: `${relation.table} with a column for every key that was seen so far; more come as they are seen.`,
    columns: columns.map(({ name }) =>
      name === relation.parentColumn
        ? parentEntry(relation)
        : { name, type: 'any', nullable: true, source: 'relation', meaning: 'as it came; objects and arrays as JSON' },
    ),
    example: `SELECT * FROM ${relation.view} LIMIT 10`,
  };
}
