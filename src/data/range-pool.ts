/** Worker threads that read one table side by side, all from the same state of the mirror. */
import type { Worker } from 'node:worker_threads';
import { errorOf } from '../model/failure.ts';
import { startThread } from '../model/thread.ts';
import type { ReadingSource, ReadingStore, Snapshot } from '../store/reading-types.ts';
import type { EncodedPiece } from './encoding.ts';
import type { RangeReply, RangeRequest, RangeWorkerData, TaskRange } from './range-task.ts';

/**
 * Small generations: a range's text is garbage as soon as it is sent, and threads times the default is much memory. With
 * an end in sight, even one that no export comes near, the old generation is cleared sooner as well.
 */
const resourceLimits = { maxYoungGenerationSizeMb: 12, maxOldGenerationSizeMb: 768 };

interface Waiting {
  readonly resolve: (piece: EncodedPiece) => void;
  readonly reject: (error: Error) => void;
}

export class RangeThread {
  readonly #worker: Worker;
  readonly #waiting: Waiting[] = [];
  #ended: Error | undefined;

  constructor(source: ReadingSource) {
    const workerData: RangeWorkerData = { source };
    this.#worker = startThread('./range-worker', import.meta.url, { workerData, resourceLimits });
    this.#worker.on('message', (reply: RangeReply) => {
      const first = this.#waiting.shift();
      if ('failure' in reply) first?.reject(errorOf(reply.failure));
      else first?.resolve(reply);
    });
    this.#worker.on('error', (error) => this.#end(error instanceof Error ? error : new Error(String(error))));
    this.#worker.on('exit', () => this.#end(new Error('a range thread ended before its work')));
  }

  /** The answer to the request; requests are answered in their order. */
  ask(request: RangeRequest): Promise<EncodedPiece> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    const answer = new Promise<EncodedPiece>((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
    });
    // Answers are awaited in the order of the ranges; one that fails early must not count as unheeded until then.
    answer.catch(() => {});
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin, a window has
    this.#worker.postMessage(request);
    return answer;
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }

  #end(error: Error): void {
    this.#ended ??= error;
    for (const { reject } of this.#waiting.splice(0)) reject(this.#ended);
  }
}

/** Tries at finding a moment without a commit before giving up; even a busy writer pauses for longer than one takes. */
const attempts = 100;

/**
 * Makes every thread, and the snapshot returned for this one, see the same state: they begin one by one, and nothing
 * may be committed from before the first until after the last. Undefined where that never happened.
 */
export async function agreeOnSnapshot(
  store: ReadingStore,
  threads: readonly RangeThread[],
  signal: AbortSignal,
): Promise<Snapshot | undefined> {
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    signal.throwIfAborted();
    const before = store.commitMark();
    const snapshot = store.snapshot();
    try {
      await Promise.all(threads.map((thread) => thread.ask('begin')));
      if (store.commitMark() === before) return snapshot;
    } catch (error) {
      snapshot.release();
      throw error;
    }
    snapshot.release();
  }
  return undefined;
}

/** Requests under way for each thread: enough that none waits, few enough that little is held. */
const ahead = 2;

/** Reads the ranges on all threads at once and gives them in their order. */
export async function* readInOrder(
  ranges: Iterable<TaskRange>,
  threads: readonly RangeThread[],
): AsyncGenerator<EncodedPiece> {
  const underWay: Promise<EncodedPiece>[] = [];
  let next = 0;
  for (const range of ranges) {
    const thread = threads[next++ % threads.length];
    if (thread !== undefined) underWay.push(thread.ask(range));
    if (underWay.length < ahead * threads.length) continue;
    const first = await underWay.shift();
    if (first !== undefined) yield first;
  }
  for (const each of underWay) yield await each;
}
