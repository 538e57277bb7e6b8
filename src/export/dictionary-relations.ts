/** The data dictionary of related records: tables and views that a mirror has for what the settings ask for. */
import { type RelationTable, relationTables } from '../model/relations.ts';
import { resourceOf } from '../model/resources.ts';
import type { Relation } from '../store/ports/reading.ts';
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

function parentEntry({ resource, parentColumn }: RelationTable): ColumnEntry {
  return column(`${parentColumn} INTEGER`, `the ${resourceOf(resource).singular} that it came with`);
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
      { ...column('id ANY?', 'of the related record, where it has one; may be text'), type: 'any' },
      { ...column('record TEXT', 'the related record as it came'), type: 'TEXT (JSON)' },
      {
        ...column('_key ANY', `tells it from others of the same ${parentColumn}: its id as text, else its place`),
        type: 'any',
      },
    ],
    example: `SELECT ${parentColumn}, count(*) AS records FROM ${table} GROUP BY ${parentColumn} ORDER BY records DESC LIMIT 10`,
  };
}

function viewEntry(relation: RelationTable, { columns }: Relation): TableEntry {
  return {
    name: relation.view,
    kind: 'view',
    summary: `${relation.table} with a column for every key that was seen so far; more come as they are seen.`,
    columns: columns.map(({ name }) =>
      name === relation.parentColumn
        ? parentEntry(relation)
        : { name, type: 'any', nullable: true, source: 'document', meaning: 'as it came; objects and arrays as JSON' },
    ),
    example: `SELECT * FROM ${relation.view} LIMIT 10`,
  };
}
