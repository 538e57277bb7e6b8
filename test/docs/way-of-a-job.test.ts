/** Holds the way of a job in docs/architecture.md to the worker: whichever of its files breaks, the alert of a failed job is another. */
import { setTimeout } from 'node:timers/promises';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { Releases } from '../../src/model/releases.ts';
import { systemClock } from '../../src/model/time.ts';
import { passedToChild } from '../../src/settings/passed.ts';
import { readSettings, settingsFrom } from '../../src/settings/settings.ts';
import { filesOfWay } from '../support/documents.ts';
import { jobOf } from '../support/jobs.ts';
import { sample } from '../support/part.ts';
import { operator } from '../support/people.ts';
import { openReceiver } from '../support/receiver.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { type Breaks, exported, method, withBroken } from '../support/ways.ts';

const breaks: Breaks = {
  'src/model/job.ts': exported('nextTime'),
  'src/worker/decide.ts': exported('decide'),
  'src/worker/worker.ts': method('Worker', 'run'),
  'src/worker/run-job.ts': exported('jobRunner'),
  'src/worker/store/store.ts': method('WorkerStore', 'endRun'),
  'src/worker/problems.ts': exported('problemsOf'),
  'src/worker/alerts.ts': method('Alerts', 'check'),
  'src/worker/channels.ts': exported('channelsOf'),
};

afterEach(() => {
  vi.resetModules();
});

/** What comes first: the alert of an export that has no mirror, or what breaks. */
async function firstNews(): Promise<string> {
  const { openWorker } = await import('../../src/worker/open.ts');
  const { jobRunner } = await import('../../src/worker/run-job.ts');
  const receiver = await openReceiver();
  const releases = new Releases();
  const stop = new AbortController();
  const folder = temporaryFolder();
  const reading = readSettings({
    flags: [],
    environment: { ADMIN_MIRROR_ALERTS_WEBHOOK: receiver.url, ADMIN_MIRROR_WORKER_LISTEN: 'off' },
    folder,
  });
  const call = { path: ['export'], operands: ['users'], options: { output: 'users.csv' } };
  const settings = { ...settingsFrom(reading), jobs: [jobOf('users', { run: 'export', call, cron: '* * * * * *' })] };
  const news = Promise.withResolvers<string>();
  const write = (_: object, message: string) => void (message.includes('broken') && news.resolve(message));
  const log = { debug: write, info: write, warn: write, error: write };
  const given = passedToChild({ reading, servers: [] });
  const { run } = await openWorker(
    { settings, clock: systemClock, log, signal: stop.signal },
    {
      runCommand: async (order, { job }, signal) => {
        const runJob = jobRunner({ folder, environment: process.env, log });
        return runJob(order, { given, actor: { ...operator, job }, fields: {} }, signal);
      },
      emit: () => {},
      folder,
      environment: process.env,
    },
    releases,
  );
  const running = run().then(
    () => news.resolve('ended'),
    (error: unknown) => news.resolve(String(error)),
  );
  const listening = (async () => {
    while (!stop.signal.aborted) {
      for (const { code, facts } of receiver.alerts()) news.resolve(`${code} ${JSON.stringify(facts)}`);
      await setTimeout(20);
    }
  })();
  onTestFinished(async () => {
    stop.abort();
    await Promise.all([running, listening]);
    await releases.close();
    await receiver.close();
  });
  return news.promise;
}

test('the files of the way of a job are at most eight, and each can be broken', async () => {
  const files = filesOfWay('The way of a job');
  expect(files).toEqual(Object.keys(breaks));
  expect(files.length).toBeLessThanOrEqual(8);
  expect(await firstNews()).toMatch(/^job_failed .*"exit_code":2/);
});

test.each(sample(Object.entries(breaks), 2))(
  'the alert of a failed job is another if %s is broken',
  async (path, change) => {
    const news = await withBroken(path, change, () => firstNews().catch(String));
    expect(news).not.toMatch(/"exit_code":2/);
  },
);
