/** The tables of the journal as Kysely sees them, the same in every database. */
import {
  type Compilable,
  type CompiledQuery,
  type Generated,
  type Kysely,
  type QueryExecutorProvider,
  type RawBuilder,
  type Selectable,
  sql,
} from 'kysely';
import type { Account, AccountState, Actor, SignInMethod } from '../model/actor.ts';
import type { Timestamp } from '../model/time.ts';
import type { Batch, Intent, SentWrite } from './port.ts';

/** A record of which these members are stored as JSON text. */
type Stored<T, Json extends keyof T> = {
  [K in keyof T]: K extends Json ? string | (null extends T[K] ? null : never) : T[K];
};

/** Columns by the names of the records: `fileHash` is `file_hash` in the database. All numbers are integers. */
export interface JournalTables {
  journal_batches: Stored<Batch, 'columns' | 'problems' | 'warnings' | 'server' | 'approval'> & { salt: string };
  journal_intents: Stored<Omit<Intent, 'attempts' | 'notes'>, 'parameters' | 'cells' | 'seenBefore'> & {
    attempts: Generated<number>;
    /** JSON; null if there are none. */
    notes: string | null;
    undoOf: string | null;
    salt: string;
    /** The seal of the row as it was added. The chain has one digest over these seals of all rows. */
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
    /** The seal of the record that the step is about, after the step. */
    digest: string | null;
    note: string | null;
    /** Of the note. */
    salt: string | null;
    noteDigest: string | null;
    previous: string;
    hash: string;
  };
  journal_writes: Omit<SentWrite, 'write'> & {
    write: Generated<number>;
    endedAt: Timestamp | null;
    answer: string | null;
    fingerprint: string | null;
    balance: string | null;
    /** JSON; null for a write from before actors were recorded. */
    actor: string | null;
    salt: string;
  };
  /** One row, made with the journal. */
  journal_identity: { id: string };
  /** Tables of src/people. They are here because approvals are checked in the journal's transactions. */
  people_accounts: Stored<Omit<Account, 'state'>, 'roles' | 'osUsers' | 'createdBy' | 'changedBy'> & {
    state: AccountState;
    password: string | null;
    /** Of the seal in the account's newest step. */
    salt: string;
  };
  /** Who is signed in to the console. */
  people_sessions: {
    /** SHA-256 of the token that the browser holds. */
    token: string;
    /** Names the session where it is shown. */
    id: string;
    account: string;
    method: SignInMethod;
    address: string;
    createdAt: Timestamp;
    /** To the minute. */
    seenAt: Timestamp;
    endsAt: Timestamp;
  };
  /** Failed tries to sign in since the last success. Tries of unknown names are counted under an empty name. */
  people_tries: {
    name: string;
    failed: number;
    blockedUntil: Timestamp | null;
    lastAt: Timestamp;
  };
}

export type Connection = Kysely<JournalTables>;

/** By the kind of database. */
const compiled = new WeakMap<object, Map<string, CompiledQuery>>();

/**
 * Runs a statement that each step of a row takes. It is compiled once under its name: that takes longer than SQLite takes to run it.
 * @param values of its parameters, in their order, whichever values it was built with
 */
export async function runOften<Row>(
  connection: Connection,
  name: string,
  build: () => Compilable<Row>,
  values: readonly unknown[],
): Promise<Row | undefined> {
  const { adapter } = connection.getExecutor();
  const known = compiled.get(adapter) ?? new Map<string, CompiledQuery>();
  compiled.set(adapter, known);
  const query = known.get(name) ?? build().compile();
  known.set(name, query);
  if (query.parameters.length !== values.length) throw new Error(`${name} has ${query.parameters.length} parameters`);
  const { rows } = await connection.executeQuery<Row>({ ...query, parameters: values });
  return rows[0];
}

function jsonIn(text: string | null): unknown {
  return text === null ? null : JSON.parse(text);
}

export function batchOf({ salt: _salt, ...row }: JournalTables['journal_batches']): Batch {
  return {
    ...row,
    columns: jsonIn(row.columns) as Batch['columns'],
    problems: jsonIn(row.problems) as Batch['problems'],
    warnings: jsonIn(row.warnings) as Batch['warnings'],
    server: jsonIn(row.server) as Batch['server'],
    approval: jsonIn(row.approval) as Batch['approval'],
  };
}

export async function batchNamed(connection: Connection, name: string): Promise<Batch | undefined> {
  const found = await connection.selectFrom('journal_batches').selectAll().where('batch', '=', name).executeTakeFirst();
  return found === undefined ? undefined : batchOf(found);
}

export function parametersIn(json: string | null): Intent['parameters'] {
  return jsonIn(json) as Intent['parameters'];
}

/** Without the seal: readers of rows do not need it. */
export const intentColumns = (
  'batch row state subject user key token fingerprint plannedEmail plannedUsername parameters cells plannedBefore ' +
  'plannedAfter problem notes undoOfRow claimedAt attempts sentAt body seenBefore before after answerKind httpStatus answer ' +
  'evidence recordId discrepancy'
).split(' ') as (keyof Intent)[];

export const viewColumns = [
  ...(['row', 'state', 'subject', 'user', 'plannedEmail', 'plannedUsername', 'parameters', 'plannedBefore'] as const),
  ...(['plannedAfter', 'before', 'after', 'discrepancy', 'problem', 'notes'] as const),
];

/** The maximum length of a stored response: enough for any of the API's, and not for an error page of a proxy. */
const longestAnswer = 16_384;

export function cutAnswer(text: string | null): string | null {
  return text?.slice(0, longestAnswer) ?? null;
}

export function notesIn(json: string | null): Intent['notes'] {
  return json === null ? [] : (JSON.parse(json) as Intent['notes']);
}

export function intentOf(row: Pick<Selectable<JournalTables['journal_intents']>, keyof Intent>): Intent {
  return {
    ...row,
    parameters: jsonIn(row.parameters) as Intent['parameters'],
    cells: jsonIn(row.cells) as Intent['cells'],
    seenBefore: jsonIn(row.seenBefore),
    notes: notesIn(row.notes),
  };
}

/** Returns the account without the hash of its password. */
export function accountOf({ password: _password, salt: _salt, ...row }: JournalTables['people_accounts']): Account {
  return {
    ...row,
    roles: jsonIn(row.roles) as Account['roles'],
    osUsers: jsonIn(row.osUsers) as Account['osUsers'],
    createdBy: jsonIn(row.createdBy) as Actor,
    changedBy: jsonIn(row.changedBy) as Actor,
  };
}

/** How many rows are read or stored at once. */
export const chunk = 1_000;

interface Part {
  readonly columns?: RawBuilder<unknown>;
  readonly where?: RawBuilder<unknown>;
}

/** Yields the rows of a table in the order of its key, a thousand at a time, so that a table can have any size. */
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

/** The same, row by row. */
export async function* rowsOf<R extends object>(...from: Parameters<typeof chunksOf<R>>): AsyncGenerator<R, undefined> {
  for await (const rows of chunksOf<R>(...from)) yield* rows;
}
