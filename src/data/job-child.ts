/** The child's side of a process for one job; src/data/reading-process.ts is the parent's. */
import { Worker } from 'node:worker_threads';
import { type Failure, failureOf } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import { writeToStream } from './stream-output.ts';

/** Messages of the process, beside the bytes of its result. */
export type JobNews =
  | { readonly kind: 'rows'; readonly rows: number }
  | { readonly kind: 'warning'; readonly text: string }
  | {
      readonly kind: 'log';
      readonly level: keyof Log;
      readonly fields: Readonly<Record<string, unknown>>;
      readonly message: string;
    }
  /** The last message; failure is null if the result is whole. */
  | { readonly kind: 'end'; readonly failure: Failure | null };

/** Ends the process when the parent is gone, which closes standard input. A thread of its own, because a statement blocks this one. */
const watcher = `
const end = () => process.kill(process.pid, 'SIGKILL');
new (require('node:net').Socket)({ fd: 0 }).on('error', end).on('close', end).resume();`;

function emit(news: JobNews): Promise<void> {
  return new Promise((reported) => void process.send?.(news, () => reported()));
}

/** Runs one job for the parent, then ends the process. */
export function serveJob(chunksOf: (task: unknown, emit: (news: JobNews) => void) => AsyncIterable<Uint8Array>): void {
  process.once('message', (task) => void run(chunksOf(task, (news) => void emit(news))));
}

async function run(chunks: AsyncIterable<Uint8Array>): Promise<void> {
  new Worker(watcher, { eval: true }).unref();
  // If the reader is gone, it has all that it wanted, or the watcher ends the process.
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
