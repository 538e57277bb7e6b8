/** Starting threads. */
import { Worker, type WorkerOptions } from 'node:worker_threads';

/**
 * A thread knows nothing of the compiled code that the command keeps, and compiles all of its modules anew: in a clone that
 * takes a tenth of a second and 40 MB. So each begins by turning it on for itself, before the first module of ours.
 */
const beginning = `require('node:module').enableCompileCache(); import(process.argv[2]);`;

/**
 * Starts a thread on a module beside the one at `here`.
 * @param name the module's file without its ending: in a clone it is a .ts file, in the package a .js file
 */
export function startThread(
  name: string,
  here: string,
  options: Pick<WorkerOptions, 'workerData' | 'transferList' | 'resourceLimits'>,
): Worker {
  const module = new URL(`${name}${here.endsWith('.ts') ? '.ts' : '.js'}`, here);
  return new Worker(beginning, { ...options, eval: true, argv: [module.href] });
}
