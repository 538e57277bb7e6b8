/** Reading for many at once: what is quick over one open connection, the rest in processes, a few at a time. */
import { deserialize } from 'node:v8';
import { setTimeout } from 'node:timers/promises';
import pLimit from 'p-limit';
import { secondMs, minuteMs } from '../model/time.ts';
import type { SharedReading, Snapshot } from '../store/reading.ts';
import { type BrowseParts, isQuickPart, type JobOf, partOf } from './browse.ts';
import { maskedSnapshot } from './personal.ts';
import type { ReadingJob } from './reading-child.ts';
import { ReadingProcess, type ReadingRun } from './reading-process.ts';

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
    return Promise.race([part as Promise<BrowseParts[P]>, setTimeout(readerLimits.besideMs, undefined)]);
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
    const pieces: Uint8Array[] = [];
    const run = { signal, timeoutMs: readerLimits.timeoutMs };
    for await (const piece of this.chunks({ ...job, kind: 'browse', isMasked }, run)) pieces.push(piece);
    return deserialize(Buffer.concat(pieces)) as BrowseParts[P];
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
