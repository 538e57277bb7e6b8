/**
 * The mirror file's tables, made from the resource descriptors: STRICT, with INTEGER, REAL or TEXT columns. A value that its column
 * cannot hold stands in `_extra` (src/mirror/cell.ts). Section "The mirror file" of docs/architecture.md.
 */
import {
  type Resource,
  resourceNames,
  resourceOf,
  type ResourceName,
  sqlTypeOf,
  type SqlType,
} from '../model/resources.ts';
import { eraEnd, eraStart, outsideStart } from '../model/era.ts';
import { lockColumns } from './lock.ts';

/** Quotes an SQL name: `order`, for example, is a field of packages. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Quotes a text for SQL. It must not contain a NUL, for which SQL has no literal. */
export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

export function historyTableOf(resource: ResourceName): string {
  return `${resource}_history`;
}

/** Returns the columns that hold what the server sent: the fields, and `_extra` for everything else. */
export function servedColumns({ fields }: Resource): string[] {
  return [...fields.map(({ name }) => name), '_extra'];
}

/**
 * Returns the columns of a version's `record`: those of the row without `_changed_at`, which is the version's `valid_from`. SQLite's
 * JSON gives every cell back as it was, except for the sign of a zero.
 */
export function recordedColumns(resource: Resource): string[] {
  return [...servedColumns(resource), '_first_seen_at'];
}

export function typeOfColumn({ fields }: Resource, column: string): SqlType {
  const field = fields.find(({ name }) => name === column);
  return field === undefined ? 'TEXT' : sqlTypeOf(field.type);
}

/** The rule of `owningDay` in `src/mirror/store/suppressions.ts`, in SQL. */
export function owningDaySql(at: string): string {
  return `iif(typeof(${at}) = 'text' AND ${at} >= '${eraStart}' AND ${at} < '${eraEnd}', substr(${at}, 1, 10), '${outsideStart}')`;
}

/** The change number of a row: src/store/cursor.ts. */
export const numberColumn = '"_seq" INTEGER NOT NULL DEFAULT 0';

function resourceTable(resource: ResourceName): string[] {
  const columns = resourceOf(resource).fields.map(({ name, type }) =>
    name === 'id' ? '"id" INTEGER PRIMARY KEY' : `${quoteName(name)} ${sqlTypeOf(type)}`,
  );
  columns.push('"_extra" TEXT', '"_first_seen_at" TEXT NOT NULL', '"_changed_at" TEXT NOT NULL', numberColumn);
  return [
    `CREATE TABLE ${quoteName(resource)} (\n  ${columns.join(',\n  ')}\n) STRICT`,
    // Windows select their rows by this column.
    `CREATE INDEX ${quoteName(`${resource}_created_at`)} ON ${quoteName(resource)} ("created_at")`,
  ];
}

/** Earlier versions of a resource's rows; src/mirror/store/history.ts writes them. */
function historyTable(resource: ResourceName): string[] {
  const name = historyTableOf(resource);
  return [
    `CREATE TABLE ${name} (
  id INTEGER NOT NULL,
  change TEXT NOT NULL CHECK (change IN ('updated', 'deleted')),
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  record TEXT NOT NULL,
  ${numberColumn}
) STRICT`,
    // For one record's versions in the order in which they were written.
    `CREATE INDEX ${name}_id ON ${name} (id)`,
    // For the state at a time, the changes between two times, and versions that are old enough to go.
    `CREATE INDEX ${name}_valid_to ON ${name} (valid_to)`,
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
  answers TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(answers)),
  problem TEXT,
  actor TEXT CHECK (json_valid(actor))
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
  expected INTEGER,
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
  cause TEXT,
  problem TEXT,
  surplus INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (resource, from_day)
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_history (
  resource TEXT PRIMARY KEY,
  begins_at TEXT NOT NULL
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_pages (
  resource TEXT NOT NULL,
  from_day TEXT NOT NULL,
  page TEXT NOT NULL,
  hash TEXT NOT NULL,
  total INTEGER NOT NULL,
  last_page INTEGER NOT NULL,
  per_page INTEGER NOT NULL,
  ids TEXT NOT NULL,
  owned INTEGER NOT NULL,
  last_created_at TEXT,
  records TEXT,
  seal TEXT NOT NULL,
  PRIMARY KEY (resource, from_day, page),
  FOREIGN KEY (resource, from_day) REFERENCES mirror_windows (resource, from_day) ON DELETE CASCADE
) STRICT, WITHOUT ROWID`,
  // Days of rows, or of the parents of rows, that something else than a sync has changed; src/store/cursor.ts has the triggers.
  `CREATE TABLE mirror_touched (
  resource TEXT NOT NULL,
  day TEXT NOT NULL,
  PRIMARY KEY (resource, day)
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
  resource TEXT PRIMARY KEY,
  value TEXT NOT NULL CHECK (json_type(value, '$.pageSize') IS 'integer'),
  measured_at TEXT NOT NULL
) STRICT, WITHOUT ROWID`,
  // A list whose total is unproven is no fresher than this; null if nobody knows.
  `CREATE TABLE mirror_unproven (
  resource TEXT PRIMARY KEY,
  fresh_as_of TEXT
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_surpluses (
  resource TEXT PRIMARY KEY,
  records INTEGER NOT NULL
) STRICT, WITHOUT ROWID`,
  // One row each: the server's address, and the journal that money was sent from (src/store/journal-memory.ts).
  'CREATE TABLE mirror_server (one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), address TEXT NOT NULL) STRICT',
  `CREATE TABLE mirror_journal (
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  value TEXT NOT NULL CHECK (json_type(value, '$.at') IS 'text')
) STRICT`,
  // The tables of related records are made when these are first requested. This table lists them.
  `CREATE TABLE mirror_relations (
  resource TEXT NOT NULL CHECK (resource IN (${resourceNames.map(quoteText).join(', ')})),
  relation TEXT NOT NULL,
  table_name TEXT NOT NULL,
  included INTEGER NOT NULL CHECK (included IN (0, 1)),
  keys TEXT NOT NULL CHECK (json_valid(keys)),
  since TEXT NOT NULL,
  PRIMARY KEY (resource, relation)
) STRICT, WITHOUT ROWID`,
  // Ids alone, and the creation day, which windows need: nothing here identifies the person.
  `CREATE TABLE mirror_suppressions (
  resource TEXT NOT NULL,
  id INTEGER NOT NULL,
  user_id INTEGER NOT NULL,
  since TEXT NOT NULL,
  seen_day TEXT,
  PRIMARY KEY (resource, id)
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_locks (
  name TEXT PRIMARY KEY,
  ${lockColumns}
) STRICT, WITHOUT ROWID`,
];

/**
 * The days of rows that another program has changed: those that triggers have noted, and those of rows without a number, which
 * only another program adds. The next sync numbers these.
 */
export const touchedDaysSql = [
  'SELECT resource, day FROM mirror_touched',
  ...resourceNames.map((name) => `SELECT '${name}', ${owningDaySql('created_at')} FROM ${name} WHERE "_seq" = 0`),
].join(' UNION ALL ');

// A resource is as fresh as its stalest window. A window that was never walked makes it null, and so do rows that another program
// has changed. As long as a sum is unproven, the resource counts as no fresher than before.
const freshness = `CREATE VIEW mirror_freshness AS
SELECT
  mirror_windows.resource AS resource,
  count(*) AS windows,
  sum(state <> 'settled') AS unsettled,
  CASE
    WHEN sum(mirror_windows.fresh_as_of IS NULL) > 0 THEN NULL
    WHEN mirror_windows.resource IN (SELECT resource FROM (${touchedDaysSql})) THEN NULL
    WHEN unproven.resource IS NOT NULL THEN min(min(mirror_windows.fresh_as_of), unproven.fresh_as_of)
    ELSE min(mirror_windows.fresh_as_of)
  END AS fresh_as_of
FROM mirror_windows
LEFT JOIN mirror_unproven AS unproven ON unproven.resource = mirror_windows.resource
GROUP BY mirror_windows.resource`;

// Views for analysts, and indices. docs/reports.md has what each gains and costs, as measured.
const createdOn = 'substr(created_at, 1, 10)';

/** Whole days from a timestamp to now, with functions of every SQLite version that can read the file. */
function daysSince(column: string): string {
  return `CAST(julianday('now') - julianday(${column}) AS INTEGER)`;
}

const usersLiveAge = `CREATE VIEW users_live_age AS
SELECT
  id,
  username,
  email,
  status,
  balance,
  email_verified_at IS NOT NULL AS verified,
  ${daysSince('created_at')} AS days_old,
  ${daysSince('last_seen_at')} AS days_since_seen,
  ${daysSince('last_login_at')} AS days_since_login,
  ${daysSince('"_changed_at"')} AS days_since_change
FROM users`;

const usersByDay = `CREATE VIEW users_by_day AS
SELECT ${createdOn} AS day, count(*) AS users, count(email_verified_at) AS verified
FROM users
GROUP BY 1`;

const emailsByDay = `CREATE VIEW emails_by_day AS
SELECT ${createdOn} AS day, count(*) AS emails, sum(is_sent = 1) AS sent, sum(is_sent = 0) AS unsent
FROM emails
GROUP BY 1`;

// Users come first in the join, so that a condition on the user finds the emails by their index.
const emailsByUser = `CREATE VIEW emails_by_user AS
SELECT
  users.id AS user_id,
  users.email,
  count(emails.id) AS emails,
  count(CASE WHEN emails.is_sent = 0 THEN 1 END) AS unsent,
  max(emails.created_at) AS last_created_at
FROM users LEFT JOIN emails ON emails.user_id = users.id
GROUP BY users.id`;

const emailsByDomain = `CREATE VIEW emails_by_domain AS
SELECT
  CASE WHEN instr(receiver, '@') > 0 THEN lower(substr(receiver, instr(receiver, '@') + 1)) END AS domain,
  count(*) AS emails,
  sum(is_sent = 0) AS unsent,
  count(DISTINCT user_id) AS users
FROM emails
GROUP BY 1`;

// Emails are most of a file; the unsent ones are a few of every hundred.
const emailsUnsent = 'CREATE INDEX emails_unsent ON emails ("created_at") WHERE "is_sent" = 0';

/** The statements for the views and indices that exist from the beginning, in order. The tables must be there. */
const analystSchema: readonly string[] = [
  emailsUnsent,
  usersLiveAge,
  usersByDay,
  emailsByDay,
  emailsByUser,
  emailsByDomain,
];

/** The statements that make the tables and views of a mirror, in order; `mirrorNumbering` of cursor.ts comes after them. */
export const mirrorTables: readonly string[] = [
  ...resourceNames.flatMap(resourceTable),
  ...resourceNames.flatMap(historyTable),
  ...bookkeeping,
  freshness,
  ...analystSchema,
];

/**
 * The words of each user, for the search of the console: the names, and the email up to its @, as the domains are those of many. One
 * table of words costs a first sync a third of what an index on each column does. What is removed from it leaves no byte behind.
 */
export function userSearch(): readonly string[] {
  const words = (row: string): string =>
    [
      `iif(instr(${row}.email, '@') > 0, substr(${row}.email, 1, instr(${row}.email, '@')), ${row}.email)`,
      ...['username', 'first_name', 'last_name'].map((name) => `${row}.${name}`),
    ]
      .map((text) => `coalesce(${text}, '')`)
      .join(" || ' ' || ");
  const remove = `INSERT INTO users_search (users_search, rowid, words) VALUES ('delete', OLD.id, ${words('OLD')});`;
  const add = `INSERT INTO users_search (rowid, words) VALUES (NEW.id, ${words('NEW')});`;
  const trigger = (name: string, when: string, body: string): string =>
    `CREATE TRIGGER IF NOT EXISTS users_search_${name} AFTER ${when} BEGIN ${body} END`;
  return [
    `CREATE VIRTUAL TABLE IF NOT EXISTS users_search USING fts5(words, content = '', detail = none, columnsize = 0)`,
    `INSERT INTO users_search (users_search, rank) VALUES ('secure-delete', 1)`,
    `INSERT INTO users_search (rowid, words)
  SELECT id, ${words('users')} FROM (SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM users_search_idx)) CROSS JOIN users`,
    trigger('inserted', 'INSERT ON users', add),
    trigger(
      'updated',
      `UPDATE ON users WHEN OLD.id <> NEW.id OR ${words('OLD')} <> ${words('NEW')}`,
      `${remove} ${add}`,
    ),
    trigger('deleted', 'DELETE ON users', remove),
  ];
}

/** Indices made after the first complete reading: sorting all keys once costs far less than inserting each in its place. */
export const lateIndices: Readonly<Partial<Record<ResourceName, readonly string[]>>> = {
  // For the largest balances, and for sums without reading the rest of each user.
  users: ['CREATE INDEX IF NOT EXISTS users_balance ON users ("balance")', ...userSearch()],
  // For the emails of a user.
  emails: ['CREATE INDEX IF NOT EXISTS emails_user_id ON emails ("user_id")'],
};
