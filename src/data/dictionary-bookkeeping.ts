/** The data dictionary of the tables in which the mirror keeps what it knows about itself. */
import type { ColumnEntry, TableEntry } from './dictionary.ts';

/** `name TYPE?`: the question mark stands for a column that may be null. */
export function column(definition: string, meaning: string): ColumnEntry {
  const [, name = '', type = '', mark] = /^(\w+) (.+?)(\?)?$/.exec(definition) ?? [];
  return { name, type, nullable: mark !== undefined, source: 'mirror', meaning };
}

/** @param example a query to begin with */
export function table(name: string, summary: string, example: string, ...columns: readonly ColumnEntry[]): TableEntry {
  return { name, kind: 'table', summary, columns, example };
}

export function view(...entry: Parameters<typeof table>): TableEntry {
  return { ...table(...entry), kind: 'view' };
}

const counters = [
  column('requests INTEGER', 'requests sent, tries included'),
  column('received INTEGER', 'records received'),
  column('inserted INTEGER', 'records that were new'),
  column('updated INTEGER', 'records whose row changed'),
  column('deleted INTEGER', 'rows removed because the server no longer had the record'),
  column('unchanged INTEGER', 'records whose row stayed as it was'),
];

export const bookkeeping: readonly TableEntry[] = [
  table(
    'mirror_runs',
    'Every run of `sync`, a row each.',
    'SELECT started_at, status, requests, problem FROM mirror_runs ORDER BY started_at DESC LIMIT 10',
    column('run TEXT', 'the id of the run'),
    column('command TEXT', 'what was run'),
    column('status TEXT', 'running, complete, partial, failed, interrupted or killed'),
    column('started_at TEXT', 'when it began'),
    column('finished_at TEXT?', 'when it ended; null while it runs and where it was killed'),
    column('requests INTEGER', 'requests sent, tries included'),
    column('retries INTEGER', 'how many of them were tries after a failure'),
    column(
      'answers TEXT',
      'how many responses had each HTTP status, as JSON; the other requests had no whole response',
    ),
    column('problem TEXT?', 'why it is not complete'),
    column('actor TEXT?', 'who ran it, as JSON: the account on the machine, its host, and the job; null of older runs'),
  ),
  table(
    'mirror_run_resources',
    'What a run did for each resource.',
    'SELECT resource, sum(inserted) AS inserted, sum(updated) AS updated, sum(deleted) AS deleted FROM mirror_run_resources GROUP BY resource',
    column('run TEXT', 'the run, as in mirror_runs'),
    column('resource TEXT', 'users, packages, emails or coupons'),
    column('status TEXT', 'running, complete, partial or failed'),
    ...counters,
    column('live INTEGER?', 'rows in the table at the end'),
    column('server_total INTEGER?', 'records that the server had; null where it could not be counted'),
    column('fresh_as_of TEXT?', 'every row was seen on the server at or after this time'),
    column('problem TEXT?', 'why it is not complete'),
    column('expected INTEGER?', 'records that the run set out to read, as far as it knew; null before that is known'),
  ),
  table(
    'mirror_windows',
    'The windows of creation time that the records are read in, and what is known of each.',
    "SELECT * FROM mirror_windows WHERE state <> 'settled' ORDER BY resource, from_day",
    column('resource TEXT', 'users, packages, emails or coupons'),
    column('from_day TEXT', 'first day of the window'),
    column('to_day TEXT', 'the day after its last'),
    column('state TEXT', 'pending, walking, settled or unsettled'),
    column('server_total INTEGER?', 'records that the server had in it when last counted'),
    column('pages_read INTEGER', 'pages of the walk in hand that are in the mirror'),
    column('fresh_as_of TEXT?', 'every row of the window was seen on the server at or after this time'),
    column('run TEXT?', 'the run that touched it last'),
    column('problem TEXT?', 'why it is not settled'),
  ),
  table(
    'mirror_pages',
    'The pages of each window as they were last read: one that comes again just so is not written again.',
    'SELECT resource, count(*) AS pages FROM mirror_pages GROUP BY resource',
    column('resource TEXT', 'users, packages, emails or coupons'),
    column('from_day TEXT', 'first day of the window'),
    column('page TEXT', 'what was requested: range, page size and number'),
    column('hash TEXT', 'hash of the bytes of the response'),
    column('total INTEGER', 'records that the server counted in the range'),
    column('last_page INTEGER', 'last page of the range'),
    column('per_page INTEGER', 'records on a full page'),
    column('ids TEXT', 'ids on the page, as JSON'),
    column('owned INTEGER', "how many of them are the window's own"),
    column('last_created_at TEXT?', 'creation time of the last record on the page'),
    column('rows_sum INTEGER?', 'checksum of the window’s rows on the page; NULL: they are compared again'),
  ),
  table(
    'mirror_history',
    'How far back the history of each resource reaches.',
    'SELECT resource, begins_at FROM mirror_history',
    column('resource TEXT', 'users, packages, emails or coupons'),
    column('begins_at TEXT', 'every state from then on is known: the first sync, or what history.keep left'),
  ),
  table(
    'mirror_events',
    'Events, each recorded once: unknown or missing fields, changed types, refused deletions, totals that are wrong, a log that is held back.',
    'SELECT at, resource, kind, subject, detail FROM mirror_events ORDER BY at DESC LIMIT 20',
    column('event INTEGER', 'primary key'),
    column('at TEXT', 'when it was first seen'),
    column('run TEXT?', 'the run that saw it first'),
    column('resource TEXT?', 'the resource that it concerns'),
    column('kind TEXT', 'what happened, in one word'),
    column('subject TEXT', 'the field, window or record that it happened to'),
    column('detail TEXT?', 'the particulars'),
  ),
  table(
    'mirror_capabilities',
    'What was measured of the server - page size, date ranges, sorting - and which server it is.',
    'SELECT name, resource, value FROM mirror_capabilities ORDER BY name, resource',
    column(
      'name TEXT',
      'lists: what was measured of a list; server: the address, and marks of the key and its owner; fresh_until_proven: how fresh the resource was before a run that has not proven its sum yet; certificate: the root of the certificate that was written last, and the newest run of then; certificate_salt: what its hashes begin with',
    ),
    column('resource TEXT', 'the resource; empty where it holds for all'),
    column('value TEXT', 'the result, as JSON'),
    column('measured_at TEXT', 'when'),
  ),
  table(
    'mirror_relations',
    'Which related records are or were mirrored, and where.',
    'SELECT resource, relation, table_name FROM mirror_relations WHERE included = 1',
    column('resource TEXT', 'users, packages, emails or coupons'),
    column('relation TEXT', 'the name by which they are requested'),
    column('table_name TEXT', 'where they are; the view of that name with _flat has a column for each of their keys'),
    column('included INTEGER', '1: pages are read with them; 0: what is there is from when they last were'),
    column('keys TEXT (JSON)', 'keys seen so far; null for records that are no objects'),
    column('since TEXT', 'when they were first requested'),
  ),
  table(
    'mirror_suppressions',
    'What `forget` keeps out of the mirror: ids, and nothing about the person.',
    'SELECT user_id, min(since) AS since, count(*) AS records FROM mirror_suppressions GROUP BY user_id',
    column('resource TEXT', 'users or emails'),
    column('id INTEGER', 'the record that is kept out'),
    column('user_id INTEGER', 'the person who was forgotten'),
    column('since TEXT', 'since when'),
    column('seen_day TEXT?', 'the day of creation under which the server still has it; null where it does not'),
  ),
  table(
    'mirror_cursor',
    'Up to where changes are numbered; one row. `export --changed-since` and `changes --follow` go by it.',
    'SELECT seq FROM mirror_cursor',
    column('mirror TEXT', 'which mirror it is; another one where it was built anew'),
    column('seq INTEGER', 'the last number that a change was given, in any table'),
    column('deletions_from INTEGER', 'deletions of a lower number, or of this one, may no longer be known'),
  ),
  table(
    'mirror_epochs',
    'Who gave which numbers: a row for each run that changed something. An older copy goes on in another epoch.',
    'SELECT from_seq, began_at FROM mirror_epochs ORDER BY from_seq DESC LIMIT 10',
    column('from_seq INTEGER', 'primary key; the last number before the epoch'),
    column('epoch TEXT', 'its name, which no other has'),
    column('began_at TEXT', 'when it began'),
  ),
  table(
    'mirror_deletions',
    'Tombstones of rows that are gone: ids, and nothing else of them. They are kept for history.keep.',
    'SELECT table_name, count(*) AS deletions FROM mirror_deletions GROUP BY table_name',
    column('table_name TEXT', 'the table that the row was in'),
    column('id INTEGER', 'its id; of related records the parent’s, of a history the _seq'),
    column('key TEXT', 'of related records their _key; else empty'),
    column('seq INTEGER', 'the number of the deletion'),
  ),
  table(
    'mirror_locks',
    'Who is writing the mirror now.',
    'SELECT name, run, pid, host FROM mirror_locks',
    column('name TEXT', 'what is locked'),
    column('run TEXT', 'the run that owns it'),
    column('command TEXT', 'what it is doing: sync, forget or doctor'),
    column('pid INTEGER', 'the process'),
    column('host TEXT', 'the machine'),
    column('acquired_at TEXT', 'when it was taken'),
  ),
  table(
    'mirror_migrations',
    'The versions of this file, and when it was brought to each.',
    'SELECT max(version) AS version FROM mirror_migrations',
    column('version INTEGER', 'primary key'),
    column('applied_at TEXT', 'when'),
  ),
  view(
    'mirror_freshness',
    'How fresh each resource is.',
    'SELECT resource, fresh_as_of FROM mirror_freshness',
    column('resource TEXT', 'users, packages, emails or coupons'),
    column('windows INTEGER', 'windows that it is read in'),
    column('unsettled INTEGER', 'how many of them are not settled'),
    column('fresh_as_of TEXT?', 'every row was seen on the server at or after this time; null where one never was'),
  ),
];
