/**
 * The thread that a sync or a comparison runs in: the engine with its own small heap, apart from the terminal. Reads its
 * task, tells what it does, and ends. src/cli/engine.ts is its other side.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { openSync, openVerify, type Releases, type Surroundings, withReleases } from './app.ts';
import type { EngineTask, FromThread, Job, ToThread } from './cli/engine.ts';
import type { SyncEvent, SyncProgress } from './mirror/progress.ts';
import { InterruptedError, type OperatorError } from './model/errors.ts';
import { failureOf } from './model/failure.ts';
import type { Log } from './model/log.ts';
import { Secret, SecretAddress } from './model/secret.ts';
import { type Clock, systemClock } from './model/time.ts';

const port = parentPort;
if (port === null) throw new Error('engine-thread runs as a thread');
const { settings, key, proxy, job } = workerData as EngineTask;
const say = (message: FromThread): void => port.postMessage(message);
const log = Object.fromEntries(
  (['debug', 'info', 'warn', 'error'] as const).map((level) => [
    level,
    (fields: Readonly<Record<string, unknown>>, text: string) => say({ kind: 'log', level, fields, text }),
  ]),
) as unknown as Log;

const stop = new AbortController();
port.on('message', ({ stop: signal }: ToThread) => stop.abort(new InterruptedError(signal)));

async function runJob(
  job: Job,
  surroundings: Surroundings,
  releases: Releases,
  progress: SyncProgress,
): Promise<{ readonly report: unknown; readonly error: OperatorError | null }> {
  switch (job.kind) {
    case 'sync':
      return (await openSync(surroundings, releases))(job.request, progress);
    case 'verify':
      return (await openVerify(surroundings, releases))(job.request, progress);
  }
}

/** Between two messages about pages, ms: one for each page would cost both threads more than a person can see. */
const tellEveryMs = 50;

/** Tells of pages of one resource that follow each other in one message. */
function gathered(clock: Clock): { readonly progress: SyncProgress; readonly flush: () => void } {
  let held: Extract<SyncEvent, { kind: 'page' }> | undefined;
  let toldAt = 0;
  const flush = (): void => {
    if (held !== undefined) say({ kind: 'progress', event: held });
    held = undefined;
    toldAt = clock.now();
  };
  const progress: SyncProgress = (event) => {
    if (held !== undefined && held.resource !== event.resource) flush();
    if (event.kind === 'page') {
      held = { ...event, records: (held?.records ?? 0) + event.records };
      if (clock.now() - toldAt >= tellEveryMs) flush();
    } else {
      flush();
      say({ kind: 'progress', event });
    }
  };
  return { progress, flush };
}

try {
  const { progress, flush } = gathered(systemClock);
  const { report, error } = await withReleases((releases) => {
    const whole = {
      ...settings,
      api: { ...settings.api, key: key === undefined ? undefined : new Secret(key) },
      network: { ...settings.network, proxy: proxy === undefined ? undefined : new SecretAddress(proxy) },
      // Nobody is alerted from here.
      alerts: { webhook: undefined, command: undefined, ping: undefined },
    };
    const surroundings = { settings: whole, log, clock: systemClock, signal: stop.signal };
    return runJob(job, surroundings, releases, progress);
  });
  flush();
  say({ kind: 'end', report, failure: error === null ? null : failureOf(error) });
} catch (error) {
  say({ kind: 'failed', failure: failureOf(error) });
} finally {
  port.close();
}
