/**
 * The journal over whatever database holds it, in statements that SQLite and PostgreSQL both understand. Where they differ,
 * the backend says how. Section "The journal" of docs/architecture.md.
 */
import { randomUUID } from 'node:crypto';
import { type Dialect, Kysely, type RawBuilder, sql, type SqlBool } from 'kysely';
import { UsageError } from '../model/errors.ts';
import { type Clock, type Timestamp, timestampOf } from '../model/time.ts';
import type { LockOwner } from '../store/lock.ts';
import { canBeClaimed, claimable, viewOf } from './claim-view.ts';
import { takeOutPerson } from './forget.ts';
import type { Intent, IntentFields, Journal, NewBatch, NewIntent } from './port.ts';
import { batchColumns, batchOf, intentColumns, intentOf, type JournalTables } from './tables.ts';

/** What a database that holds a journal does in its own way. Its tables are there, in the newest version. */
export interface JournalBackend {
  /** A transaction of it sees nothing of another, and lets no other one write until it ends. */
  readonly dialect: Dialect;
  /** The members of a JSON array, as rows with the one column `value`. */
  readonly members: (json: string) => RawBuilder<{ value: string }>;
  /** The error says that a unique index refused a row. */
  readonly isTaken: (error: unknown) => boolean;
  /** The error as one that names the database and says what to do, where it is about that. */
  readonly explained: (error: unknown) => unknown;
  /** Throws where the database is not the one that was opened, although its name is: it has another id, or none. */
  readonly checkInPlace: (id: string, found: () => Promise<string | undefined>) => Promise<void>;
  /** The locks of batches. `guard` belongs into each transaction: it throws where one of them was lost. */
  readonly locks: {
    acquire(batch: string, owner: string): void;
    release(batch: string, owner: string): void;
    owner(batch: string): LockOwner | undefined;
    guard(): void;
    close(): void;
  };
  /** Leaves no byte of what was taken out. */
  readonly scrub: () => void;
}

type Connection = Kysely<JournalTables>;

/** What bounds the text of one response: enough for any that the API gives, and not for a page of a proxy's. */
const longestAnswer = 16_384;

/** Rows that are read or stored at once. */
const chunk = 1_000;

// As text rather than as bound values: by it SQLite finds the index that is of these states alone.
const isOpen = sql<SqlBool>`state in ('sending', 'acknowledged', 'unknown', 'needs_human')`;
const takesBack = sql<SqlBool>`state not in ('rejected', 'not_applied', 'skipped', 'invalid')`;
/** Opens the journal that the backend leads to. The caller closes it, which closes the database. */
export async function openJournalOver(backend: JournalBackend, clock: Clock): Promise<Journal> {
  const db: Connection = new Kysely<JournalTables>({ dialect: backend.dialect });
  const { locks } = backend;
  // Tells what this connection has locked from what another one has.
  const owner = randomUUID().slice(0, 8);
  const identity = async (connection: Connection): Promise<string | undefined> =>
    (await connection.selectFrom('journal_identity').select('id').executeTakeFirst())?.id;
  const id = (await identity(db)) ?? '';
  const now = (): Timestamp => timestampOf(clock.now());

  async function whole<T>(doing: (connection: Connection) => Promise<T>): Promise<T> {
    try {
      return await db.transaction().execute(async (connection) => {
        await backend.checkInPlace(id, () => identity(connection));
        return doing(connection);
      });
    } catch (error) {
      throw backend.explained(error);
    }
  }

  /** One durable step: all of it, or none; and none where the lock of a batch was lost. */
  const step = <T>(doing: (connection: Connection) => Promise<T>): Promise<T> =>
    whole((connection) => {
      locks.guard();
      return doing(connection);
    });

  return {
    id,
    addBatch: (batch, rows) =>
      step(async (connection) => {
        const at = now();
        await connection.insertInto('journal_batches').values(batchRow(batch, at)).execute();
        try {
          await insertIntents(connection, backend, batch, rows);
        } catch (error) {
          throw backend.isTaken(error) && batch.undoOf !== null ? takenBack(batch.undoOf) : error;
        }
        if (batch.againReason !== null) await addStep(connection, at, batch.batch, null, 'again', batch.againReason);
      }),
    batch: (name) => batchNamed(db, name),
    batches: async () => {
      const rows = db.selectFrom('journal_batches').select(batchColumns);
      return (await rows.orderBy('created_at', 'desc').orderBy('batch', 'desc').execute()).map(batchOf);
    },
    steps: (batch) =>
      db
        .selectFrom('journal_steps')
        .select(['at', 'row', 'kind', 'note'])
        .where('batch', '=', batch)
        .orderBy('step')
        .execute(),
    lastStep: async () => {
      const last = db.selectFrom('journal_steps').select((eb) => eb.fn.max('step').as('step'));
      return (await last.executeTakeFirst())?.step ?? 0;
    },
    setBatchState: (batch, state) => step((connection) => setBatchState(connection, batch, state, now())),

    intents: (batch, states) =>
      inChunks(async (after) => {
        let rows = db.selectFrom('journal_intents').select(intentColumns).where('batch', '=', batch);
        if (states !== undefined) rows = rows.where('state', 'in', states);
        return (await rows.where('row', '>', after).orderBy('row').limit(chunk).execute()).map(intentOf);
      }),
    notedIntents: (batch) =>
      inChunks(async (after) => {
        const rows = db.selectFrom('journal_intents').select(intentColumns).where('batch', '=', batch);
        const noted = rows.where('notes', 'is not', null).where('row', '>', after).orderBy('row').limit(chunk);
        return (await noted.execute()).map(intentOf);
      }),
    changes: (batch) =>
      inChunks((after) =>
        db
          .selectFrom('journal_intents')
          .select(['row', 'state', 'subject', 'before', 'after', 'discrepancy'])
          .select(['planned_before as plannedBefore', 'planned_after as plannedAfter'])
          .where('batch', '=', batch)
          .where('state', '<>', 'invalid')
          .where('row', '>', after)
          .orderBy('row')
          .limit(chunk)
          .execute(),
      ),
    parameters: (batch) =>
      inChunks(async (after) => {
        const rows = db.selectFrom('journal_intents').select(['row', 'parameters']).where('batch', '=', batch);
        const found = await rows.where('row', '>', after).orderBy('row').limit(chunk).execute();
        return found.map(({ row, parameters: text }) => ({
          row,
          parameters: text === null ? null : (JSON.parse(text) as Intent['parameters']),
        }));
      }),
    intent: async (batch, row) => {
      const rows = db.selectFrom('journal_intents').select(intentColumns).where('batch', '=', batch);
      const found = await rows.where('row', '=', row).executeTakeFirst();
      return found === undefined ? undefined : intentOf(found);
    },
    counts: async (batch) => {
      const counted = db.selectFrom('journal_intents').select((eb) => ['state', eb.fn.countAll<number>().as('count')]);
      const counts = await counted.where('batch', '=', batch).groupBy('state').execute();
      return Object.fromEntries(counts.map(({ state, count }) => [state, count]));
    },
    openRow: (subject) =>
      db
        .selectFrom('journal_intents')
        .select(['batch', 'row', 'state'])
        .where('subject', '=', subject)
        .where(isOpen)
        .executeTakeFirst(),

    move: async ({ batch, row, from, to, fields = {}, note }) => {
      try {
        await step(async (connection) => {
          const moved = await connection
            .updateTable('journal_intents')
            .set((eb) => ({
              ...changed(fields),
              state: to,
              attempts: eb('attempts', '+', to === 'sending' ? 1 : 0),
            }))
            .where('batch', '=', batch)
            .where('row', '=', row)
            .where('state', '=', from)
            .executeTakeFirst();
          if (moved.numUpdatedRows !== 1n) {
            throw new Error(`row ${row} of batch ${batch} is not ${from}, so it cannot become ${to}`);
          }
          await addStep(connection, now(), batch, row, to, note ?? null);
        });
        return true;
      } catch (error) {
        if (backend.isTaken(error)) return false;
        throw error;
      }
    },
    takeUp: (batch) =>
      step(async (connection) => {
        const at = now();
        const rows = await connection
          .updateTable('journal_intents')
          .set({ state: 'unknown' })
          .where('batch', '=', batch)
          .where('state', '=', 'sending')
          .returning('row')
          .execute();
        for (const { row } of rows) {
          await addStep(connection, at, batch, row, 'unknown', 'the process that sent it died');
        }
        const freed = await connection
          .updateTable('journal_intents')
          .set({ state: 'planned', problem: null })
          .where('batch', '=', batch)
          .where('state', '=', 'blocked')
          .where('subject', 'not in', (eb) =>
            eb.selectFrom('journal_intents').select('subject').where(isOpen).where('subject', 'is not', null),
          )
          .executeTakeFirst();
        return { interrupted: rows.length, freed: Number(freed.numUpdatedRows) };
      }),

    claimView: (batch, rows, terms) => viewOf(db, backend, batch, rows, terms),
    claimable: (batch) => claimable(db, batch),
    claim: (batch, terms, decide) =>
      step(async (connection) => {
        const found = await batchNamed(connection, batch);
        if (found === undefined) throw new Error(`there is no batch ${batch} to claim`);
        const at = now();
        const view = await viewOf(connection, backend, found, await claimable(connection, batch), terms);
        for (const { kind, note } of decide(view, found)) {
          if (kind === 'again') await setBatch(connection, batch, { again_reason: note });
          await addStep(connection, at, batch, null, kind, note);
        }
        // Also what was claimed before: whoever goes on has looked at what others have claimed since.
        await connection
          .updateTable('journal_intents')
          .set({ claimed_at: at })
          .where('batch', '=', batch)
          .where(canBeClaimed)
          .execute();
        await setBatchState(connection, batch, 'applying', at);
      }),
    knowsToken: async (fingerprint, token) => {
      // By the index on fingerprints: one on tokens would make every plan dearer.
      const rows = db.selectFrom('journal_intents').select('row').where('fingerprint', '=', fingerprint);
      const claimed = rows.where('token', '=', token).where('claimed_at', 'is not', null);
      return (await claimed.limit(1).executeTakeFirst()) !== undefined;
    },
    setBehind: (batch, why) =>
      step(async (connection) => {
        await setBatch(connection, batch, { behind: why });
        await addStep(connection, now(), batch, null, why === null ? 'reconciled' : 'behind', why);
      }),
    undoneRows: async (batch) => {
      const rows = db.selectFrom('journal_intents').select(['undo_of_row as row', 'batch']);
      const undone = await rows.where('undo_of', '=', batch).where(takesBack).execute();
      return new Map(undone.map(({ row, batch: by }) => [row ?? 0, by]));
    },

    beginWrite: (write) =>
      step(async (connection) => {
        const insert = connection.insertInto('journal_writes').values({ ...write, at: now(), state: 'sending' });
        return (await insert.returning('write').executeTakeFirstOrThrow()).write;
      }),
    endWrite: (write, { state, httpStatus, answer, problem }) =>
      step(async (connection) => {
        await connection
          .updateTable('journal_writes')
          .set({ state, ended_at: now(), http_status: httpStatus, answer: cutText(answer), problem })
          .where('write', '=', write)
          .execute();
      }),
    writes: (limit) =>
      db
        .selectFrom('journal_writes')
        .select(['write', 'at', 'operation', 'user', 'body', 'state', 'http_status as httpStatus', 'problem'])
        .orderBy('write', 'desc')
        .limit(limit)
        .execute(),

    acquireLock: (batch) => whole(async () => locks.acquire(batch, owner)),
    releaseLock: (batch) => whole(async () => locks.release(batch, owner)),
    lockOwner: async (batch) => locks.owner(batch),

    forget: async (person) => {
      const counts = await whole((connection) => takeOutPerson(connection, person));
      await db.connection().execute(async () => backend.scrub());
      return counts;
    },
    close: async () => {
      locks.close();
      await db.destroy();
    },
  };
}

function takenBack(batch: string): UsageError {
  return new UsageError(`rows of batch ${batch} are being taken back by another batch at this moment`, {
    advice: 'See which one with `admin-mirror bulk status`.',
  });
}

/** What comes in pieces, one by one: no connection is held while somebody works on a row. */
async function* inChunks<T extends { readonly row: number }>(
  read: (after: number) => Promise<readonly T[]>,
): AsyncGenerator<T, undefined> {
  for (let after: number | undefined = -1; after !== undefined;) {
    const rows: readonly T[] = await read(after);
    yield* rows;
    after = rows.length < chunk ? undefined : rows.at(-1)?.row;
  }
  return undefined;
}

async function batchNamed(connection: Connection, name: string) {
  const rows = connection.selectFrom('journal_batches').select(batchColumns).where('batch', '=', name);
  const found = await rows.executeTakeFirst();
  return found === undefined ? undefined : batchOf(found);
}

function batchRow(batch: NewBatch, at: Timestamp) {
  const { file, hash, rows, net, action } = batch;
  return {
    batch: batch.batch,
    action,
    state: 'planned' as const,
    file,
    file_bytes: batch.fileBytes,
    file_hash: batch.fileHash,
    hash,
    rows_digest: batch.rowsDigest,
    rows,
    net,
    columns: JSON.stringify(batch.columns),
    problems: JSON.stringify(batch.problems),
    warnings: JSON.stringify(batch.warnings),
    server: JSON.stringify(batch.server),
    undo_of: batch.undoOf,
    again_reason: batch.againReason,
    created_at: at,
  };
}

async function setBatch(
  connection: Connection,
  batch: string,
  fields: { readonly again_reason: string } | { readonly behind: string | null },
): Promise<void> {
  await connection.updateTable('journal_batches').set(fields).where('batch', '=', batch).execute();
}

async function setBatchState(
  connection: Connection,
  batch: string,
  state: JournalTables['journal_batches']['state'],
  at: Timestamp,
): Promise<void> {
  await connection
    .updateTable('journal_batches')
    .set((eb) => ({
      state,
      ...(state === 'applying' && { applied_at: eb.fn.coalesce('applied_at', eb.val(at)) }),
      finished_at: state === 'done' ? eb.fn.coalesce('finished_at', eb.val(at)) : null,
    }))
    .where('batch', '=', batch)
    .execute();
}

async function addStep(
  connection: Connection,
  at: Timestamp,
  batch: string,
  row: number | null,
  kind: string,
  note: string | null,
): Promise<void> {
  await connection.insertInto('journal_steps').values({ at, batch, row, kind, note }).execute();
}

/** What a plan knows of a row, with the type of each column. */
const plannedColumns = [
  ['batch', 'text'],
  ['row', 'bigint'],
  ['state', 'text'],
  ['subject', 'text'],
  ['user', 'bigint'],
  ['key', 'text'],
  ['token', 'text'],
  ['fingerprint', 'text'],
  ['parameters', 'text'],
  ['cells', 'text'],
  ['planned_email', 'text'],
  ['planned_username', 'text'],
  ['planned_before', 'text'],
  ['planned_after', 'text'],
  ['problem', 'text'],
  ['notes', 'text'],
  ['undo_of', 'text'],
  ['undo_of_row', 'bigint'],
] as const;

/** In the order of `plannedColumns`. */
function plannedCells(batch: string, undoOf: string | null, each: NewIntent): (string | number | null)[] {
  const known = [each.subject, each.user, each.key, each.token, each.fingerprint];
  const parameters = each.parameters === null ? null : JSON.stringify(each.parameters);
  const preview = [each.plannedEmail, each.plannedUsername, each.plannedBefore, each.plannedAfter];
  const words = [each.problem, each.notes.length === 0 ? null : JSON.stringify(each.notes)];
  const undo = each.undoOfRow === null ? [null, null] : [undoOf, each.undoOfRow];
  return [batch, each.row, each.state, ...known, parameters, JSON.stringify(each.cells), ...preview, ...words, ...undo];
}

async function insertIntents(
  connection: Connection,
  { members }: Pick<JournalBackend, 'members'>,
  { batch, undoOf }: NewBatch,
  intents: Iterable<NewIntent>,
): Promise<void> {
  const names = sql.join(plannedColumns.map(([name]) => sql.ref(name)));
  const values = sql.join(
    plannedColumns.map(([, type], at) => sql`cast(value ->> ${sql.lit(at)} as ${sql.raw(type)})`),
  );
  const store = async (rows: readonly unknown[]): Promise<void> => {
    const json = members(JSON.stringify(rows));
    await sql`insert into journal_intents (${names}) select ${values} from ${json} as each`.execute(connection);
  };
  // Rows go as JSON, a thousand at once: binding each of their values takes longer than storing them.
  let rows: unknown[] = [];
  for (const each of intents) {
    if (rows.push(plannedCells(batch, undoOf, each)) < chunk) continue;
    await store(rows);
    rows = [];
  }
  if (rows.length > 0) await store(rows);
}

const fieldColumns = {
  sentAt: 'sent_at',
  body: 'body',
  before: 'before',
  after: 'after',
  answerKind: 'answer_kind',
  httpStatus: 'http_status',
  evidence: 'evidence',
  problem: 'problem',
  recordId: 'record_id',
  discrepancy: 'discrepancy',
} as const satisfies Partial<Record<keyof IntentFields, keyof JournalTables['journal_intents']>>;

/** The columns of what changes with a step. */
function changed({ seenBefore, answer, ...fields }: IntentFields) {
  const plain = (Object.keys(fields) as (keyof typeof fields)[]).map((name) => [fieldColumns[name], fields[name]]);
  return {
    ...(Object.fromEntries(plain) as Partial<Record<(typeof fieldColumns)[keyof typeof fields], never>>),
    ...(seenBefore !== undefined && { seen_before: JSON.stringify(seenBefore) }),
    ...(answer !== undefined && { answer: cutText(answer) }),
  };
}

const cutText = (text: string | null): string | null => text?.slice(0, longestAnswer) ?? null;
