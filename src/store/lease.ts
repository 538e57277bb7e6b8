/**
 * Locks by name in a database that several machines share. A row says who has a lock, and until when by the clock of the database.
 * The owner renews it; whoever takes over an expired one gets the next epoch. Each transaction of an owner checks that its epoch
 * still holds, so an owner that was stopped or cut off, and replaced meanwhile, writes nothing more. Section "The shared store" of
 * docs/architecture.md.
 *
 *     epoch   grows with each new owner of a name, and never starts again
 *     until   is set by the database alone; `remainingMs` is what surely remains of it, by the clocks of this machine
 */
import { hostname } from 'node:os';
import { type QueryExecutorProvider, sql } from 'kysely';
import { secondMs, unlessAborted } from '../model/time.ts';
import { heldError, type LockOwner, type LockWords, lostError, type StoreLocks } from './lock.ts';
import type { SharedDatabase } from './postgres.ts';

/** How long a lease lasts without renewal, unless the settings say otherwise. */
export const defaultLeaseMs = 45 * secondMs;
/**
 * Fractions of a lease: after `renew` it is renewed, and after `retry` again if that failed; a renewal may take `patience`; with only
 * `stop` left, what the lease guards is stopped.
 */
const parts = { renew: 2 / 9, retry: 1 / 15, patience: 1 / 9, stop: 1 / 3 };

interface Leases extends StoreLocks {
  /** Returns the epoch of a lease that this process owns; undefined of any other. */
  epoch(name: string): number | undefined;
  /** Renews all owned leases now. Returns false if that failed or one of them was lost. */
  renew(): Promise<boolean>;
}

interface LeaseKind extends LockWords {
  /** Comes before each name, so that names of different kinds never collide. */
  readonly prefix: string;
}

/** Clocks for elapsed time, ms. `monotonic` cannot be set but stands still while the machine sleeps; `wall` shows the sleep. */
interface Elapsed {
  monotonic(): number;
  wall(): number;
}

const systemElapsed: Elapsed = { monotonic: () => performance.now(), wall: () => Date.now() };

interface Owned {
  readonly run: string;
  readonly epoch: number;
  /** The moment before it was taken or last renewed. */
  since: readonly [monotonic: number, wall: number];
  readonly lost: AbortController;
}

interface LeaseRow extends LockOwner {
  readonly epoch: number;
  readonly lives: boolean;
}

/** Opens the leases of a kind. A timer renews them while this process owns any; `close` gives all up. */
export function openLeases(
  {
    schema,
    query,
    name: database,
    leaseMs = defaultLeaseMs,
  }: Pick<SharedDatabase, 'schema' | 'query' | 'name' | 'leaseMs'>,
  { prefix, held, what }: LeaseKind,
  elapsed: Elapsed = systemElapsed,
): Leases {
  const table = sql.raw(`${schema}.store_leases`);
  const untilText = `clock_timestamp() + interval '${leaseMs} milliseconds'`;
  const until = sql.raw(untilText);
  const owned = new Map<string, Owned>();
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;
  const now = () => [elapsed.monotonic(), elapsed.wall()] as const;

  async function rowOf(connection: QueryExecutorProvider, name: string): Promise<LeaseRow | undefined> {
    const rows = sql<LeaseRow>`select run, command, pid, host, acquired_at as "acquiredAt", epoch,
      until > clock_timestamp() as lives from ${table} where name = ${prefix + name}`;
    return (await rows.execute(connection)).rows[0];
  }

  function schedule(ms: number): void {
    clearTimeout(timer);
    timer = undefined;
    if (owned.size === 0 || isClosed) return;
    timer = setTimeout(() => void renewSoon(), ms).unref();
  }

  async function renewSoon(): Promise<void> {
    // A database that does not respond must not delay the stop below.
    const isDone = await unlessAborted(renew(), AbortSignal.timeout(Math.ceil(leaseMs * parts.patience))).catch(
      () => false,
    );
    for (const [name, { lost }] of owned) if (remainingMs(name) < leaseMs * parts.stop) lost.abort();
    schedule(leaseMs * (isDone ? parts.renew : parts.retry));
  }

  function remainingMs(name: string): number {
    const lease = owned.get(name);
    if (lease === undefined) return 0;
    const [monotonic, wall] = now();
    return Math.max(0, leaseMs - Math.max(monotonic - lease.since[0], wall - lease.since[1]));
  }

  /** Runs outside of any transaction, since it must not wait for one. PostgreSQL's row locks exclude whoever takes a lease over. */
  async function renew(): Promise<boolean> {
    if (owned.size === 0) return true;
    const renewing = [...owned];
    const since = now();
    try {
      const ours = JSON.stringify(renewing.map(([name, { run, epoch }]) => ({ name: prefix + name, run, epoch })));
      const renewed = await query<{ name: string }>(
        `update ${schema}.store_leases as l set until = ${untilText}
           from jsonb_to_recordset($1::jsonb) as o(name text, run text, epoch bigint)
           where l.name = o.name and l.run = o.run and l.epoch = o.epoch returning l.name`,
        [ours],
      );
      const names = new Set(renewed.map(({ name }) => name));
      for (const [name, lease] of renewing) {
        if (names.has(prefix + name)) lease.since = since;
        // The transaction that takes a new lease may not be committed yet, so only an older one counts as lost.
        else if (owned.get(name) === lease && remainingMs(name) < leaseMs * (1 - parts.patience)) lease.lost.abort();
      }
      return names.size === renewing.length;
    } catch {
      // Leases that cannot be renewed run out; until then the timer tries again.
      return false;
    }
  }

  const leases: Leases = {
    owner: async (connection, name) => {
      const row = await rowOf(connection, name);
      if (row === undefined || !row.lives) return undefined;
      const { run, command, pid, host, acquiredAt } = row;
      return { run, command, pid, host, acquiredAt };
    },
    acquire: async (connection, name, run, command) => {
      const since = now();
      const taken = await sql<{ epoch: number }>`insert into ${table} as l
        values (${prefix + name}, ${run}, ${command}, ${process.pid}, ${hostname()},
          to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 1, ${until})
        on conflict (name) do update set run = excluded.run, command = excluded.command, pid = excluded.pid,
          host = excluded.host, acquired_at = excluded.acquired_at, epoch = l.epoch + 1, until = excluded.until
          where l.until <= clock_timestamp()
        returning epoch`.execute(connection);
      const [row] = taken.rows;
      if (row === undefined) {
        const other = await rowOf(connection, name);
        if (other === undefined) throw new Error(`the lease ${name} was neither taken nor is it there`);
        throw heldError(held(name, other), other, `within ${leaseMs / secondMs} seconds`);
      }
      owned.set(name, { run, epoch: row.epoch, since, lost: new AbortController() });
      if (timer === undefined) schedule(leaseMs * parts.renew);
    },
    abandon: (name, run) => {
      if (owned.get(name)?.run === run) owned.delete(name);
      if (owned.size === 0) schedule(0);
    },
    release: async (connection, name, run) => {
      leases.abandon(name, run);
      // The row stays, so that its epoch continues. Without an owner, no renewal that is under way can make it last longer.
      const ended = sql`update ${table} set until = clock_timestamp(), run = '' where name = ${prefix + name} and run = ${run}`;
      await ended.execute(connection);
    },
    guard: async (connection) => {
      for (const [name, { run, epoch }] of owned) {
        const row = await rowOf(connection, name);
        if (row?.run !== run || row.epoch !== epoch) {
          const advice = `This process was stopped, or could not reach ${database}, for longer than ${leaseMs / secondMs} seconds.`;
          throw lostError(what(name), row, advice);
        }
        // It expired, but nobody has taken it over, and nobody can before this transaction ends.
        if (!row.lives)
          await sql`update ${table} set until = ${until} where name = ${prefix + name}`.execute(connection);
      }
    },
    epoch: (name) => owned.get(name)?.epoch,
    remainingMs,
    lost: (name) => owned.get(name)?.lost.signal ?? AbortSignal.abort(),
    renew,
    close: async () => {
      isClosed = true;
      clearTimeout(timer);
      const ours = [...owned].map(([name, { run }]) => ({ name: prefix + name, run }));
      owned.clear();
      if (ours.length === 0) return;
      try {
        await query(
          `update ${schema}.store_leases as l set until = clock_timestamp(), run = ''
             from jsonb_to_recordset($1::jsonb) as o(name text, run text) where l.name = o.name and l.run = o.run`,
          [JSON.stringify(ours)],
        );
      } catch {
        // They run out by themselves.
      }
    },
  };
  return leases;
}
