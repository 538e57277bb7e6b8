/**
 * The journal over whatever database holds it, in statements that SQLite and PostgreSQL both understand. Where they differ,
 * the backend says how. Section "The journal" of docs/architecture.md.
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

/** The caller closes it, which closes the database. @param actor null where it is only looked at */
export async function openJournalOver(
  backend: JournalBackend,
  actor: Actor | null,
  rules: JournalRules = noRules,
): Promise<Journal> {
  const { db, id } = await openDatabase(backend);
  const owner = randomUUID().slice(0, 8);
  return journalOf({ backend, db, id, rules, owner }, actor);
}

/** What is read in it stays as it was at its beginning, and keeps nobody from writing. */
function atOneMomentOf<
  T extends { setIsolationLevel(level: 'repeatable read'): T; setAccessMode(mode: 'read only'): T },
>(transaction: T): T {
  return transaction.setIsolationLevel('repeatable read').setAccessMode('read only');
}

/**
 * What sending needs of the journal: batches, their rows as intents, and every write sent. Every method that changes something is one
 * durable step: it is on the disk when its promise is kept, or has not happened.
 */
export interface Journal extends ReturnType<typeof journalOf> {}

function journalOf(open: OpenJournal, actor: Actor | null) {
  const { backend, db, id, rules, owner } = open;
  const { locks, clock } = backend;
  const now = (): Timestamp => timestampOf(clock.now());

  const whole = transactionsOf(open);

  /** One durable step: all of it, or none; and none where the lock of a batch was lost. */
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
    /** Made with the file, and in no other: by it a mirror knows the journal that its batches are in. */
    id,
    /** By which its steps go, and so whatever is compared with them: several machines may share it. */
    clock,
    /** The same open journal, in which somebody else acts. It is closed once, by whoever opened it. */
    by: (other: Actor): Journal => journalOf(open, other),
    /** The newest step of the chain; undefined where there is none. */
    head: () => headOf(db),
    /** Walks the chain, and compares the tables with it, as they are at one moment. @param head that must be in the chain */
    verifyChain: (head?: string) =>
      db.isTransaction
        ? verifyChain(db, head)
        : atOneMomentOf(db.transaction()).execute((each) => verifyChain(each, head)),
    /**
     * What is read of the journal as it is at one moment, however long the reading takes. Of a journal that is open for more
     * than reading, nothing else is done until it ends.
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
    /** The plan, whole or not at all; so nothing of it where the rows end with an error. */
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
    /** Those with rows that count as not made. */
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
    /** In their order. @param only those about the whole batch, and those by which a person decided about a row */
    steps: async (batch: string, only?: 'decisions') => {
      let steps = db.selectFrom('journal_steps').select(['step', 'at', 'actor', 'row', 'kind', 'note']);
      steps = steps.where('batch', '=', batch);
      // The data of a step is canonical JSON, so that there is one way in which it can stand there.
      if (only !== undefined) {
        steps = steps.where((eb) => eb.or([eb('row', 'is', null), eb('data', 'like', '%"evidence":"person"%')]));
      }
      const found = await steps.orderBy('step').execute();
      return found.map((each) => ({ ...each, actor: JSON.parse(each.actor) as Actor }));
    },
    /** When it was known that the row's last request had gone out, or never would: the step after the last `sending`. */
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
    /** The rows of the batch that a later step than this one is about. */
    rowsAfter: async (batch: string, step: number) => {
      const steps = db.selectFrom('journal_steps').select('row').distinct().where('batch', '=', batch);
      const rows = await steps.where('step', '>', step).where('row', 'is not', null).execute();
      return new Set(rows.flatMap(({ row }) => row ?? []));
    },
    /** Who added the batch, approved it, consented to its sending, sent rows of it, and discarded it, each once. */
    people: (batch: string) => peopleOf(db, batch),
    /** Who added the batch: of that alone, the steps of its rows need not be read. */
    plannedBy: async (batch: string) => {
      const steps = db.selectFrom('journal_steps').select('actor').distinct().where('batch', '=', batch);
      const added = await steps.where('row', 'is', null).where('kind', 'in', ['added', 'adopted']).execute();
      return added.map(({ actor }) => JSON.parse(actor) as Actor);
    },
    /** Whether a person has ended the batch. */
    wasDiscarded: async (batch: string) => {
      const steps = db.selectFrom('journal_steps').select('step').where('batch', '=', batch);
      const found = steps.where('row', 'is', null).where('kind', '=', 'discarded').limit(1);
      return (await found.executeTakeFirst()) !== undefined;
    },
    hasStep: async ({ step: number, hash }: Head) => {
      const steps = db.selectFrom('journal_steps').select('hash').where('step', '=', number);
      return (await steps.executeTakeFirst())?.hash === hash;
    },
    /** Number of the first step that does not follow the one before it, since the journal was last accepted; null where all do. */
    gap: () => gapIn(db),
    /** Records that a person takes this journal for the right one, although `instead` was the newest step known elsewhere. */
    accept: (reason: string, instead: Head | null) =>
      step((connection) => acceptJournal(connection, reason, instead, acting())),
    /** A batch of rows that were made without this journal, whole or not at all: it is done, and its rows are applied. */
    adopt: (batch: NewBatch, rows: readonly AdoptedRow[]) =>
      step((connection) => adoptBatch(connection, backend, batch, rows, acting())),
    setBatchState: (batch: string, state: BatchState) =>
      step(async (connection) => {
        const at = now();
        const digest = await setBatch(connection, batch, stateColumns(state, at));
        await appendSteps(connection, [stepOf(at, { batch, kind: state, digest })]);
      }),

    /** Skips every row that is still to be sent, and ends the batch. */
    discard: (batch: string, reason: string) => step((connection) => discardBatch(connection, batch, reason, acting())),

    /** In the order of the file; of some states, or all; those after that row. */
    intents: (batch: string, states?: readonly IntentState[], first?: number) =>
      inChunks(async (after) => {
        const rows = chunkAfter(batch, after).select(intentColumns);
        return (await (states === undefined ? rows : rows.where('state', 'in', states)).execute()).map(intentOf);
      }, first),
    /** What a person reads of them; of all, or of those that deserve a look before they are approved. */
    views: (batch: string, noted = false) =>
      inChunks(async (after): Promise<RowView[]> => {
        const rows = chunkAfter(batch, after).select(viewColumns);
        const found = await (noted ? rows.where('notes', 'is not', null) : rows).execute();
        return found.map((row) => ({ ...row, parameters: parametersIn(row.parameters), notes: notesIn(row.notes) }));
      }),
    /** What each valid row would change, and did: all that the totals of a batch need. */
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
    /** Also the rows whose balance contradicts them, and those that were made more than once. */
    tally: (batch: string) => tallyOf(db, batch),
    openRow: (subject: string) =>
      db
        .selectFrom('journal_intents')
        .select(['batch', 'row', 'state'])
        .where('subject', '=', subject)
        .where(isOpen)
        .executeTakeFirst(),

    /**
     * One step of one row. False where the row would become open while another one of its subject is: nothing was
     * changed then. Throws where the row is not in the state `from`: a bug, or two processes at one batch.
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
    /** Rows left `sending` by a process that died become `unknown`; blocked rows whose subject is free `planned`. */
    takeUp: (batch: string) => step((connection) => takeUpRows(connection, batch, acting())),

    /** What a claim of those rows, stored already or not, would be decided on. */
    claimView: (
      batch: Pick<NewBatch, 'batch' | 'fileHash' | 'rowsDigest'>,
      rows: readonly ClaimedRow[],
      terms: ClaimTerms,
    ) => viewOf(db, backend, batch, rows, terms),
    claimable: (batch: string) => claimable(db, batch),
    /**
     * The one way to a send: in one transaction over the whole journal, `decide` looks at what there is, and the planned and
     * blocked rows of the batch are claimed. Nothing is changed where `decide` throws. No row becomes `sending` without it.
     * Throws a UsageError where an approval is missing: so does `move` to `sending`, at that moment.
     */
    claim: (batch: string, terms: ClaimTerms, decide: (view: ClaimView, batch: Batch) => readonly ClaimNote[]) =>
      step((connection) => claimBatch(connection, backend, batch, terms, decide, acting())),
    /** The claimed row of this journal with that fingerprint that carries the token. */
    rowOfToken: (fingerprint: string, token: string) => {
      // By the index on fingerprints: one on tokens would make every plan dearer.
      const rows = db.selectFrom('journal_intents').select(['batch', 'row', 'state', 'claimedAt']);
      const claimed = rows.where('fingerprint', '=', fingerprint).where('claimedAt', 'is not', null);
      return claimed.where('token', '=', token).limit(1).executeTakeFirst();
    },
    /** The row of this journal with the token, whatever it does. It goes through all rows: for what stops a batch. */
    placeOfToken: (token: string) =>
      db.selectFrom('journal_intents').select(['batch', 'row']).where('token', '=', token).limit(1).executeTakeFirst(),
    /** Marks the batch whose rows were found on the server although nobody sent them from here, or unmarks it. */
    setBehind: (batch: string, why: string | null) =>
      step(async (connection) => {
        const digest = await setBatch(connection, batch, { behind: why });
        const kind = why === null ? 'reconciled' : 'behind';
        await appendSteps(connection, [stepOf(now(), { batch, kind, note: why, digest })]);
      }),
    /** The rows of the batch that another one takes back, or may, and which row of it does. */
    undoneRows: async (batch: string) => {
      const rows = db.selectFrom('journal_intents').select(['undoOfRow', 'batch', 'row', 'state']);
      const undone = await rows.where('undoOf', '=', batch).where(takesBack).execute();
      return new Map(undone.flatMap(({ undoOfRow, ...by }) => (undoOfRow === null ? [] : [[undoOfRow, by]])));
    },

    /** Null where no policy is about it. @param sending as whoever acts would send it; left out, as whoever made it */
    approval: async (batch: string, sending?: { readonly reason: string | null }) => {
      const found = await batchNamed(db, batch);
      if (found === undefined) return null;
      const meant = { ...found, againReason: sending?.reason ?? found.againReason };
      return approvalIn(db, meant, { rules, now: now() }, sending === undefined ? null : actor);
    },
    /** Each of these throws a UsageError where it may not be done. @param again null where that is not to change */
    submit: (batch: string, words: { readonly note: string | null; readonly again: string | null }) =>
      step((connection) => submit(connection, batch, words, acting())),
    /** The acting account approves what has that hash. Whoever calls it has seen the account's password. */
    approve: (batch: string, hash: string) => step((connection) => approve(connection, batch, hash, acting())),
    /** The acting account denies what the batch is now: earlier approvals of it hold no longer. */
    deny: (batch: string, reason: string) => step((connection) => deny(connection, batch, reason, acting())),
    /** Whether the rows may go; where a person must approve that, a batch waits for it. Null without a policy. */
    requestDeletions: (request: DeletionRequest) =>
      step(async (connection) => {
        await tellPolicy(connection, acting());
        return deletionsRequested(connection, backend, request, acting());
      }),
    /** Uses the approval up, before the first row goes. Throws a UsageError where it does not hold. */
    claimDeletions: (batch: string) => step((connection) => claimDeletions(connection, batch, acting())),

    /** Throws what `beginWrite` would, before anybody is asked. */
    checkWrite: async (write: NewWrite) => checkWrite(db, write, acting()),
    /** A write outside of any batch, before its first byte; gives its number. Throws a UsageError where it needs approval. */
    beginWrite: (write: NewWrite) => step((connection) => beginWrite(connection, backend, write, acting())),
    endWrite: (write: number, end: WriteEnd) => step((connection) => endWrite(connection, write, end, acting())),
    /** The rows of the user, of whatever batch; those of the newest batch first. */
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
    /** Puts on record that the actor looked at what is kept of the user. @param what of it: `record`, `emails`, `live` */
    viewed: (user: RecordKey, what: 'record' | 'emails' | 'live') =>
      step(async (connection) => {
        // Beyond 2^53 a number would not be exact.
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

    /** From a dead owner if need be. Throws LockHeldError; so does every later step once another process has it. */
    acquireLock: (batch: string) => whole((connection) => locks.acquire(connection, batch, owner, 'bulk')),
    releaseLock: (batch: string) => whole((connection) => locks.release(connection, batch, owner)),
    lockOwner: (batch: string) => locks.owner(db, batch),
    /** How long the lock of the batch surely stays this process's, ms; Infinity in a file, where the kernel keeps it. */
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

/** What a batch is being sent with is read already, and the response of the server would bring the person back. */
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
 * What comes in pieces, one by one: no connection is held while somebody works on a row. Reading SQLite never waits for anything,
 * so that a hundred thousand rows would hold up whatever else the process does, if it were not let in between.
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

/** By the hashes that stand in the steps: cheap enough to be done before each sending. `audit --verify` does more. */
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

/** Each in the order of the first such step. */
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
