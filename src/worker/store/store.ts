/** The worker's store over an SQLite file. */
import type { Database } from 'better-sqlite3';
import { FileError } from '../../model/errors.ts';
import { type Clock, parseInstant, systemClock, type Timestamp, timestampOf } from '../../model/time.ts';
import type { JobRun, RunCause, RunOutcome, WorkerStore } from './store-types.ts';
import { openForReading, openForWriting } from '../../store/file-kind.ts';
import { locksIn, stepsIn } from '../../store/lock.ts';
import { workerKind } from './schema.ts';

/** Runs of one job that are kept. */
const keptRuns = 500;

const schedulerLock = 'schedule';
const jobLock = (job: string) => `job ${job}`;

const pragmas = [
  // What was begun must not be forgotten with the power: it would be begun again.
  'synchronous = FULL',
];

/** Opens the worker's file, and makes it where there is none. Throws `FileError`. The caller closes it. */
export function openWorkerStore(file: string, clock: Clock = systemClock): WorkerStore {
  return workerStore(openForWriting(workerKind, file, clock, pragmas), file, clock);
}

/** Opens an existing one to be looked at. Throws `FileError`. The caller closes it. */
export function openWorkerStoreForReading(file: string, clock: Clock = systemClock): WorkerStore {
  const absent = new FileError(`there is no ${file}: no worker has run for this mirror`);
  return workerStore(openForReading(workerKind, file, absent, absent), file, clock);
}

interface RunRow {
  readonly run: string;
  readonly job: string;
  readonly cause: RunCause;
  readonly occurrence: string | null;
  readonly attempt: number;
  readonly command: string;
  readonly started_at: string;
  readonly finished_at: string | null;
  readonly outcome: RunOutcome | null;
  readonly exit_code: number | null;
  readonly problem: string | null;
  readonly report: string | null;
}

function runOf(row: RunRow): JobRun {
  const { run, job, cause, attempt, command, outcome, problem } = row;
  return {
    run,
    job,
    cause,
    occurrence: row.occurrence === null ? null : (parseInstant(row.occurrence) ?? null),
    attempt,
    command,
    startedAt: row.started_at as Timestamp,
    finishedAt: row.finished_at as Timestamp | null,
    outcome,
    exitCode: row.exit_code,
    problem,
    report: row.report === null ? null : (JSON.parse(row.report) as unknown),
  };
}

function workerStore(database: Database, file: string, clock: Clock): WorkerStore {
  const kind = {
    table: 'worker_locks',
    key: 'name',
    held: (name: string) =>
      name === schedulerLock ? 'another schedule holds the lock' : `${name.replace(' ', ' "')}" is running already`,
    what: (name: string) => (name === schedulerLock ? 'the schedule' : name),
  };
  const locks = locksIn(database, kind, clock);
  const now = () => timestampOf(clock.now());
  const jobs = database.prepare<[], { job: string; cron: string; timezone: string }>('SELECT * FROM worker_jobs');
  const handled = database.prepare<[string], string>('SELECT handled_until FROM worker_jobs WHERE job = ?').pluck();
  const setHandled = database.prepare('UPDATE worker_jobs SET handled_until = ? WHERE job = ?');
  const handle = database.prepare('UPDATE worker_jobs SET handled_until = max(handled_until, ?) WHERE job = ?');
  const adopt = database.prepare(
    `INSERT INTO worker_jobs (job, cron, timezone, handled_until) VALUES (@name, @cron, @timezone, @at)
     ON CONFLICT (job) DO UPDATE SET cron = @cron, timezone = @timezone, handled_until = max(handled_until, @at)
     WHERE cron <> @cron OR timezone <> @timezone`,
  );
  const dismiss = database.prepare('DELETE FROM worker_jobs WHERE job = ?');
  const begin = database.prepare(
    `INSERT INTO worker_runs (run, job, cause, occurrence, attempt, command, started_at)
     VALUES (@run, @job, @cause, @occurrence, @attempt, @command, @at)`,
  );
  const end = database.prepare(
    `UPDATE worker_runs SET finished_at = @at, outcome = @outcome, exit_code = @exitCode, problem = @problem,
     report = @report WHERE run = @run AND outcome IS NULL`,
  );
  const trim = database.prepare(
    `DELETE FROM worker_runs WHERE job = @job AND outcome IS NOT NULL AND number <=
     (SELECT number FROM worker_runs WHERE job = @job ORDER BY number DESC LIMIT 1 OFFSET ${keptRuns})`,
  );
  const latest = database.prepare<[string], RunRow>(
    `SELECT * FROM worker_runs WHERE job = ? AND outcome IS NOT NULL AND outcome <> 'overlapped'
     ORDER BY number DESC LIMIT 1`,
  );
  const running = database.prepare<[], RunRow>('SELECT * FROM worker_runs WHERE outcome IS NULL');
  const one = database.prepare<[string], RunRow>('SELECT * FROM worker_runs WHERE run = ?');
  const all = database.prepare<[number], RunRow>('SELECT * FROM worker_runs ORDER BY number DESC LIMIT ?');
  const ofJob = database.prepare<[string, number], RunRow>(
    'SELECT * FROM worker_runs WHERE job = ? ORDER BY number DESC LIMIT ?',
  );
  let scheduler: string | undefined;

  const { explained, whole, step } = stepsIn(database, file, "write to the worker's file", locks);

  function endRow(run: string, { report, ...more }: Parameters<WorkerStore['endRun']>[1]): void {
    end.run({ run, at: now(), ...more, report: report === null ? null : JSON.stringify(report) });
  }

  function beginRow({ occurrence, ...run }: Parameters<WorkerStore['beginRun']>[0]): void {
    begin.run({ ...run, occurrence: occurrence === null ? null : timestampOf(occurrence), at: now() });
    if (occurrence !== null) handle.run(timestampOf(occurrence), run.job);
    trim.run({ job: run.job });
  }

  return {
    acquireScheduler: (run) => {
      whole(() => locks.acquire(schedulerLock, run, 'schedule'));
      scheduler = run;
    },
    releaseScheduler: () => {
      if (scheduler !== undefined) whole(() => locks.release(schedulerLock, scheduler ?? ''));
      scheduler = undefined;
    },
    scheduler: () => locks.owner(schedulerLock),

    adoptJobs: (wanted) =>
      step(() => {
        const at = now();
        for (const { job } of jobs.all()) if (!wanted.some(({ name }) => name === job)) dismiss.run(job);
        for (const { name, cron, timezone } of wanted) adopt.run({ name, cron, timezone, at });
      }),
    progress: (job) =>
      explained(() => {
        const until = handled.get(job);
        const row = latest.get(job);
        if (until === undefined) return undefined;
        return { handledUntil: parseInstant(until) ?? 0, latest: row === undefined ? undefined : runOf(row) };
      }),
    setHandled: (job, until) => step(() => void setHandled.run(timestampOf(until), job)),

    beginRun: (run) => {
      // A step of its own: where it is undone, the lock is given up again below.
      whole(() => locks.acquire(jobLock(run.job), run.run, run.cause === 'by_hand' ? 'schedule --once' : 'schedule'));
      try {
        step(() => beginRow(run));
      } catch (error) {
        whole(() => locks.release(jobLock(run.job), run.run));
        throw error;
      }
    },
    endRun: (run, ended) =>
      step(() => {
        endRow(run, ended);
        const row = one.get(run);
        if (row === undefined) throw new Error(`run ${run} is not on record`);
        locks.release(jobLock(row.job), run);
        return runOf(row);
      }),
    recordSkip: (occurrence, ended) =>
      step(() => {
        beginRow({ ...occurrence, cause: 'scheduled', attempt: 1 });
        endRow(occurrence.run, ended);
      }),
    endLeftRuns: () =>
      step(() => {
        const left = running.all().filter(({ job, run }) => locks.owner(jobLock(job))?.run !== run);
        const problem = 'the worker died while it ran';
        for (const { run } of left) endRow(run, { outcome: 'killed', exitCode: null, problem, report: null });
        return left.flatMap(({ run }) => one.get(run) ?? []).map(runOf);
      }),
    runs: (limit, job) => explained(() => (job === undefined ? all.all(limit) : ofJob.all(job, limit)).map(runOf)),
    close: () => {
      locks.close();
      database.close();
    },
  };
}
