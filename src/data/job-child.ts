/** The inside of a process that was started for one job; src/data/reading-process.ts is its other side. */
import { Worker } from 'node:worker_threads';
import { type Failure, failureOf } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import { writeToStream } from './stream-output.ts';

/** What such a process says beside the bytes. */
export type JobNews =
  | { readonly kind: 'rows'; readonly rows: number }
  | { readonly kind: 'warning'; readonly text: string }
  | {
      readonly kind: 'log';
      readonly level: keyof Log;
      readonly fields: Readonly<Record<string, unknown>>;
      readonly message: string;
    }
  /** The last of it; the failure is null where the result is whole. */
  | { readonly kind: 'end'; readonly failure: Failure | null };

/** Standard input closes when the parent is gone: in the midst of a statement this thread would not hear of it. */
const watch = `
const end = () => process.kill(process.pid, 'SIGKILL');
new (require('node:net').Socket)({ fd: 0 }).on('error', end).on('close', end).resume();`;

function emit(news: JobNews): Promise<void> {
  return new Promise((reported) => void process.send?.(news, () => reported()));
}

/** Takes one job from the process that started this one, and ends with it. */
export function serveJob(chunksOf: (task: unknown, emit: (news: JobNews) => void) => AsyncIterable<Uint8Array>): void {
  process.once('message', (task) => void run(chunksOf(task, (news) => void emit(news))));
}

async function run(chunks: AsyncIterable<Uint8Array>): Promise<void> {
  new Worker(watch, { eval: true }).unref();
  // A reader that is gone has what it wanted, or is about to be missed by the thread.
  process.stdout.on('error', () => {});
  let failure: Failure | null = null;
  try {
    await writeToStream(process.stdout, chunks, new AbortController().signal);
  } catch (error) {
    failure = failureOf(error);
  }
  await emit({ kind: 'end', failure });
  await new Promise((written) => process.stdout.write('', written));
  // The reader need not wait until this process has put its things away, none of which outlives it.
  process.kill(process.pid, 'SIGKILL');
}
