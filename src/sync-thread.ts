/**
 * The thread that a sync runs in: the engine with its own small heap, apart from the terminal. Reads its task, tells
 * what it does, and ends. src/cli/sync-engine.ts is its other side.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { openSync, withReleases } from './app.ts';
import type { FromThread, SyncTask, ToThread } from './cli/sync-engine.ts';
import { InterruptedError } from './model/errors.ts';
import { failureOf } from './model/failure.ts';
import type { Log } from './model/log.ts';
import { Secret } from './model/secret.ts';
import { systemClock } from './model/time.ts';

const port = parentPort;
if (port === null) throw new Error('sync-thread runs as a thread');
const { settings, key, request } = workerData as SyncTask;
const say = (message: FromThread): void => port.postMessage(message);
const log = Object.fromEntries(
  (['debug', 'info', 'warn', 'error'] as const).map((level) => [
    level,
    (fields: Readonly<Record<string, unknown>>, text: string) => say({ kind: 'log', level, fields, text }),
  ]),
) as unknown as Log;

const stop = new AbortController();
port.on('message', ({ stop: signal }: ToThread) => stop.abort(new InterruptedError(signal)));

try {
  const { report, error } = await withReleases(async (releases) => {
    const whole = { ...settings, api: { ...settings.api, key: key === undefined ? undefined : new Secret(key) } };
    const run = await openSync({ settings: whole, log, clock: systemClock, signal: stop.signal }, releases);
    return run(request, (event) => say({ kind: 'progress', event }));
  });
  say({ kind: 'end', report, failure: error === null ? null : failureOf(error) });
} catch (error) {
  say({ kind: 'failed', failure: failureOf(error) });
} finally {
  port.close();
}
