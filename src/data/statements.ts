/** Statements of many people at once: each in a process of its own that can be ended, so many at a time. */
import pLimit from 'p-limit';
import type { ReadingJob } from './reading-job.ts';
import type { ReadingProcess, ReadingRun } from './reading-process.ts';

/** Each reads as fast as a processor and a disk allow: more at once only make all of them slower. */
const mostAtOnce = 3;

export class Statements {
  readonly #file: string;
  readonly #start: () => ReadingProcess;
  readonly #limit = pLimit(mostAtOnce);

  constructor(file: string, start: () => ReadingProcess) {
    this.#file = file;
    this.#start = start;
  }

  /** The bytes of the job's result; waits while too many are at work. Throws what the job throws. */
  async *chunks(job: ReadingJob, run: ReadingRun): AsyncGenerator<Uint8Array> {
    const done = Promise.withResolvers<void>();
    try {
      await new Promise<void>((begin) => {
        void this.#limit(() => {
          begin();
          return done.promise;
        });
      });
      run.signal.throwIfAborted();
      yield* this.#start().chunks(this.#file, job, run);
    } finally {
      done.resolve();
    }
  }
}
