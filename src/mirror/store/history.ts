/**
 * Writes the history: triggers store each row that is replaced or removed, in the same transaction. They belong to the
 * connection, since a setting decides what counts as a change. Section "History" of docs/architecture.md.
 */
import type { Database } from 'better-sqlite3';
import { resourceNames, resourceOf, type Resource, type ResourceName } from '../../model/resources.ts';
import type { Timestamp } from '../../model/time.ts';
import { historyTableOf, quoteName, quoteText, recordedColumns } from '../../store/schema.ts';
import type { Statements } from '../../store/statements.ts';

/** Prefix of an ignored field that the reference does not know: `_extra.last_ip`. */
const extraPrefix = '_extra.';

/** Returns the SQL condition that the row `next` differs from the row `old`; both are names of rows. */
export type Differs = (old: string, next: string) => string;

/** @param ignore fields whose change alone does not count; fields of other resources have no effect */
export function significantChange(resource: Resource, ignore: readonly string[]): Differs {
  const ignored = new Set(ignore);
  const columns = resource.fields.map(({ name }) => name).filter((name) => name !== 'id' && !ignored.has(name));
  // `_extra` also holds fields of the reference whose columns cannot hold the served value.
  const paths = ignore.map((name) => {
    const field = name.startsWith(extraPrefix) ? name.slice(extraPrefix.length) : name;
    return quoteText(`$.${quoteName(field)}`);
  });
  const extra = (row: string): string =>
    // An empty `_extra` equals a missing one.
    paths.length === 0
      ? `${row}."_extra"`
      : // Damage may have left invalid JSON. That is a difference, but must not stop the run.
        `iif(json_valid(${row}."_extra"), nullif(json_remove(${row}."_extra", ${paths.join(', ')}), '{}'), ${row}."_extra")`;
  return (old, next) =>
    [
      ...columns.map((name) => `${old}.${quoteName(name)} IS NOT ${next}.${quoteName(name)}`),
      `${extra(old)} IS NOT ${extra(next)}`,
    ].join(' OR ');
}

/** The fields by which people know a record, besides its id. */
const names: Readonly<Record<ResourceName, readonly string[]>> = {
  users: ['username', 'email'],
  packages: ['name'],
  emails: ['receiver', 'subject'],
  coupons: ['code'],
};

/** Whether `next` is another record than `old` under the same id: with another creation time and another name. */
export function isReused(resource: ResourceName): Differs {
  return (old, next) => {
    const renamed = names[resource].map((name) => `${old}.${quoteName(name)} IS NOT ${next}.${quoteName(name)}`);
    return (
      `(coalesce(julianday(${old}."created_at") <> julianday(${next}."created_at"), false)` +
      ` AND (${renamed.join(' OR ')}))`
    );
  };
}

/** @param now the time of the current step: a deleted version ends then, or when it began if the clock was set back since */
export function recordHistory(database: Database, ignore: readonly string[], now: () => Timestamp): void {
  database.function('history_time', () => now());
  for (const name of resourceNames) {
    const resource = resourceOf(name);
    const cells = recordedColumns(resource).map((column) => {
      const cell = `OLD.${quoteName(column)}`;
      // Damage may have turned a text into a blob, which JSON cannot hold. The row must be repairable even so.
      return `'${column}', iif(typeof(${cell}) = 'blob', CAST(${cell} AS TEXT), ${cell})`;
    });
    const version = (change: string, end: string): string =>
      `INSERT INTO ${historyTableOf(name)} (id, change, valid_from, valid_to, record)
       VALUES (OLD."id", ${change}, OLD."_changed_at", ${end}, json_object(${cells.join(', ')}))`;
    const reused = isReused(name)('OLD', 'NEW');
    database.exec(`
      CREATE TEMP TRIGGER ${name}_updated AFTER UPDATE ON main.${quoteName(name)}
      WHEN ${significantChange(resource, ignore)('OLD', 'NEW')} OR ${reused}
      BEGIN ${version(`CASE WHEN ${reused} THEN 'deleted' ELSE 'updated' END`, 'NEW."_changed_at"')}; END;

      -- Suppressed records are kept out of the history, too.
      CREATE TEMP TRIGGER ${name}_deleted AFTER DELETE ON main.${quoteName(name)}
      WHEN NOT EXISTS (SELECT 1 FROM mirror_suppressions WHERE resource = '${name}' AND id = OLD."id")
      BEGIN ${version("'deleted'", `max(history_time(), OLD."_changed_at")`)}; END`);
  }
}

/** Notes that the history of these resources begins now, unless it began before. */
export function beginHistory(statements: Statements, resources: readonly ResourceName[], at: Timestamp): void {
  for (const resource of resources) {
    statements.insert('mirror_history', { resource, begins_at: at }, 'ON CONFLICT (resource) DO NOTHING');
  }
}

/** Returns a function that removes at most so many versions that ended before a time, and returns how many it removed. */
export function historyPruner(
  database: Database,
): (resource: ResourceName, before: Timestamp, versions: number) => number {
  const removals = new Map(
    resourceNames.map((name) => {
      const table = historyTableOf(name);
      const old = `SELECT rowid FROM ${table} WHERE valid_to < ? ORDER BY valid_to LIMIT ?`;
      const some = database.prepare<[string], number>(`SELECT 1 FROM ${table} WHERE valid_to < ? LIMIT 1`).pluck();
      const remove = database.prepare<[string, number]>(`DELETE FROM ${table} WHERE rowid IN (${old})`);
      return [name, { some, remove }] as const;
    }),
  );
  // States before the end of a removed version are no longer known. Raised first, so that the removal leaves no tombstones.
  const raise = database.prepare<[string, string]>(
    'UPDATE mirror_history SET begins_at = max(begins_at, ?) WHERE resource = ?',
  );
  return (resource, before, versions) => {
    const removal = removals.get(resource);
    if (removal?.some.get(before) === undefined) return 0;
    raise.run(before, resource);
    return removal.remove.run(before, versions).changes;
  };
}
