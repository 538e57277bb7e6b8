/** The worker: runs the jobs of the settings at their times, each as a command of its own, until it is told to stop. */
import { LockHeldError, OperatorError } from '../model/errors.ts';
import { commandText, type Job } from '../model/job.ts';
import { runId } from '../model/run-id.ts';
import { type Clock, durationText, secondMs } from '../model/time.ts';
import type { JobRunEnd, NewJobRun, RunOutcome, WorkerStore } from './store/store-types.ts';
import { type Decision, decide, type JobState, nextTime, type ScheduledJob } from './decide.ts';
import type { JobView, WorkerEvent, WorkerView } from './events.ts';
import { occurrencesOf } from './occurrences.ts';
import type { Sleep } from './sleep.ts';

/** How a command ended. */
export interface CommandEnd {
  /** null where a signal ended it. */
  readonly exitCode: number | null;
  /** What it printed under --json; null where that was no JSON. */
  readonly report: unknown;
  /** What it said was wrong. */
  readonly problem: string | null;
}

/**
 * Runs `admin-mirror` with these arguments. Once the signal is aborted, it ends in order within ten seconds, or is ended.
 * @param run for whom it is, to be logged with what the command says
 */
export type RunCommand = (
  commandLine: readonly string[],
  run: Pick<NewJobRun, 'run' | 'job'>,
  signal: AbortSignal,
) => Promise<CommandEnd>;

interface RunPorts {
  readonly runCommand: RunCommand;
  readonly sleep: Sleep;
  /** Aborted when the worker stops. */
  readonly signal: AbortSignal;
}

/** Runs the job. Never rejects: what cannot be run has failed. */
async function runJob(job: Job, run: NewJobRun, { runCommand, sleep, signal }: RunPorts): Promise<JobRunEnd> {
  const tooLong = new AbortController();
  const ended = new AbortController();
  const limit = async (ms: number): Promise<void> => {
    await sleep(ms, AbortSignal.any([ended.signal, signal]));
    if (!ended.signal.aborted && !signal.aborted) tooLong.abort();
  };
  if (job.timeoutMs !== undefined) {
    void limit(job.timeoutMs);
  }
  try {
    const end = await runCommand(job.commandLine, run, AbortSignal.any([signal, tooLong.signal]));
    const outcome = outcomeOf(end.exitCode, { timedOut: tooLong.signal.aborted, stopped: signal.aborted });
    return { ...end, outcome, problem: outcome === 'timed_out' ? timeoutWords(job) : end.problem };
  } catch (error) {
    const problem = `the command could not be run: ${error instanceof Error ? error.message : String(error)}`;
    return { outcome: 'failed', exitCode: null, problem, report: null };
  } finally {
    ended.abort();
  }
}

const outcomes: Readonly<Record<number, RunOutcome>> = {
  5: 'partial',
  7: 'locked',
  130: 'interrupted',
  143: 'interrupted',
};

/** What an exit code means for the job; docs/commands.md, "Exit codes", has them. */
export function outcomeOf(
  exitCode: number | null,
  { timedOut, stopped }: { readonly timedOut: boolean; readonly stopped: boolean },
): RunOutcome {
  if (exitCode === 0) return 'complete';
  if (timedOut) return 'timed_out';
  if (stopped) return 'stopped';
  return outcomes[exitCode ?? 1] ?? 'failed';
}

function timeoutWords({ timeoutMs = 0 }: Job): string {
  return `it took longer than the ${durationText(timeoutMs)} that its timeout allows`;
}

export interface WorkerPorts extends RunPorts {
  readonly store: WorkerStore;
  readonly clock: Clock;
  /** Waits between two looks at what is due; `sleep` unless given. */
  readonly rest?: Sleep;
  readonly emit: (event: WorkerEvent) => void;
}

export interface Worker {
  /**
   * Works until the signal is aborted, and until what was running then has ended. Throws LockHeldError where another
   * worker is at it, or has taken over.
   */
  run(): Promise<void>;
  /** Other jobs from now on. What runs goes on, also where it is no job any more. */
  reload(jobs: readonly Job[]): void;
  view(): WorkerView;
}

/** The time is looked at this often at least: a machine that slept does not count its sleep, and clocks are set. */
const longestRestMs = 30 * secondMs;

interface Running {
  readonly run: NewJobRun;
  readonly startedAt: number;
  /** Set once it has ended, until that is on record. */
  end?: JobRunEnd;
}

function scheduled(jobs: readonly Job[]): ScheduledJob[] {
  return jobs.map((job) => ({ job, occurrences: occurrencesOf(job) }));
}

class ScheduleWorker implements Worker {
  readonly #ports: WorkerPorts;
  readonly #startedAt: number;
  readonly #id: string;
  readonly #running = new Map<string, Running>();
  readonly #runs = new Set<Promise<void>>();
  #jobs: readonly ScheduledJob[];
  /** What was known of each job after the last round. */
  #known: ReadonlyMap<string, JobState> = new Map();
  /** Jobs that were read anew and are not in force yet. */
  #next: readonly Job[] | undefined;
  #wake = new AbortController();
  /** Ends everything, also without the caller's signal: when the lock is lost. */
  readonly #stop = new AbortController();
  #trouble: string | undefined;

  constructor(ports: WorkerPorts, jobs: readonly Job[]) {
    const signal = AbortSignal.any([ports.signal, this.#stop.signal]);
    this.#ports = { ...ports, signal };
    this.#startedAt = ports.clock.now();
    this.#id = runId(ports.clock);
    this.#jobs = scheduled(jobs);
  }

  async run(): Promise<void> {
    const { store, signal, emit: tell } = this.#ports;
    store.acquireScheduler(this.#id);
    const onStop = () => this.#wake.abort();
    signal.addEventListener('abort', onStop, { once: true });
    let lost: LockHeldError | undefined;
    try {
      store.adoptJobs(this.#jobs.map(({ job }) => job));
      tell({ kind: 'started', jobs: this.#jobs.map(({ job }) => job) });
      for (const left of store.endLeftRuns()) tell({ kind: 'run_ended', run: left });
      while (!signal.aborted) {
        // Whatever happens from here on ends the rest below.
        this.#wake = new AbortController();
        this.#round();
        await this.#rest();
      }
      tell({ kind: 'stopping', running: [...this.#running.keys()] });
    } catch (error) {
      if (!(error instanceof LockHeldError)) throw error;
      lost = error;
    } finally {
      signal.removeEventListener('abort', onStop);
      this.#stop.abort();
      await Promise.all(this.#runs);
      this.#carefully(() => this.#recordEnds());
      if (lost === undefined) this.#carefully(() => store.releaseScheduler());
    }
    if (lost !== undefined) throw lost;
    tell({ kind: 'stopped' });
  }

  reload(jobs: readonly Job[]): void {
    this.#next = jobs;
    this.#wake.abort();
  }

  view(): WorkerView {
    const now = this.#ports.clock.now();
    return {
      startedAt: this.#startedAt,
      isStopping: this.#ports.signal.aborted,
      jobs: this.#jobs.map((each): JobView => {
        const progress = this.#ports.store.progress(each.job.name);
        return {
          job: each.job,
          nextAt: nextTime(each, progress?.handledUntil ?? now, now) ?? null,
          running: this.#running.get(each.job.name) ?? null,
          latest: progress?.latest,
        };
      }),
    };
  }

  /** Does what is to be done now. */
  #round(): void {
    this.#carefully(() => {
      this.#recordEnds();
      this.#adopt();
      const now = this.#ports.clock.now();
      this.#known = this.#states();
      const decisions = decide(this.#jobs, this.#known, now);
      for (const decision of decisions) this.#apply(decision);
      if (decisions.length > 0) this.#known = this.#states();
      this.#trouble = undefined;
    });
  }

  async #rest(): Promise<void> {
    const { clock, sleep, rest = sleep } = this.#ports;
    const now = clock.now();
    let longest = longestRestMs;
    for (const each of this.#jobs) {
      const next = nextTime(each, this.#known.get(each.job.name)?.handledUntil ?? now, now);
      if (next !== undefined) longest = Math.min(longest, next - now);
    }
    await rest(longest, this.#wake.signal);
  }

  #states(): Map<string, JobState> {
    const states = new Map<string, JobState>();
    for (const { job } of this.#jobs) {
      const progress = this.#ports.store.progress(job.name);
      if (progress !== undefined) states.set(job.name, { ...progress, isRunning: this.#running.has(job.name) });
    }
    return states;
  }

  #apply(decision: Decision): void {
    const { store, clock, emit: tell } = this.#ports;
    const { job } = decision;
    switch (decision.kind) {
      case 'forget':
        store.setHandled(job.name, decision.until);
        tell({ kind: 'clock_set_back', job: job.name });
        break;
      case 'skip':
        this.#skip(decision);
        break;
      case 'run': {
        const { occurrence, attempt, late, skippedBefore } = decision;
        const cause = late ? 'caught_up' : 'scheduled';
        const command = commandText(job.commandLine);
        const run: NewJobRun = { run: runId(clock), job: job.name, cause, occurrence, attempt, command };
        try {
          store.beginRun(run);
        } catch (error) {
          if (!(error instanceof LockHeldError) || store.scheduler()?.run !== this.#id) throw error;
          // We still are the scheduler: it is the job that somebody runs by hand. That catches up on what was missed, too.
          if (attempt === 1) this.#skip({ ...decision, outcome: 'overlapped', why: error.message });
          break;
        }
        tell({ kind: 'run_started', run, skippedBefore });
        this.#start(job, run);
      }
    }
  }

  #skip({ job, occurrence, skippedBefore, outcome, why }: Omit<Extract<Decision, { kind: 'skip' }>, 'kind'>): void {
    const { store, clock, emit: tell } = this.#ports;
    const run = { run: runId(clock), job: job.name, occurrence, command: commandText(job.commandLine) };
    store.recordSkip(run, { outcome, exitCode: null, problem: why, report: null });
    tell({ kind: 'not_run', job: job.name, occurrence, outcome, why, skippedBefore });
  }

  #start(job: Job, run: NewJobRun): void {
    const running: Running = { run, startedAt: this.#ports.clock.now() };
    this.#running.set(job.name, running);
    const done = this.#finish(job, running);
    this.#runs.add(done);
    void done.finally(() => this.#runs.delete(done));
  }

  async #finish(job: Job, running: Running): Promise<void> {
    running.end = await runJob(job, running.run, this.#ports);
    this.#wake.abort();
  }

  #recordEnds(): void {
    const { store, emit: tell } = this.#ports;
    for (const [job, { run, end }] of this.#running) {
      if (end === undefined) continue;
      const ended = store.endRun(run.run, end);
      this.#running.delete(job);
      tell({ kind: 'run_ended', run: ended });
    }
  }

  #adopt(): void {
    const jobs = this.#next;
    if (jobs === undefined) return;
    const next = scheduled(jobs);
    this.#ports.store.adoptJobs(jobs);
    this.#jobs = next;
    this.#next = undefined;
    this.#ports.emit({ kind: 'reloaded', jobs });
  }

  /** A file that cannot be written is no reason to give up: the disk may have room again. It is reported once. */
  #carefully(doing: () => void): void {
    try {
      doing();
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

/** A worker for these jobs; it does nothing before `run`. */
export function openWorker(ports: WorkerPorts, jobs: readonly Job[]): Worker {
  return new ScheduleWorker(ports, jobs);
}
