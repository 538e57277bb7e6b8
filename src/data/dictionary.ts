/** The data dictionary: what every table, view and column of the mirror means. A test compares it with a real mirror. */
import {
  type RelationTable,
  relationTables,
  type Field,
  type FieldType,
  type Resource,
  type ResourceName,
  resourceNames,
  resourceOf,
  sqlTypeOf,
} from '../model/resources.ts';
import type { Relation } from './reading-types.ts';

/** @param definition `name TYPE`, with a question mark if the column may be null */
function column(definition: string, meaning: string): ColumnEntry {
  const [, name = '', type = '', mark] = /^(\w+) (.+?)(\?)?$/.exec(definition) ?? [];
  return { name, type, nullable: mark !== undefined, source: 'mirror', meaning };
}

function table(name: string, summary: string, example: string, ...columns: readonly ColumnEntry[]): TableEntry {
  return { name, kind: 'table', summary, columns, example };
}

/** Reads entries: a line with name, summary and example, and below it a line for each column. */
function entriesIn(kind: TableEntry['kind'], text: string): TableEntry[] {
  const blocks = text.trim().split(/\n(?! )/);
  return blocks.map((block) => {
    const [head = [], ...lines] = block.split('\n').map((line) => line.trim().split(' | '));
    const [name = '', summary = '', example = ''] = head;
    const columns = lines.map(([definition = '', meaning = '']) => column(definition, meaning));
    return { name, kind, summary, columns, example };
  });
}

const tables = `
mirror_runs | Every run of \`sync\`, one row each. | SELECT started_at, status, requests, problem FROM mirror_runs ORDER BY started_at DESC LIMIT 10
  run TEXT | the id of the run
  command TEXT | what was run
  status TEXT | running, complete, partial, failed, interrupted or killed
  started_at TEXT | when it began
  finished_at TEXT? | when it ended; null while it runs, and if it was killed
  requests INTEGER | requests sent, including retries
  retries INTEGER | how many of them were retries after a failure
  answers TEXT | how many responses had each HTTP status, as JSON; the other requests had no complete response
  problem TEXT? | why it is not complete
  actor TEXT? | who ran it, as JSON: the account on the machine, its host, and the job; null for older runs
mirror_run_resources | What a run did for each resource. | SELECT resource, sum(inserted) AS inserted, sum(updated) AS updated, sum(deleted) AS deleted FROM mirror_run_resources GROUP BY resource
  run TEXT | the run, as in mirror_runs
  resource TEXT | users, packages, emails or coupons
  status TEXT | running, complete, partial or failed
  requests INTEGER | requests sent, including retries
  received INTEGER | records received
  inserted INTEGER | records that were new
  updated INTEGER | records whose row changed
  deleted INTEGER | rows removed because the server no longer had the record
  unchanged INTEGER | records whose row stayed as it was
  live INTEGER? | rows in the table at the end
  server_total INTEGER? | records that the server had; null if they could not be counted
  fresh_as_of TEXT? | every row was seen on the server at or after this time
  problem TEXT? | why it is not complete
  expected INTEGER? | records that the run expected to read; null until that is known
mirror_windows | The windows of creation time that the records are read in, and what is known about each. | SELECT * FROM mirror_windows WHERE state <> 'settled' ORDER BY resource, from_day
  resource TEXT | users, packages, emails or coupons
  from_day TEXT | first day of the window
  to_day TEXT | the day after its last
  state TEXT | pending, walking, settled or unsettled
  server_total INTEGER? | records that the server had in it when they were last counted
  pages_read INTEGER | pages of the current walk that are in the mirror
  fresh_as_of TEXT? | every row of the window was seen on the server at or after this time
  run TEXT? | the run that touched it last
  cause TEXT? | why it is not settled, as a code: one outage is one cause
  problem TEXT? | the same in words
  surplus INTEGER | records that its total counts and no page shows, such as those that are only marked as deleted
mirror_pages | The pages of each window as they were last read: a page that comes again unchanged is not written again. | SELECT resource, count(*) AS pages FROM mirror_pages GROUP BY resource
  resource TEXT | users, packages, emails or coupons
  from_day TEXT | first day of the window
  page TEXT | what was requested: range, page size and number
  hash TEXT | hash of the bytes of the response
  total INTEGER | records that the server counted in the range
  last_page INTEGER | last page of the range
  per_page INTEGER | records on a full page
  ids TEXT | ids on the page, as JSON
  owned INTEGER | how many of them are the window's own
  last_created_at TEXT? | creation time of the last record on the page
  records TEXT? | a hash of each record, so that only those that changed are read; null: they could not be told apart
  seal TEXT | a hash of this row and the program's version: if it is another one, the page is read again
mirror_touched | Days whose rows, or their related records, another program has changed or removed: the next sync compares their windows row by row. | SELECT resource, count(*) AS days FROM mirror_touched GROUP BY resource
  resource TEXT | users, packages, emails or coupons
  day TEXT | the day of creation of a row that was changed; 0000-01-01: of one without a usable time
mirror_history | How far back the history of each resource reaches. | SELECT resource, begins_at FROM mirror_history
  resource TEXT | users, packages, emails or coupons
  begins_at TEXT | every state since then is known: since the first sync, or as far back as history.keep reaches
mirror_events | Events, each recorded once: unknown or missing fields, changed types, refused deletions, wrong totals, a log that cannot shrink. | SELECT at, resource, kind, subject, detail FROM mirror_events ORDER BY at DESC LIMIT 20
  event INTEGER | primary key
  at TEXT | when it was first seen
  run TEXT? | the run that saw it first
  resource TEXT? | the resource that it concerns
  kind TEXT | what happened, in one word
  subject TEXT | the field, window or record that it happened to
  detail TEXT? | the details
mirror_capabilities | What was measured about each list: page size, date ranges, sorting. | SELECT resource, value FROM mirror_capabilities
  resource TEXT | users, packages, emails or coupons
  value TEXT | the result, as JSON
  measured_at TEXT | when
mirror_unproven | Lists whose total did not prove their rows yet: they are no fresher than this. | SELECT resource, fresh_as_of FROM mirror_unproven
  resource TEXT | users, packages, emails or coupons
  fresh_as_of TEXT? | how fresh the resource was before; null: nobody knows
mirror_surpluses | Records that the total of a whole list counts and no page shows. | SELECT resource, records FROM mirror_surpluses
  resource TEXT | users, packages, emails or coupons
  records INTEGER | how many
mirror_server | The server that the mirror was read from. | SELECT address FROM mirror_server
  one INTEGER | primary key: there is one row
  address TEXT | its address
mirror_journal | The journal that money was sent from, so that an older one is noticed. | SELECT value FROM mirror_journal
  one INTEGER | primary key: there is one row
  value TEXT | its newest step, as JSON
mirror_relations | Which related records are or were mirrored, and where. | SELECT resource, relation, table_name FROM mirror_relations WHERE included = 1
  resource TEXT | users, packages, emails or coupons
  relation TEXT | the name by which they are requested
  table_name TEXT | where they are; the view of that name with _flat has a column for each of their keys
  included INTEGER | 1: pages are read with them; 0: they are no longer read, and the rows are from the last time
  keys TEXT (JSON) | keys seen so far; null for records that are no objects
  since TEXT | when they were first requested
mirror_suppressions | What \`forget\` keeps out of the mirror: ids, and nothing else about the person. | SELECT user_id, min(since) AS since, count(*) AS records FROM mirror_suppressions GROUP BY user_id
  resource TEXT | users or emails
  id INTEGER | the record that is kept out
  user_id INTEGER | the person who was forgotten
  since TEXT | since when
  seen_day TEXT? | the day of creation under which the server still has it; null if it does not
mirror_cursor | The last change number; one row. \`export --changed-since\` and \`changes --follow\` use it. | SELECT seq FROM mirror_cursor
  mirror TEXT | identifies the mirror; one that is built anew gets another value
  seq INTEGER | the number of the last change in any table
  deletions_from INTEGER | deletions up to this number may no longer be known
mirror_epochs | Which run gave which numbers: a row for each run that changed something. An older copy continues in another epoch. | SELECT from_seq, began_at FROM mirror_epochs ORDER BY from_seq DESC LIMIT 10
  from_seq INTEGER | primary key; the last number before the epoch
  epoch TEXT | its name, which no other has
  began_at TEXT | when it began
mirror_deletions | Tombstones of deleted rows: their ids, and nothing else. They are kept for history.keep. | SELECT table_name, count(*) AS deletions FROM mirror_deletions GROUP BY table_name
  table_name TEXT | the table that the row was in
  id INTEGER | its id; for related records the parent’s, for a history the _seq
  key TEXT | for related records their _key; otherwise empty
  seq INTEGER | the number of the deletion
mirror_locks | Who is writing the mirror now. | SELECT name, run, pid, host FROM mirror_locks
  name TEXT | what is locked
  run TEXT | the run that owns it
  command TEXT | what it is doing: sync, forget or doctor
  pid INTEGER | the process
  host TEXT | the machine
  acquired_at TEXT | when it was taken
`;

const freshness = `
mirror_freshness | How fresh each resource is. | SELECT resource, fresh_as_of FROM mirror_freshness
  resource TEXT | users, packages, emails or coupons
  windows INTEGER | windows that it is read in
  unsettled INTEGER | how many of them are not settled
  fresh_as_of TEXT? | every row was seen on the server at or after this time; null if one never was
`;

const bookkeeping: readonly TableEntry[] = [...entriesIn('table', tables), ...entriesIn('view', freshness)];

/** Views that compute something from the records. */
export const analystViews: readonly TableEntry[] = entriesIn(
  'view',
  `
users_live_age | The users that the server has, and how many whole days ago they signed up, were seen, logged in and changed. | SELECT days_since_seen / 30 AS months_away, count(*) AS users FROM users_live_age GROUP BY 1 ORDER BY 1
  id INTEGER | the user
  username TEXT | user name
  email TEXT | email address
  status TEXT | status
  balance REAL | balance
  verified INTEGER | 1 if the email address is verified
  days_old INTEGER? | since the sign-up
  days_since_seen INTEGER? | since the user was last seen
  days_since_login INTEGER? | since the last login
  days_since_change INTEGER | since a value of the row last changed in the mirror
users_by_day | How many users signed up on each day. | SELECT * FROM users_by_day WHERE day >= date('now', '-14 days') ORDER BY day
  day TEXT? | the day, as 2026-03-11; null for users without a creation time
  users INTEGER | users created on it
  verified INTEGER | how many of them have a verified email address now
emails_by_day | How many emails were created on each day. | SELECT * FROM emails_by_day WHERE day >= date('now', '-14 days') ORDER BY day
  day TEXT? | the day, as 2026-03-11; null for emails without a creation time
  emails INTEGER | emails created on it
  sent INTEGER? | how many of them were sent
  unsent INTEGER? | how many of them were not
emails_by_user | How many emails each user was sent or will be sent; users without any have 0. | SELECT * FROM emails_by_user WHERE user_id IN (1, 2, 3)
  user_id INTEGER | the user
  email TEXT | the user's current address
  emails INTEGER | emails of the user
  unsent INTEGER | how many of them were not sent
  last_created_at TEXT? | when the newest of them was created
emails_by_domain | How many emails go to each domain, in lower case. | SELECT * FROM emails_by_domain ORDER BY emails DESC LIMIT 10
  domain TEXT? | what follows the @ of the receiver; null if there is no @
  emails INTEGER | emails to it
  unsent INTEGER? | how many of them were not sent
  users INTEGER | users whose emails they are
`,
);

/** Meanings of fields that the reference only names. */
const commonFields: Readonly<Record<string, string>> = {
  created_at: 'when the record was created on the server',
  updated_at: 'when the server last changed the record',
};

const resourceFields: Readonly<Record<ResourceName, Readonly<Record<string, string>>>> = {
  users: {
    username: 'name of the account',
    email: "the person's address",
    first_name: 'given name',
    last_name: 'family name',
    visibility: 'whether the person is shown as present',
    email_verified_at: 'when the address was confirmed; null if it never was',
    last_seen_at: 'when the person was last active',
    last_login_at: 'when the person last logged in',
  },
  packages: {
    category_id: 'the category that it belongs to; the API does not show categories',
    name: 'its name',
    icon: 'its picture',
    service: 'the service that it belongs to',
    global_quantity: 'how many there are for all customers',
    client_quantity: 'how many one customer may have',
    require_domain: 'whether an order must name a domain',
    allow_coupons: 'whether coupons can be used for it',
    allow_notes: 'whether an order can have notes',
  },
  emails: {
    subject: 'its subject',
    content: 'its body',
    is_sent: 'whether it was sent',
    resent: 'how often it was sent again',
    scheduled_at: 'when it is or was due to be sent',
  },
  coupons: {
    code: 'the code that customers enter',
    discount_type: 'how the discount is calculated',
    discount_amount: 'the size of the discount, in the unit of discount_type',
    allowed_uses: 'how often it can be used',
    coupon_type: 'what kind of coupon it is',
    notes: 'notes about it',
    expires_at: 'when it expires',
  },
};

const historyExamples: Readonly<Record<ResourceName, string>> = {
  users:
    "SELECT id, valid_to AS changed_at, record ->> 'username' AS username, record ->> 'balance' AS balance FROM users_history ORDER BY id, valid_to",
  packages:
    "SELECT id, valid_from, valid_to, record ->> 'status' AS status FROM packages_history ORDER BY id, valid_to",
  emails:
    "SELECT id, valid_to AS deleted_at, record ->> 'subject' AS subject FROM emails_history WHERE change = 'deleted' ORDER BY valid_to",
  coupons:
    "SELECT id, valid_to AS deleted_at, record ->> 'code' AS code FROM coupons_history WHERE change = 'deleted' ORDER BY valid_to",
};

const historyTables: readonly TableEntry[] = resourceNames.map((name) =>
  table(
    `${name}_history`,
    `Every earlier version of a row of ${name}, in the order in which they ended. \`export ${name} --as-of\` combines them to an earlier state.`,
    historyExamples[name],
    column('id INTEGER', 'the record; one may have many versions'),
    column(
      'change TEXT',
      'what ended the version: updated, another version replaced it; deleted, the record left the table',
    ),
    column('valid_from TEXT', 'since when the mirror held it: the _changed_at of the row'),
    column('valid_to TEXT', 'when the mirror saw the change; from then on it no longer held the version'),
    column('record TEXT (JSON)', 'the row as it was: every column of the table except _changed_at'),
    column('_seq INTEGER', 'the number of the change that ended it; grows with each change'),
  ),
);

/** Describes the tables and views of related records that are in the file. */
export function relationEntries(relations: readonly Pick<Relation, 'name' | 'columns'>[]): readonly TableEntry[] {
  const inFile = new Map(relations.map((each) => [each.name, each]));
  return relationTables.flatMap((each) => {
    const found = inFile.get(each.view);
    return [
      ...(inFile.has(each.table) ? [relationTableEntry(each)] : []),
      ...(found === undefined ? [] : [relationViewEntry(each, found.columns)]),
    ];
  });
}

/** Describes all tables and views of related records that a mirror can have. Nobody knows the keys of the records in advance. */
export function possibleRelationEntries(): readonly TableEntry[] {
  return relationTables.flatMap((each) => [relationTableEntry(each), relationViewEntry(each, [])]);
}

/** Advises which setting adds the table or view of related records; undefined if the name is not one of those. */
export function settingBehind(name: string): string | undefined {
  const found = relationTables.find(({ table, view }) => table === name || view === name);
  return found && `Add ${found.relation} to resources.${found.resource}.include, and run \`admin-mirror sync\`.`;
}

const seqColumn = column('_seq INTEGER', 'the number of the row’s last change; grows with each change (mirror_cursor)');

function parentEntry({ resource, parentColumn }: RelationTable): ColumnEntry {
  const meaning = `the ${resourceOf(resource).singular} that it belongs to`;
  return { ...column(`${parentColumn} INTEGER`, meaning), source: 'relation' };
}

function relationTableEntry(relation: RelationTable): TableEntry {
  const { resource, relation: key, table: name, parentColumn } = relation;
  return table(
    name,
    `What the server sends as ${key} of ${resource}, one row each, in whatever shape it comes. ` +
      `Read if resources.${resource}.include names it; mirror_relations shows whether it still does.`,
    `SELECT ${parentColumn}, count(*) AS records FROM ${name} GROUP BY ${parentColumn} ORDER BY records DESC LIMIT 10`,
    parentEntry(relation),
    {
      ...column('id TEXT?', 'the id of the related record, if it has one; a number as its digits'),
      source: 'relation',
    },
    { ...column('record TEXT (JSON)', 'the related record as it came'), source: 'relation' },
    column('_key TEXT', `tells it from others of the same ${parentColumn}: its id, otherwise # and its place`),
    seqColumn,
  );
}

/** @param columns those of the view in the file */
function relationViewEntry(relation: RelationTable, columns: Relation['columns']): TableEntry {
  const { view: name, table, parentColumn } = relation;
  const others = columns.filter((each) => each.name !== parentColumn);
  return {
    name,
    kind: 'view',
    summary: `${table} with a column for every key seen so far; new keys add columns.`,
    columns: [
      parentEntry(relation),
      ...others.map((each) => ({
        ...column('key any?', 'as it came; objects and arrays as JSON'),
        name: each.name,
        source: 'relation' as const,
      })),
    ],
    example: `SELECT * FROM ${name} LIMIT 10`,
  };
}

export interface ColumnEntry {
  readonly name: string;
  /** The declared type: `INTEGER`, `REAL` or `TEXT`, and `TEXT (JSON)` for JSON. */
  readonly type: string;
  readonly nullable: boolean;
  readonly source: Source;
  readonly meaning: string;
}

/** `document`: a field of the API, as served; `relation`: part of a related record; `mirror`: kept by this program. */
type Source = 'document' | 'relation' | 'mirror';

export interface TableEntry {
  readonly name: string;
  readonly kind: 'table' | 'view';
  readonly summary: string;
  readonly columns: readonly ColumnEntry[];
  /** A query to begin with. */
  readonly example: string;
}

/** Returns where the data of a table or view comes from: from the server, if any column does. */
export function sourceOf({ columns }: { readonly columns: readonly { readonly source: string }[] }): Source {
  const sources = new Set(columns.map(({ source }) => source));
  return (['relation', 'document'] as const).find((source) => sources.has(source)) ?? 'mirror';
}

const typeNotes: Readonly<Partial<Record<FieldType, string>>> = {
  flag: '0 or 1',
  timestamp: 'ISO 8601 UTC with microseconds; sorts as text',
  any: 'text as it came, anything else as JSON',
  object: 'JSON object',
  strings: 'JSON array of strings',
};

const examples: Readonly<Record<ResourceName, string>> = {
  users: 'SELECT status, count(*) AS users, sum(balance) AS balance FROM users GROUP BY status ORDER BY users DESC',
  packages: 'SELECT service, status, count(*) AS packages FROM packages GROUP BY service, status ORDER BY service',
  emails:
    'SELECT substr(created_at, 1, 7) AS month, count(*) AS emails, sum(is_sent) AS sent FROM emails GROUP BY month ORDER BY month',
  coupons:
    'SELECT coupons.code, product.value AS product FROM coupons, json_each(coupons.applicable_products) AS product ORDER BY code',
};

function resourceTable(resource: Resource): TableEntry {
  return table(
    resource.name,
    `${resource.summary} Exactly the ${resource.name} that the server was last seen to have, one row each.`,
    examples[resource.name],
    ...resource.fields.map((field) => fieldColumn(resource, field)),
    ...ownColumns,
  );
}

function fieldColumn(resource: Resource, field: Field): ColumnEntry {
  const seen = resource.valuesSeen[field.name];
  const parts = [
    field.name === 'id'
      ? 'primary key'
      : field.note || resourceFields[resource.name][field.name] || commonFields[field.name] || '',
    typeNotes[field.type] ?? '',
    seen === undefined || field.type === 'flag' ? '' : `values seen: ${seen.join(', ')}`,
  ];
  return {
    name: field.name,
    type: field.type === 'object' || field.type === 'strings' ? 'TEXT (JSON)' : sqlTypeOf(field.type),
    nullable: field.nullable,
    source: 'document',
    meaning: parts.filter((part) => part !== '').join('; '),
  };
}

const ownColumns: readonly ColumnEntry[] = [
  column(
    '_extra TEXT (JSON)?',
    'as a JSON object: fields that the reference does not name, and values that their columns cannot hold',
  ),
  column('_first_seen_at TEXT', 'when the record first came into the mirror'),
  column('_changed_at TEXT', 'when a value of the row last changed in the mirror, except for fields of history.ignore'),
  seqColumn,
];

const entries: readonly TableEntry[] = [
  ...resourceNames.map((name) => resourceTable(resourceOf(name))),
  ...analystViews,
  ...historyTables,
  ...bookkeeping,
];

/** Lists every table and view except for those of related records, resources first. */
export function dictionary(): readonly TableEntry[] {
  return entries;
}
