import { existsSync, globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { commandFolder } from './support/command-file.ts';
import { countedBefore } from './support/count-reporter.ts';
import { hasMoreInFull, isFull } from './support/part.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

// Threads and processes that tests start find their compiled code again, in a folder of the clone.
process.env['NODE_COMPILE_CACHE'] ??= `${root}node_modules/.cache/compiled`;

// Files are brought to the disk again and again: in memory that costs nothing.
if (existsSync('/dev/shm')) process.env['TMPDIR'] ??= '/dev/shm';

const files = globSync('test/**/*.test.ts', { cwd: root, exclude: ['**/node_modules'] }).map((file) => ({
  file,
  text: readFileSync(`${root}${file}`, 'utf8'),
}));

// Not even loaded: in the fast part what is all of the full one, and after it what it has run and would only be repeated.
const counted = countedBefore();
const isLeftOut = ({ file, text }: (typeof files)[number]): boolean =>
  isFull
    ? counted.get(`${root}${file}`)?.failed === 0 && !hasMoreInFull(text)
    : text.startsWith('// @module-tag full\n');

/**
 * The processes that a command starts for one job run from the bundle here as well: from the sources each takes three times
 * as long to begin.
 */
const jobsFromBundle = {
  name: 'jobs from the bundle',
  enforce: 'pre' as const,
  transform(code: string, id: string): string | undefined {
    if (!id.endsWith('/src/model/program.ts')) return undefined;
    const bundle = `file://${commandFolder}/dist/command/`;
    const changed = code.replace('new URL(file, here).href', `new URL(basename(name) + '.js', '${bundle}').href`);
    if (changed === code) throw new Error(`${id}: no module is found beside another there`);
    return changed;
  },
};

export default defineConfig({
  root,
  plugins: [jobsFromBundle],
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['**/node_modules/**', ...files.filter(isLeftOut).map(({ file }) => file)],
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
