/**
 * The journal over whatever database holds it, in statements that SQLite and PostgreSQL both understand. Where they differ,
 * the backend says how. Section "The journal" of docs/architecture.md.
 */
import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { type Dialect, type Kysely, type RawBuilder, sql, type SqlBool, type UpdateObject } from 'kysely';
import type { Actor } from '../model/actor.ts';
import { noTotals, withRow } from '../model/approval.ts';
import { FileError, LockHeldError, UsageError } from '../model/errors.ts';
import { changeOf } from '../model/money.ts';
import type { RecordKey } from '../model/records.ts';
import { storable } from '../model/text.ts';
import { type Clock, type Timestamp, timestampOf } from '../model/time.ts';
import type { Person } from '../store/mentions.ts';
import { tablesOver } from '../store/kysely-sqlite.ts';
import { ownerWords, type StoreLocks } from '../store/lock.ts';
import { type AuditFilter, auditEntries } from './audit.ts';
import {
  type Acting,
  approvalIn,
  approvalMissing,
  acceptJournal,
  approve,
  checkSending,
  checkWrite,
  countingSteps,
  deny,
  lastAccepted,
  newApproval,
  noRules,
  noteResent,
  submit,
  tellPolicy,
} from './approval.ts';
import {
  appendSteps,
  canonical,
  type Head,
  headOf,
  identityOf,
  isAsSealed,
  newSalt,
  newSalts,
  type NewStep,
  sealOf,
  setBatch,
  RowsSeal,
} from './chain.ts';
import { canBeClaimed, claimable, isOpen, laterThan, repeatsOf, viewOf } from './claim-view.ts';
import { asForgotten, ofForgotten, takeOutPerson } from './forget.ts';
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
  IntentFields,
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
import { verifyChain } from './verify-chain.ts';
import {
  batchNamed,
  batchOf,
  changeColumns,
  intentColumns,
  intentOf,
  type JournalTables,
  notesIn,
  parametersIn,
  viewColumns,
} from './tables.ts';

/** What a database that holds a journal does in its own way. Its tables are there, in the newest version. */
export interface JournalBackend {
  /** A transaction of it sees nothing of another, and lets no other one write until it ends. */
  readonly dialect: Dialect;
  /** The members of a JSON array, as rows with the one column `value`: texts, and what `->>` is applied to. */
  readonly texts: (json: string) => RawBuilder<{ value: string }>;
  readonly members: (json: string) => RawBuilder<{ value: string }>;
  /** The error says that a unique index refused a row. */
  readonly isTaken: (error: unknown) => boolean;
  /** The error as one that names the database and says what to do, where it is about that. */
  readonly explained: (error: unknown) => unknown;
  /** `the journal data/journal.db`, for messages. */
  readonly name: string;
  /** Whether the database is the one that was opened, as far as its id does not show it. */
  readonly isInPlace: () => boolean;
  readonly locks: StoreLocks;
  /** Leaves no byte of what was taken out. */
  readonly scrub: () => Promise<void>;
  /** For whoever opens nothing over it. */
  readonly close: () => void | Promise<void>;
}

type Connection = Kysely<JournalTables>;

/** What bounds the text of one response: enough for any that the API gives, and not for a page of a proxy's. */
const longestAnswer = 16_384;

const chunk = 1_000;

const takesBack = sql<SqlBool>`state not in ('rejected', 'not_applied', 'skipped', 'invalid')`;
export interface OpenJournal {
  readonly backend: JournalBackend;
  readonly db: Connection;
  readonly id: string;
  readonly clock: Clock;
  readonly rules: JournalRules;
  /** Tells what this connection has locked from what another one has. */
  readonly owner: string;
}

/** The caller closes it, which closes the database. @param actor null where it is only looked at */
export async function openJournalOver(
  backend: JournalBackend,
  actor: Actor | null,
  clock: Clock,
  rules: JournalRules = noRules,
): Promise<Journal> {
  const { db, id } = await openDatabase(backend);
  const owner = randomUUID().slice(0, 8);
  return journalOf({ backend, db, id, clock, rules, owner }, actor);
}

/** The database that the backend leads to, and its id. Throws a FileError where its journal was moved; it is closed then. */
export async function openDatabase(backend: JournalBackend): Promise<{ readonly db: Connection; readonly id: string }> {
  try {
    const db = tablesOver<JournalTables>(backend.dialect);
    const id = await identityOf(db);
    const moved = movedProblem(id, backend.name);
    if (moved !== null) throw moved;
    return { db, id };
  } catch (error) {
    await backend.close();
    throw error;
  }
}

/** Stands in the place of the id of a journal that was moved: whoever has it open goes on no longer. */
interface MovedJournal {
  readonly moved: 'moving' | 'moved';
  readonly id: string;
  readonly to: string;
}

export function movedTo(id: string): MovedJournal | undefined {
  return id.startsWith('{') ? (JSON.parse(id) as MovedJournal) : undefined;
}

export function movedProblem(id: string, name: string): FileError | null {
  const found = movedTo(id);
  if (found === undefined) return null;
  const { moved, to } = found;
  if (moved === 'moved') {
    return new FileError(`${name} was moved to ${to}, and nothing goes on with it here`, {
      advice: 'Set store.shared as it was when it was moved there, or leave it out if it was moved into the file.',
    });
  }
  return new FileError(`${name} is being moved to ${to}, or a command that did that was killed`, {
    advice: 'Once no `admin-mirror store copy` is running any more, run it again: it ends what was begun.',
  });
}

/** Does something in one transaction: all of it, or none. Throws where the database is not the one that was opened. */
export function transactionsOf({ backend, db, id }: Pick<OpenJournal, 'backend' | 'db' | 'id'>) {
  return async <T>(doing: (connection: Connection) => Promise<T>): Promise<T> => {
    try {
      return await db.transaction().execute(async (connection) => {
        // What was removed goes on taking steps, which nobody will ever read.
        if (!backend.isInPlace()) throw replaced(backend.name);
        const found = await identityOf(connection);
        if (found !== id) throw movedProblem(found, backend.name) ?? replaced(backend.name);
        return doing(connection);
      });
    } catch (error) {
      throw backend.explained(error);
    }
  };
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
  const { backend, db, id, clock, rules, owner } = open;
  const { locks } = backend;
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
    audit: (filter: AuditFilter) => auditEntries(db, filter),
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
    /** Who added the batch, who approved it, and who sent rows of it, each once. */
    people: (batch: string) => peopleOf(db, batch),
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
      step(async (connection) => {
        const at = now();
        const done = { state: 'done' as const, appliedAt: at, finishedAt: at };
        const row = { ...batchRow(batch, at), ...done, salt: newSalt() };
        await connection.insertInto('journal_batches').values(row).execute();
        const intents = rows.map(({ intent }) => intent);
        const { action, hash, net, undoOf } = batch;
        const sealed = await insertIntents(connection, backend, batch, intents, () => {});
        const steps = [
          stepOf(at, {
            batch: batch.batch,
            kind: 'adopted',
            data: { action, hash, net, undo_of: undoOf, ...sealed },
            digest: sealOf(row.salt, row),
          }),
        ];
        for (const { intent, fields } of rows) {
          const move = { batch: batch.batch, row: intent.row, from: 'planned', to: 'applied', fields } as const;
          steps.push(stepOf(at, { ...(await moveRow(connection, move)).said, kind: 'adopted' }));
        }
        await appendSteps(connection, steps);
      }),
    setBatchState: (batch: string, state: BatchState) =>
      step(async (connection) => {
        const at = now();
        const digest = await setBatch(connection, batch, stateColumns(state, at));
        await appendSteps(connection, [stepOf(at, { batch, kind: state, digest })]);
      }),

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
    counts: async (batch: string) => {
      const counted = db.selectFrom('journal_intents').select((eb) => ['state', eb.fn.countAll<number>().as('count')]);
      const counts = await counted.where('batch', '=', batch).groupBy('state').execute();
      return Object.fromEntries(counts.map(({ state, count }) => [state, count]));
    },
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
        await step(async (connection) => {
          const { batch, from, to } = move;
          if (to === 'sending') await checkSending(connection, batch, acting());
          const { moved, said } = await moveRow(connection, move);
          await appendSteps(connection, [stepOf(now(), { ...said, kind: to, note: move.note ?? null })]);
          // From `sending` nothing was done, by the server's word; `blocked` was never sent.
          if (to === 'planned' && from !== 'sending' && from !== 'blocked') {
            await noteResent(connection, moved, acting());
          }
        });
        return true;
      } catch (error) {
        if (backend.isTaken(error)) return false;
        throw error;
      }
    },
    /** Rows left `sending` by a process that died become `unknown`; blocked rows whose subject is free `planned`. */
    takeUp: (batch: string) =>
      step(async (connection) => {
        const at = now();
        const rows = connection.selectFrom('journal_intents').selectAll().where('batch', '=', batch);
        const sound = new Set<number>();
        for (const each of await rows.where('state', 'in', ['sending', 'blocked']).execute()) {
          if (await isAsSealed(connection, each, { ...each }, each.digest)) sound.add(each.row);
        }
        const interrupted = await connection
          .updateTable('journal_intents')
          .set({ state: 'unknown' })
          .where('batch', '=', batch)
          .where('state', '=', 'sending')
          .returningAll()
          .execute();
        const freed = await connection
          .updateTable('journal_intents')
          .set({ state: 'planned', problem: null })
          .where('batch', '=', batch)
          .where('state', '=', 'blocked')
          .where('subject', 'not in', (eb) =>
            eb.selectFrom('journal_intents').select('subject').where(isOpen).where('subject', 'is not', null),
          )
          .returningAll()
          .execute();
        const note = 'the process that sent it died';
        await appendSteps(
          connection,
          [
            ...interrupted.map((each) => ({ each, kind: 'unknown', data: { from: 'sending' }, note })),
            ...freed.map((each) => ({ each, kind: 'planned', data: { from: 'blocked' }, note: null })),
          ].map(({ each, ...step }) => {
            const digest = sound.has(each.row) ? sealOf(each.salt, each) : null;
            return stepOf(at, { ...step, batch, row: each.row, digest });
          }),
        );
        return { interrupted: interrupted.length, freed: freed.length };
      }),

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
      step(async (connection) => {
        const found = await batchNamed(connection, batch);
        if (found === undefined) throw new Error(`there is no batch ${batch} to claim`);
        const view = await viewOf(connection, backend, found, await claimable(connection, batch), terms);
        const at = laterThan(view.repeats, now());
        const notes = decide(view, found);
        const reason = notes.findLast(({ kind }) => kind === 'again')?.note;
        const meant: Batch = reason === undefined ? found : { ...found, againReason: reason };
        // What is only looked at again sends nothing.
        const isSending = view.rows.length > 0;
        const claim = isSending ? await claimApproved(connection, meant, acting()) : { columns: {}, data: {} };
        // Also what was claimed before: whoever goes on has looked at what others have claimed since.
        const claimed = await connection
          .updateTable('journal_intents')
          .set({ claimedAt: at })
          .where('batch', '=', batch)
          .where(canBeClaimed)
          .executeTakeFirst();
        const digest = await setBatch(connection, batch, {
          ...(reason !== undefined && { againReason: reason }),
          ...claim.columns,
          ...stateColumns('applying', at),
        });
        if (digest === null) throw altered(`batch ${batch}`);
        const data = { hash: found.hash, rows: Number(claimed.numUpdatedRows), ...claim.data };
        await appendSteps(connection, [
          ...notes.map(({ kind, note }) => stepOf(at, { batch, kind, note })),
          stepOf(at, { batch, kind: 'claimed', data, digest }),
        ]);
      }),
    /** The claimed row of this journal with that fingerprint that carries the token. */
    rowOfToken: (fingerprint: string, token: string) => {
      // By the index on fingerprints: one on tokens would make every plan dearer.
      const rows = db.selectFrom('journal_intents').select(['batch', 'row', 'state']);
      const claimed = rows.where('fingerprint', '=', fingerprint).where('claimedAt', 'is not', null);
      return claimed.where('token', '=', token).limit(1).executeTakeFirst();
    },
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
    claimDeletions: (batch: string) =>
      step(async (connection) => {
        const found = await batchNamed(connection, batch);
        if (found === undefined || found.state !== 'planned') throw new Error(`${batch} is no request that is open`);
        const at = now();
        const { columns, data } = await claimApproved(connection, found, acting());
        const digest = await setBatch(connection, batch, { ...columns, ...stateColumns('done', at), appliedAt: at });
        if (digest === null) throw altered(`request ${batch}`);
        const claimed = { hash: found.hash, rows: found.rows, ...data };
        await appendSteps(connection, [stepOf(at, { batch, kind: 'claimed', data: claimed, digest })]);
      }),

    /** Throws what `beginWrite` would, before anybody is asked. */
    checkWrite: async (write: NewWrite) => checkWrite(db, write, acting()),
    /** A write outside of any batch, before its first byte; gives its number. Throws a UsageError where it needs approval. */
    beginWrite: (write: NewWrite) =>
      step(async (connection) => {
        await tellPolicy(connection, acting());
        await checkWrite(connection, write, acting());
        const prints = write.fingerprint === null ? [] : [write.fingerprint];
        const at = laterThan(await repeatsOf(connection, backend, prints, timestampOf(0), ''), now());
        const by = actor === null ? null : canonical({ ...actor });
        const begun = { ...write, at, state: 'sending' as const, actor: by, salt: newSalt() };
        const row = await connection
          .insertInto('journal_writes')
          .values(begun)
          .returningAll()
          .executeTakeFirstOrThrow();
        const data = { write: row.write, operation: row.operation, user: row.user };
        const digest = sealOf(row.salt, row);
        await appendSteps(connection, [stepOf(at, { batch: null, kind: 'write', data, digest })]);
        return row.write;
      }),
    endWrite: (write: number, { state, httpStatus, answer, problem }: WriteEnd) =>
      step(async (connection) => {
        const at = now();
        const writes = connection.selectFrom('journal_writes').selectAll().where('write', '=', write);
        const before = await writes.executeTakeFirstOrThrow();
        const isSound = await isAsSealed(connection, { write }, { ...before });
        const said = { answer: cutText(answer), problem };
        const kept = (await isForgottenSince(connection, before)) ? ofForgotten(said, ['answer', 'problem']) : said;
        const row = await connection
          .updateTable('journal_writes')
          .set({ state, endedAt: at, httpStatus, ...kept })
          .where('write', '=', write)
          .returningAll()
          .executeTakeFirstOrThrow();
        const data = { write, state, http_status: httpStatus };
        const digest = isSound ? sealOf(row.salt, row) : null;
        await appendSteps(connection, [stepOf(at, { batch: null, kind: 'write_ended', data, digest })]);
      }),
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

/** Stores the batch with its rows, and what is in force for it. @param before what counts beside the rows */
async function storeBatch(
  connection: Connection,
  backend: JournalBackend,
  batch: NewBatch,
  rows: Iterable<NewIntent> | AsyncIterable<NewIntent>,
  { rules, now: at, stepOf }: Acting,
  before = noTotals,
): Promise<void> {
  const row = { ...batchRow(batch, at), salt: newSalt() };
  // Each row's reference makes SQLite read the whole of the batch's row, where a sheet of nothing but mistakes has megabytes of them.
  await connection
    .insertInto('journal_batches')
    .values({ ...row, problems: '[]' })
    .execute();
  const isCounted = newApproval(rules, batch, before) !== null;
  let totals = before;
  const onRow = (each: NewIntent): void => {
    if (isCounted && each.state === 'planned') totals = withRow(totals, changeOf(each));
  };
  const sealed = await insertIntents(connection, backend, batch, rows, onRow);
  const approval = newApproval(rules, batch, totals, isCounted ? await lastAccepted(connection) : undefined);
  const whole = approval === null ? row : { ...row, approval: JSON.stringify(approval) };
  await connection.updateTable('journal_batches').set(whole).where('batch', '=', batch.batch).execute();
  const digest = sealOf(row.salt, whole);
  const { action, hash, net, undoOf } = batch;
  const data = { action, hash, net, undo_of: undoOf, ...sealed };
  const steps = [stepOf(at, { batch: batch.batch, kind: 'added', data, digest })];
  if (batch.againReason !== null) {
    steps.push(stepOf(at, { batch: batch.batch, kind: 'again', note: batch.againReason }));
  }
  await appendSteps(connection, steps);
}

/** What a claim records of the approvals that it rests on. Throws a UsageError where one is missing. */
async function claimApproved(connection: Connection, batch: Batch, acting: Acting) {
  const found = await approvalIn(connection, batch, acting, acting.actor);
  if (found === null) return { columns: {}, data: {} };
  if (found.missing > 0) throw approvalMissing(batch, found);
  const { hash, needed } = found;
  const approval = JSON.stringify({ ...batch.approval, claimed: { hash, needed } });
  return { columns: { approval }, data: { needed, approvals: countingSteps(found) } };
}

/** The open request for these rows, made and handed over where there is none. */
async function deletionsRequested(
  connection: Connection,
  backend: JournalBackend,
  { server, resource, rows, hash }: DeletionRequest,
  acting: Acting,
) {
  const requests = connection
    .selectFrom('journal_batches')
    .select(['batch', 'state'])
    .where('action', '=', 'deletions');
  const same = await requests.where('hash', '=', hash).execute();
  let name = same.find(({ state }) => state === 'planned')?.batch;
  if (name === undefined) {
    name = `deletions-${resource}-${hash.slice(0, 8)}${same.length === 0 ? '' : `-${same.length + 1}`}`;
    const nothing = { file: null, fileBytes: null, fileHash: null, undoOf: null, againReason: null, columns: [] };
    const request = { ...nothing, batch: name, action: 'deletions', hash, rowsDigest: hash, rows, server };
    const totals = { ...noTotals, rows };
    await storeBatch(connection, backend, { ...request, net: '0.00', problems: [], warnings: [] }, [], acting, totals);
  }
  const found = async () => {
    const batch = await batchNamed(connection, name);
    return batch === undefined ? null : approvalIn(connection, batch, acting, acting.actor);
  };
  const before = await found();
  if (before === null) return null;
  if (before.missing === 0 || before.state === 'waiting') return { batch: name, approval: before };
  await submit(connection, name, { note: null, again: null }, acting);
  const after = await found();
  return after === null ? null : { batch: name, approval: after };
}

/** Whether the user was forgotten while the write was under way. */
async function isForgottenSince(
  connection: Connection,
  { write, operation, user }: Pick<JournalTables['journal_writes'], 'operation' | 'user'> & { readonly write: number },
): Promise<boolean> {
  const steps = connection.selectFrom('journal_steps').select('step').where('batch', 'is', null);
  const begun = steps.where('kind', '=', 'write').where('data', '=', canonical({ write, operation, user }));
  const forgotten = steps.where('kind', '=', 'forget').where('data', '=', canonical({ user }));
  return (await forgotten.where('step', '>', begun).executeTakeFirst()) !== undefined;
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

function replaced(name: string): FileError {
  return new FileError(`${name} was removed, emptied or replaced while it was in use`, {
    advice:
      'Put it back as it was. Do not plan or send anything before: nothing else knows what was sent, and what ' +
      'was under way may have been made.',
  });
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

function batchRow(batch: NewBatch, at: Timestamp) {
  const { columns, problems, warnings, server, againReason } = batch;
  return {
    ...batch,
    state: 'planned' as const,
    columns: JSON.stringify(columns),
    problems: JSON.stringify(problems),
    warnings: JSON.stringify(warnings),
    server: JSON.stringify(server),
    againReason: againReason === null ? null : storable(againReason),
    createdAt: at,
  };
}

async function moveRow(connection: Connection, { batch, row, from, to, fields = {} }: Move) {
  const rows = connection.selectFrom('journal_intents').selectAll().where('batch', '=', batch).where('row', '=', row);
  const before = await rows.executeTakeFirst();
  const isSound = before === undefined || (await isAsSealed(connection, before, { ...before }, before.digest));
  if (!isSound && to === 'sending') throw altered(`row ${row} of batch ${batch}`);
  const moved = await connection
    .updateTable('journal_intents')
    .set((eb) => ({
      ...(before === undefined ? {} : asForgotten(before, changed(fields))),
      state: to,
      attempts: eb('attempts', '+', to === 'sending' ? 1 : 0),
    }))
    .where('batch', '=', batch)
    .where('row', '=', row)
    .where('state', '=', from)
    .returningAll()
    .executeTakeFirst();
  if (moved === undefined) throw new Error(`row ${row} of batch ${batch} is not ${from}, so it cannot become ${to}`);
  const said = {
    batch,
    row,
    data: { from, ...plainFields(fields) },
    digest: isSound ? sealOf(moved.salt, moved) : null,
  };
  return { moved, said };
}

function altered(what: string): UsageError {
  return new UsageError(`${what} was altered past this program; nothing was sent`, {
    advice: '`admin-mirror audit --verify` shows what else was. Find out by whom, then plan it again.',
  });
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

function stateColumns(
  state: JournalTables['journal_batches']['state'],
  at: Timestamp,
): UpdateObject<JournalTables, 'journal_batches'> {
  return {
    state,
    ...(state === 'applying' && { appliedAt: sql<Timestamp>`coalesce(applied_at, ${at})` }),
    finishedAt: state === 'done' ? sql<Timestamp>`coalesce(finished_at, ${at})` : null,
  };
}

/** Each in the order of the first such step. */
async function peopleOf(connection: Connection, batch: string): Promise<BatchPeople> {
  const steps = connection.selectFrom('journal_steps').where('batch', '=', batch);
  const rows = await steps
    .select((eb) => ['kind', 'actor', eb.fn.min('step').as('first')])
    .where('kind', 'in', ['added', 'adopted', 'submitted', 'approved', 'consented', 'sending'])
    .where((eb) => eb.or([eb('kind', '<>', 'adopted'), eb('row', 'is', null)]))
    .groupBy(['kind', 'actor'])
    .orderBy('first')
    .execute();
  const of = (...wanted: readonly string[]): Actor[] =>
    rows.flatMap(({ kind, actor }) => (wanted.includes(kind) ? [JSON.parse(actor) as Actor] : []));
  const [approved, consented] = [of('approved'), of('consented')];
  return {
    planned: of('added', 'adopted'),
    submitted: of('submitted'),
    approved: approved.length > 0 ? approved : consented,
    sent: of('sending'),
  };
}

function plannedRow(batch: string, undoOf: string | null, each: NewIntent) {
  const text = (value: string | null): string | null => (value === null ? null : storable(value));
  return {
    ...each,
    batch,
    attempts: 0,
    subject: text(each.subject),
    key: text(each.key),
    fingerprint: text(each.fingerprint),
    parameters: each.parameters === null ? null : JSON.stringify(each.parameters),
    cells: JSON.stringify(each.cells),
    plannedEmail: text(each.plannedEmail),
    plannedUsername: text(each.plannedUsername),
    plannedBefore: text(each.plannedBefore),
    plannedAfter: text(each.plannedAfter),
    problem: text(each.problem),
    notes: each.notes.length === 0 ? null : JSON.stringify(each.notes),
    undoOf: each.undoOfRow === null ? null : undoOf,
  };
}

const wholeNumbers: ReadonlySet<string> = new Set(['row', 'user', 'undoOfRow', 'attempts']);

async function insertIntents(
  connection: Connection,
  { members }: Pick<JournalBackend, 'members'>,
  { batch, undoOf }: NewBatch,
  intents: Iterable<NewIntent> | AsyncIterable<NewIntent>,
  onRow: (intent: NewIntent) => void,
): Promise<{ readonly rows: number; readonly seal: string }> {
  const seal = new RowsSeal();
  const store = async (chunkOf: readonly NewIntent[]): Promise<void> => {
    const salts = newSalts(chunkOf.length);
    const rows = chunkOf.map((each) => plannedRow(batch, undoOf, each));
    const own = Object.keys(rows[0] ?? {}) as (keyof (typeof rows)[number])[];
    const sealed = rows.map((row, at) => {
      const salt = salts[at] ?? newSalt();
      const digest = sealOf(salt, row);
      seal.add(row.row, digest);
      return [...own.map((name) => row[name]), salt, digest];
    });
    const names = [...own, 'salt', 'digest'];
    const columns = sql.join(names.map((name) => sql.ref(name)));
    const values = sql.join(
      names.map(
        (name, at) => sql`cast(value ->> ${sql.lit(at)} as ${sql.raw(wholeNumbers.has(name) ? 'bigint' : 'text')})`,
      ),
    );
    const json = members(JSON.stringify(sealed));
    await sql`insert into journal_intents (${columns}) select ${values} from ${json} as each`.execute(connection);
  };
  // Rows go as JSON, a thousand at once: binding each of their values takes longer than storing them.
  let waiting: NewIntent[] = [];
  for await (const each of intents) {
    onRow(each);
    if (waiting.push(each) < chunk) continue;
    await store(waiting);
    waiting = [];
  }
  if (waiting.length > 0) await store(waiting);
  return seal.end();
}

const amount = /^-?\d+(?:\.\d+)?$/;

/** What of a step's fields tells nobody's name: it stands in the chain as it is, the rest in the seal of the row alone. */
function plainFields(fields: IntentFields): Readonly<Record<string, string | number | null>> {
  const { httpStatus, answerKind, evidence, recordId, discrepancy, sentAt, claimedAt, before, after } = fields;
  const amountOf = (value: string | null | undefined) =>
    typeof value === 'string' && !amount.test(value) ? undefined : value;
  const named = {
    http_status: httpStatus,
    answer_kind: answerKind,
    evidence,
    record_id: recordId,
    discrepancy,
    sent_at: sentAt,
    claimed_at: claimedAt,
    before: amountOf(before),
    after: amountOf(after),
  };
  return Object.fromEntries(
    Object.entries(named).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

function changed({ seenBefore, answer, ...fields }: IntentFields) {
  return {
    ...fields,
    ...(seenBefore !== undefined && { seenBefore: JSON.stringify(seenBefore) }),
    ...(answer !== undefined && { answer: cutText(answer) }),
  };
}

const cutText = (text: string | null): string | null => text?.slice(0, longestAnswer) ?? null;
