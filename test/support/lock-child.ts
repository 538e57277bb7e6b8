/**
 * A process that takes the lock of a mirror and does what it is told on standard input, a word a line; it answers each with
 * a line. Started by test/store/lock.test.ts, which may have it say that it is on another machine.
 */
import { createInterface } from 'node:readline';
import { OperatorError } from '../../src/model/errors.ts';
import { type Holder, thisProcess } from '../../src/store/holder.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';

export interface LockTask {
  readonly file: string;
  /** What is other than it really is: a machine of another name, another start of it. */
  readonly self: Partial<Holder>;
  /** ms that its clock is ahead of ours. */
  readonly ahead: number;
}

const { file, self, ahead } = JSON.parse(process.argv[2] ?? '{}') as LockTask;
const holder = { ...thisProcess(), ...self };
const clock = { now: () => Date.now() + ahead };
const store = openMirrorStore(file, clock, { historyIgnore: [], self: () => holder });

const doing: Readonly<Record<string, () => void>> = {
  take: () => store.acquireLock('sync', `run-${holder.pid}`),
  write: () =>
    store.recordEvent('run', { resource: null, kind: 'test', subject: `${holder.pid} ${Date.now()}`, detail: null }),
  release: () => store.releaseLock('sync', `run-${holder.pid}`),
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
