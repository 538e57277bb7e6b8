import { existsSync, globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { isFull } from './support/part.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

// Threads and processes that tests start find their compiled code again, in a folder of the clone.
process.env['NODE_COMPILE_CACHE'] ??= `${root}node_modules/.cache/compiled`;

// Files are brought to the disk again and again: in memory that costs nothing.
if (existsSync('/dev/shm')) process.env['TMPDIR'] ??= '/dev/shm';

/** Files of the tests that say of themselves that they have this tag. */
function filesWithTag(tag: string): string[] {
  return globSync('test/**/*.test.ts', { cwd: root, exclude: ['**/node_modules'] }).filter((file) =>
    readFileSync(`${root}${file}`, 'utf8').startsWith(`// @module-tag ${tag}\n`),
  );
}

// Not even loaded in the fast part.
const exclude = ['**/node_modules/**', ...(isFull ? [] : filesWithTag('full'))];

export default defineConfig({
  root,
  test: {
    include: ['test/**/*.test.ts'],
    exclude,
    tags: [{ name: 'full', description: 'left out of the fast part, which is `npm test`' }],
    ...(isFull ? {} : { tagsFilter: ['!full'] }),
    reporters: ['default', fileURLToPath(new URL('support/count-reporter.ts', import.meta.url))],
    // As many as there are processors; left to itself, vitest keeps one for its own process, which has little to do.
    maxWorkers: '100%',
    pool: 'forks',
    isolate: false,
    globalSetup: fileURLToPath(new URL('support/command-file.ts', import.meta.url)),
    // The provider of sign-ins warns of what only a test does.
    onConsoleLog: (text) => !text.includes('oidc-provider '),
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // What is waited for comes; only how soon depends on how busy the machine is.
    expect: { poll: { timeout: 50_000 } },
  },
});
