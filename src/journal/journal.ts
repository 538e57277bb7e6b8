/**
 * The journal, in statements that SQLite and PostgreSQL both understand; the backend handles the differences. Section "The
 * journal" of docs/architecture.md.
 */
import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { sql, type SqlBool } from 'kysely';
import type { Actor } from '../model/actor.ts';
import { LockHeldError, UsageError } from '../model/errors.ts';
import type { RecordKey } from '../model/records.ts';
import { type Timestamp, timestampOf } from '../model/time.ts';
import type { Person } from '../store/mentions.ts';
import { ownerWords, type StoreLocks } from '../store/lock.ts';
import {
  type Acting,
  approvalIn,
  acceptJournal,
  approve,
  checkWrite,
  deny,
  lastAccepted,
  noRules,
  submit,
  tellPolicy,
} from './approval.ts';
import { type AuditFilter, auditEntries } from './audit.ts';
import {
  adoptBatch,
  claimBatch,
  claimDeletions,
  deletionsRequested,
  discardBatch,
  stateColumns,
  storeBatch,
} from './batches.ts';
import { appendSteps, type Head, headOf, type NewStep, setBatch } from './chain.ts';
import { claimable, isNotMade, isOpen, viewOf } from './claim-view.ts';
import { type JournalBackend, openDatabase, type OpenJournal, transactionsOf } from './database.ts';
import { takeOutPerson } from './forget.ts';
import type {
  AdoptedRow,
  Batch,
  BatchPeople,
  BatchState,
  ClaimedRow,
  ClaimNote,
  ClaimTerms,
  ClaimView,
  DeletionRequest,
  Intent,
  IntentState,
  JournalRules,
  Move,
  NewBatch,
  NewIntent,
  NewWrite,
  RowChange,
  RowView,
  WriteEnd,
} from './port.ts';
import { takeStep, takeUpRows } from './rows.ts';
import {
  batchNamed,
  batchOf,
  changeColumns,
  chunk,
  type Connection,
  intentColumns,
  intentOf,
  notesIn,
  parametersIn,
  viewColumns,
} from './tables.ts';
import { verifyChain } from './verify-chain.ts';
import { beginWrite, endWrite } from './writes.ts';

const takesBack = sql<SqlBool>`state not in ('rejected', 'not_applied', 'skipped', 'invalid')`;

/**
 * Opens the journal of the backend. Closing the journal closes the backend.
 * @param actor null to only look at it
 */
export async function openJournalOver(
  backend: JournalBackend,
  actor: Actor | null,
  rules: JournalRules = noRules,
): Promise<Journal> {
  const { db, id } = await openDatabase(backend);
  const owner = randomUUID().slice(0, 8);
  return journalOf({ backend, db, id, rules, owner }, actor);
}

/** Makes the transaction read one moment of the database, without keeping anybody from writing. */
function atOneMomentOf<
  T extends { setIsolationLevel(level: 'repeatable read'): T; setAccessMode(mode: 'read only'): T },
>(transaction: T): T {
  return transaction.setIsolationLevel('repeatable read').setAccessMode('read only');
}

/**
 * Batches, their rows as intents, and every write that was sent. Each method that changes something is one durable step: it is
 * on the disk when its promise resolves, or it did not happen.
 */
export interface Journal extends ReturnType<typeof journalOf> {}

function journalOf(open: OpenJournal, actor: Actor | null) {
  const { backend, db, id, rules, owner } = open;
  const { locks, clock } = backend;
  const now = (): Timestamp => timestampOf(clock.now());

  const whole = transactionsOf(open);

  /** Runs one durable step in a transaction. Throws if the lock of a batch was lost. */
  const step = <T>(doing: (connection: Connection) => Promise<T>): Promise<T> =>
    whole(async (connection) => {
      await locks.guard(connection);
      return doing(connection);
    });

  const stepOf = (
    at: Timestamp,
    step: Pick<NewStep, 'batch' | 'kind'> & Partial<Pick<NewStep, 'row' | 'data' | 'note' | 'digest'>>,
  ): NewStep => {
    if (actor === null) throw new Error('a journal that was opened to be looked at takes no step');
    return { row: null, data: {}, note: null, ...step, at, actor };
  };

  const acting = (): Acting => ({ rules, now: now(), actor, stepOf });

  const chunkAfter = (batch: string, row: number) =>
    db.selectFrom('journal_intents').where('batch', '=', batch).where('row', '>', row).orderBy('row').limit(chunk);

  return {
    /** Made with the journal and never copied to another. A mirror recognises the journal of its batches by it. */
    id,
    /** The time of all steps, and of whatever is compared with them: several machines may share the journal. */
    clock,
    /** Returns the same open journal for another actor. Only who opened it closes it. */
    by: (other: Actor): Journal => journalOf(open, other),
    /** The newest step of the chain; undefined if there is none. */
    head: () => headOf(db),
    /**
     * Checks the chain and compares the tables with it, at one moment.
     * @param head hash that must be in the chain
     */
    verifyChain: (head?: string) =>
      db.isTransaction
        ? verifyChain(db, head)
        : atOneMomentOf(db.transaction()).execute((each) => verifyChain(each, head)),
    /**
     * Yields what `read` reads of the journal at one moment, however long it takes. Until it ends, an open journal does nothing
     * else, unless it was opened for reading only.
     */
    atOneMoment: async function* <T>(read: (journal: Journal) => AsyncIterable<T>) {
      const transaction = await atOneMomentOf(db.startTransaction()).execute();
      try {
        yield* read(journalOf({ ...open, db: transaction }, null));
      } finally {
        await transaction.rollback().execute();
      }
    },
    audit: (filter: AuditFilter, order?: 'asc' | 'desc') => auditEntries(db, filter, order),
    /** Stores the whole plan or nothing, so nothing if reading the rows fails. */
    addBatch: (batch: NewBatch, rows: Iterable<NewIntent> | AsyncIterable<NewIntent>) =>
      step(async (connection) => {
        await tellPolicy(connection, acting());
        try {
          await storeBatch(connection, backend, batch, rows, acting());
        } catch (error) {
          throw backend.isTaken(error) && batch.undoOf !== null ? takenBack(batch.undoOf) : error;
        }
      }),
    batch: (name: string) => batchNamed(db, name),
    /** Batches with rows that count as not made. */
    batchesNotMade: async () => {
      const rows = db.selectFrom('journal_intents').select('batch').where(isNotMade);
      const found = db.selectFrom('journal_batches').selectAll().where('batch', 'in', rows);
      return (await found.orderBy('batch').execute()).map(batchOf);
    },
    /** Newest first. */
    batches: async () => {
      const rows = db.selectFrom('journal_batches').selectAll();
      return (await rows.orderBy('createdAt', 'desc').orderBy('batch', 'desc').execute()).map(batchOf);
    },
    /**
     * Oldest first.
     * @param only `decisions`: steps about the whole batch, and steps by which a person decided about a row
     */
    steps: async (batch: string, only?: 'decisions') => {
      let steps = db.selectFrom('journal_steps').select(['step', 'at', 'actor', 'row', 'kind', 'note']);
      steps = steps.where('batch', '=', batch);
      // The data of a step is canonical JSON, so this text has only one form.
      if (only !== undefined) {
        steps = steps.where((eb) => eb.or([eb('row', 'is', null), eb('data', 'like', '%"evidence":"person"%')]));
      }
      const found = await steps.orderBy('step').execute();
      return found.map((each) => ({ ...each, actor: JSON.parse(each.actor) as Actor }));
    },
    /**
     * When it was known that the row's last request had gone out or never would: the time of the step after the last `sending`.
     */
    sentUntil: async (batch: string, row: number) => {
      const steps = () => db.selectFrom('journal_steps').where('batch', '=', batch).where('row', '=', row);
      const begun = await steps()
        .where('kind', '=', 'sending')
        .select('step')
        .orderBy('step', 'desc')
        .executeTakeFirst();
      if (begun === undefined) return null;
      const next = await steps().where('step', '>', begun.step).select('at').orderBy('step').executeTakeFirst();
      return next?.at ?? null;
    },
    /** The rows of the batch that have a step after this one. */
    rowsAfter: async (batch: string, step: number) => {
      const steps = db.selectFrom('journal_steps').select('row').distinct().where('batch', '=', batch);
      const rows = await steps.where('step', '>', step).where('row', 'is not', null).execute();
      return new Set(rows.flatMap(({ row }) => row ?? []));
    },
    /** Who added, submitted, approved, confirmed, sent and discarded the batch; each person once in each list. */
    people: (batch: string) => peopleOf(db, batch),
    /** Who added the batch. Faster than `people`: it reads no steps of rows. */
    plannedBy: async (batch: string) => {
      const steps = db.selectFrom('journal_steps').select('actor').distinct().where('batch', '=', batch);
      const added = await steps.where('row', 'is', null).where('kind', 'in', ['added', 'adopted']).execute();
      return added.map(({ actor }) => JSON.parse(actor) as Actor);
    },
    /** Whether a person ended the batch. */
    wasDiscarded: async (batch: string) => {
      const steps = db.selectFrom('journal_steps').select('step').where('batch', '=', batch);
      const found = steps.where('row', 'is', null).where('kind', '=', 'discarded').limit(1);
      return (await found.executeTakeFirst()) !== undefined;
    },
    hasStep: async ({ step: number, hash }: Head) => {
      const steps = db.selectFrom('journal_steps').select('hash').where('step', '=', number);
      return (await steps.executeTakeFirst())?.hash === hash;
    },
    /** The first step, since the journal was last accepted, that does not follow the one before it; null if there is none. */
    gap: () => gapIn(db),
    /** Records that a person accepts this journal, although elsewhere `instead` is known as the newest step. */
    accept: (reason: string, instead: Head | null) =>
      step((connection) => acceptJournal(connection, reason, instead, acting())),
    /**
     * Stores a batch of rows that were made without this journal: the batch is done and its rows are applied. All or nothing.
     */
    adopt: (batch: NewBatch, rows: readonly AdoptedRow[]) =>
      step((connection) => adoptBatch(connection, backend, batch, rows, acting())),
    setBatchState: (batch: string, state: BatchState) =>
      step(async (connection) => {
        const at = now();
        const digest = await setBatch(connection, batch, stateColumns(state, at));
        await appendSteps(connection, [stepOf(at, { batch, kind: state, digest })]);
      }),

    /** Skips every row that was not sent, and ends the batch. */
    discard: (batch: string, reason: string) => step((connection) => discardBatch(connection, batch, reason, acting())),

    /**
     * In the order of the file.
     * @param states all if left out
     * @param first only rows with a larger number
     */
    intents: (batch: string, states?: readonly IntentState[], first?: number) =>
      inChunks(async (after) => {
        const rows = chunkAfter(batch, after).select(intentColumns);
        return (await (states === undefined ? rows : rows.where('state', 'in', states)).execute()).map(intentOf);
      }, first),
    /**
     * What a person reads of the rows.
     * @param noted only rows with notes: those that deserve a look before the approval
     */
    views: (batch: string, noted = false) =>
      inChunks(async (after): Promise<RowView[]> => {
        const rows = chunkAfter(batch, after).select(viewColumns);
        const found = await (noted ? rows.where('notes', 'is not', null) : rows).execute();
        return found.map((row) => ({ ...row, parameters: parametersIn(row.parameters), notes: notesIn(row.notes) }));
      }),
    /** What each valid row would change and has changed: everything that the totals of a batch need. */
    changes: (batch: string) =>
      inChunks(async (after): Promise<(RowChange & Pick<Intent, 'row'>)[]> => {
        const rows = chunkAfter(batch, after).select(changeColumns).where('state', '<>', 'invalid');
        return (await rows.execute()).map((row) => ({ ...row, parameters: parametersIn(row.parameters) }));
      }),
    intent: async (batch: string, row: number) => {
      const rows = db.selectFrom('journal_intents').select(intentColumns).where('batch', '=', batch);
      const found = await rows.where('row', '=', row).executeTakeFirst();
      return found === undefined ? undefined : intentOf(found);
    },
    counts: async (batch: string) => (await tallyOf(db, batch)).counts,
    /** The counts, and how many rows have a balance that contradicts them or were made more than once. */
    tally: (batch: string) => tallyOf(db, batch),
    openRow: (subject: string) =>
      db
        .selectFrom('journal_intents')
        .select(['batch', 'row', 'state'])
        .where('subject', '=', subject)
        .where(isOpen)
        .executeTakeFirst(),

    /**
     * One step of one row. Returns false, and changes nothing, if the row would become open while another row of its subject
     * is. Throws if the row is not in the state `from`: a bug, or two processes at one batch.
     */
    move: async (move: Move) => {
      try {
        await step((connection) => takeStep(connection, move, acting()));
        return true;
      } catch (error) {
        if (backend.isTaken(error)) return false;
        throw error;
      }
    },
    /** After a crash: rows in `sending` become `unknown`, and blocked rows whose subject is free become `planned`. */
    takeUp: (batch: string) => step((connection) => takeUpRows(connection, batch, acting())),

    /** What a claim of these rows would decide on. The rows need not be stored yet. */
    claimView: (
      batch: Pick<NewBatch, 'batch' | 'fileHash' | 'rowsDigest'>,
      rows: readonly ClaimedRow[],
      terms: ClaimTerms,
    ) => viewOf(db, backend, batch, rows, terms),
    claimable: (batch: string) => claimable(db, batch),
    /**
     * The only way to send: in one transaction over the whole journal, `decide` looks at everything, and the planned and
     * blocked rows of the batch are claimed. If `decide` throws, nothing changes. A row that was not claimed cannot become
     * `sending`. Throws a UsageError if an approval is missing; so does `move` to `sending`.
     */
    claim: (batch: string, terms: ClaimTerms, decide: (view: ClaimView, batch: Batch) => readonly ClaimNote[]) =>
      step((connection) => claimBatch(connection, backend, batch, terms, decide, acting())),
    /** The claimed row with this fingerprint and token. */
    rowOfToken: (fingerprint: string, token: string) => {
      // Uses the index on fingerprints: an index on tokens would make every plan slower.
      const rows = db.selectFrom('journal_intents').select(['batch', 'row', 'state', 'claimedAt']);
      const claimed = rows.where('fingerprint', '=', fingerprint).where('claimedAt', 'is not', null);
      return claimed.where('token', '=', token).limit(1).executeTakeFirst();
    },
    /** The row with this token, whatever its fingerprint. Reads all rows, so it is only for what stops a batch. */
    placeOfToken: (token: string) =>
      db.selectFrom('journal_intents').select(['batch', 'row']).where('token', '=', token).limit(1).executeTakeFirst(),
    /** Marks the batch because its rows are on the server although nobody sent them from here; null removes the mark. */
    setBehind: (batch: string, why: string | null) =>
      step(async (connection) => {
        const digest = await setBatch(connection, batch, { behind: why });
        const kind = why === null ? 'reconciled' : 'behind';
        await appendSteps(connection, [stepOf(now(), { batch, kind, note: why, digest })]);
      }),
    /** The rows of the batch that another batch takes back or may take back, each with the row that does. */
    undoneRows: async (batch: string) => {
      const rows = db.selectFrom('journal_intents').select(['undoOfRow', 'batch', 'row', 'state']);
      const undone = await rows.where('undoOf', '=', batch).where(takesBack).execute();
      return new Map(undone.flatMap(({ undoOfRow, ...by }) => (undoOfRow === null ? [] : [[undoOfRow, by]])));
    },

    /**
     * Null if no policy covers the batch.
     * @param sending the acting person would send it, for this reason; left out: whoever changed it last would
     */
    approval: async (batch: string, sending?: { readonly reason: string | null }) => {
      const found = await batchNamed(db, batch);
      if (found === undefined) return null;
      const meant = { ...found, againReason: sending?.reason ?? found.againReason };
      return approvalIn(db, meant, { rules, now: now() }, sending === undefined ? null : actor);
    },
    /**
     * This and the next two throw a UsageError if the actor may not do it.
     * @param words `again`: null keeps the reason to send again
     */
    submit: (batch: string, words: { readonly note: string | null; readonly again: string | null }) =>
      step((connection) => submit(connection, batch, words, acting())),
    /** Approves, as the acting account, the content with this hash. The caller must have checked the account's password. */
    approve: (batch: string, hash: string) => step((connection) => approve(connection, batch, hash, acting())),
    /** Denies, as the acting account, the batch as it is now. Earlier approvals no longer count. */
    deny: (batch: string, reason: string) => step((connection) => deny(connection, batch, reason, acting())),
    /** Returns the request for these rows, which waits if a person must approve it. Null if no policy covers deletions. */
    requestDeletions: (request: DeletionRequest) =>
      step(async (connection) => {
        await tellPolicy(connection, acting());
        return deletionsRequested(connection, backend, request, acting());
      }),
    /** Uses the approval up, before the first row is removed. Throws a UsageError if it does not hold. */
    claimDeletions: (batch: string) => step((connection) => claimDeletions(connection, batch, acting())),

    /** Throws what `beginWrite` would, before anybody is asked. */
    checkWrite: async (write: NewWrite) => checkWrite(db, write, acting()),
    /**
     * Records a write outside any batch, before its first byte. Returns its number. Throws a UsageError if it needs approval.
     */
    beginWrite: (write: NewWrite) => step((connection) => beginWrite(connection, backend, write, acting())),
    endWrite: (write: number, end: WriteEnd) => step((connection) => endWrite(connection, write, end, acting())),
    /** The rows of the user in all batches, the newest batch first. */
    rowsOfUser: async (user: number, limit: number) => {
      const rows = await db
        .selectFrom('journal_intents as i')
        .innerJoin('journal_batches as b', 'b.batch', 'i.batch')
        .select(['i.batch', 'i.row', 'i.state', 'i.parameters', 'i.before', 'i.after', 'i.sentAt'])
        .select(['b.action', 'b.createdAt'])
        .where('i.user', '=', user)
        .orderBy('b.createdAt', 'desc')
        .orderBy('i.batch', 'desc')
        .orderBy('i.row')
        .limit(limit)
        .execute();
      return rows.map(({ parameters, ...row }) => ({ ...row, parameters: parametersIn(parameters) }));
    },
    /** Records that the actor looked at what is stored about the user. */
    viewed: (user: RecordKey, what: 'record' | 'emails' | 'live') =>
      step(async (connection) => {
        // Above 2^53 a JSON number would not be exact.
        const data = { user: typeof user === 'bigint' ? String(user) : user, what };
        await appendSteps(connection, [stepOf(now(), { batch: null, kind: 'viewed', data })]);
      }),

    /** Newest first. */
    writes: (limit: number) =>
      db
        .selectFrom('journal_writes')
        .select(['write', 'at', 'operation', 'user', 'body', 'state', 'httpStatus', 'problem'])
        .orderBy('write', 'desc')
        .limit(limit)
        .execute(),

    /** Takes the lock, also from a dead owner. Throws LockHeldError; so does every later step once another process has it. */
    acquireLock: (batch: string) => whole((connection) => locks.acquire(connection, batch, owner, 'bulk')),
    releaseLock: (batch: string) => whole((connection) => locks.release(connection, batch, owner)),
    lockOwner: (batch: string) => locks.owner(db, batch),
    /** How long the lock of the batch is certain to stay with this process, in ms. Infinity for a file: the kernel keeps it. */
    lockRemainingMs: (batch: string) => locks.remainingMs(batch),

    forget: async (person: Person) => {
      const counts = await whole(async (connection) => {
        await checkNotSent(connection, locks, person.id);
        return takeOutPerson(connection, person, (each) =>
          appendSteps(
            connection,
            each.map((step) => stepOf(now(), step)),
          ),
        );
      });
      await db.connection().execute(() => backend.scrub());
      return counts;
    },
    close: async () => {
      await locks.close();
      await db.destroy();
      await backend.close();
    },
  };
}

/** A running batch has already read what it sends, and the server's response would bring the person back. */
async function checkNotSent(connection: Connection, locks: StoreLocks, user: number): Promise<void> {
  const rows = connection.selectFrom('journal_intents').select('batch').distinct().where('user', '=', user);
  for (const { batch } of await rows.execute()) {
    const owner = await locks.owner(connection, batch);
    if (owner === undefined) continue;
    throw new LockHeldError(`batch ${batch}, which has rows of user ${user}, is being sent: ${ownerWords(owner)}`, {
      advice: 'Nobody was forgotten. Wait for its end, or stop it; then run it again.',
    });
  }
}

function takenBack(batch: string): UsageError {
  return new UsageError(`rows of batch ${batch} are being taken back by another batch at this moment`, {
    advice: 'See which one with `admin-mirror bulk status`.',
  });
}

/**
 * Yields rows that are read in chunks: no connection is held while the caller works on a row. Reading SQLite is synchronous, so
 * a hundred thousand rows would block everything else without a pause between chunks.
 */
async function* inChunks<T extends { readonly row: number }>(
  read: (after: number) => Promise<readonly T[]>,
  first = -1,
): AsyncGenerator<T, undefined> {
  for (let after: number | undefined = first; after !== undefined;) {
    const rows: readonly T[] = await read(after);
    yield* rows;
    await setImmediate();
    after = rows.length < chunk ? undefined : rows.at(-1)?.row;
  }
  return undefined;
}

/** Compares only the stored hashes: cheap enough before each sending. `audit --verify` does more. */
async function gapIn(connection: Connection): Promise<number | null> {
  const accepted = (await lastAccepted(connection)) ?? 1;
  const torn = connection
    .selectFrom('journal_steps as s')
    .leftJoin('journal_steps as before', (join) => join.on(sql<SqlBool>`before.step = s.step - 1`))
    .select('s.step')
    .where('s.step', '>', accepted)
    .where((eb) => eb.or([eb('before.hash', 'is', null), eb('s.previous', '<>', eb.ref('before.hash'))]))
    .orderBy('s.step')
    .limit(1);
  return (await torn.executeTakeFirst())?.step ?? null;
}

async function tallyOf(connection: Connection, batch: string) {
  const rows = connection.selectFrom('journal_intents').where('batch', '=', batch).groupBy('state');
  const found = await rows
    .select((eb) => [
      'state',
      eb.fn.countAll<number>().as('count'),
      eb.fn.count<number>('discrepancy').as('discrepancies'),
    ])
    .execute();
  return {
    counts: Object.fromEntries(found.map(({ state, count }) => [state, count])),
    discrepancies: found.reduce((sum, each) => sum + each.discrepancies, 0),
  };
}

/** Each list is in the order of the person's first such step. */
async function peopleOf(connection: Connection, batch: string): Promise<BatchPeople> {
  const steps = connection.selectFrom('journal_steps').where('batch', '=', batch);
  const rows = await steps
    .select((eb) => ['kind', 'actor', eb.fn.min('step').as('first')])
    .where('kind', 'in', ['added', 'adopted', 'submitted', 'approved', 'consented', 'sending', 'discarded'])
    .where((eb) => eb.or([eb('kind', '<>', 'adopted'), eb('row', 'is', null)]))
    .groupBy(['kind', 'actor'])
    .orderBy('first')
    .execute();
  const of = (...wanted: readonly string[]): Actor[] =>
    rows.flatMap(({ kind, actor }) => (wanted.includes(kind) ? [JSON.parse(actor) as Actor] : []));
  return {
    planned: of('added', 'adopted'),
    submitted: of('submitted'),
    approved: of('approved'),
    confirmed: of('consented'),
    sent: of('sending'),
    discarded: of('discarded'),
  };
}
