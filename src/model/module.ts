/** Modules that begin a thread or a process of ours. */

/**
 * The address of a module beside the one at `here`.
 * @param name the module's file without its ending: in a clone it is a .ts file, in the package a .js file
 */
export function moduleBeside(name: string, here: string): string {
  return new URL(`${name}${here.endsWith('.ts') ? '.ts' : '.js'}`, here).href;
}
