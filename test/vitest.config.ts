import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

// Threads and processes that tests start find their compiled code again, in a folder of the clone.
process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(new URL('../node_modules/.cache/compiled', import.meta.url));

export default defineConfig({
  root: fileURLToPath(new URL('..', import.meta.url)),
  test: {
    include: ['test/**/*.test.ts'],
    // better-sqlite3 is a native module: a process a file keeps a crash to that file.
    pool: 'forks',
    // As many as there are processors; left to itself, vitest keeps one for its own process, which has little to do.
    maxWorkers: '100%',
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ['default', fileURLToPath(new URL('support/count-reporter.ts', import.meta.url))],
  },
});
