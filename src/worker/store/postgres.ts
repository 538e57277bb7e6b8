/** The worker's store, the workers of all machines and the health of the journal in a PostgreSQL database. */
import { hostname } from 'node:os';
import type { Kysely } from 'kysely';
import type { JournalBackend } from '../../journal/database.ts';
import { openSharedBackendIfMade, sharedHasStep, sharedHead } from '../../journal/postgres.ts';
import type { JournalTables } from '../../journal/tables.ts';
import { OperatorError } from '../../model/errors.ts';
import { journalHealth, type JournalCheck } from './health.ts';
import type { SharedStore } from '../../model/address.ts';
import type { Clock } from '../../model/time.ts';
import { tablesOver } from '../../store/kysely-sqlite.ts';
import { openLeases, defaultLeaseMs } from '../../store/lease.ts';
import type { SharedDatabase } from '../../store/postgres.ts';
import { openShared, openSharedIfMade } from '../../store/postgres-schema.ts';
import type { FleetMember } from './port.ts';
import { workerKind } from './sqlite.ts';
import type { Membership } from '../fleet.ts';
import { schedulerLock, workerLockWords, WorkerStore } from './store.ts';

/** Opens the worker's store; creates it if it does not exist. Throws a FileError. The caller closes it. */
export async function openSharedWorkerStore(store: SharedStore, clock: Clock): Promise<WorkerStore> {
  return openOver(await openShared(store, workerKind), clock);
}

/** Opens an existing worker's store; undefined if no worker has run. */
export async function openSharedWorkerStoreIfMade(store: SharedStore, clock: Clock): Promise<WorkerStore | undefined> {
  const database = await openSharedIfMade(store, workerKind);
  return database && openOver(database, clock);
}

function openOver(database: SharedDatabase, clock: Clock): WorkerStore {
  const { dialect, close } = database;
  const locks = openLeases(database, { prefix: '', ...workerLockWords });
  const fleet = () => fleetIn(database);
  // The errors of `database` are already explained.
  const explain = (error: unknown) => error;
  return new WorkerStore({ dialect, explain, locks, clock: database.clockFor(clock), fleet, close });
}

/** Stays connected between two checks. Connects again after a failure. */
export function sharedJournalCheck(store: SharedStore, clock: Clock): JournalCheck {
  let backend: JournalBackend | undefined;
  let db: Kysely<JournalTables> | undefined;
  const close = async () => {
    const [open, over] = [backend, db];
    backend = db = undefined;
    await over?.destroy();
    await open?.close();
  };
  return {
    check: async () => {
      try {
        backend ??= await openSharedBackendIfMade(store, clock);
        if (backend === undefined) return { absent: true };
        db ??= tablesOver<JournalTables>(backend.dialect);
        return { found: await journalHealth(db, backend.locks) };
      } catch (error) {
        await close();
        if (error instanceof OperatorError) return { problem: error.message };
        throw error;
      }
    },
    close,
  };
}

/** How long a worker that is gone stays in the list. */
const keptFor = '7 days';

/** Adds this worker to the others. The caller closes it, which removes the worker again. */
export async function openMembership(store: SharedStore, worker: string, clock: Clock): Promise<Membership> {
  const database = await openShared(store, workerKind);
  const { query, schema } = database;
  const { leaseMs = defaultLeaseMs } = store;
  await query(`delete from ${schema}.store_workers where seen < clock_timestamp() - interval '${keptFor}'`);
  return {
    leaseMs,
    clock: database.clockFor(clock),
    heartbeat: async () => {
      const [found] = await query<{ is_free: boolean }>(
        `with me as (insert into ${schema}.store_workers as w
           values ($1, $2, $3, to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), clock_timestamp())
           on conflict (worker) do update set seen = excluded.seen)
         select not exists (select from ${schema}.store_leases
           where name = '${schedulerLock}' and until > clock_timestamp()) as is_free`,
        [worker, hostname(), process.pid],
      );
      return found?.is_free === true;
    },
    head: () => sharedHead(database),
    hasStep: (step) => sharedHasStep(database, step),
    close: async () => {
      try {
        await query(`delete from ${schema}.store_workers where worker = $1`, [worker]);
      } catch {
        // Then the others see it as gone.
      }
      await database.close();
    },
  };
}

/** Returns the present workers and those that are gone, in the order in which they came. */
async function fleetIn({
  query,
  schema,
  leaseMs = defaultLeaseMs,
}: Pick<SharedDatabase, 'query' | 'schema' | 'leaseMs'>): Promise<FleetMember[]> {
  return query<FleetMember>(
    `select w.worker, w.host, w.pid, w.since,
       to_char(w.seen at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as seen_at,
       case when l.run is not null then 'works' when w.seen < clock_timestamp() - interval '${leaseMs} milliseconds' then 'gone'
         else 'waits' end as state
     from ${schema}.store_workers as w left join ${schema}.store_leases as l
       on l.name = '${schedulerLock}' and l.run = w.worker and l.until > clock_timestamp()
     where w.seen > clock_timestamp() - interval '${keptFor}' order by w.since, w.worker`,
  );
}
