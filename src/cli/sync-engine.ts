/** Runs a sync in a thread of its own and brings what it tells back here. */
import { Worker } from 'node:worker_threads';
import { IncompleteError, type OperatorError } from '../model/errors.ts';
import { errorOf, type Failure } from '../model/failure.ts';
import type { Log } from '../model/log.ts';
import type { SyncEvent, SyncProgress } from '../mirror/progress.ts';
import type { SyncRequest } from '../mirror/run.ts';
import type { Settings } from '../settings/settings.ts';
import type { RunReport } from '../store/ports/mirror-store.ts';

/** What the thread is started with; plain data, the key apart. */
export interface SyncTask {
  readonly settings: Omit<Settings, 'api'> & { readonly api: Omit<Settings['api'], 'key'> };
  readonly key: string | undefined;
  readonly request: Omit<SyncRequest, 'graceMs' | 'windowPages' | 'concurrency'>;
}

export type FromThread =
  | { readonly kind: 'progress'; readonly event: SyncEvent }
  | {
      readonly kind: 'log';
      readonly level: keyof Log;
      readonly fields: Readonly<Record<string, unknown>>;
      readonly text: string;
    }
  | { readonly kind: 'end'; readonly report: RunReport; readonly failure: Failure | null }
  | { readonly kind: 'failed'; readonly failure: Failure };

export interface ToThread {
  readonly stop: 'SIGINT' | 'SIGTERM';
}

/**
 * A page of records is garbage milliseconds after it came, and without bounds of its own the collector lets hundreds of
 * megabytes of it gather. These bounds halve the memory of a long sync for a tenth of its time; what is really in use
 * is some 30 MB, and one page of the largest body that is read some 300 MB.
 */
const resourceLimits = { maxYoungGenerationSizeMb: 24, maxOldGenerationSizeMb: 768 };

// In a clone the thread runs the .ts file, in the package the .js file.
const threadUrl = new URL(`../sync-thread${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url);

export interface EngineEnd {
  readonly report: RunReport;
  /** Why the run is not complete. */
  readonly error: Error | null;
}

/** Runs the sync to its end; the signal stops it in order. Throws what the engine throws. */
export function runSyncThread(
  settings: Settings,
  request: SyncTask['request'],
  ports: { readonly log: Log; readonly progress: SyncProgress; readonly signal: AbortSignal },
): Promise<EngineEnd> {
  const { key, ...api } = settings.api;
  const task: SyncTask = { settings: { ...settings, api }, key: key?.reveal(), request };
  return new Promise((resolve, reject) => {
    const thread = new Worker(threadUrl, { workerData: task, resourceLimits });
    const onAbort = (): void => {
      const code = (ports.signal.reason as Partial<OperatorError>).exitCode;
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin, a window has
      thread.postMessage({ stop: code === 143 ? 'SIGTERM' : 'SIGINT' } satisfies ToThread);
    };
    if (ports.signal.aborted) onAbort();
    else ports.signal.addEventListener('abort', onAbort, { once: true });
    let end: EngineEnd | undefined;
    thread.on('message', (message: FromThread) => {
      switch (message.kind) {
        case 'progress':
          ports.progress(message.event);
          break;
        case 'log':
          ports.log[message.level](message.fields, message.text);
          break;
        case 'end':
          end = { report: message.report, error: message.failure === null ? null : errorOf(message.failure) };
          break;
        case 'failed':
          reject(errorOf(message.failure));
      }
    });
    thread.on('error', (error: Error & { code?: string }) => reject(outOfMemory(error) ?? error));
    thread.on('exit', () => {
      ports.signal.removeEventListener('abort', onAbort);
      if (end === undefined) reject(new Error('the sync thread ended without an answer'));
      else resolve(end);
    });
  });
}

function outOfMemory(error: Error & { code?: string }): OperatorError | undefined {
  if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') return undefined;
  return new IncompleteError('the pages of this server are too large to be held in memory; what was read is kept', {
    advice: 'Set api.page_size to a tenth of what it is, and run `admin-mirror sync` again.',
    cause: error,
  });
}
