// Adds to package-lock.json the packages for other platforms that npm has left out of it.
//
// Many tools come as one optional package a platform. Where a registry does not serve all of them, npm leaves the
// missing ones out of the lock file it writes, and `npm ci` then refuses that file everywhere. Run this after a change
// of dependencies: `node .ci/complete-lock.mjs`. It says what it added and does nothing where nothing is missing.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const path = fileURLToPath(new URL('../package-lock.json', import.meta.url));
const lock = JSON.parse(readFileSync(path, 'utf8'));

const systems = ['aix', 'android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'win32'];
const processors = ['arm64', 'arm', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'x64', 'wasm32'];
const libraries = { gnu: 'glibc', gnueabihf: 'glibc', musl: 'musl', musleabihf: 'musl' };

/** What the package's name says of where it runs: `binding-linux-arm64-gnu`. */
function platformOf(name) {
  const words = name.split('/').at(-1).split('-');
  const os = systems.filter((each) => words.includes(each));
  const cpu = processors.filter((each) => words.includes(each));
  const libc = Object.keys(libraries).flatMap((each) => (words.includes(each) ? [libraries[each]] : []));
  if (os.length + cpu.length === 0) throw new Error(`the name ${name} does not say where the package runs`);
  return {
    ...(os.length > 0 && { os }),
    ...(cpu.length > 0 && { cpu }),
    ...(libc.length > 0 && { libc }),
  };
}

const added = [];
for (const [place, entry] of Object.entries(lock.packages)) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    const own = `${place}/node_modules/${name}`;
    const key = `node_modules/${name}`;
    if (lock.packages[key] !== undefined || lock.packages[own] !== undefined) continue;
    // Only an exact version can be written down without asking the registry.
    if (!/^\d+\.\d+\.\d+/.test(version)) throw new Error(`${place} wants ${name}@${version}: not an exact version`);
    lock.packages[key] = { version, ...(entry.dev && { dev: true }), optional: true, ...platformOf(name) };
    added.push(`${name}@${version}`);
  }
}
if (added.length > 0) {
  lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => a.localeCompare(b, 'en')));
  writeFileSync(path, `${JSON.stringify(lock, undefined, 2)}\n`);
}
process.stdout.write(added.length === 0 ? 'nothing is missing\n' : `added:\n  ${added.join('\n  ')}\n`);
