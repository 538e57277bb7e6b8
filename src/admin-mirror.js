#!/usr/bin/env node
// The command itself. In a clone it runs src/main.ts, in the published package the bundle in dist/command/. It is plain
// JavaScript so that a Node too old for the rest can still say so.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  process.stderr.write(
    `admin-mirror needs Node 22.18 or newer; this is ${process.versions.node}. ` +
      'In a clone, run `npm ci` once and then `npx admin-mirror`: Node 24 comes with the packages.\n',
  );
  process.exit(2);
}
// An import of `node:fs` loads all that it gives, streams too, before anybody asks for those.
const [files, { enableCompileCache }, { homedir }, path] = ['fs', 'module', 'os', 'path'].map(process.getBuiltinModule);
// Compiled code is kept before the first module of ours is loaded: `--version` then takes 1.3 times as long as an empty
// node, and 3 times without it. Threads and processes of ours find the folder by the variable.
const cache = ownCacheFolder();
if (cache !== undefined && !process.env.NODE_COMPILE_CACHE) {
  enableCompileCache(cache);
  process.env.NODE_COMPILE_CACHE = cache;
}
const source = new URL('main.ts', import.meta.url);
const bundle = new URL('../dist/command/main.js', import.meta.url);
const { main } = await import(files.existsSync(source) ? source.href : bundle.href);
await main(process.argv.slice(2));

/**
 * A folder for compiled code that nobody else can write to, undefined where there is none. Node runs what it finds there
 * and checks it for damage only, so whoever writes to the folder runs code as this user: the system's temporary folder,
 * which Node takes by itself, may have been prepared by anybody.
 */
function ownCacheFolder() {
  const user = process.getuid?.();
  const base = process.env.XDG_CACHE_HOME;
  try {
    const home = base && path.isAbsolute(base) ? base : path.join(homedir(), '.cache');
    const folder = path.join(home, 'admin-mirror');
    // One by one: where nothing can be made, as in /proc, making all at once never comes to an end.
    for (const each of [home, folder]) if (!files.existsSync(each)) files.mkdirSync(each, 0o700);
    const real = files.realpathSync(folder);
    if ((files.statSync(real).mode & 0o077) !== 0) return undefined;
    // Who can write to a folder above it can put another one in its place.
    for (let at = real; ; at = path.dirname(at)) {
      const { uid, mode } = files.statSync(at);
      const isOurs = uid === user || (uid === 0 && at !== real);
      const isShared = (mode & 0o022) !== 0 && (mode & 0o1000) === 0;
      if (!isOurs || isShared) return undefined;
      if (at === path.dirname(at)) return real;
    }
  } catch {
    // No home, or one that cannot be written to: it starts a little slower.
    return undefined;
  }
}
