/**
 * A process that takes the lock of a mirror and follows commands on standard input, one word a line; it replies to each
 * with a line. Started by test/store/lock.test.ts.
 */
import { createInterface } from 'node:readline';
import { OperatorError } from '../../src/model/errors.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';

const store = openMirrorStore(process.argv[2] ?? '');
const run = `run-${process.pid}`;

const doing: Readonly<Record<string, () => void>> = {
  take: () => store.acquireLock('sync', run),
  write: () =>
    store.recordEvent('run', { resource: null, kind: 'test', subject: `${run} ${Date.now()}`, detail: null }),
  release: () => store.releaseLock('sync', run),
};

for await (const word of createInterface({ input: process.stdin })) {
  try {
    doing[word]?.();
    process.stdout.write(`${word}: done\n`);
  } catch (error) {
    process.stdout.write(`${error instanceof OperatorError ? `${error.exitCode} ${error.message}` : String(error)}\n`);
  }
}
store.close();
