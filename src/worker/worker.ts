/** The worker: runs the jobs of the settings at their times, each as a separate command, until it is stopped. */
import pLimit from 'p-limit';
import { LockHeldError, OperatorError } from '../model/errors.ts';
import { type CommandCall, commandText, type Job, type JobKind } from '../model/job.ts';
import { runId } from '../model/program.ts';
import { type Clock, minuteMs, secondMs, type Sleep } from '../model/time.ts';
import { couldNotRun, type JobEnd, outcomeOf } from './run-job.ts';
import type { JobRun, JobRunEnd, NewJobRun } from './store/port.ts';
import type { WorkerStore } from './store/store.ts';
import { type Decision, decide, type JobState } from './decide.ts';

/** Runs the command. Once the signal is aborted, the command ends, or is killed, within ten seconds. */
export type RunCommand = (
  call: CommandCall,
  run: Pick<NewJobRun, 'run' | 'job'>,
  signal: AbortSignal,
) => Promise<JobEnd>;

/** Waits for the job's turn if it shares the machine with others. */
export type InTurn = <T>(job: Job, begin: () => Promise<T>) => Promise<T>;

export interface WorkerPorts {
  readonly store: WorkerStore;
  readonly runCommand: RunCommand;
  readonly clock: Clock;
  readonly sleep: Sleep;
  readonly signal: AbortSignal;
  /** Without it, jobs begin at once. */
  readonly inTurn?: InTurn;
  readonly emit: (event: WorkerEvent) => void;
  /** Called once this is the worker of the mirror, before any job runs. An error that it throws ends the worker. */
  readonly prepare?: ((signal: AbortSignal) => Promise<void>) | undefined;
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
      readonly outcome: 'skipped' | 'overlapped';
      readonly why: string;
    }
  /** The clock was set back by more than a day, so the job begins anew from now. */
  | { readonly kind: 'clock_set_back'; readonly job: string }
  /** The worker cannot write its own file. It begins nothing that it cannot record, and keeps trying. */
  | { readonly kind: 'trouble'; readonly error: OperatorError }
  | { readonly kind: 'stopping'; readonly running: readonly string[] }
  | { readonly kind: 'stopped' };

export interface WorkerState {
  readonly isStopping: boolean;
  /** Why it cannot write its own file; null if it can. */
  readonly trouble: string | null;
}

/** The pause between two rounds if nothing wakes the worker: a machine that slept does not count its sleep, and clocks are set. */
const restMs = 30 * secondMs;

/** How often a job is tried again that finds its lock held by something else, such as a sync by hand: for an hour. */
const lockTries = 60;
const lockPauseMs = minuteMs;

/**
 * The lock that a run of this kind takes, or it ends as `locked`. `verify` is not among them: it takes the lock of the mirror for a
 * moment at its end, and does without if that is held.
 */
const locks: Readonly<Partial<Record<JobKind, string>>> = { sync: 'mirror', publish: 'publication' };

/** Lets jobs that take the same lock run one after the other, in the order in which they began. */
function turnsAtLocks(inTurn: InTurn): InTurn {
  const turns = new Map(Object.values(locks).map((lock) => [lock, pLimit(1)]));
  return (job, begin) => {
    const turn = turns.get(locks[job.run] ?? '');
    return turn === undefined ? inTurn(job, begin) : turn(() => inTurn(job, begin));
  };
}

interface Running {
  readonly job: Job;
  readonly run: NewJobRun;
  /** Set once it has ended; the next round records it. */
  end?: JobRunEnd;
}

/** One worker. Nothing happens before `run`. */
export class Worker {
  readonly #ports: WorkerPorts;
  readonly #id: string;
  readonly #jobs: readonly Job[];
  readonly #inTurn: InTurn;
  readonly #running = new Map<string, Running>();
  readonly #runs = new Set<Promise<void>>();
  #wake = new AbortController();
  /** Stops everything if the lock is lost, as the caller's signal does. */
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  #trouble: string | null = null;

  constructor(ports: WorkerPorts, jobs: readonly Job[]) {
    this.#ports = ports;
    this.#signal = AbortSignal.any([ports.signal, this.#stop.signal]);
    this.#inTurn = turnsAtLocks(ports.inTurn ?? ((_, begin) => begin()));
    this.#id = runId(ports.clock);
    this.#jobs = jobs;
  }

  /** Works until the signal is aborted and all jobs have ended. Throws LockHeldError if another worker runs, or took over. */
  async run(): Promise<void> {
    const { store, emit, prepare, sleep } = this.#ports;
    const replaced = await store.acquireScheduler(this.#id);
    const onReplaced = () => this.#stop.abort();
    replaced.addEventListener('abort', onReplaced, { once: true });
    const onStop = () => this.wake();
    this.#signal.addEventListener('abort', onStop, { once: true });
    let lost: LockHeldError | undefined;
    try {
      await store.adoptJobs(this.#jobs);
      emit({ kind: 'started', jobs: this.#jobs });
      for (const orphan of await store.endOrphanedRuns()) emit({ kind: 'run_ended', run: orphan });
      await prepare?.(this.#signal);
      while (!this.#signal.aborted) {
        // Whatever happens from here on cuts the pause below short.
        this.#wake = new AbortController();
        await this.#round();
        await sleep(restMs, this.#wake.signal);
      }
      emit({ kind: 'stopping', running: [...this.#running.keys()] });
    } catch (error) {
      if (!(error instanceof LockHeldError)) throw error;
      lost = error;
    } finally {
      this.#signal.removeEventListener('abort', onStop);
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

  /** Looks at once what is due. */
  wake(): void {
    this.#wake.abort();
  }

  state(): WorkerState {
    return { isStopping: this.#signal.aborted, trouble: this.#trouble };
  }

  /** Does everything that is due now. */
  #round(): Promise<void> {
    return this.#carefully(async () => {
      const { store, clock } = this.#ports;
      // Checked in every round: a lost lock that is noticed only when a job is due costs that run.
      await store.checkLocks();
      await this.#recordEnds();
      const now = clock.now();
      for (const decision of decide(this.#jobs, await this.#states(), now)) {
        if (this.#signal.aborted) return;
        await this.#apply(decision, now);
      }
      this.#trouble = null;
    });
  }

  async #states(): Promise<Map<string, JobState>> {
    const known = await this.#ports.store.progress();
    return new Map(Array.from(known, ([job, each]) => [job, { ...each, isRunning: this.#running.has(job) }]));
  }

  async #apply(decision: Decision, now: number): Promise<void> {
    const { store, clock, emit } = this.#ports;
    const { job } = decision;
    switch (decision.kind) {
      case 'forget':
        await store.setHandled(job.name, now);
        emit({ kind: 'clock_set_back', job: job.name });
        break;
      case 'skip':
        await this.#skip(decision, now);
        break;
      case 'run': {
        const { occurrence, attempt } = decision;
        const command = commandText(job.call);
        const run: NewJobRun = { run: runId(clock), job: job.name, cause: 'scheduled', occurrence, attempt, command };
        try {
          await store.beginRun(run, now);
        } catch (error) {
          if (!(error instanceof LockHeldError) || (await store.scheduler())?.run !== this.#id) throw error;
          // This is still the scheduler, so somebody is running this job by hand. That run also catches up on missed times.
          if (attempt === 1) await this.#skip({ ...decision, outcome: 'overlapped', why: error.message }, now);
          break;
        }
        emit({ kind: 'run_started', run });
        this.#start(job, run);
      }
    }
  }

  async #skip(
    { job, occurrence, outcome, why }: Omit<Extract<Decision, { kind: 'skip' }>, 'kind'>,
    now: number,
  ): Promise<void> {
    const { store, clock, emit } = this.#ports;
    if (outcome === 'overlapped') await store.setHandled(job.name, now);
    else {
      const run = { run: runId(clock), job: job.name, occurrence, command: commandText(job.call) };
      await store.recordSkip(run, { outcome, exitCode: null, problem: why, report: null }, now);
    }
    emit({ kind: 'not_run', job: job.name, occurrence, outcome, why });
  }

  #start(job: Job, run: NewJobRun): void {
    const running: Running = { job, run };
    this.#running.set(job.name, running);
    const done = this.#finish(running);
    this.#runs.add(done);
    void done.finally(() => this.#runs.delete(done));
  }

  /** Runs the job, again and again while its lock is held. */
  async #finish(running: Running): Promise<void> {
    const { job, run } = running;
    for (let left = lockTries; running.end === undefined; left -= 1) {
      const end = await this.#inTurn(job, () => this.#try(job, run));
      if (end.outcome !== 'locked' || left === 0) running.end = end;
      else await this.#ports.sleep(lockPauseMs, this.#signal);
    }
    this.wake();
  }

  /** Never rejects: a job that cannot be run has failed. */
  async #try(job: Job, run: NewJobRun): Promise<JobRunEnd> {
    const signal = this.#signal;
    // The worker was stopped before the job's turn came.
    if (signal.aborted) return { outcome: 'stopped', exitCode: null, problem: null, report: null };
    try {
      const end = await this.#ports.runCommand(job.call, run, signal);
      return { ...end, outcome: outcomeOf(end.exitCode, { stopped: signal.aborted }) };
    } catch (error) {
      return couldNotRun(error);
    }
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
