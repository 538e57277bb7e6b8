/** The worker's store over any database, in statements that SQLite and PostgreSQL both understand. */
import type { Dialect, Generated, Kysely, Selectable, SelectQueryBuilder } from 'kysely';
import type { Actor } from '../../model/actor.ts';
import { type Clock, parseInstant, type Timestamp, timestampOf } from '../../model/time.ts';
import { tablesOver } from '../../store/kysely-sqlite.ts';
import type { LockOwner, LockWords, StoreLocks } from '../../store/lock.ts';
import { keyOf } from '../problems.ts';
import type { Alert, FleetMember, JobProgress, JobRun, JobRunEnd, NewJobRun } from './port.ts';

/** What differs between the databases of a worker's store. The tables exist, in the newest version. */
export interface WorkerBackend {
  /** Its transactions are isolated from each other, and only one can write at a time. */
  readonly dialect: Dialect;
  /** Turns an error of the database into one that names it and says what to do; returns any other error unchanged. */
  readonly explain: (error: unknown) => unknown;
  /** The lock of the schedule, and one for each job. */
  readonly locks: StoreLocks;
  /** All times in the store come from this clock. */
  readonly clock: Clock;
  /** The workers of several machines, if they share the store. */
  readonly fleet?: () => Promise<FleetMember[]>;
  readonly close: () => void | Promise<void>;
}

interface WorkerTables {
  readonly worker_jobs: {
    readonly job: string;
    readonly cron: string;
    readonly timezone: string;
    readonly handledUntil: Timestamp;
  };
  readonly worker_runs: Omit<JobRun, 'occurrence' | 'report' | 'actor'> & {
    readonly number: Generated<number>;
    readonly occurrence: Timestamp | null;
    /** JSON text. */
    readonly report: string | null;
    /** JSON text. */
    readonly actor: string | null;
  };
  readonly worker_alerts: {
    readonly problem: string;
    readonly code: string;
    /** JSON text. */
    readonly facts: string;
    readonly since: Timestamp;
    /** JSON text. */
    readonly told: string;
    readonly endedAt: Timestamp | null;
  };
}

type Connection = Kysely<WorkerTables>;

/** For each job. */
const maxKeptRuns = 500;

export const schedulerLock = 'schedule';
const jobLock = (job: string) => `job ${job}`;

export const workerLockWords: LockWords = {
  held: (name) =>
    name === schedulerLock ? 'another schedule holds the lock' : `${name.replace(' ', ' "')}" is running already`,
  what: (name) => (name === schedulerLock ? 'the schedule' : name),
};

export type WorkerStore = ReturnType<typeof openWorkerStoreOver>;

/**
 * Opens the store of the backend. When the promise of a writing method resolves, the change is durable; otherwise nothing has changed.
 * All methods throw a FileError. The caller closes the store, which closes the database.
 */
export function openWorkerStoreOver(backend: WorkerBackend) {
  const db = tablesOver<WorkerTables>(backend.dialect);
  const { locks, clock } = backend;
  const now = (): Timestamp => timestampOf(clock.now());
  let scheduler: string | undefined;

  async function explained<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw backend.explain(error);
    }
  }

  const transaction = <T>(work: (connection: Connection) => Promise<T>): Promise<T> =>
    explained(() => db.transaction().execute(work));

  /** A transaction that writes only if this process still holds all its locks. */
  const step = <T>(work: (connection: Connection) => Promise<T>): Promise<T> =>
    transaction(async (connection) => {
      await locks.guard(connection);
      return work(connection);
    });

  const rowOf = (run: string) => db.selectFrom('worker_runs').selectAll().where('run', '=', run).executeTakeFirst();

  /** The newest of these runs of each job. */
  async function lastRuns(runs: SelectQueryBuilder<WorkerTables, 'worker_runs', object>): Promise<Map<string, JobRun>> {
    const newest = runs.select((eb) => eb.fn.max('number').as('number')).groupBy('job');
    const rows = await db.selectFrom('worker_runs').selectAll().where('number', 'in', newest).execute();
    return new Map(rows.map((row) => [row.job, runOf(row)]));
  }

  async function asItIs(row: RunRow): Promise<JobRun> {
    if (row.outcome !== null || (await locks.owner(db, jobLock(row.job)))?.run === row.run) return runOf(row);
    // It may have ended since it was read.
    const ended = runOf((await rowOf(row.run)) ?? row);
    return ended.outcome === null ? { ...ended, outcome: 'killed' } : ended;
  }

  return {
    /** The clock for jobs and alerts. Several machines may share it. */
    clock,
    /** Makes this process the scheduler, or throws LockHeldError. The signal is aborted once the lock may be lost. */
    acquireScheduler: async (run: string): Promise<AbortSignal> => {
      await transaction((connection) => locks.acquire(connection, schedulerLock, run, 'schedule'));
      scheduler = run;
      return locks.lost(schedulerLock);
    },
    releaseScheduler: async (): Promise<void> => {
      const run = scheduler;
      if (run !== undefined) await transaction((connection) => locks.release(connection, schedulerLock, run));
      scheduler = undefined;
    },
    /** Throws LockHeldError if this process has lost a lock. */
    checkLocks: (): Promise<void> => step(async () => {}),
    scheduler: (): Promise<LockOwner | undefined> => explained(() => locks.owner(db, schedulerLock)),

    /** Records the jobs of the settings. A job that is new, or has new times, starts from now. Runs are kept. */
    adoptJobs: (
      jobs: readonly { readonly name: string; readonly cron: string; readonly timezone: string }[],
    ): Promise<void> =>
      step(async (connection) => {
        const at = now();
        const known = await connection.selectFrom('worker_jobs').selectAll().execute();
        for (const { job } of known) {
          if (jobs.some(({ name }) => name === job)) continue;
          await connection.deleteFrom('worker_jobs').where('job', '=', job).execute();
        }
        for (const { name, cron, timezone } of jobs) {
          const before = known.find(({ job }) => job === name);
          if (before?.cron === cron && before.timezone === timezone) continue;
          const until = before === undefined || before.handledUntil < at ? at : before.handledUntil;
          await connection
            .insertInto('worker_jobs')
            .values({ job: name, cron, timezone, handledUntil: until })
            .onConflict((row) => row.column('job').doUpdateSet({ cron, timezone, handledUntil: until }))
            .execute();
        }
      }),
    progress: (): Promise<ReadonlyMap<string, JobProgress>> =>
      explained(async () => {
        const jobs = await db.selectFrom('worker_jobs').select(['job', 'handledUntil']).orderBy('job').execute();
        // Whoever began a run by hand that found its lock held has seen that, and it did nothing.
        const ended = db
          .selectFrom('worker_runs')
          .where('outcome', 'is not', null)
          .where((row) => row.or([row('outcome', '<>', 'locked'), row('cause', '<>', 'by_hand')]));
        const latest = await lastRuns(ended);
        const judged = await lastRuns(ended.where('outcome', 'not in', ['skipped', 'stopped']));
        return new Map(
          jobs.map(({ job, handledUntil }) => [
            job,
            { handledUntil: parseInstant(handledUntil) ?? 0, latest: latest.get(job), judged: judged.get(job) },
          ]),
        );
      }),
    /** Records that all occurrences up to `until` are handled. `until` may be earlier than the recorded time. */
    setHandled: (job: string, until: number): Promise<void> =>
      step(async (connection) => {
        const jobs = connection.updateTable('worker_jobs').set({ handledUntil: timestampOf(until) });
        await jobs.where('job', '=', job).execute();
      }),

    /** Records that the run has begun and its occurrence is handled. Throws LockHeldError while the job is already running. */
    beginRun: async (run: NewJobRun): Promise<void> => {
      const command = run.cause === 'by_hand' ? 'schedule --once' : 'schedule';
      try {
        // A separate transaction: if the next one is rolled back, this process must still know that it holds the lock.
        await transaction((connection) => locks.acquire(connection, jobLock(run.job), run.run, command));
        await step((connection) => beginRow(connection, run, now()));
      } catch (error) {
        try {
          await transaction((connection) => locks.release(connection, jobLock(run.job), run.run));
        } catch {
          // Otherwise the job would stay locked for as long as this process lives.
          locks.abandon(jobLock(run.job), run.run);
        }
        throw error;
      }
    },
    endRun: (run: string, end: JobRunEnd): Promise<JobRun> =>
      step(async (connection) => {
        const ended = await endRow(connection, run, end, now());
        await locks.release(connection, jobLock(ended.job), run);
        return ended;
      }),
    /** Records that an occurrence was skipped, and that it is handled. */
    recordSkip: (
      occurrence: Omit<NewJobRun, 'cause' | 'attempt' | 'actor'> & { readonly occurrence: number },
      end: JobRunEnd,
    ): Promise<void> =>
      step(async (connection) => {
        const at = now();
        await beginRow(connection, { ...occurrence, cause: 'scheduled', attempt: 1 }, at);
        await endRow(connection, occurrence.run, end, at);
      }),
    /** Called when a scheduler starts: ends the runs that dead processes left open, as `killed`, and returns them. */
    endOrphanedRuns: (): Promise<JobRun[]> =>
      step(async (connection) => {
        const end = {
          outcome: 'killed',
          exitCode: null,
          problem: 'the worker died while it ran',
          report: null,
        } as const;
        const orphans: JobRun[] = [];
        const running = connection.selectFrom('worker_runs').select(['run', 'job', 'cause']);
        for (const { run, job, cause } of await running.where('outcome', 'is', null).orderBy('number').execute()) {
          // Only a scheduler starts runs that are not by hand, and the previous one is gone, even if its lock has not expired yet.
          const isSchedulers = scheduler !== undefined && cause !== 'by_hand';
          if (!isSchedulers && (await locks.owner(connection, jobLock(job)))?.run === run) continue;
          await locks.release(connection, jobLock(job), run);
          orphans.push(await endRow(connection, run, end, now()));
        }
        return orphans;
      }),
    /** The last runs of one job, or of all; newest first. A run whose process is gone is `killed`, before that is on record. */
    runs: (limit: number, job?: string): Promise<JobRun[]> =>
      explained(async () => {
        const all = db.selectFrom('worker_runs').selectAll().orderBy('number', 'desc').limit(limit);
        const rows = await (job === undefined ? all : all.where('job', '=', job)).execute();
        return Promise.all(rows.map(asItIs));
      }),
    /** As `runs` shows it. */
    run: (run: string): Promise<JobRun | undefined> =>
      explained(async () => {
        const row = await rowOf(run);
        return row === undefined ? undefined : asItIs(row);
      }),

    /** The workers of a shared store; empty for a file. */
    fleet: async (): Promise<FleetMember[]> => (await backend.fleet?.()) ?? [],

    alerts: (): Promise<Alert[]> =>
      explained(async () => {
        const rows = await db.selectFrom('worker_alerts').selectAll().orderBy('since').orderBy('problem').execute();
        return rows.map(({ code, facts, since, told, endedAt }) => ({
          problem: { code, facts: JSON.parse(facts), since } as Alert['problem'],
          told: JSON.parse(told) as Alert['told'],
          endedAt,
        }));
      }),
    // There are never many alerts, so all of them are replaced.
    saveAlerts: (alerts: readonly Alert[]): Promise<void> =>
      step(async (connection) => {
        await connection.deleteFrom('worker_alerts').execute();
        for (const { problem, told, endedAt } of alerts) {
          const { code, facts, since } = problem;
          const texts = { facts: JSON.stringify(facts), told: JSON.stringify(told) };
          const row = { problem: keyOf(problem), code, ...texts, since, endedAt };
          await connection.insertInto('worker_alerts').values(row).execute();
        }
      }),
    close: async (): Promise<void> => {
      await locks.close();
      await db.destroy();
      // Kysely closes its driver only if a query has opened it.
      await backend.close();
    },
  };
}

type RunRow = Selectable<WorkerTables['worker_runs']>;

function runOf({ number: _number, occurrence, report, actor, ...run }: RunRow): JobRun {
  return {
    ...run,
    occurrence: parseInstant(occurrence) ?? null,
    report: report === null ? null : (JSON.parse(report) as unknown),
    ...(actor !== null && { actor: JSON.parse(actor) as Actor }),
  };
}

async function beginRow(
  connection: Connection,
  { occurrence, actor, ...run }: NewJobRun,
  at: Timestamp,
): Promise<void> {
  const time = occurrence === null ? null : timestampOf(occurrence);
  await connection
    .insertInto('worker_runs')
    .values({ ...run, actor: actor === undefined ? null : JSON.stringify(actor), occurrence: time, startedAt: at })
    .execute();
  if (time !== null) {
    const jobs = connection.updateTable('worker_jobs').set({ handledUntil: time });
    await jobs.where('job', '=', run.job).where('handledUntil', '<', time).execute();
  }
  await connection
    .deleteFrom('worker_runs')
    .where('job', '=', run.job)
    .where('outcome', 'is not', null)
    .where('number', '<=', (eb) =>
      eb
        .selectFrom('worker_runs as kept')
        .select('kept.number')
        .where('kept.job', '=', run.job)
        .orderBy('kept.number', 'desc')
        .limit(1)
        .offset(maxKeptRuns),
    )
    .execute();
}

async function endRow(connection: Connection, run: string, end: JobRunEnd, at: Timestamp): Promise<JobRun> {
  const { outcome, exitCode, problem, report } = end;
  const text = report === null ? null : JSON.stringify(report);
  const rows = connection.updateTable('worker_runs').set({ finishedAt: at, outcome, exitCode, problem, report: text });
  await rows.where('run', '=', run).where('outcome', 'is', null).execute();
  const row = connection.selectFrom('worker_runs').selectAll().where('run', '=', run);
  return runOf(await row.executeTakeFirstOrThrow());
}
