/** What can be read of the journal: batches, rows, steps and writes by hand. */
import { setImmediate } from 'node:timers/promises';
import { sql, type SqlBool } from 'kysely';
import type { Actor } from '../model/actor.ts';
import type { Timestamp } from '../model/time.ts';
import { lastAccepted } from './approval.ts';
import { type AuditFilter, auditEntries } from './audit.ts';
import { type Head, headOf } from './chain.ts';
import { claimable, isNotMade, isOpen, isUndecided } from './claim-view.ts';
import type { BatchPeople, Intent, IntentState, RowView } from './port.ts';
import {
  batchNamed,
  batchOf,
  chunk,
  type Connection,
  intentColumns,
  intentOf,
  notesIn,
  parametersIn,
  runOften,
  viewColumns,
} from './tables.ts';

/** Rows that take another row back, or may. */
const takesBack = sql<SqlBool>`state not in ('rejected', 'not_applied', 'skipped', 'invalid')`;

export function readsOf(db: Connection) {
  const chunkAfter = (batch: string, row: number) =>
    db.selectFrom('journal_intents').where('batch', '=', batch).where('row', '>', row).orderBy('row').limit(chunk);

  return {
    batch: (name: string) => batchNamed(db, name),
    /** Plans of the file with these rows that nobody has sent or discarded, the newest first. */
    plansOf: async (action: string, fileHash: string, rowsDigest: string) => {
      const plans = db
        .selectFrom('journal_batches')
        .selectAll()
        .where('state', '=', 'planned')
        .where('action', '=', action);
      const like = plans.where('fileHash', '=', fileHash).where('rowsDigest', '=', rowsDigest);
      return (await like.orderBy('batch', 'desc').execute()).map(batchOf);
    },
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
    /** The newest step of the chain; undefined if there is none. */
    head: () => headOf(db),
    hasStep: async ({ step: number, hash }: Head) => {
      const find = () => db.selectFrom('journal_steps').select('hash').where('step', '=', number);
      return (await runOften(db, 'has step', find, [number]))?.hash === hash;
    },
    /** The first step, since the journal was last accepted, that does not follow the one before it; null if there is none. */
    gap: () => gapIn(db),
    audit: (filter: AuditFilter, order?: 'asc' | 'desc') => auditEntries(db, filter, order),
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
    /** When the row's last request had certainly gone out or never would: the time of the step after `sending`. */
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
    /** Who added, submitted, approved, confirmed, sent and discarded the batch; each person once in each list. */
    people: (batch: string) => peopleOf(db, batch),
    /** Who added the batch. Faster than `people`: it reads no steps of rows. */
    plannedBy: async (batch: string) => {
      const steps = db.selectFrom('journal_steps').select('actor').distinct().where('batch', '=', batch);
      const added = await steps.where('row', 'is', null).where('kind', 'in', ['added', 'adopted']).execute();
      return added.map(({ actor }) => JSON.parse(actor) as Actor);
    },
    /** A batch whose rows have shown that this journal is older than the server, and why; undefined if none has. */
    behind: () =>
      db
        .selectFrom('journal_batches')
        .select(['batch', 'behind'])
        .where('behind', 'is not', null)
        .limit(1)
        .executeTakeFirst(),
    /** Whether a person ended the batch. */
    wasDiscarded: async (batch: string) => {
      const steps = db.selectFrom('journal_steps').select('step').where('batch', '=', batch);
      const found = steps.where('row', 'is', null).where('kind', '=', 'discarded').limit(1);
      return (await found.executeTakeFirst()) !== undefined;
    },

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
    /** The applied rows that were sent more than once, in the order of the file. */
    resentRows: (batch: string) =>
      inChunks(async (after) => {
        const rows = chunkAfter(batch, after).select(intentColumns).where('state', '=', 'applied');
        return (await rows.where('attempts', '>', 1).execute()).map(intentOf);
      }),
    /** Whether the look before a resend has found a row of the batch made that the server had put off. */
    hasMadePutOff: async (batch: string) => {
      const rows = db.selectFrom('journal_intents').select('row').where('batch', '=', batch);
      const putOff = rows.where('answerKind', 'is', null).where('httpStatus', 'is not', null);
      const made = putOff.where('state', '<>', 'planned').where('evidence', 'is not', null);
      return (await made.where('evidence', '<>', 'person').limit(1).executeTakeFirst()) !== undefined;
    },
    /**
     * What a person reads of the rows.
     * @param onlyWithNotes those that deserve a look before the approval
     */
    views: (batch: string, onlyWithNotes = false) =>
      inChunks(async (after): Promise<RowView[]> => {
        const rows = chunkAfter(batch, after).select(viewColumns);
        const found = await (onlyWithNotes ? rows.where('notes', 'is not', null) : rows).execute();
        return found.map((row) => ({ ...row, parameters: parametersIn(row.parameters), notes: notesIn(row.notes) }));
      }),
    intent: async (batch: string, row: number) => {
      const rows = () => db.selectFrom('journal_intents').select(intentColumns).where('batch', '=', batch);
      const found = await runOften(db, 'intent', () => rows().where('row', '=', row), [batch, row]);
      return found === undefined ? undefined : intentOf(found);
    },
    counts: async (batch: string) => (await tallyOf(db, batch)).counts,
    /** The counts, and how many rows have a balance that contradicts them or were made more than once. */
    tally: (batch: string) => tallyOf(db, batch),
    openRow: (subject: string) => {
      const rows = () => db.selectFrom('journal_intents').select(['batch', 'row', 'state']);
      return runOften(db, 'open row', () => rows().where('subject', '=', subject).where(isOpen), [subject]);
    },
    /** The first row of the batch that holds this one back: an earlier one of its user that was sent and not made. */
    heldBy: ({ batch, row, subject }: Pick<Intent, 'batch' | 'row' | 'subject'>) => {
      const rows = () => db.selectFrom('journal_intents').select('row').where('batch', '=', batch).where(isUndecided);
      const find = () => rows().where('subject', '=', subject).where('row', '<', row).orderBy('row').limit(1);
      return runOften(db, 'held by', find, [batch, subject, row, 1]);
    },
    /** The rows of the batch that hold others back until a person decides, each with how many. */
    holding: async (batch: string) => {
      const rows = db.selectFrom('journal_intents').select(['row', 'user', 'problem']).where('batch', '=', batch);
      const found = await rows
        .select((eb) =>
          eb
            .selectFrom('journal_intents as later')
            .select(eb.fn.countAll<number>().as('count'))
            .whereRef('later.user', '=', 'journal_intents.user')
            .whereRef('later.batch', '=', 'journal_intents.batch')
            .whereRef('later.row', '>', 'journal_intents.row')
            .where('later.state', 'in', ['planned', 'blocked'])
            .as('later'),
        )
        .where(isUndecided)
        .orderBy('row')
        .execute();
      return found.flatMap(({ later, ...row }) => (later === null || later === 0 ? [] : [{ ...row, later }]));
    },
    claimable: (batch: string) => claimable(db, batch),
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
    /** The rows of the batch that another batch takes back or may take back, each with the row that does. */
    undoneRows: async (batch: string) => {
      const rows = db.selectFrom('journal_intents').select(['undoOfRow', 'batch', 'row', 'state']);
      const undone = await rows.where('undoOf', '=', batch).where(takesBack).execute();
      return new Map(undone.flatMap(({ undoOfRow, ...by }) => (undoOfRow === null ? [] : [[undoOfRow, by]])));
    },
    /** The batches that take rows of this one back or may do so, the oldest first: how many rows, and how many of them are done. */
    reversals: (batch: string) => {
      const rows = db.selectFrom('journal_intents').where('undoOf', '=', batch).where(takesBack);
      const counts = rows
        .groupBy('batch')
        .select((eb) => [
          'batch',
          eb.fn.countAll<number>().as('rows'),
          eb.fn.countAll<number>().filterWhere('state', '=', 'applied').as('applied'),
        ]);
      return counts.orderBy('batch').execute();
    },
    /** The rows of the user in all batches, the newest batch first. */
    rowsOfUser: async (user: number, limit: number) => {
      const rows = await db
        .selectFrom('journal_intents as i')
        .innerJoin('journal_batches as b', 'b.batch', 'i.batch')
        .select(['i.batch', 'i.row', 'i.state', 'i.parameters', 'i.before', 'i.after', 'i.sentAt'])
        .select(['b.action', 'b.title', 'b.createdAt'])
        .where('i.user', '=', user)
        .orderBy('b.createdAt', 'desc')
        .orderBy('i.batch', 'desc')
        .orderBy('i.row')
        .limit(limit)
        .execute();
      return rows.map(({ parameters, ...row }) => ({ ...row, parameters: parametersIn(parameters) }));
    },

    /** The changes of the user's balance by hand since then, the oldest first. */
    balanceWrites: (user: number, since: Timestamp) => {
      const writes = db
        .selectFrom('journal_writes')
        .select(['at', 'state', 'body', 'balance'])
        .where('user', '=', user);
      const own = writes.where('operation', '=', 'users.update-balance').where('at', '>', since);
      return own.orderBy('write').execute();
    },
    /** Newest first. */
    writes: (limit: number) =>
      db
        .selectFrom('journal_writes')
        .select(['write', 'at', 'operation', 'user', 'body', 'state', 'httpStatus', 'problem'])
        .orderBy('write', 'desc')
        .limit(limit)
        .execute(),
  };
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
  const of = (...kinds: readonly string[]): Actor[] =>
    rows.flatMap(({ kind, actor }) => (kinds.includes(kind) ? [JSON.parse(actor) as Actor] : []));
  return {
    planned: of('added', 'adopted'),
    submitted: of('submitted'),
    approved: of('approved'),
    confirmed: of('consented'),
    sent: of('sending'),
    discarded: of('discarded'),
  };
}
