/** Where the program lies. From src/model/ and from the bundle in dist/command/ it is the same way up. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = new URL('../../', import.meta.url);

/** The command itself, in a clone and in the package alike. */
export const commandFile = fileURLToPath(new URL('src/admin-mirror.js', root));

/** In a clone the command stands in no PATH. */
export const commandName = root.pathname.includes('/node_modules/') ? 'admin-mirror' : 'npx admin-mirror';

export function version(): string {
  return (JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as { version: string }).version;
}
