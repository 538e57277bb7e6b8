/**
 * A process of ours for one job, which can be killed: SQLite may work on a statement for minutes, and meanwhile its thread reacts to
 * neither signals nor timers. Its parent's side, and its own.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { errorOf, type Failure, failureOf, IncompleteError, InterruptedError, UsageError } from '../model/errors.ts';
import { moduleBeside } from '../model/program.ts';
import { durationText } from '../model/time.ts';
import type { ReadingJob, ReadingTask } from './reading-child.ts';

/** Messages of the process, beside the bytes of its result. */
export type JobNews =
  | { readonly kind: 'rows'; readonly rows: number }
  | { readonly kind: 'warning'; readonly text: string }
  /** The last message; failure is null if the result is whole. */
  | { readonly kind: 'end'; readonly failure: Failure | null };

export interface JobRun {
  readonly signal: AbortSignal;
  /** The limit for reading, in ms. Time in which the caller does not take the rows does not count. */
  readonly timeoutMs?: number | undefined;
  readonly onRows?: (rows: number) => void;
  readonly onWarning?: (warning: string) => void;
}

/** A process of ours that reads the mirror for one job and returns its result as bytes. */
export class JobProcess {
  readonly #child: ChildProcessWithoutNullStreams;
  /** Exit code and signal, once the process has ended and all its output and messages have arrived. */
  readonly #closed: Promise<readonly [number | null, NodeJS.Signals | null]>;

  /** Starts the process, so that it gets ready while the command does. */
  constructor() {
    const entry = moduleBeside('./reading-child', import.meta.url);
    const child = spawn(process.execPath, [fileURLToPath(entry)], {
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
  async *chunks(file: string, job: ReadingJob, run: JobRun): AsyncGenerator<Uint8Array> {
    const { signal, timeoutMs } = run;
    signal.throwIfAborted();
    const stop = () => this.close();
    signal.addEventListener('abort', stop, { once: true });
    let leftMs = timeoutMs ?? Infinity;
    let isLate = false;
    const endLate = () => {
      isLate = true;
      this.close();
    };
    const ended = this.#receive(run);
    try {
      this.#child.send({ file, job } satisfies ReadingTask);
      const bytes = this.#child.stdout[Symbol.asyncIterator]();
      for (;;) {
        const began = performance.now();
        const timer = leftMs === Infinity ? undefined : setTimeout(endLate, leftMs);
        const next = await bytes.next().finally(() => clearTimeout(timer));
        leftMs -= performance.now() - began;
        if (next.done === true) break;
        yield next.value;
      }
      const end = await Promise.race([ended, this.#closed]);
      signal.throwIfAborted();
      if (isLate) {
        const limit = durationText(timeoutMs ?? 0);
        throw new UsageError(`reading the mirror took ${limit}, which is the limit, and was not finished`, {
          advice: 'Allow more time, or select less.',
        });
      }
      if (end === 'whole') return;
      if ('failure' in end) throw errorOf(end.failure);
      const [code, killedBy] = end;
      // Ctrl+C reaches all processes of a terminal at once, and this one may hear of it last.
      if (killedBy === 'SIGINT' || killedBy === 'SIGTERM') throw new InterruptedError(killedBy);
      const how = killedBy ?? `exit code ${code}`;
      throw new IncompleteError(`the process that read the mirror ended before its result was complete (${how})`, {
        advice: 'The mirror is unchanged. If the system ended the process, memory was short: select less at once.',
      });
    } finally {
      signal.removeEventListener('abort', stop);
      this.close();
    }
  }

  close(): void {
    this.#child.kill('SIGKILL');
  }

  /** Passes the messages of the process on; resolves with the last. */
  #receive(run: JobRun): Promise<'whole' | { readonly failure: Failure }> {
    return new Promise((resolve) => {
      this.#child.on('message', (news: JobNews) => {
        switch (news.kind) {
          case 'rows':
            run.onRows?.(news.rows);
            break;
          case 'warning':
            run.onWarning?.(news.text);
            break;
          case 'end':
            resolve(news.failure === null ? 'whole' : { failure: news.failure });
        }
      });
    });
  }
}

function emit(news: JobNews): Promise<void> {
  return new Promise((reported) => void process.send?.(news, () => reported()));
}

/** Runs one job for the parent, then ends the process. */
export function serveJob(
  chunksOf: (task: ReadingTask, emit: (news: JobNews) => void) => AsyncIterable<Uint8Array>,
): void {
  process.once('message', (task: ReadingTask) => void run(chunksOf(task, (news) => void emit(news))));
}

async function run(chunks: AsyncIterable<Uint8Array>): Promise<void> {
  new Worker(new URL(moduleBeside('./parent-watch', import.meta.url))).unref();
  // If the reader is gone, it has all that it wanted, or that thread ends the process.
  process.stdout.on('error', () => {});
  let failure: Failure | null = null;
  try {
    await writeToStream(process.stdout, chunks, new AbortController().signal);
  } catch (error) {
    failure = failureOf(error);
  }
  await emit({ kind: 'end', failure });
  await new Promise((written) => process.stdout.write('', written));
  // A regular exit would make the reader wait for cleaning up that the system does anyway.
  process.kill(process.pid, 'SIGKILL');
}

/** Writes all chunks. Stops without an error if the reader has gone (`| head`). */
export async function writeToStream(
  stream: Writable,
  chunks: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const failure: { error?: NodeJS.ErrnoException } = {};
  const failed = (error: NodeJS.ErrnoException) => {
    failure.error = error;
  };
  stream.on('error', failed);
  try {
    for await (const chunk of chunks) {
      signal.throwIfAborted();
      if (failure.error !== undefined || stream.destroyed) break;
      if (!stream.write(chunk)) await once(stream, 'drain', { signal });
    }
    if (failure.error !== undefined) throw failure.error;
  } catch (error) {
    signal.throwIfAborted();
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error;
  } finally {
    stream.off('error', failed);
  }
}
