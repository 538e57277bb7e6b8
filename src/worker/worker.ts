/** The worker: runs the jobs of the settings at their times, each as a separate command, until it is stopped. */
import pLimit from 'p-limit';
import { LockHeldError, OperatorError } from '../model/errors.ts';
import { type CommandCall, commandText, type Job, type JobKind } from '../model/job.ts';
import { runId } from '../model/program.ts';
import { type Clock, durationText, minuteMs, secondMs } from '../model/time.ts';
import { couldNotRun, type JobEnd, outcomeOf } from './run-job.ts';
import type { JobProgress, JobRun, JobRunEnd, NewJobRun } from './store/port.ts';
import type { WorkerStore } from './store/store.ts';
import { type Decision, decide, type JobState, nextTime } from './decide.ts';
import type { Sleep } from './sleep.ts';

/** Runs the command. Once the signal is aborted, the command ends, or is killed, within ten seconds. */
export type RunCommand = (
  call: CommandCall,
  run: Pick<NewJobRun, 'run' | 'job'>,
  signal: AbortSignal,
) => Promise<JobEnd>;

interface RunPorts {
  readonly runCommand: RunCommand;
  readonly sleep: Sleep;
  readonly signal: AbortSignal;
  /** Waits for the job's turn if it shares the machine or a request limit with others; without it, jobs begin at once. */
  readonly inTurn?: InTurn;
}

export type InTurn = <T>(job: Job, begin: () => Promise<T>) => Promise<T>;

/**
 * How often a job is tried that finds its lock held by something else, such as a sync by hand: for an hour, or for five minutes if
 * it does not catch up.
 */
const lockPauseMs = minuteMs;
const lockTries = { catchUp: 60, otherwise: 5 };

/** Runs the job, again and again while its lock is held. Never rejects: a job that cannot be run has failed. */
async function runJob(job: Job, run: NewJobRun, ports: RunPorts): Promise<JobRunEnd> {
  const { signal, sleep, inTurn = (_, begin) => begin() } = ports;
  for (let left = job.catchUp ? lockTries.catchUp : lockTries.otherwise; ; left -= 1) {
    const end = await inTurn(job, () => runOnce(job, run, ports));
    if (end.outcome !== 'locked' || left === 0) return end;
    await sleep(lockPauseMs, signal);
  }
}

async function runOnce(job: Job, run: NewJobRun, { runCommand, sleep, signal }: RunPorts): Promise<JobRunEnd> {
  // The worker was stopped before the job's turn came.
  if (signal.aborted) return { outcome: 'stopped', exitCode: null, problem: null, report: null };
  const tooLong = new AbortController();
  const ended = new AbortController();
  const limit = async (ms: number): Promise<void> => {
    await sleep(ms, AbortSignal.any([ended.signal, signal]));
    if (!ended.signal.aborted && !signal.aborted) tooLong.abort();
  };
  if (job.timeoutMs !== undefined) void limit(job.timeoutMs);
  try {
    const end = await runCommand(job.call, run, AbortSignal.any([signal, tooLong.signal]));
    const outcome = outcomeOf(end.exitCode, { timedOut: tooLong.signal.aborted, stopped: signal.aborted });
    const tooLongProblem = `it took longer than the ${durationText(job.timeoutMs ?? 0)} that its timeout allows`;
    return { ...end, outcome, problem: outcome === 'timed_out' ? tooLongProblem : end.problem };
  } catch (error) {
    return couldNotRun(error);
  } finally {
    ended.abort();
  }
}

/**
 * The lock that a run of this kind takes, or it ends as `locked`. `verify` is not among them: it takes the lock of the mirror for a
 * moment at its end, and does without if that is held.
 */
const locks: Readonly<Partial<Record<JobKind, string>>> = { sync: 'mirror', publish: 'publication' };

/** Lets jobs that take the same lock run one after the other, in the order in which they began. */
function turnsAtLocks(inTurn: InTurn = (_, begin) => begin()): InTurn {
  const turns = new Map(Object.values(locks).map((lock) => [lock, pLimit(1)]));
  return (job, begin) => {
    const turn = turns.get(locks[job.run] ?? '');
    return turn === undefined ? inTurn(job, begin) : turn(() => inTurn(job, begin));
  };
}

export interface WorkerPorts extends RunPorts {
  readonly store: WorkerStore;
  readonly clock: Clock;
  /** Waits between two rounds; `sleep` by default. */
  readonly rest?: Sleep;
  readonly emit: (event: WorkerEvent) => void;
  /** Identifies this worker among others; a new id by default. */
  readonly id?: string;
  /** Called once this is the worker of the mirror, before any job runs. An error that it throws ends the worker. */
  readonly prepare?: (signal: AbortSignal) => Promise<void>;
}

/** What happens in the worker, for logs, alerts and metrics. */
export type WorkerEvent =
  | { readonly kind: 'started'; readonly jobs: readonly Job[] }
  | { readonly kind: 'run_started'; readonly run: NewJobRun }
  /** With outcome, exit code and report. Without `job` for the run of a worker that died. */
  | { readonly kind: 'run_ended'; readonly run: JobRun; readonly job?: Job }
  /** A time of the job came and nothing ran. */
  | {
      readonly kind: 'not_run';
      readonly job: string;
      readonly occurrence: number;
      readonly outcome: 'skipped' | 'overlapped' | 'missed';
      readonly why: string;
    }
  /** The clock was set back by more than a day, so the job begins anew from now. */
  | { readonly kind: 'clock_set_back'; readonly job: string }
  | { readonly kind: 'reloaded'; readonly jobs: readonly Job[] }
  /** The worker cannot write its own file. It begins nothing that it cannot record, and keeps trying. */
  | { readonly kind: 'trouble'; readonly error: OperatorError }
  | { readonly kind: 'stopping'; readonly running: readonly string[] }
  | { readonly kind: 'stopped' };

export interface JobView {
  readonly job: Job;
  /** When it begins next, including jitter, ms since 1970; null if it never does. */
  readonly nextAt: number | null;
  /** null if it is not running. */
  readonly running: { readonly run: NewJobRun; readonly startedAt: number } | null;
  /** The last run that ended or was skipped; undefined if there is none. */
  readonly latest: JobRun | undefined;
  readonly judged: JobProgress['judged'];
}

export interface WorkerView {
  readonly startedAt: number;
  readonly isStopping: boolean;
  /** Why it cannot write its own file; null if it can. */
  readonly trouble: string | null;
  readonly jobs: readonly JobView[];
}

/** The longest pause between two rounds: a machine that slept does not count its sleep, and clocks are set. */
const longestRestMs = 30 * secondMs;

interface Running {
  readonly job: Job;
  readonly run: NewJobRun;
  readonly startedAt: number;
  /** Set when the run has ended, until the end is on record. */
  end?: JobRunEnd;
}

/** A worker for the jobs. It does nothing before `run`. */
export class Worker {
  readonly #ports: WorkerPorts;
  readonly #startedAt: number;
  readonly #id: string;
  readonly #running = new Map<string, Running>();
  readonly #runs = new Set<Promise<void>>();
  #jobs: readonly Job[];
  /** Jobs of a config file that was read again, until the next round takes them over. */
  #next: readonly Job[] | undefined;
  #wake = new AbortController();
  /** Stops everything if the lock is lost, as the caller's signal does. */
  readonly #stop = new AbortController();
  #trouble: string | null = null;

  constructor(ports: WorkerPorts, jobs: readonly Job[]) {
    const signal = AbortSignal.any([ports.signal, this.#stop.signal]);
    this.#ports = { ...ports, signal, inTurn: turnsAtLocks(ports.inTurn) };
    this.#startedAt = ports.clock.now();
    this.#id = ports.id ?? runId(ports.clock);
    this.#jobs = jobs;
  }

  /** Works until the signal is aborted and all jobs have ended. Throws LockHeldError if another worker runs, or took over. */
  async run(): Promise<void> {
    const { store, signal, emit, prepare } = this.#ports;
    const replaced = await store.acquireScheduler(this.#id);
    const onReplaced = () => this.#stop.abort();
    replaced.addEventListener('abort', onReplaced, { once: true });
    const onStop = () => this.#wake.abort();
    signal.addEventListener('abort', onStop, { once: true });
    let lost: LockHeldError | undefined;
    try {
      await store.adoptJobs(this.#jobs);
      emit({ kind: 'started', jobs: this.#jobs });
      for (const orphan of await store.endOrphanedRuns()) emit({ kind: 'run_ended', run: orphan });
      await prepare?.(signal);
      while (!signal.aborted) {
        // Whatever happens from here on cuts the pause below short.
        this.#wake = new AbortController();
        await this.#round();
        await this.#rest();
      }
      emit({ kind: 'stopping', running: [...this.#running.keys()] });
    } catch (error) {
      if (!(error instanceof LockHeldError)) throw error;
      lost = error;
    } finally {
      signal.removeEventListener('abort', onStop);
      this.#stop.abort();
      await Promise.all(this.#runs);
      await this.#carefully(() => this.#recordEnds());
      replaced.removeEventListener('abort', onReplaced);
      if (replaced.aborted) {
        lost ??= new LockHeldError('the schedule was lost: it could not be renewed in time, or another worker has it');
      }
      if (lost === undefined) await this.#carefully(() => store.releaseScheduler());
    }
    if (lost !== undefined) throw lost;
    emit({ kind: 'stopped' });
  }

  /** Replaces the jobs. Runs go on, even those of jobs that are gone. */
  reload(jobs: readonly Job[]): void {
    this.#next = jobs;
    this.#wake.abort();
  }

  /** Throws a FileError if the store cannot be read. */
  async view(): Promise<WorkerView> {
    const known = await this.#ports.store.progress();
    const now = this.#ports.clock.now();
    return {
      startedAt: this.#startedAt,
      isStopping: this.#ports.signal.aborted,
      trouble: this.#trouble,
      jobs: this.#jobs.map((job): JobView => {
        const { latest, judged, handledUntil = now } = known.get(job.name) ?? {};
        const nextAt = nextTime(job, handledUntil, now) ?? null;
        return { job, nextAt, running: this.#running.get(job.name) ?? null, latest, judged };
      }),
    };
  }

  /** Does everything that is due now. */
  #round(): Promise<void> {
    return this.#carefully(async () => {
      // Checked in every round: a lost lock that is noticed only when a job is due costs that run.
      await this.#ports.store.checkLocks();
      await this.#recordEnds();
      await this.#adopt();
      for (const decision of decide(this.#jobs, await this.#states(), this.#ports.clock.now())) {
        if (this.#ports.signal.aborted) return;
        await this.#apply(decision);
      }
      this.#trouble = null;
    });
  }

  async #rest(): Promise<void> {
    const { clock, sleep, rest = sleep } = this.#ports;
    const now = clock.now();
    let longest = longestRestMs;
    for (const job of this.#jobs) {
      const next = nextTime(job, now, now);
      if (next !== undefined) longest = Math.min(longest, next - now);
    }
    await rest(longest, this.#wake.signal);
  }

  async #states(): Promise<Map<string, JobState>> {
    const known = await this.#ports.store.progress();
    return new Map(Array.from(known, ([job, each]) => [job, { ...each, isRunning: this.#running.has(job) }]));
  }

  async #apply(decision: Decision): Promise<void> {
    const { store, clock, emit } = this.#ports;
    const { job } = decision;
    switch (decision.kind) {
      case 'forget':
        await store.setHandled(job.name, decision.until);
        emit({ kind: 'clock_set_back', job: job.name });
        break;
      case 'skip':
        await this.#skip(decision);
        break;
      case 'run': {
        const { occurrence, attempt, late } = decision;
        const cause = late ? 'caught_up' : 'scheduled';
        const command = commandText(job.call);
        const run: NewJobRun = { run: runId(clock), job: job.name, cause, occurrence, attempt, command };
        try {
          await store.beginRun(run);
        } catch (error) {
          if (!(error instanceof LockHeldError) || (await store.scheduler())?.run !== this.#id) throw error;
          // This is still the scheduler, so somebody is running this job by hand. That run also catches up on missed times.
          if (attempt === 1) await this.#skip({ ...decision, outcome: 'overlapped', why: error.message });
          break;
        }
        emit({ kind: 'run_started', run });
        this.#start(job, run);
      }
    }
  }

  async #skip({ job, occurrence, outcome, why }: Omit<Extract<Decision, { kind: 'skip' }>, 'kind'>): Promise<void> {
    const { store, clock, emit } = this.#ports;
    if (outcome === 'overlapped') await store.setHandled(job.name, occurrence);
    else {
      const run = { run: runId(clock), job: job.name, occurrence, command: commandText(job.call) };
      await store.recordSkip(run, { outcome, exitCode: null, problem: why, report: null });
    }
    emit({ kind: 'not_run', job: job.name, occurrence, outcome, why });
  }

  #start(job: Job, run: NewJobRun): void {
    const running: Running = { job, run, startedAt: this.#ports.clock.now() };
    this.#running.set(job.name, running);
    const done = this.#finish(running);
    this.#runs.add(done);
    void done.finally(() => this.#runs.delete(done));
  }

  async #finish(running: Running): Promise<void> {
    running.end = await runJob(running.job, running.run, this.#ports);
    this.#wake.abort();
  }

  async #recordEnds(): Promise<void> {
    const { store, emit } = this.#ports;
    for (const [name, { job, run, end }] of this.#running) {
      if (end === undefined) continue;
      const ended = await store.endRun(run.run, end);
      this.#running.delete(name);
      emit({ kind: 'run_ended', run: ended, job });
    }
  }

  async #adopt(): Promise<void> {
    const jobs = this.#next;
    if (jobs === undefined) return;
    await this.#ports.store.adoptJobs(jobs);
    this.#jobs = jobs;
    // If the config file was read yet again meanwhile, the next round takes that over.
    if (this.#next === jobs) this.#next = undefined;
    this.#ports.emit({ kind: 'reloaded', jobs });
  }

  /** Runs the step, and reports an OperatorError once instead of giving up: the disk may have room again later. */
  async #carefully(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      if (error instanceof LockHeldError) {
        if (this.#stop.signal.aborted) return;
        throw error;
      }
      if (!(error instanceof OperatorError)) throw error;
      if (this.#trouble !== error.message) this.#ports.emit({ kind: 'trouble', error });
      this.#trouble = error.message;
    }
  }
}
