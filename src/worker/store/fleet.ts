/** The workers of one mirror on several machines, in PostgreSQL: who is there, who works, and whose turn it is. */
import { hostname } from 'node:os';
import { sharedHasStep, sharedHead } from '../../journal/postgres.ts';
import type { SharedStore } from '../../model/database-address.ts';
import type { Clock } from '../../model/time.ts';
import { usualLeaseMs } from '../../store/lease.ts';
import type { SharedDatabase } from '../../store/postgres.ts';
import { openShared } from '../../store/postgres-schema.ts';
import type { FleetPlace } from '../fleet.ts';
import type { FleetMember } from './port.ts';
import { workerKind } from './sqlite.ts';
import { schedulerLock } from './store.ts';

/** A worker that is gone is shown for so long. */
const shownFor = '7 days';

/** The place of this worker among the others. The caller closes it, which gives it up. */
export async function openFleetPlace(store: SharedStore, worker: string, clock: Clock): Promise<FleetPlace> {
  const database = await openShared(store, workerKind, clock);
  const { query, schema } = database;
  const { leaseMs = usualLeaseMs } = store;
  await query(`delete from ${schema}.store_workers where seen < clock_timestamp() - interval '${shownFor}'`);
  return {
    leaseMs,
    look: async (mirror) => {
      const [found] = await query<{ free_for: number | null; taken: boolean; better: boolean }>(
        `with me as (insert into ${schema}.store_workers as w
           values ($1, $2, $3, to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), clock_timestamp(), $4)
           on conflict (worker) do update set seen = excluded.seen, mirror = excluded.mirror)
         select (extract(epoch from clock_timestamp() - l.until) * 1000)::float8 as free_for,
           coalesce(l.until > clock_timestamp(), false) as taken,
           exists (select from ${schema}.store_workers where worker <> $1 and mirror = 'current'
             and seen > clock_timestamp() - interval '${leaseMs / 3} milliseconds') as better
         from (select) as one left join ${schema}.store_leases as l on l.name = '${schedulerLock}'`,
        [worker, hostname(), process.pid, mirror],
      );
      if (found === undefined) throw new Error('a look at the workers found nothing');
      return {
        freeForMs: found.taken ? undefined : (found.free_for ?? Infinity),
        isBetterWaiting: found.better,
      };
    },
    head: () => sharedHead(database),
    hasStep: (step) => sharedHasStep(database, step),
    close: async () => {
      try {
        await query(`delete from ${schema}.store_workers where worker = $1`, [worker]);
      } catch {
        // Then it is shown as gone.
      }
      await database.close();
    },
  };
}

/** Those that there are, and those that are gone, in the order in which they came. */
export async function fleetIn({
  query,
  schema,
  leaseMs = usualLeaseMs,
}: Pick<SharedDatabase, 'query' | 'schema' | 'leaseMs'>): Promise<FleetMember[]> {
  return query<FleetMember>(
    `select w.worker, w.host, w.pid, w.since, w.mirror,
       to_char(w.seen at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as seen_at,
       case when l.run is not null then 'works' when w.seen < clock_timestamp() - interval '${leaseMs} milliseconds' then 'gone'
         else 'waits' end as state
     from ${schema}.store_workers as w left join ${schema}.store_leases as l
       on l.name = '${schedulerLock}' and l.run = w.worker and l.until > clock_timestamp()
     where w.seen > clock_timestamp() - interval '${shownFor}' order by w.since, w.worker`,
  );
}
