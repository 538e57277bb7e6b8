/** Reads the mirror in a process of its own. For many concurrent readers, quick reads share one connection, and a few processes do the rest. */
import { buffer } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import { deserialize } from 'node:v8';
import pLimit from 'p-limit';
import { minuteMs, secondMs } from '../model/time.ts';
import type { SharedReading, Snapshot } from './reading.ts';
import { type BrowseParts, isQuickPart, type JobOf, partOf } from './browse.ts';
import { JobProcess, type JobRun } from './job-process.ts';
import { maskedSnapshot } from './personal.ts';
import type { ReadingJob } from './reading-child.ts';

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

  /** Returns the part, up to some minutes old; undefined while it is still being read, unless `isAwaited`. */
  async beside<P extends keyof BrowseParts>(
    job: JobOf<P>,
    isMasked: boolean,
    isAwaited = false,
  ): Promise<BrowseParts[P] | undefined> {
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
    if (isAwaited) return part as Promise<BrowseParts[P]>;
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
  async *chunks(job: ReadingJob, run: JobRun): AsyncGenerator<Uint8Array> {
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
      yield* new JobProcess().chunks(this.#file, job, { ...run, signal });
    } finally {
      done.resolve();
    }
  }

  close(): void {
    this.#closing.abort();
    this.#shared.close();
  }
}
