/**
 * The mirror file's tables, written from the resource descriptors.
 *
 * Columns are declared `ANY` in STRICT tables: the one declaration under which SQLite converts nothing, so that a value
 * of an unexpected type stays as it came ("007" in an integer field is not turned into 7). See docs/architecture.md,
 * "The mirror file".
 */
import { resourceNames, resourceOf, type ResourceName } from '../../model/resources.ts';

/** Columns that the mirror adds to each resource's own. */
export const mirrorColumns = ['_extra', '_first_seen_at', '_changed_at'] as const;

/** An SQL name in quotes: `order` is a field of packages. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function resourceTable(resource: ResourceName): string[] {
  const columns = resourceOf(resource).fields.map(({ name }) =>
    name === 'id' ? '  "id" INTEGER PRIMARY KEY' : `  ${quoteName(name)} ANY`,
  );
  columns.push('  "_extra" TEXT', '  "_first_seen_at" TEXT NOT NULL', '  "_changed_at" TEXT NOT NULL');
  return [
    `CREATE TABLE ${quoteName(resource)} (\n${columns.join(',\n')}\n) STRICT`,
    // Windows of creation time own rows by this column.
    `CREATE INDEX ${quoteName(`${resource}_created_at`)} ON ${quoteName(resource)} ("created_at")`,
  ];
}

const bookkeeping = [
  `CREATE TABLE mirror_runs (
  run TEXT PRIMARY KEY,
  command TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'partial', 'failed', 'interrupted', 'killed')),
  started_at TEXT NOT NULL,
  finished_at TEXT,
  requests INTEGER NOT NULL DEFAULT 0,
  retries INTEGER NOT NULL DEFAULT 0,
  problem TEXT
) STRICT`,
  `CREATE TABLE mirror_run_resources (
  run TEXT NOT NULL REFERENCES mirror_runs (run) ON DELETE CASCADE,
  resource TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'partial', 'failed')),
  requests INTEGER NOT NULL DEFAULT 0,
  received INTEGER NOT NULL DEFAULT 0,
  inserted INTEGER NOT NULL DEFAULT 0,
  updated INTEGER NOT NULL DEFAULT 0,
  deleted INTEGER NOT NULL DEFAULT 0,
  unchanged INTEGER NOT NULL DEFAULT 0,
  live INTEGER,
  server_total INTEGER,
  fresh_as_of TEXT,
  problem TEXT,
  PRIMARY KEY (run, resource)
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_windows (
  resource TEXT NOT NULL,
  from_day TEXT NOT NULL,
  to_day TEXT NOT NULL CHECK (to_day > from_day),
  state TEXT NOT NULL CHECK (state IN ('pending', 'walking', 'settled', 'unsettled')),
  server_total INTEGER,
  pages_read INTEGER NOT NULL DEFAULT 0,
  fresh_as_of TEXT,
  run TEXT,
  problem TEXT,
  PRIMARY KEY (resource, from_day)
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_events (
  event INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  run TEXT,
  resource TEXT,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail TEXT,
  UNIQUE (resource, kind, subject)
) STRICT`,
  `CREATE TABLE mirror_capabilities (
  name TEXT NOT NULL,
  resource TEXT NOT NULL,
  value TEXT NOT NULL,
  measured_at TEXT NOT NULL,
  PRIMARY KEY (name, resource)
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_locks (
  name TEXT PRIMARY KEY,
  run TEXT NOT NULL,
  pid INTEGER NOT NULL,
  process_started TEXT,
  host TEXT NOT NULL,
  acquired_at TEXT NOT NULL,
  beat_at TEXT NOT NULL
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_migrations (
  version INTEGER PRIMARY KEY,
  applied_at TEXT NOT NULL
) STRICT`,
];

// A resource is as fresh as its stalest window; one that has never been walked makes it null.
const freshness = `CREATE VIEW mirror_freshness AS
SELECT
  resource,
  count(*) AS windows,
  sum(state <> 'settled') AS unsettled,
  CASE WHEN sum(fresh_as_of IS NULL) > 0 THEN NULL ELSE min(fresh_as_of) END AS fresh_as_of
FROM mirror_windows
GROUP BY resource`;

/** The statements that make a mirror file of version 1, in order. */
export const firstSchema: readonly string[] = [...resourceNames.flatMap(resourceTable), ...bookkeeping, freshness];
