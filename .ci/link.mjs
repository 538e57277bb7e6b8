// npm's `prepare` step in a clone: puts the clone's own command beside those of its packages, so that
// `npx admin-mirror` runs src/main.ts. In an installed package npm has made that link itself and this does not run.
import { existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const bin = fileURLToPath(new URL('../node_modules/.bin', import.meta.url));
if (existsSync(bin)) {
  mkdirSync(bin, { recursive: true });
  rmSync(`${bin}/admin-mirror`, { force: true });
  symlinkSync('../../src/admin-mirror.js', `${bin}/admin-mirror`);
}
