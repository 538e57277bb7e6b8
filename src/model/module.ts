/** Modules that begin a thread or a process of ours. */

/**
 * A thread or process knows nothing of the compiled code that the command keeps, and compiles all of its modules anew: in a
 * clone that takes a tenth of a second and 40 MB. So each begins by turning it on for itself, before the first module of
 * ours, which is the last of its arguments.
 */
export const beginning = `require('node:module').enableCompileCache(); import(process.argv.at(-1));`;

/**
 * The address of a module beside the one at `here`.
 * @param name the module's file without its ending: in a clone it is a .ts file, in the package a .js file
 */
export function moduleBeside(name: string, here: string): string {
  return new URL(`${name}${here.endsWith('.ts') ? '.ts' : '.js'}`, here).href;
}
