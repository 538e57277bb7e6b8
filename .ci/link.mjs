// npm's `prepare` step in a clone: puts the clone's own command beside those of its packages, so that
// `npx admin-mirror` runs src/main.ts, and the Node that came with the packages, which older npms do not put there. In an
// installed package npm has made the link to the command itself and this does not run.
import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const modules = fileURLToPath(new URL('../node_modules', import.meta.url));

function link(name, target) {
  rmSync(`${modules}/.bin/${name}`, { force: true });
  symlinkSync(target, `${modules}/.bin/${name}`);
}

if (existsSync(`${modules}/.bin`)) {
  link('admin-mirror', '../../src/admin-mirror.js');
  // Of the packages of a Node, one a platform, npm has installed that of this one, where there is one that the lock pins by
  // its hash. An unpinned program is not run: without one, the Node of the machine is used, and .ci/set-up.mjs says which.
  const { optionalDependencies } = JSON.parse(readFileSync(new URL('runtime/package.json', import.meta.url), 'utf8'));
  const runtime = readdirSync(modules).find((name) => name in optionalDependencies);
  if (runtime !== undefined && process.platform !== 'win32') link('node', `../${runtime}/bin/node`);
}
