/** What a report needs of a mirror, beside what the mirror at hand has. */
import { UsageError } from '../../model/errors.ts';
import { suggestion } from '../../model/nearest.ts';
import type { RelationTable } from '../../model/relations.ts';
import type { Snapshot } from '../../store/reading-types.ts';
import type { Report, ReportNeed } from './report.ts';

/** The tables that the mirror does not have. */
export function missingNeeds(report: Pick<Report, 'needs'>, snapshot: Pick<Snapshot, 'relations'>): ReportNeed[] {
  const names = new Set(snapshot.relations().map(({ name }) => name));
  return report.needs.filter(({ table }) => !names.has(table));
}

/** Throws a UsageError that says which setting to switch on where the mirror lacks a table. */
export function refuseMissing(report: Pick<Report, 'name' | 'needs'>, snapshot: Pick<Snapshot, 'relations'>): void {
  const missing = missingNeeds(report, snapshot);
  const [stranger] = missing.filter(({ relation }) => relation === null);
  if (stranger !== undefined) {
    const names = snapshot.relations().map(({ name }) => name);
    throw new UsageError(`report ${report.name} reads ${stranger.table}, which the mirror does not have`, {
      advice: suggestion(stranger.table, names),
    });
  }
  const relations = missing.flatMap(({ relation }) => relation ?? []);
  if (relations.length === 0) return;
  throw new UsageError(`report ${report.name} needs ${namesOf(relations)}, which the mirror does not hold yet`, {
    advice: `${switchOn(relations)} Then run \`admin-mirror sync\`.`,
  });
}

function namesOf(relations: readonly RelationTable[]): string {
  return listed.format(relations.map(({ resource, relation }) => `${relation} of ${resource}`));
}

const listed = new Intl.ListFormat('en', { style: 'long', type: 'conjunction' });

/** Which settings make the mirror hold them: a sentence for each resource. */
export function switchOn(relations: readonly RelationTable[]): string {
  return [...new Set(relations.map(({ resource }) => resource))]
    .map((resource) => {
      const names = relations
        .filter((each) => each.resource === resource)
        .map(({ relation }) => relation)
        .toSorted();
      const variable = `ADMIN_MIRROR_RESOURCES_${resource.toUpperCase()}_INCLUDE`;
      return `Add ${listed.format(names)} to the setting resources.${resource}.include (${variable}).`;
    })
    .join(' ');
}

interface Read {
  readonly included: boolean;
  readonly keys: readonly string[];
}

/** What the operator should know of the related records that the report reads: not read any more, or without a key. */
export function needWarnings(report: Pick<Report, 'needs'>, snapshot: Snapshot): string[] {
  const warnings: string[] = [];
  for (const { table, relation, keys } of report.needs) {
    if (relation === null) continue;
    const { included, keys: seen } = readOf(snapshot, table);
    if (!included) {
      warnings.push(
        `${table} is as it was when it was last read: resources.${relation.resource}.include is without it`,
      );
    }
    if (seen.length === 0) {
      warnings.push(`${table} holds no record: the server has sent none so far`);
      continue;
    }
    const unseen = keys.filter((key) => !isSeen(snapshot, table, key, seen));
    if (unseen.length === 0) continue;
    const names = unseen.map((key) => `"${key}"`).join(', ');
    warnings.push(`no record in ${table} has ${names}: what the report makes of it is empty or 0`);
  }
  return warnings;
}

function readOf(snapshot: Snapshot, table: string): Read {
  const rows = snapshot.query('SELECT included, keys FROM mirror_relations WHERE table_name = :table', { table });
  for (const [[included, keys] = []] of rows.batches(() => 1)) {
    return {
      included: included === 1n,
      keys: (JSON.parse(String(keys)) as (string | null)[]).filter((key) => key !== null),
    };
  }
  // A blank mirror has the tables and no word of them.
  return { included: true, keys: [] };
}

/** Keys inside of others are not on record: they are looked for, up to the first. */
function isSeen(snapshot: Snapshot, table: string, key: string, seen: readonly string[]): boolean {
  const [outer = '', inner] = key.split('.');
  if (!seen.includes(outer)) return false;
  if (inner === undefined) return true;
  const sql = `SELECT 1 FROM "${table}" WHERE json_type(record, :path) IS NOT NULL LIMIT 1`;
  const path = `$."${key.replaceAll('.', '"."')}"`;
  // To the end, of one row at most: a statement that is left open would hold the snapshot.
  return [...snapshot.query(sql, { path }).batches(() => 2)].length > 0;
}
