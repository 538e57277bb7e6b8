/** Runs that people start in the console: syncs and comparisons, each a separate command, recorded as runs by hand. */
import { type Actor, actorText } from '../model/actor.ts';
import { InterruptedError, messageOf, UsageError } from '../model/errors.ts';
import { type CommandCall, commandText } from '../model/job.ts';
import type { Log } from '../model/log.ts';
import type { ResourceName } from '../model/resources.ts';
import { runId } from '../model/program.ts';
import type { Clock } from '../model/time.ts';
import { couldNotRun, type GivenData, type LogLine, outcomeOf, type RunJob } from './run-job.ts';
import type { JobRunEnd } from './store/port.ts';
import type { WorkerStore } from './store/store.ts';

/** The runs that the start page offers, with their commands and options. */
const startable = {
  sync: ['sync', {}],
  quick: ['sync', { quick: true }],
  verify: ['verify', {}],
  deep: ['verify', { deep: true }],
} as const satisfies Readonly<Record<string, readonly [string, CommandCall['options']]>>;
export type Startable = keyof typeof startable;

export interface NewConsoleRun {
  readonly call: CommandCall;
  /** Only one run of each name at a time. */
  readonly name: string;
}

/** @param resources empty for all resources */
export function consoleRunOf(what: Startable, resources: readonly ResourceName[]): NewConsoleRun {
  const [name, options] = startable[what];
  return { call: { path: [name], operands: resources, options }, name };
}

export function isStartable(text: string): text is Startable {
  return Object.hasOwn(startable, text);
}

interface ConsoleRunsPorts {
  readonly run: RunJob;
  /** The settings of the console. */
  readonly given: GivenData;
  /** Opens the worker's store; called when the first run begins. The owner of the store closes it. */
  readonly openStore: () => Promise<WorkerStore>;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborted when the console stops. */
  readonly signal: AbortSignal;
}

interface Started {
  readonly stop: AbortController;
  stoppedBy: Actor | null;
  /** For each kind of log line and each resource, the last such line. */
  readonly lines: Map<string, LogLine>;
}

export class ConsoleRuns {
  readonly #ports: ConsoleRunsPorts;
  readonly #running = new Map<string, Started>();
  readonly #ends = new Set<Promise<void>>();
  #store: Promise<WorkerStore> | undefined;

  constructor(ports: ConsoleRunsPorts) {
    this.#ports = ports;
  }

  /** Starts the run and returns its id. Throws a LockHeldError if this or another console already has a run of that name. */
  async begin({ call, name }: NewConsoleRun, actor: Actor): Promise<string> {
    const store = await this.#open();
    const run = runId(this.#ports.clock);
    const command = commandText(call);
    // The names of jobs have no blank, so this is nobody's job.
    const job = `console ${name}`;
    await store.beginRun({ run, job, cause: 'by_hand', occurrence: null, attempt: 1, command, actor });
    const started: Started = { stop: new AbortController(), stoppedBy: null, lines: new Map() };
    this.#running.set(run, started);
    const ended = this.#finish(store, run, call, actor, started);
    this.#ends.add(ended);
    void ended.finally(() => this.#ends.delete(ended));
    return run;
  }

  /** Opens the store once; tries again if that failed. */
  #open(): Promise<WorkerStore> {
    const opening = (this.#store ??= this.#ports.openStore());
    opening.catch(() => (this.#store = undefined));
    return opening;
  }

  /** Whether this console has started the run and it has not ended. */
  isRunning(run: string): boolean {
    return this.#running.has(run);
  }

  /** For each kind of log line and each resource, the last such line; the newest at the end. */
  lastLines(run: string): readonly LogLine[] {
    return [...(this.#running.get(run)?.lines.values() ?? [])];
  }

  /** Asks the run to stop. Throws a UsageError if this console does not run it. */
  stop(run: string, actor: Actor): void {
    const started = this.#running.get(run);
    if (started === undefined) {
      throw new UsageError(`this console does not run ${run}`, {
        advice: 'It may have ended. A run that the worker or a person started elsewhere must be stopped there.',
      });
    }
    this.#ports.log.warn({ run, account: actor.account }, 'somebody stopped the run in the console');
    started.stoppedBy = actor;
    started.stop.abort(new InterruptedError('SIGINT'));
  }

  /** Stops all runs, and waits until their ends are on record. */
  async close(): Promise<void> {
    for (const { stop } of this.#running.values()) stop.abort(new InterruptedError('SIGTERM'));
    await Promise.all(this.#ends);
  }

  async #finish(store: WorkerStore, run: string, call: CommandCall, actor: Actor, started: Started): Promise<void> {
    const { log, given } = this.#ports;
    const { stop, lines } = started;
    const signal = AbortSignal.any([this.#ports.signal, stop.signal]);
    const onLine = (line: LogLine): void => {
      const about = `${line.message} ${String(line.fields['resource'])}`;
      // Deleted first, so that the newest line comes last.
      lines.delete(about);
      lines.set(about, line);
    };
    let end: JobRunEnd;
    try {
      const use = { given, actor, run, fields: { run, account: actor.account }, onLine };
      const ended = await this.#ports.run(call, use, signal);
      // A command that has only just begun dies of the signal, without an exit code.
      const outcome = outcomeOf(ended.exitCode, { stopped: signal.aborted });
      const { stoppedBy: by } = started;
      const problem = by === null || ended.exitCode === 0 ? ended.problem : `it was stopped by ${actorText(by)}`;
      end = { ...ended, outcome, problem };
    } catch (error) {
      end = couldNotRun(error);
    }
    await store.endRun(run, end).catch((error: unknown) => {
      log.error({ run }, `the end of the run could not be recorded: ${messageOf(error)}`);
    });
    this.#running.delete(run);
  }
}
