/** This program: where its files are, its modules that begin a process, and the names of its runs. */
import { fileURLToPath } from 'node:url';
import { basename } from 'node:path';
import { type Clock, timestampOf } from './time.ts';

/** Two folders up, both from src/model/ and from the bundle in dist/command/. */
const root = new URL('../../', import.meta.url);

/** The command itself, in a clone as in the package. */
export const commandFile = fileURLToPath(new URL('src/admin-mirror.js', root));

/** In a clone, the command is not in the PATH. */
export const commandName = root.pathname.includes('/node_modules/') ? 'admin-mirror' : 'npx admin-mirror';

/** The one word of a child's command line: it gets its job as data (src/worker/run-job.ts). */
export const childWord = '_job';

let versionRead: string | undefined;

/** Returns the version from package.json, which is read once. */
export function version(): string {
  // Not imported, for the reason given in src/admin-mirror.js.
  const { readFileSync } = process.getBuiltinModule('node:fs');
  versionRead ??= (JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { version: string }).version;
  return versionRead;
}

/** Returns the URL of a module beside the one at `here`. `.ci/bundle.mjs` finds the calls by their text. */
export function moduleBeside(name: string, here: string): string {
  // The bundle has all files in one folder.
  const file = here.endsWith('.ts') ? `${name}.ts` : `./${basename(name)}.js`;
  return new URL(file, here).href;
}

/** Returns `20260311T021500-1f0c9a3b`: sorts by time, and two from the same moment differ. */
export function runId(clock: Clock): string {
  return `${timestampOf(clock.now()).slice(0, 19).replaceAll(/[-:]/g, '')}-${crypto.randomUUID().slice(0, 8)}`;
}
