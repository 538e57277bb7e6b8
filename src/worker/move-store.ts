/**
 * Moves journal, accounts, jobs and alerts from their files to the shared store, or back. The source is marked first, then all is
 * copied and compared in one transaction of the target: never are both in use. Whatever ends it, running it again goes on from there.
 * Section "The shared store" of docs/architecture.md.
 */
import { type Kysely, sql } from 'kysely';
import { appendSteps, type Head, headOf, identityOf } from '../journal/chain.ts';
import { movedTo } from '../journal/database.ts';
import { chunksOf, type JournalTables } from '../journal/tables.ts';
import { verifyChain } from '../journal/verify-chain.ts';
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
  /** The same one where the tables of the worker are beside those of the journal; undefined where there are none. */
  readonly worker: Database | undefined;
  readonly owners: () => Promise<LockOwner[]>;
  /** Lets the numbers that the database gives go on after those that are there. */
  readonly continueNumbers: (connection: Database, table: string, column: string) => Promise<void>;
  readonly close: () => Promise<void>;
}

interface MoveReport {
  readonly from: string;
  readonly to: string;
  readonly journal: string;
  /** The newest step, the same in both. */
  readonly head: Head;
  readonly steps: number;
  readonly rows: Readonly<Record<string, number>>;
}

interface Table {
  readonly name: string;
  readonly key: readonly string[];
  /** The database gives it where nobody says it. */
  readonly isNumbered?: true;
}

/** In an order in which each row finds what it refers to. */
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
  { name: 'worker_messages', key: ['number'], isNumbered: true },
];

const allTables = [...journalTables, ...workerTables];

function databaseOf({ name }: Table, { journal, worker }: StoreSide): Database | undefined {
  return name.startsWith('worker_') ? worker : journal;
}

/** SQLite binds so many values at once, and some more. */
const mostValues = 10_000;

/** Throws an OperatorError where it may not be, or cannot be done; then the source is in use as before, or says how to go on. */
export async function moveStore(source: StoreSide, target: StoreSide, actor: Actor, clock: Clock): Promise<MoveReport> {
  const id = (await checkSource(source, target)) ?? (await mark(source, target, actor, clock));
  try {
    const report = await target.journal.transaction().execute((to) => moveInto(source, target, to, id));
    await setIdentity(source.journal, { moved: 'moved', id, to: target.name });
    return report;
  } catch (error) {
    // Where it is certain that nothing came there, and nobody else is at it, the source is in use as before.
    await unmark(source, target, id).catch(() => {});
    throw error;
  }
}

/** Lets the source be used again, where a move was begun and nothing came to the target. Throws an OperatorError. */
export async function cancelMove(source: StoreSide, target: StoreSide): Promise<void> {
  const found = movedTo(await identityOf(journalOf(source.journal)));
  if (found?.moved !== 'moving') throw notMoving(source);
  await unmark(source, target, found.id);
}

function notMoving({ name }: StoreSide): UsageError {
  return new UsageError(`${name} is not being moved: there is nothing to cancel`);
}

const journalOf = (db: Database): Kysely<JournalTables> => db;

/** The id of the journal where its move was begun before; undefined where this is the first time. */
async function checkSource(source: StoreSide, target: StoreSide): Promise<string | undefined> {
  const begun = await begunIn(source, target, source.journal);
  if (begun !== undefined) return begun;
  await checkEmpty(target, allTables);
  const db = journalOf(source.journal);
  const { status, problems } = await db.transaction().execute((each) => verifyChain(each));
  if (status === 'whole') return undefined;
  throw new FileError(`${source.name} was altered past this program, and is left where it is: ${problems[0] ?? ''}`, {
    advice: '`admin-mirror audit --verify` shows what was.',
  });
}

async function begunIn(source: StoreSide, target: StoreSide, db: Database): Promise<string | undefined> {
  const found = movedTo(await identityOf(journalOf(db)));
  if (found === undefined) return undefined;
  if (found.moved === 'moved') throw new UsageError(`${source.name} was moved to ${found.to} already`);
  if (found.to === target.name) return found.id;
  throw new UsageError(`${source.name} is being moved to ${found.to}, and not to ${target.name}`, {
    advice: 'Run `admin-mirror store copy` with the settings with which it was begun, or with --cancel.',
  });
}

async function checkEmpty(target: StoreSide, tables: readonly Table[]): Promise<void> {
  const advice =
    'Only a store that nothing was ever written to is copied into. Move away what is there, if nobody needs it.';
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

/** The last step there, and the mark, in one transaction: from here on nobody writes there. Gives the id of before. */
function mark(source: StoreSide, target: StoreSide, actor: Actor, clock: Clock): Promise<string> {
  return source.journal.transaction().execute(async (connection) => {
    const [owner] = await source.owners();
    if (owner !== undefined) {
      throw new LockHeldError(`${source.name} is in use: ${ownerWords(owner)}`, {
        advice: 'Stop the worker, and let what is being sent come to its end; then run it again.',
      });
    }
    // By another copy, since this one has looked.
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

/** In a transaction of the target: a copy that is under way there, or whose commit is, comes to its end before. */
async function unmark(source: StoreSide, target: StoreSide, id: string): Promise<void> {
  await target.journal.transaction().execute(async (to) => {
    if ((await identityOf(journalOf(to))) === id) {
      throw new UsageError(`all of ${source.name} is in ${target.name} already: the move cannot be cancelled`, {
        advice: 'Run `admin-mirror store copy` again: it ends what was begun.',
      });
    }
    if (movedTo(await identityOf(journalOf(source.journal)))?.moved !== 'moving') throw notMoving(source);
    if (isApart(target)) await emptyWorker(target.worker);
    await setIdentity(source.journal, id);
  });
}

/** Whether the tables of the worker are in a file of their own, which is committed before that of the journal. */
function isApart(target: StoreSide): target is StoreSide & { readonly worker: Database } {
  return target.worker !== undefined && target.worker !== target.journal;
}

async function emptyWorker(worker: Database): Promise<void> {
  for (const { name } of workerTables) await worker.deleteFrom(name).execute();
}

/** What came there whole, before a run of before was killed, is compared once more. */
async function moveInto(source: StoreSide, side: StoreSide, to: Database, id: string): Promise<MoveReport> {
  const target = { ...side, journal: to, worker: isApart(side) ? side.worker : to };
  if ((await identityOf(journalOf(to))) === id) return compareLeft(source, target, id);
  if ((await begunIn(source, side, source.journal)) === undefined) {
    throw new UsageError(`the move of ${source.name} was cancelled meanwhile; nothing was copied`);
  }
  await checkEmpty(target, isApart(side) ? journalTables : allTables);
  if (isApart(side)) {
    await side.worker.transaction().execute(async (worker) => {
      // Of a copy that was killed in the middle.
      await emptyWorker(worker);
      if (source.worker !== undefined) await copyTables(source.worker, target, worker, workerTables);
    });
  } else if (source.worker !== undefined) await copyTables(source.worker, target, to, workerTables);
  // The journal last, by its id: where that is there, all of it is.
  await copyTables(source.journal, target, to, journalTables);
  await setIdentity(to, id);
  return compare(source, target, id);
}

async function copyTables(from: Database, target: StoreSide, to: Database, tables: readonly Table[]): Promise<void> {
  for (const table of tables) {
    for await (const rows of chunksOf<Record<string, unknown>>(from, table.name, table.key)) {
      const atOnce = Math.max(1, Math.floor(mostValues / Math.max(1, Object.keys(rows[0] ?? {}).length)));
      for (let at = 0; at < rows.length; at += atOnce) {
        await to
          .insertInto(table.name)
          .values(rows.slice(at, at + atOnce))
          .execute();
      }
    }
    if (table.isNumbered) await target.continueNumbers(to, table.name, table.key[0] ?? '');
  }
}

async function compare(source: StoreSide, target: StoreSide, id: string): Promise<MoveReport> {
  const rows: Record<string, number> = {};
  for (const table of allTables) {
    const [from, to] = [databaseOf(table, source), databaseOf(table, target)];
    if (from === undefined || to === undefined) continue;
    const { name, key } = table;
    rows[name] = 0;
    const there = chunksOf<Record<string, unknown>>(to, name, key);
    for await (const each of chunksOf<Record<string, unknown>>(from, name, key)) {
      // Side by side: a database that waits long for the next statement ends the transaction.
      const { value = [] } = await there.next();
      if (textOf(each) !== textOf(value)) throw differs(source, target, name);
      rows[name] += each.length;
    }
    if ((await there.next()).done !== true) throw differs(source, target, name);
  }
  return { from: source.name, to: target.name, journal: id, ...(await checkChain(source, target)), rows };
}

function textOf(rows: readonly Record<string, unknown>[]): string {
  return JSON.stringify(rows.map((row) => Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1))));
}

const differs = (source: StoreSide, target: StoreSide, table: string): FileError =>
  copyFailed(`${table} of ${target.name} is not what it is in ${source.name}`);

const copyFailed = (message: string): FileError =>
  new FileError(message, { advice: 'Look at the disk and at the database, and run it again.' });

/** What came there whole, in a run that was killed then. Where others have gone on with it there, its chain says that it is the same. */
async function compareLeft(source: StoreSide, target: StoreSide, id: string): Promise<MoveReport> {
  const [before, now] = [await headOf(journalOf(source.journal)), await headOf(journalOf(target.journal))];
  if (before?.hash === now?.hash) return compare(source, target, id);
  const rows: Record<string, number> = {};
  for (const table of allTables) {
    const count = databaseOf(table, target)
      ?.selectFrom(table.name)
      .select(({ fn }) => fn.countAll<number>().as('rows'));
    rows[table.name] = (await count?.executeTakeFirst())?.rows ?? 0;
  }
  return { from: source.name, to: target.name, journal: id, ...(await checkChain(source, target)), rows };
}

/** The chain as it came to the target: whole, and with the head of the source. */
async function checkChain(source: StoreSide, target: StoreSide): Promise<{ head: Head; steps: number }> {
  const wanted = (await headOf(journalOf(source.journal)))?.hash;
  const { status, problems, steps, head } = await verifyChain(journalOf(target.journal), wanted);
  if (status === 'whole' && head !== null) return { head, steps };
  throw copyFailed(`what came to ${target.name} is not what was read: ${problems[0] ?? 'its newest step is another'}`);
}
