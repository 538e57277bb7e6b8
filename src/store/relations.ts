/** Related records in the mirror: which are requested, their tables, and writing those of a page. */
import type { Database } from 'better-sqlite3';
import { relationTable, type RelationTable, type ResourceName, resourceOf } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import { numberedFromBirth, numberedRelation, type NumberedTable, numberingSql, numbersIn } from './cursor.ts';
import { keyOf, keysJson, type RecordKey, type RelatedRow, type RelatedRows } from '../model/records.ts';
import { firstFree } from '../model/files.ts';
import { quoteName, quoteText } from './schema.ts';
import type { Statements } from './statements.ts';

/** Something unexpected about a relation, reported as an event. */
export interface RelationDrift {
  readonly kind: 'relation_absent' | 'relation_keys';
  readonly subject: string;
  readonly detail: string;
}

interface Requested {
  readonly relation: RelationTable;
  readonly put: ReturnType<typeof relationRows>;
}

export function relationsIn(database: Database, statements: Statements) {
  const sessions = new Map<ResourceName, readonly Requested[]>();

  const included = (resource: ResourceName): string[] =>
    relationsIncluded(statements, resource).map(({ relation }) => relation);

  function exclude(resource: ResourceName): void {
    statements.update('mirror_relations', { included: 0 }, { resource });
  }

  /** Makes the relation's table if there is none, and records that it is requested from now on. */
  function open(relation: RelationTable, at: Timestamp): void {
    if (flatKeys(statements, relation) === undefined) {
      makeRelationTable(database, relation);
      database.exec(flatViewSql(relation, []));
    }
    const { resource, relation: name, table } = relation;
    statements.insert(
      'mirror_relations',
      { resource, relation: name, table_name: table, included: 1, keys: '[]', since: at },
      'ON CONFLICT (resource, relation) DO UPDATE SET included = 1',
    );
  }

  function grow(relation: RelationTable, keys: ReadonlySet<RelatedKey>, report: (each: RelationDrift) => void): void {
    if (keys.size === 0) return;
    const known = flatKeys(statements, relation) ?? [];
    const fresh = [...keys].filter((key) => !known.includes(key));
    if (fresh.length === 0 || known.length >= mostFlatKeys) return;
    const grown = [...known, ...fresh];
    setFlatKeys(database, statements, relation, grown.slice(0, mostFlatKeys));
    if (grown.length > mostFlatKeys) {
      const detail = `more than ${mostFlatKeys} keys: the others are in ${relation.table} alone`;
      report({ kind: 'relation_keys', subject: relation.relation, detail });
    }
  }

  return {
    included,
    /** Requests these relations and no others from now on. Returns true if one of them is new. */
    include: (resource: ResourceName, names: readonly string[], at: Timestamp): boolean => {
      const before = new Set(included(resource));
      exclude(resource);
      const requested = names.map((name) => {
        const relation = relationTable(resource, name);
        open(relation, at);
        return { relation, put: relationRows(database, relation) };
      });
      sessions.set(resource, requested);
      return names.some((name) => !before.has(name));
    },
    /**
     * Removes related records without a parent: no page ever shows them. Another program may leave some, since SQLite enforces
     * foreign keys only if it is told to.
     */
    removeOrphans: (resource: ResourceName): void => {
      for (const { table, parentColumn } of relationsRead(database).filter((each) => each.resource === resource)) {
        database.exec(
          `DELETE FROM ${quoteName(table)} WHERE ${quoteName(parentColumn)} NOT IN (SELECT "id" FROM ${resource})`,
        );
      }
    },
    /** Requests no relations of the resource from now on. */
    abandon: exclude,
    /** Writes related records whose parents are already in the mirror. */
    write: (resource: ResourceName, related: readonly RelatedRows[], report: (drift: RelationDrift) => void): void => {
      for (const { relation: name, parents, absent } of related) {
        const requested = sessions.get(resource)?.find(({ relation }) => relation.relation === name);
        if (requested === undefined) continue;
        grow(requested.relation, requested.put(parents), report);
        if (!absent) continue;
        const detail = 'requested, and absent from the response; what the mirror has of it was left as it was';
        report({ kind: 'relation_absent', subject: name, detail });
      }
    },
  };
}

export function makeRelationTable(database: Database, relation: RelationTable): void {
  for (const statement of relationSql(relation)) database.exec(statement);
}

/** Returns the statements that make the relation's table. */
export function relationSql(relation: RelationTable): string[] {
  return [relationTableSql(relation), ...numberingSql(numberedRelation(relation))];
}

/** Returns every relation that was ever requested, and so has a table. */
export function relationsRead(database: Database): RelationTable[] {
  const relations = database.prepare<[], { resource: ResourceName; relation: string }>(
    'SELECT resource, relation FROM mirror_relations ORDER BY resource, relation',
  );
  return relations.all().map(({ resource, relation }) => relationTable(resource, relation));
}

/** Returns the tables in the file whose rows are numbered: resources, their histories, and all related records that were ever read. */
export function numberedTables(database: Database): NumberedTable[] {
  return [...numberedFromBirth, ...relationsRead(database).map(numberedRelation)];
}

/** Returns the resource's relations that are currently requested, by name. Rows of the others may be old. */
function relationsIncluded(statements: Statements, resource: ResourceName): RelationTable[] {
  const sql = 'SELECT relation FROM mirror_relations WHERE resource = @resource AND included = 1 ORDER BY relation';
  return statements
    .all<{ relation: string }>(sql, { resource })
    .map(({ relation }) => relationTable(resource, relation));
}

/** Returns the keys for which the relation's view has columns; undefined if the relation was never requested. */
export function flatKeys(statements: Statements, { resource, relation }: RelationTable): RelatedKey[] | undefined {
  const sql = 'SELECT keys FROM mirror_relations WHERE resource = @resource AND relation = @relation';
  const [row] = statements.all<{ keys: string }>(sql, { resource, relation });
  return row === undefined ? undefined : (JSON.parse(row.keys) as RelatedKey[]);
}

/** Records the keys and replaces the view by one with a column for each. */
export function setFlatKeys(
  database: Database,
  statements: Statements,
  relation: RelationTable,
  keys: readonly RelatedKey[],
): void {
  const { resource, relation: name } = relation;
  statements.update('mirror_relations', { keys: JSON.stringify(keys) }, { resource, relation: name });
  database.exec(flatViewSql(relation, keys));
}

interface StoredKey {
  readonly parent: bigint;
  readonly key: string;
}

/** Returns a function that makes the parents' rows exactly the given ones, and returns the keys of the records that it wrote. */
function relationRows(
  database: Database,
  { table, parentColumn }: RelationTable,
): (parents: readonly (readonly [RecordKey, readonly RelatedRow[]])[]) => ReadonlySet<RelatedKey> {
  const name = quoteName(table);
  const parent = quoteName(parentColumn);
  const stored = database.prepare<[string], StoredKey>(
    `SELECT ${parent} AS parent, "_key" AS key FROM ${name} WHERE ${parent} IN (SELECT value FROM json_each(?))`,
  );
  stored.safeIntegers();
  const remove = database.prepare(`DELETE FROM ${name} WHERE ${parent} = ? AND "_key" = ?`);
  const put = database.prepare(
    `INSERT INTO ${name} (${parent}, "_key", "id", "record", "_seq") VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (${parent}, "_key")
     DO UPDATE SET "id" = excluded."id", "record" = excluded."record", "_seq" = excluded."_seq"
     WHERE "id" IS NOT excluded."id" OR "record" IS NOT excluded."record"`,
  );
  const numbers = numbersIn(database);
  return (parents) => {
    const kept = new Map(parents.map(([id, rows]) => [id, new Set(rows.map(({ key }) => key))] as const));
    for (const { parent: id, key } of stored.all(keysJson(parents.map(([id]) => id)))) {
      if (kept.get(keyOf(id))?.has(key) !== true) remove.run(id, key);
    }
    const written = new Set<RelatedKey>();
    // Read only now, because the removals above have taken numbers, too.
    const last = numbers.last();
    let seq = last;
    for (const [id, rows] of parents) {
      for (const row of rows) {
        const { changes } = put.run(BigInt(id), row.key, row.id, row.record, BigInt(seq + 1));
        if (changes === 0) continue;
        seq += 1;
        for (const key of row.keys) written.add(key);
      }
    }
    if (seq > last) numbers.setLast(seq);
    return written;
  };
}

/** A key of a related record. Null stands for records that are not objects and so have no keys. */
export type RelatedKey = string | null;

/** SQLite limits the columns of a view. Something with more keys than this is a dictionary, not a record. */
const mostFlatKeys = 1_000;

/** Ids are text, because a column has one type: some servers have numbers, some UUIDs. */
export function relationTableSql({ resource, relation, table, parentColumn }: RelationTable): string {
  return `CREATE TABLE ${quoteName(table)} ( -- What the server sends as ${relation} of ${resource}, one row each, in whatever shape it comes. Read if resources.${resource}.include names it; mirror_relations shows whether it still does.
  ${quoteName(parentColumn)} INTEGER NOT NULL REFERENCES ${quoteName(resource)} ("id") ON DELETE CASCADE, -- the ${resourceOf(resource).singular} that it belongs to
  "id" TEXT, -- the id of the related record, if it has one; a number as its digits
  "record" TEXT NOT NULL, -- the related record as it came, as JSON
  "_key" TEXT NOT NULL, -- tells it from others of the same ${parentColumn}: its id, otherwise # and its place
  "_seq" INTEGER NOT NULL DEFAULT 0, -- the number of the last change; grows with each change (mirror_cursor)
  PRIMARY KEY (${quoteName(parentColumn)}, "_key")
) STRICT`;
}

/** Returns the statements that replace the relation's view by one with these keys. */
export function flatViewSql({ table, view, parentColumn }: RelationTable, keys: readonly RelatedKey[]): string {
  // SQLite ignores the case of column names.
  const taken = new Set([parentColumn.toLowerCase()]);
  const columns = keys.slice(0, mostFlatKeys).map((key) => `${valueSql(key)} AS ${quoteName(freeName(key, taken))}`);
  return `DROP VIEW IF EXISTS ${quoteName(view)};
CREATE VIEW ${quoteName(view)} AS
SELECT
  ${[quoteName(parentColumn), ...columns].join(',\n  ')}
FROM ${quoteName(table)}`;
}

function freeName(key: RelatedKey, taken: Set<string>): string {
  const name = key === null ? 'value' : key.replaceAll('\0', '') || 'empty';
  const isTaken = (tried: string): boolean => taken.has(tried.toLowerCase());
  const free = firstFree(isTaken, (number) => (number === null ? name : `${name}_${number}`));
  taken.add(free.toLowerCase());
  return free;
}

// Keys that every version of SQLite reads in a JSON path. Versions differ in how they escape others.
const plainKey = /^[^"\\\p{Cc}]+$/u;

function valueSql(key: RelatedKey): string {
  if (key === null) return `CASE WHEN json_type("record") <> 'object' THEN json_extract("record", '$') END`;
  if (plainKey.test(key)) return `json_extract("record", ${textSql(`$."${key}"`)})`;
  return `(SELECT value FROM json_each("record") WHERE json_type("record") = 'object' AND key = ${textSql(key)})`;
}

/** Writes text in SQL, which has no literal for a NUL. */
function textSql(text: string): string {
  return text.split('\0').map(quoteText).join(' || char(0) || ');
}
