import { describe, expect, test } from 'vitest';
import { dayMs, hourMs } from '../../src/model/time.ts';
import { jobsNow } from '../../src/worker/facts.ts';
import { jobOf } from '../support/jobs.ts';
import { type Command, startNight } from '../support/night.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { sample } from '../support/part.ts';

const sync = jobOf('sync');
const users = jobOf('users', { cron: '0 3 * * *', after: ['sync'], requireComplete: true });
const takes = (minutes: number, exitCode = 0): Command => ({ minutes, end: { exitCode, problem: 'so it said' } });

describe('a night', () => {
  test('runs each job in order, the second after a sync that takes long', { tags: 'full' }, async () => {
    const night = startNight({
      from: '2026-03-11T00:00Z',
      jobs: [users, sync],
      commands: (job) => takes(job === 'sync' ? 80 : 5),
    });
    await night.until('2026-03-12T00:00Z');
    expect(night.log).toEqual([
      '02:15 sync begins',
      '03:35 sync is complete',
      '03:35 users begins',
      '03:40 users is complete',
    ]);
  });

  test('on which the sync is not complete has no export, and says why', { tags: 'full' }, async () => {
    const night = startNight({ from: '2026-03-11T00:00Z', jobs: [users, sync], commands: () => takes(5, 5) });
    await night.until('2026-03-12T00:00Z');
    expect(night.log).toEqual(['02:15 sync begins', '02:20 sync is partial', '03:00 users is skipped']);
    expect(night.events).toContainEqual(
      expect.objectContaining({ kind: 'not_run', why: 'sync was not complete: partial, so it said' }),
    );
  });

  // proves: catch-up
  test('after three missed nights catches up with one run', async () => {
    const night = startNight({ from: '2026-03-11T00:00Z', jobs: [users, sync] });
    await night.until('2026-03-11T01:00Z');
    night.jump(3 * dayMs + 5 * hourMs);
    await night.until('2026-03-14T09:00Z');
    expect(night.log).toEqual([
      '06:00 sync begins',
      '06:01 sync is complete',
      '06:01 users begins',
      '06:02 users is complete',
    ]);
  });

  test('on which the clock is set back has no second run', { tags: 'full' }, async () => {
    const night = startNight({ from: '2026-03-11T00:00Z', jobs: [sync] });
    await night.until('2026-03-11T02:30Z');
    night.jump(-hourMs);
    await night.until('2026-03-11T04:00Z');
    expect(night.log).toEqual(['02:15 sync begins', '02:16 sync is complete']);
  });

  test('after a clock that was years ahead has its usual run', { tags: 'full' }, async () => {
    const night = startNight({ from: '2031-03-11T02:00Z', jobs: [sync] });
    await night.until('2031-03-11T03:00Z');
    night.jump(Date.parse('2026-03-11T00:00Z') - Date.parse('2031-03-11T03:00Z'));
    await night.until('2026-03-11T04:00Z');
    expect(night.log.slice(2)).toEqual(['00:00 sync begins anew', '02:15 sync begins', '02:16 sync is complete']);
  });

  // proves: job-once
  test.each(
    sample(
      [
        ['2026-03-28T22:00Z', '2026-03-29T04:00Z', '01:30'],
        ['2026-10-24T22:00Z', '2026-10-25T04:00Z', '00:30'],
      ],
      1,
    ),
  )('on which the clocks are changed, %s, has one run', async (from, to, time) => {
    const night = startNight({ from, jobs: [jobOf('sync', { cron: '30 2 * * *', timezone: 'Europe/Berlin' })] });
    await night.until(to);
    expect(night.log.filter((line) => line.includes('begins'))).toEqual([`${time} sync begins`]);
  });

  test('whose run takes longer than a day makes the next run overlapped', { tags: 'full' }, async () => {
    const night = startNight({ from: '2026-03-11T00:00Z', jobs: [sync], commands: () => takes(25 * 60) });
    await night.until('2026-03-12T12:00Z');
    expect(night.log).toEqual(['02:15 sync begins', '02:15 sync is overlapped', '03:15 sync is complete']);
  });
});

describe('a restarted worker', () => {
  const file = () => `${temporaryFolder()}/mirror.worker.db`;

  test('catches up once on what it missed, but not from before its first start', async () => {
    const place = file();
    const first = startNight({ from: '2026-03-11T12:00Z', jobs: [sync], file: place });
    await first.until('2026-03-11T13:00Z');
    await first.stop();
    expect(first.log).toEqual([]);
    const second = startNight({ from: '2026-03-14T12:00Z', jobs: [sync], file: place });
    await second.until('2026-03-14T13:00Z');
    expect(second.log).toEqual(['12:00 sync begins', '12:01 sync is complete']);
  });

  test('runs once more what was stopped with it, and no more than once', { tags: 'full' }, async () => {
    const place = file();
    const commands = () => takes(60);
    const first = startNight({ from: '2026-03-11T02:00Z', jobs: [sync, users], file: place, commands });
    await first.until('2026-03-11T02:30Z');
    await first.stop();
    expect(first.log).toEqual(['02:15 sync begins', '02:30 sync is stopped']);
    const second = startNight({ from: '2026-03-11T02:40Z', jobs: [sync, users], file: place, commands });
    await second.until('2026-03-11T02:50Z');
    await second.stop();
    const third = startNight({ from: '2026-03-11T02:55Z', jobs: [sync, users], file: place, commands });
    await third.until('2026-03-11T04:00Z');
    expect([...second.log, ...third.log]).toEqual([
      '02:40 sync begins, again',
      '02:50 sync is stopped',
      '03:00 users is skipped',
    ]);
  });

  test('does not catch up on times that a job did not have then', async () => {
    const place = file();
    const first = startNight({ from: '2026-03-11T12:00Z', jobs: [sync], file: place });
    await first.until('2026-03-11T13:00Z');
    await first.stop();
    const moved = { ...sync, cron: '0 14 * * *' };
    const second = startNight({ from: '2026-03-12T01:00Z', jobs: [moved, users], file: place });
    await second.until('2026-03-12T04:00Z');
    expect(second.log).toEqual(['03:00 users is skipped']);
  });
});

test('what each job did, does and will do can be read while the worker runs', async () => {
  const night = startNight({ from: '2026-03-11T00:00Z', jobs: [sync, users], commands: () => takes(10) });
  await night.until('2026-03-11T02:20Z');
  const facts = () => jobsNow(night.store, [sync, users], night.clock.now());
  expect(await facts()).toMatchObject([
    { runningSince: '2026-03-11T02:15:00.000000Z', nextAt: Date.parse('2026-03-12T02:15Z') },
    { runningSince: null, nextAt: Date.parse('2026-03-11T03:00Z') },
  ]);
  await night.until('2026-03-11T02:30Z');
  expect((await facts())[0]).toMatchObject({ runningSince: null, latest: { outcome: 'complete', exitCode: 0 } });
});

test('a job that runs by hand at its time is skipped', async () => {
  const night = startNight({ from: '2026-03-11T00:00Z', jobs: [sync] });
  await night.until('2026-03-11T02:00Z');
  const byHand = { run: 'mine', job: 'sync', cause: 'by_hand', occurrence: null, attempt: 1, command: 'x' } as const;
  await night.store.beginRun(byHand);
  await night.until('2026-03-11T02:30Z');
  expect(night.log).toEqual(['02:15 sync is overlapped']);
  const end = { outcome: 'complete', exitCode: 0, problem: null, report: null } as const;
  await night.store.endRun('mine', end);
});

test('a file that cannot be written for a while is reported once, and nothing runs unrecorded', async () => {
  const night = startNight({ from: '2026-03-11T00:00Z', jobs: [sync] });
  await night.until('2026-03-11T02:00Z');
  const { store } = night;
  const beginRun = store.beginRun.bind(store);
  const { FileError } = await import('../../src/model/errors.ts');
  night.store.beginRun = () => Promise.reject(new FileError('the disk is full'));
  await night.until('2026-03-11T02:18Z');
  night.store.beginRun = beginRun;
  await night.until('2026-03-11T03:00Z');
  expect(night.log).toEqual(['02:15 trouble: the disk is full', '02:18 sync begins', '02:19 sync is complete']);
});
