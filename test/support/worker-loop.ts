/**
 * A worker's process, as `schedule` wires it, in time that passes only while everything waits; its jobs are processes
 * that do nothing. After each requested run it prints the memory and descriptors in use. Started by
 * test/worker/long.test.ts. Arguments: folder, address of the receiver, then the numbers of runs after which to
 * measure.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { silentLog } from '../../src/model/log.ts';
import { readSettings, settingsFrom } from '../../src/settings/settings.ts';
import { virtualTime } from '../api/support/virtual-time.ts';
import { jobOf } from './jobs.ts';
import { descriptorsOf, rssOf } from './process-size.ts';
import { withReleases } from '../../src/model/releases.ts';
import type { Watched } from '../../src/worker/health-server.ts';
import { openHealth, openWorker } from '../../src/worker/open.ts';

const [folder = '', receiver = '', ...wanted] = process.argv.slice(2);
const measures = wanted.map(Number);
const collect = globalThis.gc ?? (() => {});

const environment = { ADMIN_MIRROR_ALERTS_WEBHOOK: `${receiver}/alert`, ADMIN_MIRROR_ALERTS_PING: `${receiver}/ping` };
const listening = { ...environment, ADMIN_MIRROR_ALERTS_COMMAND: 'cat', ADMIN_MIRROR_WORKER_LISTEN: '127.0.0.1:0' };
const jobs = [jobOf('sync', { cron: '*/10 * * * *' })];
const settings = { ...settingsFrom(readSettings({ flags: [], environment: listening, folder })), jobs };

await withReleases(async (releases) => {
  const time = virtualTime(Date.parse('2026-03-11T00:30:00Z'));
  const { clock } = time;
  const stop = new AbortController();
  let runs = 0;
  const underWay = new Set<object>();
  let url = '';
  const log = { ...silentLog, info: (fields: object) => void ('url' in fields && (url = String(fields.url))) };
  const patient = (ms: number, signal: AbortSignal) => time.sleep(ms, signal).catch(() => {});
  const watched: Watched = { watches: new Map(), troubles: new Map() };
  const { watch, run } = await openWorker(
    { settings, clock, log, signal: stop.signal },
    {
      emit: (event) => {
        if (event.kind === 'run_ended') runs += 1;
      },
      folder,
      environment: {},
      sleep: patient,
      runCommand: async () => {
        const child = spawn('true', { stdio: ['ignore', 'pipe', 'pipe'] });
        underWay.add(child);
        child.stdout.resume();
        child.stderr.resume();
        await once(child, 'close');
        underWay.delete(child);
        return {
          exitCode: runs % 50 === 7 ? 5 : 0,
          report: { resources: {}, answers: {}, retries: 0 },
          problem: 'so it is',
        };
      },
    },
    releases,
  );
  watched.watches.set('', watch);
  await openHealth(settings, watched, log, releases);
  const both = run();
  const settled = async (): Promise<void> => {
    do await new Promise((resolve) => setImmediate(resolve));
    while (underWay.size > 0);
    await watch.settled();
    const next = measures[0];
    if (next === undefined || runs < next) return;
    measures.shift();
    for (const path of ['healthz', 'readyz', 'metrics']) await (await fetch(`${url}/${path}`)).text();
    collect();
    process.stdout.write(
      `${JSON.stringify({ runs, rss: rssOf(process.pid), descriptors: descriptorsOf(process.pid) })}\n`,
    );
    if (measures.length === 0) stop.abort();
  };
  await time.run(both, settled);
});
