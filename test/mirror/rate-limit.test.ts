// @module-tag full
/**
 * A sync under a rate limit, over real HTTP and in virtual time: how many requests the server refuses, and how much of the
 * limit is used. Time passes only while no request is under way, so that a busy machine changes nothing.
 */
import { expect, test } from 'vitest';
import { openClient, type Client } from '../../src/api/operations.ts';
import { openSyncEngine } from '../../src/mirror/open.ts';
import type { SyncResult } from '../../src/mirror/sync.ts';
import { silentLog } from '../../src/model/log.ts';
import { secondMs } from '../../src/model/time.ts';
import type { Behaviour, Sandbox } from '../support/bent/sandbox.ts';
import { virtualTime, type VirtualTime } from '../api/support/virtual-time.ts';
import { expectMirrored, newMirror } from '../support/mirror.ts';
import { sandboxNow } from '../support/sandbox.ts';

const limit = 20;
const users = 1_000;
const pageSize = 4;
/** After this many turns of the event loop without a request under way, everything waits. */
const quietTurns = 10;

/** Virtual time that also passes by a millisecond with each look at it, so that requests take some time. */
function passingTime(): VirtualTime {
  const time = virtualTime(sandboxNow);
  let looks = 0;
  const now = () => {
    looks += 1;
    return time.clock.now() + looks;
  };
  return { ...time, clock: { now } };
}

/** Waits while requests are under way, so that no virtual time passes meanwhile. */
async function quiet(client: Client): Promise<void> {
  for (let turns = 0; turns < quietTurns; turns += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    const answered = Object.values(client.counters.byStatus).reduce((sum, count) => sum + count, 0);
    if (client.counters.requests > answered) turns = 0;
  }
}

async function syncUsers(sandbox: Sandbox, file: string, time: VirtualTime): Promise<SyncResult> {
  const { clock } = time;
  const client = openClient({
    baseUrl: sandbox.url,
    key: sandbox.key,
    timeoutMs: 5_000,
    concurrency: 8,
    attempts: 8,
    deadlineMs: 60_000,
    pageSize,
    userAgent: 'admin-mirror tests',
    clock,
    log: silentLog,
    sleep: time.sleep,
  });
  const { signal } = new AbortController();
  const options = { client, file, clock, pageSize, signal, progress: () => {}, historyIgnore: [] };
  const engine = openSyncEngine(options);
  const work = engine.run({
    resources: ['users'],
    mode: 'default',
    only: null,
    allowDeletions: false,
    requestsPerRun: 1_000,
    // The last window is walked alone, page after page, and is kept short because its time does not depend on the limit.
    windowPages: 10,
    concurrency: 8,
  });
  const result = await time.run(work, () => quiet(client));
  engine.close();
  await client.close();
  return result;
}

const servers: readonly (readonly [string, Partial<Behaviour>, number])[] = [
  ['announced', { rate_headers: true }, 0.06],
  ['named when it is reached', { rate_headers: false }, 0.06],
  ['never named', { rate_headers: false, retry_after: 'none' }, 0.15],
];

test.each(servers)(
  'a limit of 20 a second that is %s is used to at least 70 % and exceeded only a little',
  async (_, told, overrun) => {
    const time = passingTime();
    const { sandbox, file } = await newMirror({
      users,
      now: () => time.clock.now(),
      behaviour: { rate_limit: limit, rate_window: 1, ...told },
    });
    const started = time.clock.now();
    const { report } = await syncUsers(sandbox, file, time);
    expect(report.status).toBe('complete');
    expectMirrored(sandbox, file, ['users']);
    const { byStatus, total } = sandbox.control.requests();
    const seconds = (time.clock.now() - started) / secondMs;
    expect(total).toBeGreaterThan(users / pageSize);
    expect((byStatus['429'] ?? 0) / total).toBeLessThanOrEqual(overrun);
    expect((byStatus['200'] ?? 0) / seconds).toBeGreaterThanOrEqual(0.7 * limit);
  },
);
