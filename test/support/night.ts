/** A worker in time that passes only while everything waits, over a real file, with commands of a given duration. */
import { onTestFinished } from 'vitest';
import { minuteMs, type Clock } from '../../src/model/time.ts';
import { openWorkerStore } from '../../src/worker/store/sqlite.ts';
import type { Job } from '../../src/model/job.ts';
import type { WorkerStore } from '../../src/worker/store/store.ts';
import type { JobEnd } from '../../src/worker/run-job.ts';
import { Worker, type WorkerEvent } from '../../src/worker/worker.ts';
import { virtualTime } from '../api/support/virtual-time.ts';
import { temporaryFolder } from './temporary-folder.ts';

export interface Command {
  readonly minutes: number;
  readonly end: Partial<JobEnd>;
  /** What it really does; no time passes meanwhile. */
  readonly work?: () => Promise<Partial<JobEnd>>;
}

export interface Night {
  readonly worker: Worker;
  readonly store: WorkerStore;
  readonly clock: Clock;
  /** The events so far, with the time of day in UTC: `02:15 sync begins`. */
  readonly log: readonly string[];
  readonly events: readonly WorkerEvent[];
  /** Lets the time pass until then. */
  readonly until: (time: string) => Promise<void>;
  /** The machine is suspended: its clock continues and nothing else does. Negative if the clock is set back. */
  readonly jump: (ms: number) => void;
  /** Stops the worker and waits for its end. */
  readonly stop: () => Promise<void>;
}

interface NightOptions {
  readonly from: string;
  readonly jobs: readonly Job[];
  readonly file?: string;
  /** How the run of a job goes; complete after a minute by default. */
  readonly commands?: (job: string, run: number) => Command;
  /** How long each run waits for its turn; not at all by default. */
  readonly waitsMs?: number;
}

const usual: Command = { minutes: 1, end: { exitCode: 0 } };

/** Starts the worker; the test lets the time pass. */
export function startNight({ from, jobs, file, commands = () => usual, waitsMs }: NightOptions): Night {
  const time = virtualTime(Date.parse(from));
  let jumped = 0;
  const clock = { now: () => time.clock.now() + jumped };
  const store = openWorkerStore(file ?? `${temporaryFolder()}/mirror.worker.db`, clock);
  const stop = new AbortController();
  const events: WorkerEvent[] = [];
  const log: string[] = [];
  const counts = new Map<string, number>();
  const working = new Set<Promise<unknown>>();
  const settled = async (): Promise<void> => {
    // Statements may have given the event loop a turn each.
    for (let turns = 0; turns < 40 || working.size > 0; turns += 1)
      await new Promise((resolve) => setImmediate(resolve));
  };
  const sleep = (ms: number, signal: AbortSignal) => time.sleep(ms, signal).catch(() => {});
  const worker = new Worker(
    {
      store,
      clock,
      sleep,
      signal: stop.signal,
      ...(waitsMs !== undefined && {
        inTurn: async (_, begin) => {
          await sleep(waitsMs, stop.signal);
          return begin();
        },
      }),
      emit: (event) => {
        events.push(event);
        const said = wordsOf(event);
        if (said !== undefined) log.push(`${new Date(clock.now()).toISOString().slice(11, 16)} ${said}`);
      },
      runCommand: async (_call, { job }, signal) => {
        counts.set(job, (counts.get(job) ?? 0) + 1);
        const { minutes, end, work } = commands(job, counts.get(job) ?? 0);
        await sleep(minutes * minuteMs, signal);
        const done = work?.();
        if (done !== undefined) working.add(done);
        const worked = await done?.finally(() => working.delete(done));
        const ended = signal.aborted ? {} : { ...end, ...worked };
        return { exitCode: signal.aborted ? 143 : 0, report: null, problem: null, ...ended };
      },
    },
    jobs,
  );
  const running = worker.run();
  running.catch(() => {});
  onTestFinished(async () => {
    stop.abort();
    await running.catch(() => {});
    await store.close();
  });
  return {
    worker,
    store,
    clock,
    log,
    events,
    until: (then) => time.run(sleep(Date.parse(then) - clock.now(), new AbortController().signal), settled),
    jump: (ms) => void (jumped += ms),
    stop: async () => {
      stop.abort();
      await running;
    },
  };
}

function wordsOf(event: WorkerEvent): string | undefined {
  switch (event.kind) {
    case 'run_started': {
      const { job, attempt } = event.run;
      return `${job} begins${attempt > 1 ? ', again' : ''}`;
    }
    case 'run_ended':
      return `${event.run.job} is ${event.run.outcome ?? 'running'}`;
    case 'not_run':
      return `${event.job} is ${event.outcome}`;
    case 'clock_set_back':
      return `${event.job} begins anew`;
    case 'trouble':
      return `trouble: ${event.error.message}`;
    case 'started':
    case 'stopping':
    case 'stopped':
      return undefined;
  }
}
