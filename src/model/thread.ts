/** Starting threads. */
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { moduleBeside } from './module.ts';

/**
 * Starts a thread on a module beside the one at `here`.
 * @param name the module's file without its ending: in a clone it is a .ts file, in the package a .js file
 */
export function startThread(
  name: string,
  here: string,
  options: Pick<WorkerOptions, 'workerData' | 'transferList' | 'resourceLimits'>,
): Worker {
  return new Worker(new URL(moduleBeside(name, here)), options);
}
