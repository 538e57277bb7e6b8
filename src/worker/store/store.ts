/** The worker's store over any database, in statements that SQLite and PostgreSQL both understand. */
import type { Dialect, Generated, Kysely, Selectable, SelectQueryBuilder } from 'kysely';
import type { Actor } from '../../model/actor.ts';
import { type Clock, parseInstant, type Timestamp, timestampOf } from '../../model/time.ts';
import { tablesOver } from '../../store/kysely-sqlite.ts';
import type { LockOwner, LockWords, StoreLocks } from '../../store/lock.ts';
import { keyOf } from '../problems.ts';
import type { Alert, JobProgress, JobRun, JobRunEnd, NewJobRun } from './port.ts';

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

/**
 * The store of the backend. When the promise of a writing method resolves, the change is durable; otherwise nothing has changed.
 * All methods throw a FileError. The caller closes the store, which closes the database.
 */
export class WorkerStore {
  readonly #backend: WorkerBackend;
  readonly #db: Connection;
  readonly #locks: StoreLocks;
  /** The clock for jobs and alerts. Several machines may share it. */
  readonly clock: Clock;
  #scheduler: string | undefined;

  constructor(backend: WorkerBackend) {
    this.#backend = backend;
    this.#db = tablesOver<WorkerTables>(backend.dialect);
    this.#locks = backend.locks;
    this.clock = backend.clock;
  }

  /** Makes this process the scheduler, or throws LockHeldError. The signal is aborted once the lock may be lost. */
  async acquireScheduler(run: string): Promise<AbortSignal> {
    await this.#transaction((connection) => this.#locks.acquire(connection, schedulerLock, run, 'schedule'));
    this.#scheduler = run;
    return this.#locks.lost(schedulerLock);
  }

  async releaseScheduler(): Promise<void> {
    const run = this.#scheduler;
    if (run !== undefined) await this.#transaction((connection) => this.#locks.release(connection, schedulerLock, run));
    this.#scheduler = undefined;
  }

  /** Throws LockHeldError if this process has lost a lock. */
  checkLocks(): Promise<void> {
    return this.#step(async () => {});
  }

  scheduler(): Promise<LockOwner | undefined> {
    return this.#explained(() => this.#locks.owner(this.#db, schedulerLock));
  }

  /** Records the jobs of the settings. A job that is new, or has new times, starts from now. Runs are kept. */
  adoptJobs(
    jobs: readonly { readonly name: string; readonly cron: string; readonly timezone: string }[],
  ): Promise<void> {
    return this.#step(async (connection) => {
      const at = this.#now();
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
    });
  }

  progress(): Promise<ReadonlyMap<string, JobProgress>> {
    return this.#explained(async () => {
      const jobs = await this.#db.selectFrom('worker_jobs').select(['job', 'handledUntil']).orderBy('job').execute();
      // Whoever began a run by hand that found its lock held has seen that, and it did nothing.
      const ended = this.#db
        .selectFrom('worker_runs')
        .where('outcome', 'is not', null)
        .where((row) => row.or([row('outcome', '<>', 'locked'), row('cause', '<>', 'by_hand')]));
      const latest = await this.#lastRuns(ended);
      const judged = await this.#lastRuns(ended.where('outcome', 'not in', ['skipped', 'stopped']));
      return new Map(
        jobs.map(({ job, handledUntil }) => [
          job,
          { handledUntil: parseInstant(handledUntil) ?? 0, latest: latest.get(job), judged: judged.get(job) },
        ]),
      );
    });
  }

  /** Records that all occurrences up to `until` are handled. `until` may be earlier than the recorded time. */
  setHandled(job: string, until: number): Promise<void> {
    return this.#step(async (connection) => {
      const jobs = connection.updateTable('worker_jobs').set({ handledUntil: timestampOf(until) });
      await jobs.where('job', '=', job).execute();
    });
  }

  /**
   * Records that the run has begun, and that all times up to `until` are handled. Throws LockHeldError while the job is already
   * running.
   */
  async beginRun(run: NewJobRun, until?: number): Promise<void> {
    const command = run.cause === 'by_hand' ? 'schedule --once' : 'schedule';
    try {
      // A separate transaction: if the next one is rolled back, this process must still know that it holds the lock.
      await this.#transaction((connection) => this.#locks.acquire(connection, jobLock(run.job), run.run, command));
      await this.#step((connection) => beginRow(connection, run, this.#now(), until));
    } catch (error) {
      try {
        await this.#transaction((connection) => this.#locks.release(connection, jobLock(run.job), run.run));
      } catch {
        // Otherwise the job would stay locked for as long as this process lives.
        this.#locks.abandon(jobLock(run.job), run.run);
      }
      throw error;
    }
  }

  endRun(run: string, end: JobRunEnd): Promise<JobRun> {
    return this.#step(async (connection) => {
      const ended = await endRow(connection, run, end, this.#now());
      await this.#locks.release(connection, jobLock(ended.job), run);
      return ended;
    });
  }

  /** Records that an occurrence was skipped, and that all times up to `until` are handled. */
  recordSkip(skipped: Omit<NewJobRun, 'cause' | 'attempt' | 'actor'>, end: JobRunEnd, until: number): Promise<void> {
    return this.#step(async (connection) => {
      const at = this.#now();
      await beginRow(connection, { ...skipped, cause: 'scheduled', attempt: 1 }, at, until);
      await endRow(connection, skipped.run, end, at);
    });
  }

  /** Called when a scheduler starts: ends the runs that dead processes left open, as `killed`, and returns them. */
  endOrphanedRuns(): Promise<JobRun[]> {
    return this.#step(async (connection) => {
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
        const isSchedulers = this.#scheduler !== undefined && cause !== 'by_hand';
        if (!isSchedulers && (await this.#locks.owner(connection, jobLock(job)))?.run === run) continue;
        await this.#locks.release(connection, jobLock(job), run);
        orphans.push(await endRow(connection, run, end, this.#now()));
      }
      return orphans;
    });
  }

  /** The last runs of one job, or of all; newest first. A run whose process is gone is `killed`, before that is on record. */
  runs(limit: number, job?: string): Promise<JobRun[]> {
    return this.#explained(async () => {
      const all = this.#db.selectFrom('worker_runs').selectAll().orderBy('number', 'desc').limit(limit);
      const rows = await (job === undefined ? all : all.where('job', '=', job)).execute();
      return Promise.all(rows.map((row) => this.#asItIs(row)));
    });
  }

  /** As `runs` shows it. */
  run(run: string): Promise<JobRun | undefined> {
    return this.#explained(async () => {
      const row = await this.#rowOf(run);
      return row === undefined ? undefined : this.#asItIs(row);
    });
  }

  alerts(): Promise<Alert[]> {
    return this.#explained(async () => {
      const rows = await this.#db.selectFrom('worker_alerts').selectAll().orderBy('since').orderBy('problem').execute();
      return rows.map(({ code, facts, since, told, endedAt }) => ({
        problem: { code, facts: JSON.parse(facts), since } as Alert['problem'],
        told: JSON.parse(told) as Alert['told'],
        endedAt,
      }));
    });
  }

  // There are never many alerts, so all of them are replaced.
  saveAlerts(alerts: readonly Alert[]): Promise<void> {
    return this.#step(async (connection) => {
      await connection.deleteFrom('worker_alerts').execute();
      for (const { problem, told, endedAt } of alerts) {
        const { code, facts, since } = problem;
        const texts = { facts: JSON.stringify(facts), told: JSON.stringify(told) };
        const row = { problem: keyOf(problem), code, ...texts, since, endedAt };
        await connection.insertInto('worker_alerts').values(row).execute();
      }
    });
  }

  async close(): Promise<void> {
    await this.#locks.close();
    await this.#db.destroy();
    // Kysely closes its driver only if a query has opened it.
    await this.#backend.close();
  }

  #now(): Timestamp {
    return timestampOf(this.clock.now());
  }

  async #explained<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#backend.explain(error);
    }
  }

  #transaction<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#explained(() => this.#db.transaction().execute(work));
  }

  /** A transaction that writes only if this process still holds all its locks. */
  #step<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#transaction(async (connection) => {
      await this.#locks.guard(connection);
      return work(connection);
    });
  }

  #rowOf(run: string): Promise<RunRow | undefined> {
    return this.#db.selectFrom('worker_runs').selectAll().where('run', '=', run).executeTakeFirst();
  }

  /** The newest of these runs of each job. */
  async #lastRuns(runs: SelectQueryBuilder<WorkerTables, 'worker_runs', object>): Promise<Map<string, JobRun>> {
    const newest = runs.select((eb) => eb.fn.max('number').as('number')).groupBy('job');
    const rows = await this.#db.selectFrom('worker_runs').selectAll().where('number', 'in', newest).execute();
    return new Map(rows.map((row) => [row.job, runOf(row)]));
  }

  async #asItIs(row: RunRow): Promise<JobRun> {
    if (row.outcome !== null || (await this.#locks.owner(this.#db, jobLock(row.job)))?.run === row.run)
      return runOf(row);
    // It may have ended since it was read.
    const ended = runOf((await this.#rowOf(row.run)) ?? row);
    return ended.outcome === null ? { ...ended, outcome: 'killed' } : ended;
  }
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
  until?: number,
): Promise<void> {
  const time = occurrence === null ? null : timestampOf(occurrence);
  await connection
    .insertInto('worker_runs')
    .values({ ...run, actor: actor === undefined ? null : JSON.stringify(actor), occurrence: time, startedAt: at })
    .execute();
  if (until !== undefined) {
    const handledUntil = timestampOf(until);
    const jobs = connection.updateTable('worker_jobs').set({ handledUntil });
    await jobs.where('job', '=', run.job).where('handledUntil', '<', handledUntil).execute();
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
