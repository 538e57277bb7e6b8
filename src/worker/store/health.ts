/** Reads the health of mirror and journal, with a few indexed queries for each request. */
import { existsSync } from 'node:fs';
import { FileError, messageOf, OperatorError } from '../../model/errors.ts';
import { type ResourceName, resourceNames } from '../../model/resources.ts';
import { parseInstant, secondMs, type Timestamp } from '../../model/time.ts';
import { openForReading } from '../../store/file-kind.ts';
import { mirrorKind } from '../../store/open.ts';
import { type Head, headOf } from '../../journal/chain.ts';
import { isOpen } from '../../journal/claim-view.ts';
import type { JournalBackend } from '../../journal/database.ts';
import type { JournalTables } from '../../journal/tables.ts';
import { tablesOver } from '../../store/kysely-sqlite.ts';

export interface ResourceHealth {
  readonly resource: ResourceName;
  /** null if a part of it was never read completely. */
  readonly freshAsOf: Timestamp | null;
  /** The latest `fresh_as_of` that any run proved; if there is none, the time of the first request for it. */
  readonly knownAt: Timestamp;
  /** When the last run ended that read it completely; null if none did. */
  readonly completeAt: Timestamp | null;
  /** Rows at the end of its last run; null before the first has ended. */
  readonly live: number | null;
  /** Records that the server counted then; null if it gave no count. */
  readonly serverTotal: number | null;
  /** Windows that keep rows which the server no longer seems to have, because removing so many at once was refused. */
  readonly heldBack: number;
}

export interface MirrorHealth {
  /** The resources that any sync has read, in the order of the API's reference. */
  readonly resources: readonly ResourceHealth[];
}

/** A row whose outcome is open. */
type OpenState = 'sending' | 'acknowledged' | 'unknown' | 'needs_human';

export interface OpenBatch {
  readonly batch: string;
  readonly rows: Readonly<Record<OpenState, number>>;
  /** Whether a living process is working on it. */
  readonly isInHand: boolean;
}

/** A batch that nobody sends any more, although some of its rows wait. */
export interface StoppedBatch {
  readonly batch: string;
  /** How many rows were sent, whatever became of them, and how many wait. */
  readonly sent: number;
  readonly left: number;
}

export interface JournalHealth {
  /** Batches with rows whose outcome is open, by name. */
  readonly open: readonly OpenBatch[];
  readonly stopped: readonly StoppedBatch[];
  /** The newest step; null if there is none. */
  readonly head: Head | null;
}

/** The result of a check: what was found, that there is no file, or why it could not be read. */
export type Check<T> = { readonly found: T } | { readonly absent: true } | { readonly problem: string };

/** How long to wait for a locked file: not long, since callers check again soon. */
const busyMs = 250;

/** Checks mirror and journal as they are at that moment, even if they were replaced. Hardly waits, and never throws. */
export interface HealthStore {
  mirror(): Promise<Check<MirrorHealth>>;
  journal(): Promise<Check<JournalHealth>>;
}

type OpenJournal = () => Promise<Pick<JournalBackend, 'dialect' | 'locks' | 'close'> | undefined>;

/** @param mirror the file, which does not have to exist @param openJournal gives undefined if there is none */
export function openHealthStore(mirror: string, openJournal: OpenJournal): HealthStore {
  return {
    mirror: () => checked('the mirror', () => mirrorHealth(mirror)),
    journal: () => checked('the journal', () => journalHealth(openJournal)),
  };
}

async function checked<T>(what: string, look: () => T | Promise<T>): Promise<Check<Exclude<T, undefined>>> {
  try {
    const found = await look();
    return found === undefined ? { absent: true } : { found: found as Exclude<T, undefined> };
  } catch (error) {
    if (error instanceof OperatorError) return { problem: error.message };
    return { problem: `${what} cannot be read: ${messageOf(error)}` };
  }
}

interface ResourceRow {
  readonly begins_at: string;
  readonly fresh_as_of: string | null;
  readonly proven_at: string | null;
  readonly complete_at: string | null;
  readonly live: number | null;
  readonly server_total: number | null;
}

const resourceSql = `SELECT begins_at,
    (SELECT fresh_as_of FROM mirror_freshness WHERE resource = @resource) AS fresh_as_of,
    (SELECT max(fresh_as_of) FROM mirror_run_resources WHERE resource = @resource) AS proven_at,
    (SELECT max(finished_at) FROM mirror_runs JOIN mirror_run_resources AS part USING (run)
     WHERE resource = @resource AND part.status = 'complete') AS complete_at,
    last.live, last.server_total
  FROM mirror_history
  LEFT JOIN (
    SELECT live, server_total FROM mirror_run_resources WHERE resource = @resource AND live IS NOT NULL
    ORDER BY run DESC LIMIT 1
  ) AS last
  WHERE resource = @resource`;

/** If a window was settled after the refusal, its fresh_as_of is later than the refusal, whatever its state is now. */
const heldBackSql = `SELECT count(*) FROM mirror_windows AS held WHERE resource = ? AND state <> 'settled' AND EXISTS (
    SELECT 1 FROM mirror_events AS event
    WHERE event.resource = held.resource AND event.kind = 'deletions_refused'
      AND event.subject > held.from_day || '..' || held.to_day || ' '
      AND event.subject < held.from_day || '..' || held.to_day || '!'
      AND (held.fresh_as_of IS NULL OR held.fresh_as_of < event.at)
  )`;

function mirrorHealth(file: string): MirrorHealth | undefined {
  if (!existsSync(file)) return undefined;
  const empty = new FileError(`the ${mirrorKind.name} ${file} is empty`);
  const database = openForReading(mirrorKind, file, empty, empty, busyMs);
  try {
    const one = database.prepare<{ resource: string }, ResourceRow>(resourceSql);
    const heldBack = database.prepare<[string], number>(heldBackSql).pluck();
    const healthOf = (resource: ResourceName): ResourceHealth[] => {
      const row = one.get({ resource });
      if (row === undefined) return [];
      return [
        {
          resource,
          freshAsOf: row.fresh_as_of as Timestamp | null,
          knownAt: (row.proven_at ?? row.begins_at) as Timestamp,
          completeAt: row.complete_at as Timestamp | null,
          live: row.live,
          serverTotal: row.server_total,
          heldBack: heldBack.get(resource) ?? 0,
        },
      ];
    };
    return database.transaction(() => ({ resources: resourceNames.flatMap(healthOf) }))();
  } finally {
    database.close();
  }
}

async function journalHealth(open: OpenJournal): Promise<JournalHealth | undefined> {
  const backend = await open();
  if (backend === undefined) return undefined;
  const db = tablesOver<JournalTables>(backend.dialect);
  try {
    // One transaction, so that the numbers fit together.
    const moment = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only');
    return await moment.execute(async (each) => {
      const rows = await each
        .selectFrom('journal_intents')
        .select((eb) => ['batch', 'state', eb.fn.countAll<number>().as('count')])
        .where(isOpen)
        // With this condition SQLite uses the index of open rows: there may be millions of rows.
        .where('subject', '>', '')
        .groupBy(['batch', 'state'])
        .orderBy('batch')
        .execute();
      const found: OpenBatch[] = [];
      for (const [batch, own] of Map.groupBy(rows, (row) => row.batch)) {
        const none = { sending: 0, acknowledged: 0, unknown: 0, needs_human: 0 };
        const counts = Object.fromEntries(own.map(({ state, count }) => [state, count]));
        const owner = await backend.locks.owner(each, batch);
        found.push({ batch, rows: { ...none, ...counts }, isInHand: owner !== undefined });
      }
      const stopped: StoppedBatch[] = [];
      const begun = each.selectFrom('journal_batches').select('batch').where('state', 'in', ['applying', 'stopped']);
      for (const { batch } of await begun.orderBy('batch').execute()) {
        if ((await backend.locks.owner(each, batch)) !== undefined) continue;
        const counts = await each
          .selectFrom('journal_intents')
          .select((eb) => ['state', eb.fn.countAll<number>().as('count')])
          .where('batch', '=', batch)
          .groupBy('state')
          .execute();
        const sum = (...states: readonly string[]) =>
          counts.reduce((all, { state, count }) => all + (states.includes(state) ? count : 0), 0);
        const left = sum('planned');
        const sent = sum('sending', 'acknowledged', 'unknown', 'needs_human', 'applied', 'rejected');
        if (left > 0) stopped.push({ batch, sent, left });
      }
      return { open: found, stopped, head: (await headOf(each)) ?? null };
    });
  } finally {
    await db.destroy();
    await backend.close();
  }
}

interface ResourceFreshness {
  readonly fresh_as_of: Timestamp | null;
  /** Counts from `fresh_as_of`; if there is none, from the last one that a run proved, or from the first request. */
  readonly staleness_seconds: number;
  readonly is_fresh: boolean;
}

export interface Freshness {
  readonly is_fresh: boolean;
  /** Of the stalest resource. */
  readonly staleness_seconds: number;
  readonly max_staleness_seconds: number;
  readonly resources: Readonly<Partial<Record<ResourceName, ResourceFreshness>>>;
  /** Why the mirror could not be read; null if it could. */
  readonly problem: string | null;
}

/**
 * Judges the age of the mirror. If it was never complete, the age counts from the first request, so a first sync of hours raises no
 * alarm, and a restarted worker hides none. Resources that no sync reads don't count. @param startedAt used if there is no mirror
 */
export function freshnessOf(
  mirror: Check<MirrorHealth>,
  times: { readonly startedAt: number; readonly now: number; readonly maxStalenessMs: number },
): Freshness {
  const { startedAt, now, maxStalenessMs } = times;
  const max_staleness_seconds = maxStalenessMs / secondMs;
  if ('problem' in mirror) {
    return { is_fresh: false, staleness_seconds: 0, max_staleness_seconds, resources: {}, problem: mirror.problem };
  }
  const lines = 'found' in mirror ? mirror.found.resources : [];
  const resources: Partial<Record<ResourceName, ResourceFreshness>> = {};
  let oldest = lines.length === 0 ? now - startedAt : 0;
  for (const { resource, freshAsOf, knownAt } of lines) {
    // If the clock was set back, nothing may look fresher than now.
    const age = Math.max(0, now - (parseInstant(freshAsOf ?? knownAt) ?? 0));
    oldest = Math.max(oldest, age);
    const staleness_seconds = age / secondMs;
    resources[resource] = { fresh_as_of: freshAsOf, staleness_seconds, is_fresh: age <= maxStalenessMs };
  }
  const is_fresh = oldest <= maxStalenessMs;
  return { is_fresh, staleness_seconds: oldest / secondMs, max_staleness_seconds, resources, problem: null };
}
