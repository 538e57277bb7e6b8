/**
 * Reading the mirror in a process of its own, which can be ended: SQLite may work on a statement for minutes, and its thread hears
 * neither a signal nor a clock. For many who read at once: the quick over one open connection, the rest in a few processes.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { errorOf, type Failure, IncompleteError, InterruptedError, UsageError } from '../model/errors.ts';
import { moduleBeside } from '../model/program.ts';
import { durationText, minuteMs, secondMs } from '../model/time.ts';
import type { Log } from '../model/log.ts';
import type { JobNews } from './job-child.ts';
import type { ReadingJob, ReadingTask } from './reading-child.ts';
import { buffer } from 'node:stream/consumers';
import { deserialize } from 'node:v8';
import { setTimeout as wait } from 'node:timers/promises';
import pLimit from 'p-limit';
import type { SharedReading, Snapshot } from '../store/reading.ts';
import { type BrowseParts, isQuickPart, type JobOf, partOf } from './browse.ts';
import { maskedSnapshot } from './personal.ts';

/** The longest that a timer can wait, in ms. */
const longestMs = 2 ** 31 - 1;

/** Counts only the time spent in `during`; calls `end` once there is none left. */
export class TimeLimit {
  #leftMs: number;
  readonly #end: () => void;
  #isUp = false;

  constructor(ms: number, end: () => void) {
    this.#leftMs = ms;
    this.#end = end;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  async during<T>(wait: () => Promise<T>): Promise<T> {
    const began = performance.now();
    const timer = setTimeout(
      () => {
        this.#isUp = true;
        this.#end();
      },
      Math.min(this.#leftMs, longestMs),
    );
    try {
      return await wait();
    } finally {
      clearTimeout(timer);
      this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - began));
    }
  }
}

export interface ReadingRun {
  readonly signal: AbortSignal;
  /** Where the process logs; nowhere if it is left out. */
  readonly log?: Log;
  /** How long the mirror may be waited for, in ms; time in which nobody takes the rows does not count. */
  readonly timeoutMs?: number | undefined;
  readonly onRows?: (rows: number) => void;
  readonly onWarning?: (warning: string) => void;
}

function timeIsUp(ms: number): UsageError {
  return new UsageError(
    `reading the mirror took ${durationText(ms)}, which is the limit, and the result was not whole`,
    { advice: 'Raise --timeout, select less, or see with `admin-mirror query --explain` which tables are read whole.' },
  );
}

function lostProcess(how: string): IncompleteError {
  return new IncompleteError(`the process that read the mirror ended before its result was whole (${how})`, {
    advice: 'The mirror is as it was. If it was the system that ended it, memory was short: select less at once.',
  });
}

/** A process of ours that takes one job and gives its result as bytes; its other side is src/data/job-child.ts. */
export class JobProcess<Task extends object> {
  readonly #lost: (how: string) => Error;
  readonly #child: ChildProcessWithoutNullStreams;
  /** What the process ended with, once it has and all that it said has been heard. */
  readonly #closed: Promise<readonly [number | null, NodeJS.Signals | null]>;

  /**
   * Starts the process, which gets ready while the command does. @param entry the address of its module
   * @param lost what is thrown where it ended before its result was whole, and how it did
   */
  constructor(entry: string, lost: (how: string) => Error) {
    this.#lost = lost;
    const child = spawn(process.execPath, [fileURLToPath(entry)], {
      stdio: ['pipe', 'pipe', 'inherit', 'ipc'],
      // Values of parameters may be whole numbers beyond what JSON holds.
      serialization: 'advanced',
    }) as ChildProcessWithoutNullStreams;
    this.#child = child;
    const closed = Promise.all([once(child, 'close'), once(child, 'disconnect')]);
    this.#closed = closed.then(([[code, signal]]) => [code as number | null, signal as NodeJS.Signals | null]);
    this.#closed.catch(() => {});
    // Nothing is ever written to it: while it is open, the process knows that somebody waits for its result.
    child.stdin.on('error', () => {});
  }

  /**
   * The bytes of the job's result. Throws what the job throws; an InterruptedError where it was stopped, a UsageError where
   * its time was up. The process takes one job, and ends with it or with the reader's interest in it.
   */
  async *result(task: Task, run: ReadingRun): AsyncGenerator<Uint8Array> {
    const { signal, timeoutMs } = run;
    signal.throwIfAborted();
    const stop = () => this.close();
    signal.addEventListener('abort', stop, { once: true });
    const limit = timeoutMs === undefined ? undefined : new TimeLimit(timeoutMs, stop);
    const ended = this.#hear(run);
    try {
      this.#child.send(task);
      const bytes = this.#child.stdout[Symbol.asyncIterator]();
      for (;;) {
        const next = await (limit === undefined ? bytes.next() : limit.during(() => bytes.next()));
        if (next.done === true) break;
        yield next.value;
      }
      const end = await Promise.race([ended, this.#closed]);
      signal.throwIfAborted();
      if (limit?.isUp === true) throw timeIsUp(timeoutMs ?? 0);
      if (end === 'whole') return;
      if ('failure' in end) throw errorOf(end.failure);
      const [code, killedBy] = end;
      // Ctrl+C reaches all processes of a terminal at once, and this one may hear of it last.
      if (killedBy === 'SIGINT' || killedBy === 'SIGTERM') throw new InterruptedError(killedBy);
      throw this.#lost(killedBy ?? `exit code ${code}`);
    } finally {
      signal.removeEventListener('abort', stop);
      this.close();
    }
  }

  close(): void {
    this.#child.kill('SIGKILL');
  }

  #hear(run: ReadingRun): Promise<'whole' | { readonly failure: Failure }> {
    return new Promise((resolve) => {
      this.#child.on('message', (news: JobNews) => {
        switch (news.kind) {
          case 'rows':
            run.onRows?.(news.rows);
            break;
          case 'warning':
            run.onWarning?.(news.text);
            break;
          case 'log':
            run.log?.[news.level](news.fields, news.message);
            break;
          case 'end':
            resolve(news.failure === null ? 'whole' : { failure: news.failure });
        }
      });
    });
  }
}

/** The process that reads the mirror. */
export class ReadingProcess extends JobProcess<ReadingTask> {
  constructor() {
    super(moduleBeside('./reading-child', import.meta.url), lostProcess);
  }

  chunks(file: string, job: ReadingJob, run: ReadingRun): AsyncGenerator<Uint8Array> {
    return this.result({ file, job }, run);
  }
}

const readerLimits = {
  /** Each process reads as fast as a processor and a disk allow: more at once only make all of them slower. */
  atOnce: 3,
  /** For what somebody waits for. */
  timeoutMs: 20 * secondMs,
  /** How long a count is good for. */
  keptMs: 5 * minuteMs,
  kept: 500,
  /** How long a page waits for what stands beside it. */
  besideMs: 50,
} as const;

interface Kept {
  readonly at: number;
  readonly part: Promise<unknown>;
}

export class Readers {
  readonly #file: string;
  readonly #shared: SharedReading;
  readonly #kept = new Map<string, Kept>();
  readonly #statements = pLimit(readerLimits.atOnce);
  /** Apart from the others: whoever takes a file slowly keeps nobody from looking. */
  readonly #downloads = pLimit(readerLimits.atOnce);
  readonly #closing = new AbortController();

  constructor(file: string, shared: SharedReading) {
    this.#file = file;
    this.#shared = shared;
  }

  /** Reads one state of the mirror, here: for what is quick. Throws a FileError where there is no mirror. */
  read<T>(work: (snapshot: Snapshot) => T, isMasked = false): T {
    return this.#shared.read((snapshot) => work(isMasked ? maskedSnapshot(snapshot) : snapshot));
  }

  /** The part, wherever it is best read. Throws a UsageError where its time is up. */
  async part<P extends keyof BrowseParts>(
    job: JobOf<P>,
    isMasked: boolean,
    signal: AbortSignal,
  ): Promise<BrowseParts[P]> {
    const found = this.#quick(job, isMasked);
    return found?.part ?? this.#aside(job, isMasked, signal);
  }

  /** The part as it was within some minutes; undefined while it is still looked up. */
  async beside<P extends keyof BrowseParts>(job: JobOf<P>, isMasked: boolean): Promise<BrowseParts[P] | undefined> {
    const name = JSON.stringify([job, isMasked], (_key, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value,
    );
    const now = performance.now();
    const known = this.#kept.get(name);
    const isKnown = known !== undefined && now - known.at < readerLimits.keptMs;
    const quick = isKnown ? null : this.#quick(job, isMasked);
    if (quick !== null) return quick.part;
    const part = isKnown ? known.part : this.#aside(job, isMasked, this.#closing.signal);
    // Nobody may be waiting any more when it fails.
    part.catch(() => {});
    if (!isKnown) this.#keep(name, { at: now, part });
    return Promise.race([part as Promise<BrowseParts[P]>, wait(readerLimits.besideMs, undefined)]);
  }

  /** The part where it is quick to be had, else null. */
  #quick<P extends keyof BrowseParts>(job: JobOf<P>, isMasked: boolean): { readonly part: BrowseParts[P] } | null {
    const lookUp = (snapshot: Snapshot) =>
      isQuickPart(snapshot, job, isMasked) ? { part: partOf(snapshot, job, isMasked) as BrowseParts[P] } : null;
    return this.read(lookUp, isMasked);
  }

  #keep(name: string, kept: Kept): void {
    const [oldest] = this.#kept.keys();
    if (this.#kept.size >= readerLimits.kept && oldest !== undefined) this.#kept.delete(oldest);
    this.#kept.delete(name);
    this.#kept.set(name, kept);
  }

  async #aside<P extends keyof BrowseParts>(
    job: JobOf<P>,
    isMasked: boolean,
    signal: AbortSignal,
  ): Promise<BrowseParts[P]> {
    const run = { signal, timeoutMs: readerLimits.timeoutMs };
    return deserialize(await buffer(this.chunks({ ...job, kind: 'browse', isMasked }, run))) as BrowseParts[P];
  }

  /** The bytes of the job's result, from a process of its own. Waits while too many are at work. */
  async *chunks(job: ReadingJob, run: ReadingRun): AsyncGenerator<Uint8Array> {
    const signal = AbortSignal.any([run.signal, this.#closing.signal]);
    const limit = job.kind === 'export' ? this.#downloads : this.#statements;
    const done = Promise.withResolvers<void>();
    try {
      await new Promise<void>((begin) => {
        void limit(() => {
          begin();
          return done.promise;
        });
      });
      signal.throwIfAborted();
      yield* new ReadingProcess().chunks(this.#file, job, { ...run, signal });
    } finally {
      done.resolve();
    }
  }

  close(): void {
    this.#closing.abort();
    this.#shared.close();
  }
}
