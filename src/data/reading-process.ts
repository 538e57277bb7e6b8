/**
 * Reads the mirror in a process of its own, which can be killed: SQLite may work on a statement for minutes, and meanwhile its thread
 * reacts to neither signals nor timers. For many concurrent readers, quick reads share one connection, and a few processes do the rest.
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

/** The longest delay that setTimeout takes. */
const longestMs = 2 ** 31 - 1;

/** Counts only the time spent in `during`, and calls `end` once it is used up. */
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
  /** Without it, what the process logs is dropped. */
  readonly log?: Log;
  /** The limit for reading, in ms. Time in which the caller does not take the rows does not count. */
  readonly timeoutMs?: number | undefined;
  readonly onRows?: (rows: number) => void;
  readonly onWarning?: (warning: string) => void;
}

function timeIsUp(ms: number): UsageError {
  return new UsageError(`reading the mirror took ${durationText(ms)}, which is the limit, and was not finished`, {
    advice: 'Raise --timeout, select less, or see with `admin-mirror query --explain` which tables are read whole.',
  });
}

const readingErrors: JobErrors = { late: timeIsUp, lost: lostProcess };

function lostProcess(how: string): IncompleteError {
  return new IncompleteError(`the process that read the mirror ended before its result was complete (${how})`, {
    advice: 'The mirror is unchanged. If the system ended the process, memory was short: select less at once.',
  });
}

/** The errors for a process that took too long, and for one that ended before its result was whole: by a signal, or with an exit code. */
export interface JobErrors {
  readonly late: (ms: number) => Error;
  readonly lost: (how: string) => Error;
}

/** A process of ours that runs one job and returns its result as bytes; src/data/job-child.ts is the child's side. */
export class JobProcess<Task extends object> {
  readonly #errors: JobErrors;
  readonly #child: ChildProcessWithoutNullStreams;
  /** Exit code and signal, once the process has ended and all its output and messages have arrived. */
  readonly #closed: Promise<readonly [number | null, NodeJS.Signals | null]>;

  /**
   * Starts the process, so that it gets ready while the command does.
   * @param entry the URL of its module
   * @param flags of Node
   */
  constructor(entry: string, errors: JobErrors, flags: readonly string[] = []) {
    this.#errors = errors;
    const child = spawn(process.execPath, [...flags, fileURLToPath(entry)], {
      stdio: ['pipe', 'pipe', 'inherit', 'ipc'],
      // Parameters may be bigints, which JSON does not have.
      serialization: 'advanced',
    }) as ChildProcessWithoutNullStreams;
    this.#child = child;
    const closed = Promise.all([once(child, 'close'), once(child, 'disconnect')]);
    this.#closed = closed.then(([[code, signal]]) => [code as number | null, signal as NodeJS.Signals | null]);
    this.#closed.catch(() => {});
    // Nothing is ever written to it. While it is open, the child knows that its parent lives.
    child.stdin.on('error', () => {});
  }

  /**
   * Yields the bytes of the job's result. Throws what the job throws, an InterruptedError if it was stopped, and a UsageError if it
   * took too long. Can be called once: the process ends with the job, or when the caller stops reading.
   */
  async *result(task: Task, run: ReadingRun): AsyncGenerator<Uint8Array> {
    const { signal, timeoutMs } = run;
    signal.throwIfAborted();
    const stop = () => this.close();
    signal.addEventListener('abort', stop, { once: true });
    const limit = timeoutMs === undefined ? undefined : new TimeLimit(timeoutMs, stop);
    const ended = this.#receive(run);
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
      if (limit?.isUp === true) throw this.#errors.late(timeoutMs ?? 0);
      if (end === 'whole') return;
      if ('failure' in end) throw errorOf(end.failure);
      const [code, killedBy] = end;
      // Ctrl+C reaches all processes of a terminal at once, and this one may hear of it last.
      if (killedBy === 'SIGINT' || killedBy === 'SIGTERM') throw new InterruptedError(killedBy);
      throw this.#errors.lost(killedBy ?? `exit code ${code}`);
    } finally {
      signal.removeEventListener('abort', stop);
      this.close();
    }
  }

  close(): void {
    this.#child.kill('SIGKILL');
  }

  /** Passes the messages of the process on; resolves with the last. */
  #receive(run: ReadingRun): Promise<'whole' | { readonly failure: Failure }> {
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

export class ReadingProcess extends JobProcess<ReadingTask> {
  constructor() {
    super(moduleBeside('./reading-child', import.meta.url), readingErrors);
  }

  chunks(file: string, job: ReadingJob, run: ReadingRun): AsyncGenerator<Uint8Array> {
    return this.result({ file, job }, run);
  }
}

const readerLimits = {
  /** Each process uses a processor and the disk fully: more of them only slow each other down. */
  processes: 3,
  /** For results that a person waits for. */
  timeoutMs: 20 * secondMs,
  /** How long a cached part is good for. */
  cachedMs: 5 * minuteMs,
  cached: 500,
  /** How long a page waits for the parts that it can do without, such as counts. */
  besideMs: 50,
} as const;

interface CachedPart {
  readonly at: number;
  readonly part: Promise<unknown>;
}

/** Reads for the console: many at once, in a process that lives on. */
export class Readers {
  readonly #file: string;
  readonly #shared: SharedReading;
  readonly #cache = new Map<string, CachedPart>();
  readonly #statements = pLimit(readerLimits.processes);
  /** A limit of its own, so that slow downloads do not keep others from browsing. */
  readonly #downloads = pLimit(readerLimits.processes);
  readonly #closing = new AbortController();

  constructor(file: string, shared: SharedReading) {
    this.#file = file;
    this.#shared = shared;
  }

  /** Reads one state of the mirror in this process, which only quick work may do. Throws a FileError if there is no mirror. */
  read<T>(work: (snapshot: Snapshot) => T, isMasked = false): T {
    return this.#shared.read((snapshot) => work(isMasked ? maskedSnapshot(snapshot) : snapshot));
  }

  /** Reads the part: here if that is quick, else in a process. Throws a UsageError if it takes too long. */
  async part<P extends keyof BrowseParts>(
    job: JobOf<P>,
    isMasked: boolean,
    signal: AbortSignal,
  ): Promise<BrowseParts[P]> {
    return this.#quick(job, isMasked) ?? this.#inProcess(job, isMasked, signal);
  }

  /** Returns the part, up to some minutes old; undefined while it is still being read. */
  async beside<P extends keyof BrowseParts>(job: JobOf<P>, isMasked: boolean): Promise<BrowseParts[P] | undefined> {
    const key = JSON.stringify([job, isMasked], (_key, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value,
    );
    const now = performance.now();
    const cached = this.#cache.get(key);
    const isFresh = cached !== undefined && now - cached.at < readerLimits.cachedMs;
    const quick = isFresh ? null : this.#quick(job, isMasked);
    if (quick !== null) return quick;
    const part = isFresh ? cached.part : this.#inProcess(job, isMasked, this.#closing.signal);
    // It may fail when nobody waits for it any more.
    part.catch(() => {});
    if (!isFresh) this.#keep(key, { at: now, part });
    return Promise.race([part as Promise<BrowseParts[P]>, wait(readerLimits.besideMs, undefined)]);
  }

  /** Reads the part in this process if that is quick; null otherwise. */
  #quick<P extends keyof BrowseParts>(job: JobOf<P>, isMasked: boolean): BrowseParts[P] | null {
    const readIfQuick = (snapshot: Snapshot) =>
      isQuickPart(snapshot, job, isMasked) ? (partOf(snapshot, job, isMasked) as BrowseParts[P]) : null;
    return this.read(readIfQuick, isMasked);
  }

  #keep(key: string, part: CachedPart): void {
    const [oldest] = this.#cache.keys();
    if (this.#cache.size >= readerLimits.cached && oldest !== undefined) this.#cache.delete(oldest);
    // A key that is set again stays in its old place, unless it is deleted first.
    this.#cache.delete(key);
    this.#cache.set(key, part);
  }

  async #inProcess<P extends keyof BrowseParts>(
    job: JobOf<P>,
    isMasked: boolean,
    signal: AbortSignal,
  ): Promise<BrowseParts[P]> {
    const run = { signal, timeoutMs: readerLimits.timeoutMs };
    return deserialize(await buffer(this.chunks({ ...job, kind: 'browse', isMasked }, run))) as BrowseParts[P];
  }

  /** Yields the bytes of the job's result, from a process of its own. Waits while too many are running. */
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
