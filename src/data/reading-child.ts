/** The process that reads the mirror for a command. */
import type { ReadingModule } from '../store/reading-types.ts';
import { serveJob } from './job-child.ts';
import { jobChunks, type ReadingTask } from './reading-job.ts';

const [, , storeModule = ''] = process.argv;

// Loaded while the command is still reading its settings.
const loaded = Promise.all([import(storeModule), import('./query.ts')]);

serveJob(async function* (task, emit) {
  const [store] = (await loaded) as [ReadingModule, unknown];
  yield* jobChunks(store, task as ReadingTask, emit);
});
