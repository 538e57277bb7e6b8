/** This program: where it lies, its modules that begin a process, and what its runs are called. */
import { fileURLToPath } from 'node:url';
import { basename } from 'node:path';
import { type Clock, timestampOf } from './time.ts';

/** From src/model/ and from the bundle in dist/command/ it is the same way up. */
const root = new URL('../../', import.meta.url);

/** The command itself, in a clone and in the package alike. */
export const commandFile = fileURLToPath(new URL('src/admin-mirror.js', root));

/** In a clone the command stands in no PATH. */
export const commandName = root.pathname.includes('/node_modules/') ? 'admin-mirror' : 'npx admin-mirror';

let versionRead: string | undefined;

/** As the package's own file names it, which is read once. */
export function version(): string {
  // Not imported, as in src/admin-mirror.js.
  const { readFileSync } = process.getBuiltinModule('node:fs');
  versionRead ??= (JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { version: string }).version;
  return versionRead;
}

/** The address of a module beside the one at `here`. `.ci/bundle.mjs` finds the calls by their text. */
export function moduleBeside(name: string, here: string): string {
  // All of the bundle lies in one folder.
  const file = here.endsWith('.ts') ? `${name}.ts` : `./${basename(name)}.js`;
  return new URL(file, here).href;
}

/** `20260311T021500-1f0c9a3b`: sorts by time, and two of the same moment differ. */
export function runId(clock: Clock): string {
  return `${timestampOf(clock.now()).slice(0, 19).replaceAll(/[-:]/g, '')}-${crypto.randomUUID().slice(0, 8)}`;
}
