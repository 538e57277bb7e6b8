/**
 * The journal, in statements that SQLite and PostgreSQL both understand; the backend handles the differences. Section "The
 * journal" of docs/architecture.md.
 */
import { randomUUID } from 'node:crypto';
import type { Actor } from '../model/actor.ts';
import { LockHeldError } from '../model/errors.ts';
import { dayMs, timestampOf } from '../model/time.ts';
import type { Person } from '../model/identity.ts';
import { ownerWords, type StoreLocks } from '../store/lock.ts';
import { acceptJournal, approvalIn, approve, checkWrite, deny, noRules, submit } from './approval.ts';
import { addBatch, adoptBatch, claimBatch, discardBatch, setBatchState, setBehind } from './batches.ts';
import { timeIn } from './chain.ts';
import { viewOf } from './claim-view.ts';
import {
  type Acting,
  type JournalBackend,
  openDatabase,
  type OpenJournal,
  SharedSteps,
  transactionRunner,
} from './database.ts';
import { removePerson } from './forget.ts';
import type { ClaimedRow, ClaimTerms, JournalRules, Move, NewBatch, NewWrite } from './port.ts';
import { readsOf } from './reads.ts';
import { beginWrite, endWrite, reportChanged, skipWaiting, takeStep, takeUpRows, viewed } from './rows.ts';
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

  const actingIn = async (connection: Connection): Promise<Acting> => ({
    connection,
    backend,
    rules,
    now: await timeIn(connection, clock),
    daySince: timestampOf(clock.now() - dayMs),
    actor,
  });
  /** Runs one durable step in a transaction. Throws if the lock of a batch was lost. */
  const step = <T>(work: (acting: Acting) => Promise<T>): Promise<T> =>
    inTransaction(async (connection) => {
      await locks.guard(connection);
      return work(await actingIn(connection));
    });
  const inStep =
    <A extends readonly unknown[], T>(work: (acting: Acting, ...given: A) => Promise<T>) =>
    (...given: A): Promise<T> =>
      step((acting) => work(acting, ...given));
  const rowSteps = new SharedSteps(step);

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

    addBatch: inStep(addBatch),
    adopt: inStep(adoptBatch),
    setBatchState: inStep(setBatchState),
    setBehind: inStep(setBehind),
    discard: inStep(discardBatch),
    accept: inStep(acceptJournal),
    takeUp: inStep(takeUpRows),
    claim: inStep(claimBatch),
    /** What a claim of these rows would decide on. The rows need not be stored yet. */
    claimView: (
      batch: Pick<NewBatch, 'batch' | 'fileHash' | 'rowsDigest'>,
      rows: readonly ClaimedRow[],
      terms: ClaimTerms,
    ) => viewOf(db, backend, batch, rows, terms),
    /**
     * One step of one row. Returns false, and changes nothing, if the row would become open while another row of its subject
     * is. Throws if the row is not in the state `from`: a bug, or two processes at one batch.
     */
    move: async (move: Move) => {
      try {
        await rowSteps.take((acting) => takeStep(acting, move));
        return true;
      } catch (error) {
        if (backend.isTaken(error)) return false;
        throw error;
      }
    },

    /**
     * The same, with the next step of any row, or with `flush`: a crash before that leaves the row in `from`. For a step that can
     * be decided again.
     */
    moveLater: (move: Move): void => rowSteps.takeLater((acting) => takeStep(acting, move)),
    /** Resolves once nothing waits for another step. Throws what kept a step from the disk. */
    flush: () => rowSteps.flush(),

    /**
     * Null if no policy covers the batch.
     * @param sending the acting person would send it, for this reason; left out: whoever changed it last would
     */
    approval: async (batch: string, sending?: { readonly reason: string | null }) => {
      const found = await batchNamed(db, batch);
      if (found === undefined) return null;
      const meant = { ...found, againReason: sending?.reason ?? found.againReason };
      return approvalIn(await actingIn(db), meant, sending === undefined ? null : actor);
    },
    /** This and the next two throw a UsageError if the actor may not do it. `again`: null keeps the reason to send again. */
    submit: inStep(submit),
    /** The caller must have checked the account's password. */
    approve: inStep(approve),
    deny: inStep(deny),

    /** Throws what `beginWrite` would, before anybody is asked. */
    checkWrite: async (write: NewWrite) => checkWrite(await actingIn(db), write),
    beginWrite: inStep(beginWrite),
    endWrite: inStep(endWrite),
    viewed: inStep(viewed),
    reportChanged: inStep(reportChanged),

    /** Takes the lock, also from a dead owner. Throws LockHeldError; so does every later step once another process has it. */
    acquireLock: (batch: string) => inTransaction((connection) => locks.acquire(connection, batch, owner, 'bulk')),
    /** Once nothing waits to be recorded: another process may take the lock. A step that cannot be taken does not keep the lock. */
    releaseLock: async (batch: string) => {
      try {
        await rowSteps.flush();
      } finally {
        await inTransaction((connection) => locks.release(connection, batch, owner));
      }
    },
    lockOwner: (batch: string) => locks.owner(db, batch),
    /** How long the lock of the batch is certain to stay with this process, in ms. Infinity for a file: the kernel keeps it. */
    lockRemainingMs: (batch: string) => locks.remainingMs(batch),

    forget: async (person: Person) => {
      const counts = await inTransaction(async (connection) => {
        await checkNotSent(connection, locks, person.id);
        const acting = await actingIn(connection);
        // What was approved for the person can no longer go out as approved.
        await skipWaiting(acting, { user: person.id }, 'the user was forgotten');
        return removePerson(acting, person);
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
