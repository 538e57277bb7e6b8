/** The worker's store in a PostgreSQL database, and the health of the journal there. */
import { Kysely } from 'kysely';
import { headOf } from '../../journal/chain.ts';
import { isOpen } from '../../journal/claim-view.ts';
import { type JournalBackend, movedProblem } from '../../journal/journal.ts';
import { openSharedBackendIfMade } from '../../journal/postgres.ts';
import type { JournalTables } from '../../journal/tables.ts';
import { OperatorError } from '../../model/errors.ts';
import type { StoreLocks } from '../../store/lock.ts';
import { healthOf, type JournalHealth, type JournalLooks, type OpenState } from './health.ts';
import type { SharedStore } from '../../model/database-address.ts';
import type { Clock } from '../../model/time.ts';
import { openLeases } from '../../store/lease.ts';
import type { SharedDatabase } from '../../store/postgres.ts';
import { openShared, openSharedIfMade } from '../../store/postgres-schema.ts';
import { fleetIn } from './fleet.ts';
import { workerKind } from './sqlite.ts';
import { openWorkerStoreOver, workerLockWords, type WorkerStore } from './store.ts';

/** Opens the worker's store there, and makes it where there is none. Throws a FileError. The caller closes it. */
export async function openSharedWorkerStore(store: SharedStore, clock: Clock): Promise<WorkerStore> {
  const database = await openShared(store, workerKind, clock);
  try {
    await refuseMoved(database);
    return openOver(database, clock);
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** What belongs to a journal that was moved into files is gone on with there. */
async function refuseMoved({ query, name, schema }: SharedDatabase): Promise<void> {
  const [made] = await query<{ made: boolean }>(`select to_regclass('journal_identity') is not null as made`);
  if (made?.made !== true) return;
  const [found] = await query<{ id: string }>(`select id from ${schema}.journal_identity`);
  const moved = movedProblem(found?.id ?? '', `the journal in ${name}`);
  if (moved !== null) throw moved;
}

/** The same where there is one; undefined where no worker has run. */
export async function openSharedWorkerStoreIfMade(store: SharedStore, clock: Clock): Promise<WorkerStore | undefined> {
  const database = await openSharedIfMade(store, workerKind, clock);
  return database && openOver(database, clock);
}

function openOver(database: SharedDatabase, clock: Clock): WorkerStore {
  const { dialect, close } = database;
  const locks = openLeases(database, { prefix: '', ...workerLockWords });
  // What fails is explained by the driver, whatever the statement.
  const fleet = () => fleetIn(database);
  return openWorkerStoreOver({ dialect, explained: (error) => error, locks, fleet, close }, clock);
}

/** Stays connected between two looks; what fails is said, and tried anew at the next. */
export function sharedJournalLooks(store: SharedStore, clock: Clock): JournalLooks {
  let backend: JournalBackend | undefined;
  let db: Kysely<JournalTables> | undefined;
  const close = async () => {
    const [open, over] = [backend, db];
    backend = db = undefined;
    await over?.destroy();
    await open?.close();
  };
  return {
    look: async () => {
      try {
        backend ??= await openSharedBackendIfMade(store, clock);
        if (backend === undefined) return { absent: true };
        db ??= new Kysely<JournalTables>({ dialect: backend.dialect });
        const { locks } = backend;
        const moment = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only');
        return { found: await moment.execute((each) => counted(each, locks)) };
      } catch (error) {
        await close();
        if (error instanceof OperatorError) return { problem: error.message };
        throw error;
      }
    },
    close,
  };
}

async function counted(db: Kysely<JournalTables>, locks: StoreLocks): Promise<JournalHealth> {
  const batches = db.selectFrom('journal_batches').select((eb) => ['state', eb.fn.countAll<number>().as('count')]);
  const rows = db
    .selectFrom('journal_intents')
    .select((eb) => ['batch', 'state', eb.fn.countAll<number>().as('count')])
    .where(isOpen)
    .groupBy(['batch', 'state'])
    .orderBy('batch');
  const found = [];
  for (const each of await rows.execute()) {
    const isInHand = (await locks.owner(db, each.batch)) !== undefined;
    found.push({ ...each, state: each.state as OpenState, isInHand });
  }
  return healthOf(await batches.groupBy('state').execute(), found, await headOf(db));
}
