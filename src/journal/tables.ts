/** The journal's tables as Kysely sees them: the same in every database that it may be in. */
import { type Generated, type Kysely, type QueryExecutorProvider, type RawBuilder, sql } from 'kysely';
import type { Account, AccountState, SignInMethod } from '../model/account.ts';
import type { Actor } from '../model/actor.ts';
import type { Timestamp } from '../model/time.ts';
import type { Batch, BatchState, Intent, IntentState, WriteState } from './port.ts';

/** Columns whose text is JSON say so by their names below; numbers are whole. */
export interface JournalTables {
  journal_batches: {
    batch: string;
    action: string;
    state: BatchState;
    file: string | null;
    file_bytes: number | null;
    file_hash: string | null;
    hash: string;
    rows_digest: string;
    rows: number;
    net: string;
    /** JSON, as the next three. */
    columns: string;
    problems: string;
    warnings: string;
    server: string;
    undo_of: string | null;
    again_reason: string | null;
    created_at: Timestamp;
    applied_at: Timestamp | null;
    finished_at: Timestamp | null;
    behind: string | null;
    /** JSON; null where no policy was in force when it was planned. */
    approval: string | null;
    salt: string;
  };
  journal_intents: {
    batch: string;
    row: number;
    state: IntentState;
    subject: string | null;
    user: number | null;
    key: string | null;
    token: string | null;
    fingerprint: string | null;
    /** JSON. */
    parameters: string | null;
    /** JSON. */
    cells: string;
    planned_before: string | null;
    planned_after: string | null;
    problem: string | null;
    undo_of: string | null;
    undo_of_row: number | null;
    attempts: Generated<number>;
    sent_at: Timestamp | null;
    body: string | null;
    /** JSON. */
    seen_before: string | null;
    before: string | null;
    after: string | null;
    answer_kind: Intent['answerKind'];
    http_status: number | null;
    answer: string | null;
    evidence: Intent['evidence'];
    claimed_at: Timestamp | null;
    planned_email: string | null;
    planned_username: string | null;
    record_id: string | null;
    discrepancy: Intent['discrepancy'];
    /** JSON. */
    notes: string | null;
    salt: string;
    /** The seal of the row as its batch was added: the chain has one over those of all rows. */
    digest: string;
  };
  journal_steps: {
    step: number;
    at: Timestamp;
    /** Canonical JSON. */
    actor: string;
    batch: string | null;
    row: number | null;
    kind: string;
    /** Canonical JSON. */
    data: string;
    /** The seal of what the step is about, as it left it. */
    digest: string | null;
    note: string | null;
    /** Of the note alone. */
    salt: string | null;
    note_digest: string | null;
    previous: string;
    hash: string;
  };
  journal_writes: {
    write: Generated<number>;
    at: Timestamp;
    operation: string;
    user: number | null;
    body: string;
    state: WriteState;
    ended_at: Timestamp | null;
    http_status: number | null;
    answer: string | null;
    problem: string | null;
    fingerprint: string | null;
    /** JSON; null of a write from before it was kept. */
    actor: string | null;
    salt: string;
  };
  /** One row, made with the journal. */
  journal_identity: { id: string };
  /** Of src/people; they are here because approvals are checked in the journal's transactions. */
  people_accounts: {
    name: string;
    /** JSON, as `os_users` and the two actors. */
    roles: string;
    state: AccountState;
    os_users: string | null;
    password: string | null;
    password_at: Timestamp | null;
    created_at: Timestamp;
    created_by: string;
    changed_at: Timestamp;
    changed_by: string;
    /** Of the seal that the account's newest step has. */
    salt: string;
  };
  /** Who is signed in to the console. */
  people_sessions: {
    /** SHA-256 of what the browser holds. */
    token: string;
    id: string;
    account: string;
    method: SignInMethod;
    address: string;
    created_at: Timestamp;
    seen_at: Timestamp;
    ends_at: Timestamp;
  };
  /** Tries to sign in since the last that succeeded; of names that nobody has, under an empty name. */
  people_tries: {
    name: string;
    failed: number;
    blocked_until: Timestamp | null;
    last_at: Timestamp;
  };
}

/** In the order and by the names of `Batch`. */
export const batchColumns = [
  'batch',
  'action',
  'state',
  'file',
  'file_bytes as fileBytes',
  'file_hash as fileHash',
  'hash',
  'rows_digest as rowsDigest',
  'rows',
  'net',
  'columns',
  'problems',
  'warnings',
  'server',
  'undo_of as undoOf',
  'again_reason as againReason',
  'created_at as createdAt',
  'applied_at as appliedAt',
  'finished_at as finishedAt',
  'behind',
  'approval',
] as const;

type BatchJson = 'columns' | 'problems' | 'warnings' | 'server' | 'approval';

export function batchOf(
  row: Omit<Batch, BatchJson> & Readonly<Record<Exclude<BatchJson, 'approval'>, string>> & { approval: string | null },
): Batch {
  const { columns, problems, warnings, server, approval } = row;
  return {
    ...row,
    columns: JSON.parse(columns) as Batch['columns'],
    problems: JSON.parse(problems) as Batch['problems'],
    warnings: JSON.parse(warnings) as Batch['warnings'],
    server: JSON.parse(server) as Batch['server'],
    approval: approval === null ? null : (JSON.parse(approval) as Batch['approval']),
  };
}

/** In the order and by the names of `Intent`. */
export const intentColumns = [
  'batch',
  'row',
  'state',
  'subject',
  'user',
  'key',
  'token',
  'fingerprint',
  'parameters',
  'cells',
  'planned_before as plannedBefore',
  'planned_after as plannedAfter',
  'problem',
  'undo_of_row as undoOfRow',
  'attempts',
  'sent_at as sentAt',
  'body',
  'seen_before as seenBefore',
  'before',
  'after',
  'answer_kind as answerKind',
  'http_status as httpStatus',
  'answer',
  'evidence',
  'claimed_at as claimedAt',
  'planned_email as plannedEmail',
  'planned_username as plannedUsername',
  'record_id as recordId',
  'discrepancy',
  'notes',
] as const;

export async function batchNamed(connection: Kysely<JournalTables>, name: string): Promise<Batch | undefined> {
  const rows = connection.selectFrom('journal_batches').select(batchColumns).where('batch', '=', name);
  const found = await rows.executeTakeFirst();
  return found === undefined ? undefined : batchOf(found);
}

type IntentJson = 'parameters' | 'cells' | 'seenBefore' | 'notes';

export function intentOf(
  row: Omit<Intent, IntentJson> & Readonly<Record<Exclude<IntentJson, 'cells'>, string | null>> & { cells: string },
): Intent {
  const { parameters, cells, seenBefore, notes } = row;
  return {
    ...row,
    parameters: parameters === null ? null : (JSON.parse(parameters) as Intent['parameters']),
    cells: JSON.parse(cells) as Intent['cells'],
    seenBefore: seenBefore === null ? null : (JSON.parse(seenBefore) as unknown),
    notes: notes === null ? [] : (JSON.parse(notes) as Intent['notes']),
  };
}

/** The account, without the hash of its password: for whoever decides in a transaction what its person may do. */
export function accountOf(row: JournalTables['people_accounts']): Account {
  return {
    name: row.name,
    roles: JSON.parse(row.roles) as Account['roles'],
    state: row.state,
    osUsers: row.os_users === null ? null : (JSON.parse(row.os_users) as Account['osUsers']),
    passwordAt: row.password_at,
    createdAt: row.created_at,
    createdBy: JSON.parse(row.created_by) as Actor,
    changedAt: row.changed_at,
    changedBy: JSON.parse(row.changed_by) as Actor,
  };
}

const chunk = 1_000;

interface Part {
  readonly columns?: RawBuilder<unknown>;
  readonly where?: RawBuilder<unknown>;
}

/** The rows of a table in the order of its key, a thousand at a time, so that its size does not matter. */
export async function* chunksOf<R extends object>(
  db: QueryExecutorProvider,
  table: string,
  key: readonly (string & keyof R)[],
  { columns = sql`*`, where = sql`1 = 1` }: Part = {},
): AsyncGenerator<readonly R[], undefined> {
  const keys = sql.join(key.map((name) => sql.ref(name)));
  for (let after = sql``; ;) {
    const { rows } = await sql<R>`select ${columns} from ${sql.table(table)} where ${where} ${after}
      order by ${keys} limit ${sql.lit(chunk)}`.execute(db);
    if (rows.length > 0) yield rows;
    const last = rows.at(-1);
    if (rows.length < chunk || last === undefined) return;
    after = sql`and (${keys}) > (${sql.join(key.map((name) => last[name]))})`;
  }
}

/** The same, one by one. */
export async function* rowsOf<R extends object>(...from: Parameters<typeof chunksOf<R>>): AsyncGenerator<R, undefined> {
  for await (const rows of chunksOf<R>(...from)) yield* rows;
}
