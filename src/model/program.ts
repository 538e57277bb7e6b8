/** This program: where it lies, its modules that begin a process, its memory, and what its runs are called. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { basename } from 'node:path';
import { setFlagsFromString } from 'node:v8';
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
  versionRead ??= (JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { version: string }).version;
  return versionRead;
}

/** The address of a module beside the one at `here`. `.ci/bundle.mjs` finds the calls by their text. */
export function moduleBeside(name: string, here: string): string {
  // All of the bundle lies in one folder.
  const file = here.endsWith('.ts') ? `${name}.ts` : `./${basename(name)}.js`;
  return new URL(file, here).href;
}

/**
 * The collector lets the heap grow to many times what lives on. From now on young objects keep the room that loading the
 * program has made, and what became old is looked through whenever it has grown by so much. It takes up to a twentieth more of the
 * processor.
 */
export function keepHeapSmall(growthPercent: number): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString(`--heap-growing-percent=${growthPercent}`);
}

/**
 * Gives the memory back at once; nobody may look at the bytes again. The collector looks at what it manages itself, and
 * lets half-megabytes outside of it gather by the hundred. Memory that others share is left to it.
 */
export function releaseBytes({ buffer, byteLength }: Uint8Array): void {
  if (buffer.byteLength === byteLength) (buffer as ArrayBuffer).transfer(0);
}

/** `20260311T021500-1f0c9a3b`: sorts by time, and two of the same moment differ. */
export function runId(clock: Clock): string {
  return `${timestampOf(clock.now()).slice(0, 19).replaceAll(/[-:]/g, '')}-${crypto.randomUUID().slice(0, 8)}`;
}
