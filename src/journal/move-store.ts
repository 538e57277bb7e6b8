/**
 * Moves journal, accounts, jobs and alerts from their files to the shared store, or back. Marks the source first; then copies
 * everything and checks the chain in one transaction of the target, so that both are never in use. After a crash, run it again to continue.
 * Section "The shared store" of docs/architecture.md.
 */
import { type Kysely, sql } from 'kysely';
import { appendSteps, type Head, headOf, identityOf } from './chain.ts';
import { movedTo } from './database.ts';
import { chunksOf, type JournalTables } from './tables.ts';
import { verifyChain } from './verify-chain.ts';
import type { Actor } from '../model/actor.ts';
import { FileError, LockHeldError, UsageError } from '../model/errors.ts';
import { type Clock, timestampOf } from '../model/time.ts';
import { type LockOwner, ownerWords } from '../store/lock.ts';

export type StoreTables = Record<string, Record<string, unknown>>;
type Database = Kysely<StoreTables>;

export interface StoreSide {
  /** `the journal data/journal.db`, for messages. */
  readonly name: string;
  readonly journal: Database;
  /** The tables of the worker. The same as `journal` if one database holds all; undefined if the worker has none. */
  readonly worker: Database | undefined;
  readonly owners: () => Promise<LockOwner[]>;
  /** Makes the database continue its generated numbers after the highest one of the column. */
  readonly continueNumbers: (connection: Database, table: string, column: string) => Promise<void>;
  readonly close: () => Promise<void>;
}

interface MoveReport {
  readonly from: string;
  readonly to: string;
  readonly journal: string;
  /** The newest step. */
  readonly head: Head;
  readonly steps: number;
  readonly rows: Readonly<Record<string, number>>;
}

interface Table {
  readonly name: string;
  readonly key: readonly string[];
  /** The database generates the key. */
  readonly isNumbered?: true;
}

/** In this order, every row is copied after the rows that it refers to. */
const journalTables: readonly Table[] = [
  { name: 'journal_batches', key: ['batch'] },
  { name: 'journal_intents', key: ['batch', 'row'] },
  { name: 'journal_steps', key: ['step'] },
  { name: 'journal_writes', key: ['write'], isNumbered: true },
  { name: 'people_accounts', key: ['name'] },
  { name: 'people_tries', key: ['name'] },
  { name: 'people_sessions', key: ['token'] },
];
const workerTables: readonly Table[] = [
  { name: 'worker_jobs', key: ['job'] },
  { name: 'worker_runs', key: ['number'], isNumbered: true },
  { name: 'worker_alerts', key: ['problem'] },
];

const allTables = [...journalTables, ...workerTables];

function databaseOf({ name }: Table, { journal, worker }: StoreSide): Database | undefined {
  return name.startsWith('worker_') ? worker : journal;
}

/** Values for one INSERT: safely below the limit of SQLite (32,766). */
const maxValues = 10_000;

/**
 * Moves everything. Throws an OperatorError if that is not allowed or fails; then the source stays in use, or its next user is told how
 * to continue the move.
 */
export async function moveStore(source: StoreSide, target: StoreSide, actor: Actor, clock: Clock): Promise<MoveReport> {
  const id = (await checkSource(source, target)) ?? (await mark(source, target, actor, clock));
  try {
    const report = await target.journal.transaction().execute((to) => moveInto(source, target, to, id));
    await setIdentity(source.journal, { moved: 'moved', id, to: target.name });
    return report;
  } catch (error) {
    // If the target certainly has nothing of it, the source can be used again.
    await unmark(source, target, id).catch(() => {});
    throw error;
  }
}

const journalOf = (db: Database): Kysely<JournalTables> => db;

/** Returns the id of the journal if its move was begun before; otherwise checks both sides and returns undefined. */
async function checkSource(source: StoreSide, target: StoreSide): Promise<string | undefined> {
  const begun = await begunIn(source, target, source.journal);
  if (begun !== undefined) return begun;
  await checkEmpty(target, allTables);
  const db = journalOf(source.journal);
  const { status, problems } = await db.transaction().execute((each) => verifyChain(each));
  if (status === 'whole') return undefined;
  throw new FileError(`${source.name} was changed by other means, so it was not moved: ${problems[0] ?? ''}`, {
    advice: '`admin-mirror audit --verify` shows what was changed.',
  });
}

async function begunIn(source: StoreSide, target: StoreSide, db: Database): Promise<string | undefined> {
  const found = movedTo(await identityOf(journalOf(db)));
  if (found === undefined) return undefined;
  if (found.moved === 'moved') throw new UsageError(`${source.name} was already moved to ${found.to}`);
  if (found.to === target.name) return found.id;
  throw new UsageError(`${source.name} is being moved to ${found.to}, not to ${target.name}`, {
    advice: 'Run `admin-mirror store copy` with the settings with which the move was begun.',
  });
}

async function checkEmpty(target: StoreSide, tables: readonly Table[]): Promise<void> {
  const advice = 'The target must be a store that was never used. If nobody needs what it holds, move that away.';
  for (const table of tables) {
    const first = databaseOf(table, target)
      ?.selectFrom(table.name)
      .select(sql`1`.as('one'))
      .limit(1);
    if ((await first?.executeTakeFirst()) === undefined) continue;
    throw new UsageError(`${target.name} is not empty: it has rows in ${table.name}; nothing was copied`, { advice });
  }
  const found = movedTo(await identityOf(journalOf(target.journal)));
  if (found !== undefined) throw new UsageError(`${target.name} was moved to ${found.to}: move it away first`);
}

/** Writes the last step and the mark in one transaction: from now on, nobody writes to the source. Returns the journal's id. */
function mark(source: StoreSide, target: StoreSide, actor: Actor, clock: Clock): Promise<string> {
  return source.journal.transaction().execute(async (connection) => {
    const [owner] = await source.owners();
    if (owner !== undefined) {
      throw new LockHeldError(`${source.name} is in use: ${ownerWords(owner)}`, {
        advice: 'Stop the worker, and wait until everything is sent. Then run this again.',
      });
    }
    // Another process may have begun the move since the check.
    const begun = await begunIn(source, target, connection);
    if (begun !== undefined) return begun;
    const id = await identityOf(journalOf(connection));
    const about = { batch: null, row: null, kind: 'moved', data: { from: source.name, to: target.name }, note: null };
    await appendSteps(journalOf(connection), [{ at: timestampOf(clock.now()), actor, ...about }]);
    await setIdentity(connection, { moved: 'moving', id, to: target.name });
    return id;
  });
}

async function setIdentity(
  db: Database,
  id: string | { readonly moved: string; readonly id: string; readonly to: string },
) {
  const text = typeof id === 'string' ? id : JSON.stringify(id);
  await db.updateTable('journal_identity').set({ id: text }).execute();
}

/** Removes the mark in a transaction of the target, which waits for a copy or commit that is still under way there. */
async function unmark(source: StoreSide, target: StoreSide, id: string): Promise<void> {
  await target.journal.transaction().execute(async (to) => {
    if ((await identityOf(journalOf(to))) === id) return;
    if (movedTo(await identityOf(journalOf(source.journal)))?.moved !== 'moving') return;
    if (hasOwnWorkerFile(target)) await emptyWorker(target.worker);
    await setIdentity(source.journal, id);
  });
}

/** Whether the worker's tables are in a separate file, which is committed before the journal. */
function hasOwnWorkerFile(target: StoreSide): target is StoreSide & { readonly worker: Database } {
  return target.worker !== undefined && target.worker !== target.journal;
}

async function emptyWorker(worker: Database): Promise<void> {
  for (const { name } of workerTables) await worker.deleteFrom(name).execute();
}

/** Copies everything and checks the chain. If an earlier run copied everything and was killed then, only checks. */
async function moveInto(source: StoreSide, side: StoreSide, to: Database, id: string): Promise<MoveReport> {
  const worker = hasOwnWorkerFile(side) ? side.worker : to;
  const isCopied = (await identityOf(journalOf(to))) === id;
  const rows: Record<string, number> = {};
  const copy = async (from: Database | undefined, into: Database, tables: readonly Table[]): Promise<void> => {
    for (const table of tables) if (from !== undefined) rows[table.name] = await copyTable(from, side, into, table);
  };
  if (!isCopied) {
    if ((await begunIn(source, side, source.journal)) === undefined) {
      throw new UsageError(`the move of ${source.name} was given up meanwhile; nothing was copied`);
    }
    await checkEmpty({ ...side, journal: to, worker }, hasOwnWorkerFile(side) ? journalTables : allTables);
    if (hasOwnWorkerFile(side)) {
      await side.worker.transaction().execute(async (into) => {
        // It may hold rows of a copy that was killed.
        await emptyWorker(into);
        await copy(source.worker, into, workerTables);
      });
    } else await copy(source.worker, to, workerTables);
    // The id of the journal comes last: if the target has it, it has everything.
    await copy(source.journal, to, journalTables);
    await setIdentity(to, id);
  }
  return { from: source.name, to: side.name, journal: id, ...(await checkChain(source, side.name, to)), rows };
}

/** Returns how many rows were copied. */
async function copyTable(from: Database, target: StoreSide, to: Database, table: Table): Promise<number> {
  const { name, key } = table;
  let copied = 0;
  for await (const rows of chunksOf<Record<string, unknown>>(from, name, key)) {
    const atOnce = Math.max(1, Math.floor(maxValues / Math.max(1, Object.keys(rows[0] ?? {}).length)));
    for (let at = 0; at < rows.length; at += atOnce) {
      const part = rows.slice(at, at + atOnce);
      await to.insertInto(name).values(part).execute();
      copied += part.length;
    }
  }
  if (table.isNumbered) await target.continueNumbers(to, name, key[0] ?? '');
  return copied;
}

/**
 * Checks that every step, row and account in the target is as the chain says, and that the chain contains the newest step of the
 * source: if the target was used since an earlier copy, it has more. Throws a FileError.
 */
async function checkChain(source: StoreSide, name: string, to: Database): Promise<{ head: Head; steps: number }> {
  const expectedHash = (await headOf(journalOf(source.journal)))?.hash;
  const { status, problems, steps, head } = await verifyChain(journalOf(to), expectedHash);
  if (status === 'whole' && head !== null) return { head, steps };
  const problem = problems[0] ?? 'its newest step is different';
  throw new FileError(`the copy in ${name} differs from the source: ${problem}`, {
    advice: 'Check the disk and the database, then run this again.',
  });
}
