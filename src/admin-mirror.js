#!/usr/bin/env node
// The command itself. The published package runs the bundle in dist/command/. A clone does too while the bundle that its set-up
// made is newer than every source, and src/main.ts otherwise. It is plain JavaScript so that even a Node that is too old for the rest can print the message below.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  process.stderr.write(
    `admin-mirror needs Node 22.18 or newer; this is ${process.versions.node}. ` +
      'In a clone, run `npm ci` once and then `npx admin-mirror`: Node 24 comes with the packages.\n',
  );
  process.exit(2);
}
// Not an import of `node:fs`, which would load everything it exports, streams included.
const [files, { enableCompileCache }, { homedir }, path, url] = ['fs', 'module', 'os', 'path', 'url'].map(
  process.getBuiltinModule,
);
// Turn on the compile cache before our first module loads: `--version` takes 1.3 times as long as an empty node with it, and
// 3 times without it. Our threads and child processes find the folder through the variable.
const cache = ownCacheFolder();
if (cache !== undefined && !process.env.NODE_COMPILE_CACHE) {
  enableCompileCache(cache);
  process.env.NODE_COMPILE_CACHE = cache;
}
const source = new URL('main.ts', import.meta.url);
const bundle = new URL('../dist/command/main.js', import.meta.url);
const { main } = await import(files.existsSync(source) && !(await isBundled()) ? source.href : bundle.href);
await main(process.argv.slice(2));

/** Whether this clone has a bundle of all that its sources say now. */
async function isBundled() {
  const made = files.statSync(new URL('../dist/command/made', import.meta.url), { throwIfNoEntry: false });
  if (made === undefined) return false;
  const { newestSource } = await import('../.ci/newest-source.mjs');
  return newestSource(files, url.fileURLToPath(new URL('..', import.meta.url))) < made.mtimeMs;
}

/**
 * Returns a folder for compiled code that nobody else can write to, or undefined if there is none. Node runs what it finds
 * there and checks it only for damage, so whoever can write to the folder can run code as this user. Node's default is the
 * system's temporary folder, where anybody may have put such a folder.
 */
function ownCacheFolder() {
  const user = process.getuid?.();
  const base = process.env.XDG_CACHE_HOME;
  try {
    const home = base && path.isAbsolute(base) ? base : path.join(homedir(), '.cache');
    const folder = path.join(home, 'admin-mirror');
    // One by one: with `recursive`, mkdir never returns in places like /proc where nothing can be created.
    for (const each of [home, folder]) if (!files.existsSync(each)) files.mkdirSync(each, 0o700);
    const real = files.realpathSync(folder);
    if ((files.statSync(real).mode & 0o077) !== 0) return undefined;
    // Whoever can write to a folder above it can replace it.
    for (let at = real; ; at = path.dirname(at)) {
      const { uid, mode } = files.statSync(at);
      const isOurs = uid === user || (uid === 0 && at !== real);
      const isShared = (mode & 0o022) !== 0 && (mode & 0o1000) === 0;
      if (!isOurs || isShared) return undefined;
      if (at === path.dirname(at)) return real;
    }
  } catch {
    // No home folder, or it is not writable: the program just starts a little slower.
    return undefined;
  }
}
