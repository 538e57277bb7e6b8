/**
 * The process that reads the mirror for a command: it takes one job, writes the bytes of the result to standard output,
 * and ends. src/data/reading-process.ts is its other side.
 */
import { Worker } from 'node:worker_threads';
import { type Failure, failureOf } from '../model/failure.ts';
import type { ReadingModule } from '../store/reading-types.ts';
import { jobChunks, type ReadingNews, type ReadingTask } from './reading-job.ts';
import { writeToStream } from './stream-output.ts';

const [, , storeModule = ''] = process.argv;

/**
 * Ends the process when the one that started it is gone, which closes standard input: in the midst of a statement this
 * thread hears nothing, and would go on for as long as that takes.
 */
const watch = `
const end = () => process.kill(process.pid, 'SIGKILL');
new (require('node:net').Socket)({ fd: 0 }).on('error', end).on('close', end).resume();`;

function emit(news: ReadingNews): Promise<void> {
  return new Promise((reported) => void process.send?.(news, () => reported()));
}

async function run(task: ReadingTask): Promise<void> {
  new Worker(watch, { eval: true }).unref();
  // A reader that is gone has what it wanted, or is about to be missed by the thread.
  process.stdout.on('error', () => {});
  let failure: Failure | null = null;
  try {
    const store = (await import(storeModule)) as ReadingModule;
    const chunks = jobChunks(store, task, (news) => void emit(news));
    await writeToStream(process.stdout, chunks, new AbortController().signal);
  } catch (error) {
    failure = failureOf(error);
  }
  await emit({ kind: 'end', failure });
  await new Promise((written) => process.stdout.write('', written));
  // The reader need not wait until this process has put its things away, none of which outlives it.
  process.kill(process.pid, 'SIGKILL');
}

// Loaded while the command is still reading its settings.
const loaded = Promise.all([import(storeModule), import('./query.ts')]);
process.once('message', (task: ReadingTask) => void loaded.then(() => run(task)));
