import { expect, onTestFinished, test } from 'vitest';
import { dayMs, hourMs, timestampOf } from '../../src/model/time.ts';
import { SecretAddress } from '../../src/model/secret.ts';
import { silentLog } from '../../src/model/log.ts';
import { openWorkerStore } from '../../src/worker/store/sqlite.ts';
import type { JobRun } from '../../src/worker/store/port.ts';
import { Watch } from '../../src/worker/watch.ts';
import { Worker } from '../../src/worker/worker.ts';
import { virtualTime } from '../api/support/virtual-time.ts';
import { jobOf } from '../support/jobs.ts';
import { expectMirrored, sync } from '../support/mirror.ts';
import type { AlertPayload } from '../../src/worker/alerts.ts';
import { openReceiver } from '../support/receiver.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { healthIn } from '../support/watched.ts';

/** `npm run soak` has more of them. */
const nights = Number(process.env['SOAK_NIGHTS'] ?? 12);
/** Fifteen minutes before the first sync. */
const from = Date.parse('2026-03-11T02:00:00Z');

/** The alerts to expect, computed from the ends of the syncs alone. */
function expectedOf(ends: readonly Pick<JobRun, 'outcome' | 'exitCode'>[]): string[] {
  let open: string | null = null;
  return ends.flatMap(({ outcome, exitCode }) => {
    const problem = outcome === 'complete' ? null : exitCode === 4 ? 'server_unreachable' : 'job_failed:sync';
    if (problem === open) return [];
    const told = [...(problem === null ? [] : [problem]), ...(open === null ? [] : [`over ${open}`])];
    open = problem;
    return told;
  });
}

test(
  `${nights} nights of a storm end complete or say why, and each problem is reported once`,
  { timeout: 1_800_000, tags: 'full' },
  async () => {
    const sandbox = await startSandbox({ users: 120, chaos: 'hostile', now: from });
    sandbox.control.setBehaviour({
      rate_limit: 0,
      read_too_many: 0,
      retry_after: 'none',
      latency_jitter: 0,
      read_hang: 0,
    });
    const receiver = await openReceiver();
    onTestFinished(() => receiver.close());
    const folder = temporaryFolder();
    const file = `${folder}/mirror.db`;
    let time = virtualTime(from);
    const clock = { now: () => time.clock.now() };
    const sleep = (ms: number, signal: AbortSignal) => time.sleep(ms, signal).catch(() => {});
    const webhook = new SecretAddress(`${receiver.url}/alert`);
    const ends: JobRun[] = [];
    const syncing = new Set<symbol>();

    /** One sync, as the command would run it. */
    async function runCommand() {
      const here = Symbol('sync');
      syncing.add(here);
      const night = ends.length % 12;
      // Once in twelve nights the server is in maintenance; once most users are gone, and stay in the mirror until a
      // sync may delete them.
      sandbox.control.setBehaviour({ maintenance: night === 4 });
      if (night === 7)
        for (const { id } of sandbox.control.dump('users').slice(10, 110)) sandbox.control.remove('users', Number(id));
      if (night === 11) for (let count = 0; count < 100; count += 1) sandbox.control.insert('users');
      const { report, error } = await sync(sandbox, file, { clock, allowDeletions: night === 10, jumpsWaits: true });
      syncing.delete(here);
      const all = Object.values(report.resources);
      // Either complete with equal counts, or not complete and with a reason.
      const isProven = all.every((each) => each.live === each.server_total);
      const isExplained = /\w/.test(error?.message ?? '') && all.some((each) => (each.problem ?? '') !== '');
      expect(report.status === 'complete' ? isProven : isExplained).toBe(true);
      return { exitCode: error?.exitCode ?? 0, report, problem: error?.message ?? null };
    }

    // Each worker runs for one night; the next one continues from its store.
    for (let night = 0; night < nights; night += 1) {
      time = virtualTime(from + night * dayMs);
      sandbox.control.setClock(clock.now());
      const store = openWorkerStore(`${folder}/mirror.worker.db`, clock);
      const health = healthIn(folder, clock);
      const stop = new AbortController();
      let watch: Watch | undefined;
      const worker = new Worker(
        {
          store,
          clock,
          sleep,
          runCommand,
          signal: stop.signal,
          emit: (event) => {
            watch?.onEvent(event);
            if (event.kind === 'run_ended') ends.push(event.run);
          },
        },
        [jobOf('sync')],
      );
      watch = new Watch(
        {
          jobs: [jobOf('sync')],
          state: () => worker.state(),
          store,
          health,
          clock,
          sleep,
          log: silentLog,
          profile: null,
          version: '1.2.3',
          folder,
          environment: {},
        },
        { maxStalenessMs: 20 * dayMs, webhook, command: undefined, ping: undefined },
        await store.alerts(),
      );
      const both = Promise.all([worker.run(), watch.run(stop.signal)]);
      const end = sleep(hourMs / 2, new AbortController().signal);
      const settled = async (): Promise<void> => {
        // Statements may have given the event loop a turn each.
        for (let turns = 0; turns < 20 || syncing.size > 0; turns += 1)
          await new Promise((resolve) => setImmediate(resolve));
        await watch?.settled();
      };
      await time.run(end, settled);
      stop.abort();
      await both;
      await store.close();
    }

    expect(ends).toHaveLength(nights);
    expect(ends.filter(({ outcome }) => outcome === 'complete').length).toBeGreaterThan(1);
    // A problem that lasts is told again each day.
    const begun = new Set<string>();
    const isReminder = ({ resolved, problem, since }: AlertPayload): boolean => {
      if (resolved || !begun.has(`${problem} ${since}`)) {
        begun.add(`${problem} ${since}`);
        return false;
      }
      return true;
    };
    const alerts = receiver.alerts();
    const firsts = alerts.filter((each) => !isReminder(each));
    expect(alerts.length - firsts.length).toBeLessThan(nights * 2);
    const told = firsts.map(({ resolved, problem }) => `${resolved ? 'over ' : ''}${problem}`);
    const isOfUsers = (problem: string) => problem.endsWith(':users');
    expect(told.filter((each) => !isOfUsers(each)).sort()).toEqual(expectedOf(ends).sort());
    expect(told.filter(isOfUsers)).toEqual(
      Array.from({ length: Math.ceil(nights / 12) }, () => [
        'deletions_refused:users',
        'over deletions_refused:users',
      ]).flat(),
    );
    expect(new Set(alerts.map(({ id }) => id)).size).toBe(alerts.length);
    process.stdout.write(
      `${nights} nights until ${timestampOf(clock.now())}: ${ends.map(({ outcome }) => outcome).join(' ')}\n`,
    );
    // After the storm one quiet night makes the mirror equal to the server.
    sandbox.control.setBehaviour({ churn_inserts: 0, churn_updates: 0, churn_deletes: 0 });
    sandbox.control.setChaos('calm');
    const { report } = await sync(sandbox, file, { clock, mode: 'full', allowDeletions: true });
    expect(report.status).toBe('complete');
    expectMirrored(sandbox, file);
  },
);
