/**
 * Moves journal, accounts, jobs and alerts from their files to the shared store. Marks the journal's file first; then copies everything
 * and checks the chain in one transaction of the target, so that both are never in use. After a crash, run it again to continue.
 * Section "The shared store" of docs/architecture.md.
 */
import { type Kysely, sql } from 'kysely';
import { appendSteps, type Head, headOf, identityOf } from './chain.ts';
import { movedTo } from './database.ts';
import { chunksOf, type Connection } from './tables.ts';
import { verifyChain } from './verify-chain.ts';
import type { Actor } from '../model/actor.ts';
import { FileError, LockHeldError, UsageError } from '../model/errors.ts';
import { type Clock, timestampOf } from '../model/time.ts';
import { type LockOwner, ownerWords } from '../store/lock.ts';

export interface MoveSource {
  /** `the journal data/journal.db`, for messages. */
  readonly name: string;
  readonly journal: Connection;
  /** The file of the worker; undefined if there is none. */
  readonly worker: Connection | undefined;
  readonly owners: () => Promise<LockOwner[]>;
}

/** One database that has all tables. */
export interface MoveTarget {
  readonly name: string;
  readonly db: Connection;
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

/** The tables with their keys. In this order, every row is copied after the rows that it refers to. */
const tables = {
  worker_jobs: ['job'],
  worker_runs: ['number'],
  worker_alerts: ['problem'],
  journal_batches: ['batch'],
  journal_intents: ['batch', 'row'],
  journal_steps: ['step'],
  journal_writes: ['write'],
  people_accounts: ['name'],
  people_tries: ['name'],
  people_sessions: ['token'],
} as const;

/** Tables whose key the database generates. */
const numbered: ReadonlySet<string> = new Set(['worker_runs', 'journal_writes']);

/** Values for one INSERT: safely below the limit of PostgreSQL (65,535). */
const maxValues = 10_000;

/**
 * Moves everything. Throws an OperatorError if that is not allowed or fails; then the source stays in use, or its next user is told how
 * to continue the move.
 */
export async function moveStore(
  source: MoveSource,
  target: MoveTarget,
  actor: Actor,
  clock: Clock,
): Promise<MoveReport> {
  const id = (await checkSource(source, target)) ?? (await mark(source, target, actor, clock));
  try {
    const report = await target.db.transaction().execute((to) => moveInto(source, target, to, id));
    await setIdentity(source.journal, { moved: 'moved', id, to: target.name });
    return report;
  } catch (error) {
    // If the target certainly has nothing of it, the source can be used again. The transaction waits for a copy or commit that is
    // still under way there.
    const unmark = target.db.transaction().execute(async (to) => {
      if ((await identityOf(to)) === id || movedTo(await identityOf(source.journal))?.moved !== 'moving') return;
      await setIdentity(source.journal, id);
    });
    await unmark.catch(() => {});
    throw error;
  }
}

/** Returns the id of the journal if its move was begun before; otherwise checks both sides and returns undefined. */
async function checkSource({ name, journal }: MoveSource, target: MoveTarget): Promise<string | undefined> {
  const begun = await begunIn(name, target, journal);
  if (begun !== undefined) return begun;
  await checkEmpty(target.name, target.db);
  const { status, problems } = await journal.transaction().execute((each) => verifyChain(each));
  if (status === 'whole') return undefined;
  throw new FileError(`${name} was changed by other means, so it was not moved: ${problems[0] ?? ''}`, {
    advice: '`admin-mirror audit --verify` shows what was changed.',
  });
}

async function begunIn(name: string, target: MoveTarget, db: Connection): Promise<string | undefined> {
  const found = movedTo(await identityOf(db));
  if (found === undefined) return undefined;
  if (found.moved === 'moved') throw new UsageError(`${name} was already moved to ${found.to}`);
  if (found.to === target.name) return found.id;
  throw new UsageError(`${name} is being moved to ${found.to}, not to ${target.name}`, {
    advice: 'Run `admin-mirror store copy` with the settings with which the move was begun.',
  });
}

async function checkEmpty(name: string, db: Connection): Promise<void> {
  for (const table of Object.keys(tables)) {
    const { rows } = await sql`select 1 from ${sql.table(table)} limit 1`.execute(db);
    if (rows.length === 0) continue;
    throw new UsageError(`${name} is not empty: it has rows in ${table}; nothing was copied`, {
      advice: 'The target must be a store that was never used. If nobody needs what it holds, move that away.',
    });
  }
}

/** Writes the last step and the mark in one transaction: from now on, nobody writes to the source. Returns the journal's id. */
function mark(source: MoveSource, target: MoveTarget, actor: Actor, clock: Clock): Promise<string> {
  return source.journal.transaction().execute(async (connection) => {
    const [owner] = await source.owners();
    if (owner !== undefined) {
      throw new LockHeldError(`${source.name} is in use: ${ownerWords(owner)}`, {
        advice: 'Stop the worker, and wait until everything is sent. Then run this again.',
      });
    }
    // Another process may have begun the move since the check.
    const begun = await begunIn(source.name, target, connection);
    if (begun !== undefined) return begun;
    const id = await identityOf(connection);
    const data = { from: source.name, to: target.name };
    await appendSteps(connection, [{ at: timestampOf(clock.now()), actor, kind: 'moved', data }]);
    await setIdentity(connection, { moved: 'moving', id, to: target.name });
    return id;
  });
}

async function setIdentity(
  db: Connection,
  id: string | { readonly moved: string; readonly id: string; readonly to: string },
): Promise<void> {
  const text = typeof id === 'string' ? id : JSON.stringify(id);
  await sql`update journal_identity set id = ${text}`.execute(db);
}

/** Copies everything and checks the chain. If an earlier run copied everything and was killed then, only checks. */
async function moveInto(source: MoveSource, target: MoveTarget, to: Connection, id: string): Promise<MoveReport> {
  const rows: Record<string, number> = {};
  if ((await identityOf(to)) !== id) {
    if ((await begunIn(source.name, target, source.journal)) === undefined) {
      throw new UsageError(`the move of ${source.name} was given up meanwhile; nothing was copied`);
    }
    await checkEmpty(target.name, to);
    for (const [table, key] of Object.entries(tables)) {
      const from = table.startsWith('worker_') ? source.worker : source.journal;
      if (from !== undefined) rows[table] = await copyTable(from, to, table, key);
    }
    await setIdentity(to, id);
  }
  return { from: source.name, to: target.name, journal: id, ...(await checkChain(source, target, to)), rows };
}

/** Returns how many rows were copied. */
async function copyTable(from: Connection, to: Connection, table: string, key: readonly string[]): Promise<number> {
  const into = to as unknown as Kysely<Record<string, Record<string, unknown>>>;
  let copied = 0;
  for await (const rows of chunksOf<Record<string, unknown>>(from, table, key)) {
    const atOnce = Math.floor(maxValues / Object.keys(rows[0] ?? {}).length);
    for (let at = 0; at < rows.length; at += atOnce) {
      const part = rows.slice(at, at + atOnce);
      await into.insertInto(table).values(part).execute();
    }
    copied += rows.length;
  }
  if (numbered.has(table) && copied > 0) {
    const [column = ''] = key;
    await sql`select setval(pg_get_serial_sequence(${table}, ${column}),
      (select max(${sql.ref(column)}) from ${sql.table(table)}))`.execute(to);
  }
  return copied;
}

/**
 * Checks that every step, row and account in the target is as the chain says, and that the chain contains the newest step of the
 * source: if the target was used since an earlier copy, it has more. Throws a FileError.
 */
async function checkChain(source: MoveSource, { name }: MoveTarget, to: Connection) {
  const expectedHash = (await headOf(source.journal))?.hash;
  const { status, problems, steps, head } = await verifyChain(to, expectedHash);
  if (status === 'whole' && head !== null) return { head, steps };
  const problem = problems[0] ?? 'its newest step is different';
  throw new FileError(`the copy in ${name} differs from the source: ${problem}`, {
    advice: 'Check the disk and the database, then run this again.',
  });
}
