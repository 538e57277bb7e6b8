/** What people start in the console: syncs and comparisons, each a command of its own, on record as a run by hand. */
import { accountVariable, type Actor, actorText, runVariable } from '../model/actor.ts';
import { InterruptedError, messageOf, UsageError } from '../model/errors.ts';
import { commandText } from '../model/job.ts';
import type { Log } from '../model/log.ts';
import type { ResourceName } from '../model/resources.ts';
import { runId } from '../model/program.ts';
import type { Clock } from '../model/time.ts';
import { type CommandRunner, type LogLine, notRun, outcomeOf } from './command.ts';
import type { JobRunEnd } from './store/port.ts';
import type { WorkerStore } from './store/store.ts';

/** What can be started, by the name of the console, with the words of the command line. */
const startable = {
  sync: ['sync'],
  quick: ['sync', '--quick'],
  verify: ['verify'],
  deep: ['verify', '--deep'],
} as const satisfies Readonly<Record<string, readonly [string, ...string[]]>>;
export type Startable = keyof typeof startable;

export interface Order {
  readonly commandLine: readonly string[];
  /** One of the same name at a time. */
  readonly name: string;
  /** The command line as it is on record, where it names what is the console's own. */
  readonly shown?: readonly string[];
  /** Called when it has ended, however it did. */
  readonly atEnd?: () => Promise<void>;
}

/** @param resources everything where none is named */
export function orderOf(what: Startable, resources: readonly ResourceName[]): Order {
  return { commandLine: [...startable[what], ...resources], name: startable[what][0] };
}

export function isStartable(text: string): text is Startable {
  return Object.hasOwn(startable, text);
}

interface ByHandPorts {
  readonly run: CommandRunner;
  /** Opens the worker's store when the first run begins; it is closed by whoever gave it. */
  readonly openStore: () => Promise<WorkerStore>;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborted when the console stops. */
  readonly signal: AbortSignal;
}

interface Started {
  readonly stop: AbortController;
  readonly ended: Promise<void>;
  stoppedBy: Actor | null;
  /** The last line of its log of each kind about each resource. */
  readonly lines: Map<string, LogLine>;
}

export class ByHand {
  readonly #ports: ByHandPorts;
  readonly #running = new Map<string, Started>();
  #store: Promise<WorkerStore> | undefined;
  #isClosing = false;

  constructor(ports: ByHandPorts) {
    this.#ports = ports;
  }

  /** Starts it, and gives the name of the run. Throws a LockHeldError where this console, or another one, is at the same. */
  async begin({ commandLine, name, shown = commandLine, atEnd }: Order, actor: Actor): Promise<string> {
    const { clock, signal } = this.#ports;
    if (signal.aborted) throw new UsageError('the console is stopping', { advice: 'Start it anew, and try again.' });
    const store = await this.#open();
    const run = runId(clock);
    const command = commandText(shown);
    // No job has a name with a blank in it.
    const job = `console ${name}`;
    await store.beginRun({ run, job, cause: 'by_hand', occurrence: null, attempt: 1, command, actor });
    const stop = new AbortController();
    const started = { stop, stoppedBy: null, lines: new Map<string, LogLine>(), ended: Promise.resolve() };
    this.#running.set(run, {
      ...started,
      ended: this.#finish(store, run, commandLine, actor, stop.signal).then(() => atEnd?.()),
    });
    return run;
  }

  /** Once; again where it could not be opened. */
  #open(): Promise<WorkerStore> {
    const opening = (this.#store ??= this.#ports.openStore());
    opening.catch(() => (this.#store = undefined));
    return opening;
  }

  /** Whether this console has started the run, and it goes on. */
  isRunning(run: string): boolean {
    return this.#running.has(run);
  }

  /** The last line of its log of each kind about each resource, the newest at the end. */
  lastLines(run: string): readonly LogLine[] {
    return [...(this.#running.get(run)?.lines.values() ?? [])];
  }

  /** Lets it stop in order. Throws a UsageError where this console does not run it. */
  stop(run: string, actor: Actor): void {
    const started = this.#running.get(run);
    if (started === undefined) {
      throw new UsageError(`this console does not run ${run}`, {
        advice: 'It may have ended. What the worker or a person runs is stopped there.',
      });
    }
    this.#ports.log.warn({ run, account: actor.account }, 'the run is stopped in the console');
    started.stoppedBy = actor;
    started.stop.abort(new InterruptedError('SIGINT'));
  }

  /** Stops them all in order, and waits until their ends are on record. */
  async close(): Promise<void> {
    this.#isClosing = true;
    for (const { stop } of this.#running.values()) stop.abort(new InterruptedError('SIGTERM'));
    await Promise.all([...this.#running.values()].map(({ ended }) => ended));
  }

  async #finish(
    store: WorkerStore,
    run: string,
    commandLine: readonly string[],
    actor: Actor,
    stop: AbortSignal,
  ): Promise<void> {
    const { signal, log } = this.#ports;
    const use = {
      variables: { [runVariable]: run, [accountVariable]: actor.account ?? '' },
      fields: { run, account: actor.account },
      onLine: (line: LogLine) => {
        const { resource } = line.fields;
        const about = `${line.message} ${String(resource)}`;
        const lines = this.#running.get(run)?.lines;
        // Made anew, so that the newest line is the last.
        lines?.delete(about);
        lines?.set(about, line);
      },
    };
    let end: JobRunEnd;
    try {
      const ended = await this.#ports.run(commandLine, use, AbortSignal.any([signal, stop]));
      const by = this.#running.get(run)?.stoppedBy ?? null;
      // One that had only just begun is ended by the signal itself, without an exit code.
      const stopped = signal.aborted || this.#isClosing || by !== null;
      const outcome = outcomeOf(ended.exitCode, { stopped });
      const problem = by === null || ended.exitCode === 0 ? ended.problem : `it was stopped by ${actorText(by)}`;
      end = { ...ended, outcome, problem };
    } catch (error) {
      end = notRun(error);
    }
    try {
      await store.endRun(run, end);
    } catch (error) {
      log.error({ run }, `the end of the run is not on record: ${messageOf(error)}`);
    }
    this.#running.delete(run);
  }
}
