/** The worker's store in a PostgreSQL database, which several machines share. */
import { sharedHasStep, sharedHead } from '../../journal/postgres.ts';
import type { SharedStore } from '../../model/address.ts';
import type { Clock } from '../../model/time.ts';
import { openLeases, defaultLeaseMs } from '../../store/lease.ts';
import type { SharedDatabase } from '../../store/postgres.ts';
import { openShared, openSharedIfMade } from '../../store/postgres-schema.ts';
import { workerKind } from './sqlite.ts';
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
  // The errors of `database` are already explained.
  const explain = (error: unknown) => error;
  return new WorkerStore({ dialect, explain, locks, clock: database.clockFor(clock), close });
}

/** The shared store, as a worker sees it that waits for its turn. */
interface Fleet {
  /** How long a worker may be silent before another one takes over. */
  readonly leaseMs: number;
  /** The clock that all workers use. */
  readonly clock: Clock;
  /** Whether no worker works. */
  isFree(): Promise<boolean>;
  /** The newest step of the journal; undefined if there is no journal yet. */
  head(): ReturnType<typeof sharedHead>;
  readonly hasStep: (step: { readonly step: number; readonly hash: string }) => Promise<boolean>;
  close(): Promise<void>;
}

/** The caller closes it. Throws a FileError. */
export async function openFleet(store: SharedStore, clock: Clock): Promise<Fleet> {
  const database = await openShared(store, workerKind);
  const { query, schema, close } = database;
  return {
    leaseMs: store.leaseMs ?? defaultLeaseMs,
    clock: database.clockFor(clock),
    isFree: async () => {
      const sql = `select from ${schema}.store_leases where name = '${schedulerLock}' and until > clock_timestamp()`;
      return (await query(sql)).length === 0;
    },
    head: () => sharedHead(database),
    hasStep: (step) => sharedHasStep(database, step),
    close,
  };
}
