import SqliteDatabase from 'better-sqlite3';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { hourMs, minuteMs, secondMs, timestampOf } from '../../src/model/time.ts';
import { type Holder, isAlive, thisProcess } from '../../src/store/holder.ts';
import { openJournal } from '../../src/journal/journal.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import type { LockTask } from '../support/lock-child.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const script = fileURLToPath(new URL('../support/lock-child.ts', import.meta.url));

/** A process that does as it is told, and answers. */
function startHolder(task: Partial<LockTask> & { readonly file: string }) {
  const child = spawn(process.execPath, [script, JSON.stringify({ self: {}, ahead: 0, ...task })]);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  onTestFinished(() => void child.kill('SIGKILL'));
  return {
    pid: child.pid ?? 0,
    tell: async (word: 'take' | 'write' | 'release'): Promise<string> => {
      child.stdin.write(`${word}\n`);
      return (await lines.next()).value as string;
    },
    kill: async (signal: NodeJS.Signals) => {
      child.kill(signal);
      if (signal === 'SIGKILL') await once(child, 'exit');
    },
  };
}

const mirror = () => `${temporaryFolder()}/mirror.db`;
const elsewhere = { host: 'elsewhere', boot: 'another-start', pid_namespace: 'pid:[1]' };

/** Makes the last sign of life so many ms older than it is. */
function silence(file: string, ms: number): void {
  const database = new SqliteDatabase(file);
  database.prepare('UPDATE mirror_locks SET beat_at = ?').run(timestampOf(Date.now() - ms));
  database.close();
}

describe('two processes', () => {
  test('never hold one lock; the second learns who the first is, and gets it when that is killed', async () => {
    const file = mirror();
    const first = startHolder({ file });
    const second = startHolder({ file });
    expect(await first.tell('take')).toBe('take: done');
    expect(await second.tell('take')).toMatch(
      new RegExp(
        `^7 another sync holds the lock: process ${first.pid} on ${hostname()}, since 20\\S+Z \\(sync, run run-${first.pid}\\)$`,
      ),
    );
    await first.kill('SIGKILL');
    expect(await second.tell('take')).toBe('take: done');
    expect(await second.tell('write')).toBe('write: done');
  });

  test('on two machines hold it one after the other: the first gives it up, or is silent for too long', async () => {
    const file = mirror();
    const here = startHolder({ file });
    const there = startHolder({ file, self: elsewhere });
    expect(await there.tell('take')).toBe('take: done');
    expect(await here.tell('take')).toMatch(
      new RegExp(`^7 another sync holds the lock: process ${there.pid} on elsewhere,`),
    );
    expect(await there.tell('release')).toBe('release: done');
    expect(await here.tell('take')).toBe('take: done');
    await here.kill('SIGKILL');
    // From there nobody can see that this process is gone.
    expect(await there.tell('take')).toMatch(/^7 /);
    silence(file, 4 * minuteMs);
    expect(await there.tell('take')).toMatch(/^7 /);
    silence(file, 6 * minuteMs);
    expect(await there.tell('take')).toBe('take: done');
  });

  test('one of which was taken for dead and is not: it notices before it writes, and leaves the other its lock', async () => {
    const file = mirror();
    const here = startHolder({ file });
    const there = startHolder({ file, self: elsewhere });
    expect(await here.tell('take')).toBe('take: done');
    expect(await here.tell('write')).toBe('write: done');
    await here.kill('SIGSTOP');
    silence(file, 6 * minuteMs);
    expect(await there.tell('take')).toBe('take: done');
    await here.kill('SIGCONT');
    expect(await here.tell('write')).toMatch(
      /^7 the lock of the mirror was lost to process \d+ on elsewhere, .*nothing was written since$/,
    );
    expect(await here.tell('release')).toBe('release: done');
    expect(await there.tell('write')).toBe('write: done');
    expect(await here.tell('take')).toMatch(/^7 /);
    const database = new SqliteDatabase(file, { readonly: true });
    expect(database.prepare("SELECT count(*) FROM mirror_events WHERE kind = 'test'").pluck().get()).toBe(2);
    database.close();
  });

  test('do not mind clocks that are minutes apart', async () => {
    const file = mirror();
    const here = startHolder({ file });
    const there = startHolder({ file, self: elsewhere, ahead: -4 * minuteMs });
    expect(await there.tell('take')).toBe('take: done');
    expect(await here.tell('take')).toMatch(/^7 /);
  });
});

describe('a holder', () => {
  const self: Holder = { ...thisProcess(), host: 'here', boot: 'boot-1', pid_namespace: 'pid:[1]' };
  const now = Date.parse('2026-03-11T02:00:00Z');
  const beat = (ago: number) => timestampOf(now - ago);

  test('is looked at where it can be seen, whatever the machine is called by now and however silent it is', () => {
    expect(isAlive({ ...self, host: 'renamed' }, beat(hourMs), self, now)).toBe(true);
    expect(isAlive({ ...self, pid: 2 ** 30 }, beat(0), self, now)).toBe(false);
  });

  test('is not another process that was given its number', () => {
    expect(isAlive({ ...self, process_started: '17' }, beat(0), self, now)).toBe(false);
  });

  test('that has ended is gone, also where nobody has asked yet how it ended', async () => {
    const parent = spawn('sh', ['-c', 'sh -c "exit 0" & echo $!; exec sleep 60']);
    onTestFinished(() => void parent.kill('SIGKILL'));
    const [pid] = (await once(parent.stdout, 'data')) as [Buffer];
    const holder = { ...self, process_started: null, pid: Number(pid.toString()) };
    await vi.waitFor(() => expect(isAlive(holder, beat(0), self, now)).toBe(false));
  });

  test('in another container is not looked at by its number, which is ours as well, but goes by its silence', () => {
    const other = { ...self, pid_namespace: 'pid:[2]' };
    expect(isAlive(other, beat(40 * secondMs), self, now)).toBe(true);
    expect(isAlive(other, beat(70 * secondMs), self, now)).toBe(false);
  });

  test('on a machine of the same name is another one', () => {
    const other = { ...self, boot: 'boot-2', pid: 2 ** 30 };
    expect(isAlive(other, timestampOf(Date.now()), self, Date.now())).toBe(true);
  });

  test('that was on this machine before it was started anew is gone at once', () => {
    const other = { ...self, boot: 'boot-0' };
    expect(isAlive(other, timestampOf(Date.parse('2020-01-01')), self, Date.now())).toBe(false);
  });
});

test('a holder that has nothing to write shows itself all the same', () => {
  vi.useFakeTimers({ now: Date.parse('2026-03-11T02:00:00Z') });
  onTestFinished(() => void vi.useRealTimers());
  const file = mirror();
  const clock = { now: () => Date.now() };
  const store = openMirrorStore(file, clock);
  store.acquireLock('sync', 'one');
  const database = new SqliteDatabase(file, { readonly: true });
  const beat = database.prepare('SELECT beat_at FROM mirror_locks').pluck();
  vi.advanceTimersByTime(65 * secondMs);
  expect(beat.get()).toBe('2026-03-11T02:01:00.000000Z');
  store.releaseLock('sync', 'one');
  vi.advanceTimersByTime(60 * secondMs);
  expect(vi.getTimerCount()).toBe(0);
  expect(beat.get()).toBeUndefined();
  database.close();
  store.close();
});

test('the lock of a batch that was lost is noticed before the next step, and is not taken from its new holder', async () => {
  const file = `${temporaryFolder()}/journal.db`;
  let now = Date.parse('2026-03-11T02:00:00Z');
  const clock = { now: () => now };
  const here = await openJournal(file, clock);
  const there = await openJournal(file, clock, () => ({ ...thisProcess(), ...elsewhere }));
  await here.acquireLock('one');
  now += 6 * minuteMs;
  await there.acquireLock('one');
  await expect(here.setBatchState('one', 'stopped')).rejects.toThrow(
    /^the lock of batch one was lost to process \d+ on elsewhere/,
  );
  await here.releaseLock('one');
  expect(await here.lockOwner('one')).toMatchObject({ host: 'elsewhere' });
  await here.close();
  await there.close();
});
