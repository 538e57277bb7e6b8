/** Jobs that take the lock of the mirror: real syncs of a real server, in time that passes only while everything waits. */
import { describe, expect, test } from 'vitest';
import type { Mode } from '../../src/mirror/windows.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { OperatorError } from '../../src/model/errors.ts';
import { type Command, startNight } from '../support/night.ts';
import { jobOf } from '../support/jobs.ts';
import { expectMirrored, sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const night = jobOf('night', { cron: '30 2 * * *' });
const hourly = jobOf('hourly', { cron: '10 * * * *' });
const coupons = jobOf('e', { run: 'export', cron: '30 2 * * *', after: ['night'], requireComplete: true });
const jobs = [night, coupons, hourly];

/** A mirror, and the command of each job: a sync of it, or an export that takes a minute. */
async function place(minutes = 0) {
  const sandbox = await startSandbox();
  const folder = temporaryFolder();
  const file = `${folder}/mirror.db`;
  const syncs = (mode: Mode) => async () => {
    try {
      const { error } = await sync(sandbox, file, { mode });
      return { exitCode: error?.exitCode ?? 0, problem: error?.message ?? null };
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      return { exitCode: error.exitCode, problem: error.message };
    }
  };
  const commands = (job: string): Command =>
    job === 'e' ? { minutes: 1, end: {} } : { minutes, end: {}, work: syncs(job === 'night' ? 'full' : 'quick') };
  return { sandbox, file, worker: { file: `${folder}/mirror.worker.db`, commands } };
}

describe('two syncs of one mirror', () => {
  test('that are due at once after downtime run one after the other, and then the export', async () => {
    const { sandbox, file, worker } = await place();
    const before = startNight({ from: '2026-03-11T02:00Z', jobs, ...worker });
    await before.until('2026-03-11T02:05Z');
    await before.stop();
    const after = startNight({ from: '2026-03-11T09:00Z', jobs, ...worker });
    await after.until('2026-03-11T09:05Z');
    expect(after.log).toEqual([
      '09:00 night begins',
      '09:00 hourly begins',
      '09:00 night is complete',
      '09:00 e begins',
      '09:00 hourly is complete',
      '09:01 e is complete',
    ]);
    expectMirrored(sandbox, file);
  });

  test('run one after the other if one is due while the other runs', { tags: 'full' }, async () => {
    const { worker } = await place(45);
    const { until, log } = startNight({ from: '2026-03-11T02:25Z', jobs, ...worker });
    await until('2026-03-11T04:05Z');
    expect(log).toEqual([
      '02:30 night begins',
      '03:10 hourly begins',
      '03:15 night is complete',
      '03:15 e begins',
      '03:16 e is complete',
      '04:00 hourly is complete',
    ]);
  });
});

test('a sync that finds the lock held by another program is tried again, and the export waits for it', async () => {
  const { file, worker } = await place();
  const store = openMirrorStore(file);
  store.acquireLock('sync', 'by-hand');
  const { until, log } = startNight({ from: '2026-03-11T02:25Z', jobs: [night, coupons], ...worker });
  await until('2026-03-11T02:33:30Z');
  store.releaseLock('sync', 'by-hand');
  store.close();
  await until('2026-03-11T03:00Z');
  expect(log).toEqual(['02:30 night begins', '02:34 night is complete', '02:34 e begins', '02:35 e is complete']);
});

test('a job whose lock stays held for an hour ends as locked', async () => {
  const { until, log } = startNight({
    from: '2026-03-11T02:29Z',
    jobs: [night],
    commands: () => ({ minutes: 0, end: { exitCode: 7, problem: 'another run has it' } }),
  });
  await until('2026-03-11T04:00Z');
  expect(log).toEqual(['02:30 night begins', '03:30 night is locked']);
});

test('a worker that stops while a job waits for its lock begins it no more', async () => {
  const held = () => ({ minutes: 0, end: { exitCode: 7, problem: 'another run has it' } });
  const { until, log, stop } = startNight({ from: '2026-03-11T02:29Z', jobs: [night], commands: held });
  await until('2026-03-11T02:40Z');
  await stop();
  expect(log).toEqual(['02:30 night begins', '02:40 night is stopped']);
});
