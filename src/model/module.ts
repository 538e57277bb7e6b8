/** Modules that begin a thread or a process of ours. */
import { basename } from 'node:path';

/** The address of a module beside the one at `here`. `.ci/bundle.mjs` finds the calls by their text. */
export function moduleBeside(name: string, here: string): string {
  // All of the bundle lies in one folder.
  const file = here.endsWith('.ts') ? `${name}.ts` : `./${basename(name)}.js`;
  return new URL(file, here).href;
}
