/**
 * The mirror file's tables, made from the resource descriptors: STRICT, with INTEGER, REAL or TEXT columns. A value that its column
 * cannot hold stands in `_extra` (src/mirror/cell.ts). What tables and columns mean stands in their statements: SQLite keeps it there,
 * for every program that opens the file, and the data dictionary reads it. Section "The mirror file" of docs/architecture.md.
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

/** The change number of a row (src/store/cursor.ts), as the last line of its table. */
const numberColumn =
  '"_seq" INTEGER NOT NULL DEFAULT 0 -- the number of the last change; grows with each change (mirror_cursor)';

/** The columns of a resource's table that the server knows nothing of. */
const ownColumns = `"_extra" TEXT, -- as a JSON object: fields that the reference does not name, and values that their columns cannot hold
  "_first_seen_at" TEXT NOT NULL, -- when the record first came into the mirror
  "_changed_at" TEXT NOT NULL, -- when a value of the row last changed in the mirror, except for fields of history.ignore
  ${numberColumn}`;

function resourceTable(resource: ResourceName): string[] {
  const columns = resourceOf(resource).fields.map(({ name, type }) =>
    name === 'id' ? '"id" INTEGER PRIMARY KEY' : `${quoteName(name)} ${sqlTypeOf(type)}`,
  );
  return [
    `CREATE TABLE ${quoteName(resource)} (\n  ${columns.join(',\n  ')},\n  ${ownColumns}\n) STRICT`,
    // Windows select their rows by this column.
    `CREATE INDEX ${quoteName(`${resource}_created_at`)} ON ${quoteName(resource)} ("created_at")`,
  ];
}

/** Earlier versions of a resource's rows; src/mirror/store/history.ts writes them. */
function historyTable(resource: ResourceName): string[] {
  const name = historyTableOf(resource);
  return [
    `CREATE TABLE ${name} ( -- Every earlier version of a row of ${resource}, in the order in which they ended. \`export ${resource} --as-of\` combines them to an earlier state.
  id INTEGER NOT NULL, -- the record; one may have many versions
  change TEXT NOT NULL CHECK (change IN ('updated', 'deleted')), -- what ended the version: updated, another version replaced it; deleted, the record left the table
  valid_from TEXT NOT NULL, -- since when the mirror held it: the _changed_at of the row
  valid_to TEXT NOT NULL, -- when the mirror saw the change; from then on it no longer held the version
  record TEXT NOT NULL, -- the row as it was, as JSON: every column of the table except _changed_at
  ${numberColumn}
) STRICT`,
    // For one record's versions in the order in which they were written.
    `CREATE INDEX ${name}_id ON ${name} (id)`,
    // For the state at a time, the changes between two times, and versions that are old enough to go.
    `CREATE INDEX ${name}_valid_to ON ${name} (valid_to)`,
  ];
}

const bookkeeping = [
  `CREATE TABLE mirror_runs ( -- Every run of \`sync\`, one row each.
  run TEXT PRIMARY KEY, -- the id of the run
  command TEXT NOT NULL, -- what was run
  status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'partial', 'failed', 'interrupted', 'killed')), -- running, complete, partial, failed, interrupted or killed
  started_at TEXT NOT NULL, -- when it began
  finished_at TEXT, -- when it ended; null while it runs, and if it was killed
  requests INTEGER NOT NULL DEFAULT 0, -- requests sent, including retries
  retries INTEGER NOT NULL DEFAULT 0, -- how many of them were retries after a failure
  answers TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(answers)), -- how many responses had each HTTP status, as JSON; the other requests had no complete response
  problem TEXT, -- why it is not complete
  actor TEXT CHECK (json_valid(actor)) -- who ran it, as JSON: the account on the machine, its host, and the job; null for older runs
) STRICT`,
  `CREATE TABLE mirror_run_resources ( -- What a run did for each resource.
  run TEXT NOT NULL REFERENCES mirror_runs (run) ON DELETE CASCADE, -- the run, as in mirror_runs
  resource TEXT NOT NULL, -- users, packages, emails or coupons
  status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'partial', 'failed')), -- running, complete, partial or failed
  requests INTEGER NOT NULL DEFAULT 0, -- requests sent, including retries
  received INTEGER NOT NULL DEFAULT 0, -- records received
  inserted INTEGER NOT NULL DEFAULT 0, -- records that were new
  updated INTEGER NOT NULL DEFAULT 0, -- records whose row changed
  deleted INTEGER NOT NULL DEFAULT 0, -- rows removed because the server no longer had the record
  unchanged INTEGER NOT NULL DEFAULT 0, -- records whose row stayed as it was
  live INTEGER, -- rows in the table at the end
  server_total INTEGER, -- records that the server had; null if they could not be counted
  fresh_as_of TEXT, -- every row was seen on the server at or after this time
  problem TEXT, -- why it is not complete
  expected INTEGER, -- records that the run expected to read; null until that is known
  PRIMARY KEY (run, resource)
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_windows ( -- The windows of creation time that the records are read in, and what is known about each.
  resource TEXT NOT NULL, -- users, packages, emails or coupons
  from_day TEXT NOT NULL, -- first day of the window
  to_day TEXT NOT NULL CHECK (to_day > from_day), -- the day after its last
  state TEXT NOT NULL CHECK (state IN ('pending', 'walking', 'settled', 'unsettled')), -- pending, walking, settled or unsettled
  server_total INTEGER, -- records that the server had in it when they were last counted
  pages_read INTEGER NOT NULL DEFAULT 0, -- pages of the current walk that are in the mirror
  fresh_as_of TEXT, -- every row of the window was seen on the server at or after this time
  run TEXT, -- the run that touched it last
  cause TEXT, -- why it is not settled, as a code: one outage is one cause
  problem TEXT, -- the same in words
  surplus INTEGER NOT NULL DEFAULT 0, -- records that its total counts and no page shows, such as those that are only marked as deleted
  PRIMARY KEY (resource, from_day)
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_history ( -- How far back the history of each resource reaches.
  resource TEXT PRIMARY KEY, -- users, packages, emails or coupons
  begins_at TEXT NOT NULL -- every state since then is known: since the first sync, or as far back as history.keep reaches
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_pages ( -- The pages of each window as they were last read: a page that comes again unchanged is not written again.
  resource TEXT NOT NULL, -- users, packages, emails or coupons
  from_day TEXT NOT NULL, -- first day of the window
  page TEXT NOT NULL, -- what was requested: range, page size and number
  hash TEXT NOT NULL, -- hash of the bytes of the response
  total INTEGER NOT NULL, -- records that the server counted in the range
  last_page INTEGER NOT NULL, -- last page of the range
  per_page INTEGER NOT NULL, -- records on a full page
  ids TEXT NOT NULL, -- ids on the page, as JSON
  owned INTEGER NOT NULL, -- how many of them are the window's own
  last_created_at TEXT, -- creation time of the last record on the page
  records TEXT, -- a hash of each record, so that only those that changed are read; null: they could not be told apart
  seal TEXT NOT NULL, -- a hash of this row and the program's version: if it is another one, the page is read again
  PRIMARY KEY (resource, from_day, page),
  FOREIGN KEY (resource, from_day) REFERENCES mirror_windows (resource, from_day) ON DELETE CASCADE
) STRICT, WITHOUT ROWID`,
  // Written by the triggers of src/store/cursor.ts.
  `CREATE TABLE mirror_touched ( -- Days whose rows, or their related records, another program has added, changed or removed: the next sync compares their windows row by row.
  resource TEXT NOT NULL, -- users, packages, emails or coupons
  day TEXT NOT NULL, -- the day of creation of a row that was changed; 0000-01-01: of one without a usable time
  PRIMARY KEY (resource, day)
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_events ( -- Events, each recorded once: unknown or missing fields, changed types, refused deletions, wrong totals, a log that cannot shrink.
  event INTEGER PRIMARY KEY, -- primary key
  at TEXT NOT NULL, -- when it was first seen
  run TEXT, -- the run that saw it first
  resource TEXT, -- the resource that it concerns
  kind TEXT NOT NULL, -- what happened, in one word
  subject TEXT NOT NULL, -- the field, window or record that it happened to
  detail TEXT, -- the details
  UNIQUE (resource, kind, subject)
) STRICT`,
  `CREATE TABLE mirror_capabilities ( -- What was measured about each list: page size, date ranges, sorting.
  resource TEXT PRIMARY KEY, -- users, packages, emails or coupons
  value TEXT NOT NULL CHECK (json_type(value, '$.pageSize') IS 'integer'), -- the result, as JSON
  measured_at TEXT NOT NULL -- when
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_unproven ( -- Lists whose total did not prove their rows yet: they are no fresher than this.
  resource TEXT PRIMARY KEY, -- users, packages, emails or coupons
  fresh_as_of TEXT -- how fresh the resource was before; null: nobody knows
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_surpluses ( -- Records that the total of a whole list counts and no page shows.
  resource TEXT PRIMARY KEY, -- users, packages, emails or coupons
  records INTEGER NOT NULL -- how many
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_server ( -- The server that the mirror was read from.
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), -- primary key: there is one row
  address TEXT NOT NULL -- its address
) STRICT`,
  // Written by src/store/journal-memory.ts.
  `CREATE TABLE mirror_journal ( -- The journal that money was sent from, so that an older one is noticed.
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), -- primary key: there is one row
  value TEXT NOT NULL CHECK (json_type(value, '$.at') IS 'text') -- its newest step, as JSON
) STRICT`,
  // The tables of related records are made when these are first requested. This table lists them.
  `CREATE TABLE mirror_relations ( -- Which related records are or were mirrored, and where.
  resource TEXT NOT NULL CHECK (resource IN (${resourceNames.map(quoteText).join(', ')})), -- users, packages, emails or coupons
  relation TEXT NOT NULL, -- the name by which they are requested
  table_name TEXT NOT NULL, -- where they are; the view of that name with _flat has a column for each of their keys
  included INTEGER NOT NULL CHECK (included IN (0, 1)), -- 1: pages are read with them; 0: they are no longer read, and the rows are from the last time
  keys TEXT NOT NULL CHECK (json_valid(keys)), -- keys seen so far; null for records that are no objects
  since TEXT NOT NULL, -- when they were first requested
  PRIMARY KEY (resource, relation)
) STRICT, WITHOUT ROWID`,
  // Ids alone, and the creation day, which windows need: nothing here identifies the person.
  `CREATE TABLE mirror_suppressions ( -- What \`forget\` keeps out of the mirror: ids, and nothing else about the person.
  resource TEXT NOT NULL, -- users or emails
  id INTEGER NOT NULL, -- the record that is kept out
  user_id INTEGER NOT NULL, -- the person who was forgotten
  since TEXT NOT NULL, -- since when
  seen_day TEXT, -- the day of creation under which the server still has it; null if it does not
  PRIMARY KEY (resource, id)
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE mirror_locks ( -- Who is writing the mirror now.
  name TEXT PRIMARY KEY, -- what is locked
  ${lockColumns}
) STRICT, WITHOUT ROWID`,
];

// A resource is as fresh as its stalest window. A window that was never walked makes it null, and so do rows that another program
// has changed. As long as a sum is unproven, the resource counts as no fresher than before.
const freshness = `CREATE VIEW mirror_freshness AS -- How fresh each resource is.
SELECT
  mirror_windows.resource AS resource, -- TEXT: users, packages, emails or coupons
  count(*) AS windows, -- INTEGER: windows that it is read in
  sum(state <> 'settled') AS unsettled, -- INTEGER: how many of them are not settled
  CASE
    WHEN sum(mirror_windows.fresh_as_of IS NULL) > 0 THEN NULL
    WHEN mirror_windows.resource IN (SELECT resource FROM mirror_touched) THEN NULL
    WHEN unproven.resource IS NOT NULL THEN min(min(mirror_windows.fresh_as_of), unproven.fresh_as_of)
    ELSE min(mirror_windows.fresh_as_of)
  END AS fresh_as_of -- TEXT?: every row was seen on the server at or after this time; null if one never was
FROM mirror_windows
LEFT JOIN mirror_unproven AS unproven ON unproven.resource = mirror_windows.resource
GROUP BY mirror_windows.resource`;

// Views for analysts, and indices. docs/reports.md has what each gains and costs, as measured.
const createdOn = 'substr(created_at, 1, 10)';

/** Whole days from a timestamp to now, with functions of every SQLite version that can read the file. */
function daysSince(column: string): string {
  return `CAST(julianday('now') - julianday(${column}) AS INTEGER)`;
}

const usersLiveAge = `CREATE VIEW users_live_age AS -- The users that the server has, and how many whole days ago they signed up, were seen, logged in and changed.
SELECT
  id, -- INTEGER: the user
  username, -- TEXT: user name
  email, -- TEXT: email address
  status, -- TEXT: status
  balance, -- REAL: balance
  email_verified_at IS NOT NULL AS verified, -- INTEGER: 1 if the email address is verified
  ${daysSince('created_at')} AS days_old, -- INTEGER?: since the sign-up
  ${daysSince('last_seen_at')} AS days_since_seen, -- INTEGER?: since the user was last seen
  ${daysSince('last_login_at')} AS days_since_login, -- INTEGER?: since the last login
  ${daysSince('"_changed_at"')} AS days_since_change -- INTEGER: since a value of the row last changed in the mirror
FROM users`;

const usersByDay = `CREATE VIEW users_by_day AS -- How many users signed up on each day.
SELECT
  ${createdOn} AS day, -- TEXT?: the day, as 2026-03-11; null for users without a creation time
  count(*) AS users, -- INTEGER: users created on it
  count(email_verified_at) AS verified -- INTEGER: how many of them have a verified email address now
FROM users
GROUP BY 1`;

const emailsByDay = `CREATE VIEW emails_by_day AS -- How many emails were created on each day.
SELECT
  ${createdOn} AS day, -- TEXT?: the day, as 2026-03-11; null for emails without a creation time
  count(*) AS emails, -- INTEGER: emails created on it
  sum(is_sent = 1) AS sent, -- INTEGER?: how many of them were sent
  sum(is_sent = 0) AS unsent -- INTEGER?: how many of them were not
FROM emails
GROUP BY 1`;

// Users come first in the join, so that a condition on the user finds the emails by their index.
const emailsByUser = `CREATE VIEW emails_by_user AS -- How many emails each user was sent or will be sent; users without any have 0.
SELECT
  users.id AS user_id, -- INTEGER: the user
  users.email, -- TEXT: the user's current address
  count(emails.id) AS emails, -- INTEGER: emails of the user
  count(CASE WHEN emails.is_sent = 0 THEN 1 END) AS unsent, -- INTEGER: how many of them were not sent
  max(emails.created_at) AS last_created_at -- TEXT?: when the newest of them was created
FROM users LEFT JOIN emails ON emails.user_id = users.id
GROUP BY users.id`;

const emailsByDomain = `CREATE VIEW emails_by_domain AS -- How many emails go to each domain, in lower case.
SELECT
  CASE WHEN instr(receiver, '@') > 0 THEN lower(substr(receiver, instr(receiver, '@') + 1)) END AS domain, -- TEXT?: what follows the @ of the receiver; null if there is no @
  count(*) AS emails, -- INTEGER: emails to it
  sum(is_sent = 0) AS unsent, -- INTEGER?: how many of them were not sent
  count(DISTINCT user_id) AS users -- INTEGER: users whose emails they are
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
 * table of words costs a first sync a third of what an index on each column does.
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
