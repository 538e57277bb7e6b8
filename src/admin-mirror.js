#!/usr/bin/env node
// The command itself. In a clone it runs src/main.ts as it stands, in the published package dist/main.js. It is plain
// JavaScript so that a Node too old for the rest can still say so.
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  process.stderr.write(
    `admin-mirror needs Node 22.18 or newer; this is ${process.versions.node}. ` +
      'In a clone, run `npm ci` once and then `npx admin-mirror`: Node 24 comes with the packages.\n',
  );
  process.exit(2);
}
const [{ existsSync }, { enableCompileCache }] = await Promise.all([import('node:fs'), import('node:module')]);
// Compiled code is kept in the system's temporary folder, before the first module of ours is loaded: `--version` then
// takes 1.3 times as long as an empty node, and 3 times without it.
enableCompileCache();
const source = new URL('main.ts', import.meta.url);
const { main } = await import(existsSync(source) ? source.href : new URL('../dist/main.js', import.meta.url).href);
await main(process.argv.slice(2));
