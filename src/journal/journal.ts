/**
 * The journal, in statements that SQLite and PostgreSQL both understand; the backend handles the differences. Section "The
 * journal" of docs/architecture.md.
 */
import { randomUUID } from 'node:crypto';
import type { Actor } from '../model/actor.ts';
import { LockHeldError, UsageError } from '../model/errors.ts';
import type { RecordKey } from '../model/records.ts';
import { dayMs, timestampOf } from '../model/time.ts';
import type { Person } from '../store/mentions.ts';
import { ownerWords, type StoreLocks } from '../store/lock.ts';
import {
  type Acting,
  approvalIn,
  acceptJournal,
  approve,
  checkWrite,
  deny,
  noRules,
  submit,
  recordPolicy,
} from './approval.ts';
import {
  adoptBatch,
  claimBatch,
  claimDeletions,
  deletionsRequested,
  discardBatch,
  stateColumns,
  storeBatch,
} from './batches.ts';
import { appendSteps, type Head, timeIn, updateBatch } from './chain.ts';
import { viewOf } from './claim-view.ts';
import { type JournalBackend, openDatabase, type OpenJournal, SharedSteps, transactionRunner } from './database.ts';
import { removePerson } from './forget.ts';
import type {
  AdoptedRow,
  Batch,
  BatchState,
  ClaimedRow,
  ClaimNote,
  ClaimTerms,
  ClaimView,
  DeletionRequest,
  JournalRules,
  Move,
  NewBatch,
  NewIntent,
  NewWrite,
  WriteEnd,
} from './port.ts';
import { readsOf } from './reads.ts';
import { beginWrite, endWrite, takeStep, takeUpRows } from './rows.ts';
import { batchNamed, type Connection } from './tables.ts';
import { verifyChain } from './verify-chain.ts';

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
  const inTransaction = transactionRunner(open);

  /** Runs one durable step in a transaction. Throws if the lock of a batch was lost. */
  const step = <T>(work: (connection: Connection, acting: Acting) => Promise<T>): Promise<T> =>
    inTransaction(async (connection) => {
      await locks.guard(connection);
      return work(connection, await actingIn(connection));
    });

  const stepOf: Acting['stepOf'] = (at, step) => {
    if (actor === null) throw new Error('a journal that was opened to be looked at takes no step');
    return { row: null, data: {}, note: null, ...step, at, actor };
  };

  const actingIn = async (connection: Connection): Promise<Acting> => ({
    rules,
    now: await timeIn(connection, clock),
    daySince: timestampOf(clock.now() - dayMs),
    actor,
    stepOf,
  });

  const rowSteps = new SharedSteps<{ readonly connection: Connection; readonly acting: Acting }>((work) =>
    step((connection, acting) => work({ connection, acting })),
  );

  return {
    ...readsOf(db),
    /** Made with the journal and never copied to another. A mirror recognises the journal of its batches by it. */
    id,
    /** The time of all steps, and of whatever is compared with them: several machines may share the journal. */
    clock,
    /** Returns the same open journal for another actor. Only who opened it closes it. */
    by: (other: Actor): Journal => journalOf(open, other),
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
    /** Stores the whole plan or nothing, so nothing if reading the rows fails. */
    addBatch: (batch: NewBatch, rows: Iterable<NewIntent> | AsyncIterable<NewIntent>) =>
      step(async (connection, acting) => {
        await recordPolicy(connection, acting);
        try {
          await storeBatch(connection, backend, batch, rows, acting);
        } catch (error) {
          throw backend.isTaken(error) && batch.undoOf !== null ? takenBack(batch.undoOf) : error;
        }
      }),
    /** Records that a person accepts this journal, although elsewhere `instead` is known as the newest step. */
    accept: (reason: string, instead: Head | null) =>
      step((connection, acting) => acceptJournal(connection, reason, instead, acting)),
    /**
     * Stores a batch of rows that were made without this journal, whole or not at all: it is done, and its rows are applied.
     */
    adopt: (batch: NewBatch, rows: readonly AdoptedRow[]) =>
      step((connection, acting) => adoptBatch(connection, backend, batch, rows, acting)),
    setBatchState: (batch: string, state: BatchState) =>
      step(async (connection, { now }) => {
        const digest = await updateBatch(connection, batch, stateColumns(state, now));
        await appendSteps(connection, [stepOf(now, { batch, kind: state, digest })]);
      }),

    /** Skips every row that was not sent, and ends the batch. */
    discard: (batch: string, reason: string) =>
      step((connection, acting) => discardBatch(connection, batch, reason, acting)),

    /**
     * One step of one row. Returns false, and changes nothing, if the row would become open while another row of its subject
     * is. Throws if the row is not in the state `from`: a bug, or two processes at one batch.
     */
    move: async (move: Move) => {
      try {
        await rowSteps.take(({ connection, acting }) => takeStep(connection, move, acting));
        return true;
      } catch (error) {
        if (backend.isTaken(error)) return false;
        throw error;
      }
    },
    /** After a crash: rows in `sending` become `unknown`, and blocked rows whose subject is free become `planned`. */
    takeUp: (batch: string) => step((connection, acting) => takeUpRows(connection, batch, acting)),

    /** What a claim of these rows would decide on. The rows need not be stored yet. */
    claimView: (
      batch: Pick<NewBatch, 'batch' | 'fileHash' | 'rowsDigest'>,
      rows: readonly ClaimedRow[],
      terms: ClaimTerms,
    ) => viewOf(db, backend, batch, rows, terms),
    /**
     * The only way to send: in one transaction over the whole journal, `decide` looks at everything, and the planned and
     * blocked rows of the batch are claimed. If `decide` throws, nothing changes. A row that was not claimed cannot become
     * `sending`. Throws a UsageError if an approval is missing; so does `move` to `sending`.
     */
    claim: (batch: string, terms: ClaimTerms, decide: (view: ClaimView, batch: Batch) => readonly ClaimNote[]) =>
      step((connection, acting) => claimBatch(connection, backend, batch, terms, decide, acting)),
    /** Marks the batch because its rows are on the server although nobody sent them from here; null removes the mark. */
    setBehind: (batch: string, why: string | null) =>
      step(async (connection, { now }) => {
        const digest = await updateBatch(connection, batch, { behind: why });
        const kind = why === null ? 'reconciled' : 'behind';
        await appendSteps(connection, [stepOf(now, { batch, kind, note: why, digest })]);
      }),

    /**
     * Null if no policy covers the batch.
     * @param sending the acting person would send it, for this reason; left out: whoever changed it last would
     */
    approval: async (batch: string, sending?: { readonly reason: string | null }) => {
      const found = await batchNamed(db, batch);
      if (found === undefined) return null;
      const meant = { ...found, againReason: sending?.reason ?? found.againReason };
      return approvalIn(db, meant, await actingIn(db), sending === undefined ? null : actor);
    },
    /**
     * This and the next two throw a UsageError if the actor may not do it.
     * @param words `again`: null keeps the reason to send again
     */
    submit: (batch: string, words: { readonly note: string | null; readonly again: string | null }) =>
      step((connection, acting) => submit(connection, batch, words, acting)),
    /** Approves, as the acting account, the content with this hash. The caller must have checked the account's password. */
    approve: (batch: string, hash: string) => step((connection, acting) => approve(connection, batch, hash, acting)),
    /** Denies, as the acting account, the batch as it is now. Earlier approvals no longer count. */
    deny: (batch: string, reason: string) => step((connection, acting) => deny(connection, batch, reason, acting)),
    /** Returns the request for these rows, which waits if a person must approve it. Null if no policy covers deletions. */
    requestDeletions: (request: DeletionRequest) =>
      step(async (connection, acting) => {
        await recordPolicy(connection, acting);
        return deletionsRequested(connection, backend, request, acting);
      }),
    /** Uses the approval up, before the first row is removed. Throws a UsageError if it does not hold. */
    claimDeletions: (batch: string) => step((connection, acting) => claimDeletions(connection, batch, acting)),

    /** Throws what `beginWrite` would, before anybody is asked. */
    checkWrite: async (write: NewWrite) => checkWrite(db, write, await actingIn(db)),
    /** Records a write outside any batch, before its first byte. Returns its number. Throws a UsageError if unapproved. */
    beginWrite: (write: NewWrite) => step((connection, acting) => beginWrite(connection, backend, write, acting)),
    endWrite: (write: number, end: WriteEnd) => step((connection, acting) => endWrite(connection, write, end, acting)),
    /** Records that the actor looked at what is stored about the user. */
    viewed: (user: RecordKey, what: 'record' | 'emails' | 'live') =>
      step(async (connection, { now }) => {
        // Above 2^53 a JSON number would not be exact.
        const data = { user: typeof user === 'bigint' ? String(user) : user, what };
        await appendSteps(connection, [stepOf(now, { batch: null, kind: 'viewed', data })]);
      }),

    /** Takes the lock, also from a dead owner. Throws LockHeldError; so does every later step once another process has it. */
    acquireLock: (batch: string) => inTransaction((connection) => locks.acquire(connection, batch, owner, 'bulk')),
    releaseLock: (batch: string) => inTransaction((connection) => locks.release(connection, batch, owner)),
    lockOwner: (batch: string) => locks.owner(db, batch),
    /** How long the lock of the batch is certain to stay with this process, in ms. Infinity for a file: the kernel keeps it. */
    lockRemainingMs: (batch: string) => locks.remainingMs(batch),

    forget: async (person: Person) => {
      const counts = await inTransaction(async (connection) => {
        await checkNotSent(connection, locks, person.id);
        return removePerson(connection, person, await actingIn(connection));
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
      advice: 'Nobody was forgotten. Wait until it ends, or stop it. Then run this again.',
    });
  }
}

function takenBack(batch: string): UsageError {
  return new UsageError(`rows of batch ${batch} are being taken back by another batch at this moment`, {
    advice: '`admin-mirror bulk status` shows which one.',
  });
}
