/** Runs a sync or a comparison in a thread of its own and brings what it tells back here. */
import type { OperatorError } from '../model/errors.ts';
import { errorOf, threadError, type Failure } from '../model/failure.ts';
import type { Log } from '../model/log.ts';
import { startThread } from '../model/thread.ts';
import type { SyncEvent, SyncProgress } from '../mirror/progress.ts';
import type { SyncRequest } from '../mirror/run.ts';
import type { VerifyReport, VerifyRequest } from '../mirror/verify.ts';
import type { Settings } from '../settings/settings.ts';
import type { RunReport } from '../store/mirror-types.ts';

type SyncJob = Omit<SyncRequest, 'graceMs' | 'windowPages' | 'concurrency'>;
type VerifyJob = Omit<VerifyRequest, 'concurrency'>;

export type Job =
  | { readonly kind: 'sync'; readonly request: SyncJob }
  | { readonly kind: 'verify'; readonly request: VerifyJob };

/** What the thread is started with; plain data, the key apart. */
export interface EngineTask {
  readonly settings: Omit<Settings, 'api' | 'alerts' | 'network'> & {
    readonly api: Omit<Settings['api'], 'key'>;
    readonly network: Omit<Settings['network'], 'proxy'>;
  };
  readonly proxy: string | undefined;
  readonly key: string | undefined;
  readonly job: Job;
}

export type FromThread =
  | { readonly kind: 'progress'; readonly event: SyncEvent }
  | {
      readonly kind: 'log';
      readonly level: keyof Log;
      readonly fields: Readonly<Record<string, unknown>>;
      readonly text: string;
    }
  | { readonly kind: 'end'; readonly report: unknown; readonly failure: Failure | null }
  | { readonly kind: 'failed'; readonly failure: Failure };

export interface ToThread {
  readonly stop: 'SIGINT' | 'SIGTERM';
}

/**
 * A page of records is garbage milliseconds after it came, and without bounds of its own the collector lets hundreds of
 * megabytes of it gather. These bounds halve the memory of a long sync for a tenth of its time; what is really in use
 * is some 30 MB, and one page of the largest body that is read some 300 MB.
 */
const resourceLimits = { maxYoungGenerationSizeMb: 16, maxOldGenerationSizeMb: 768 };

export interface EngineEnd<Report> {
  readonly report: Report;
  /** Why not everything was done. */
  readonly error: Error | null;
}

export interface EnginePorts {
  readonly log: Log;
  readonly progress: SyncProgress;
  /** Stops the work in order. */
  readonly signal: AbortSignal;
}

/** Runs the sync to its end. Throws what the engine throws. */
export function runSyncThread(settings: Settings, request: SyncJob, ports: EnginePorts): Promise<EngineEnd<RunReport>> {
  return runThread(settings, { kind: 'sync', request }, ports) as Promise<EngineEnd<RunReport>>;
}

/** Runs the comparison to its end. Throws what the engine throws. */
export function runVerifyThread(
  settings: Settings,
  request: VerifyJob,
  ports: EnginePorts,
): Promise<EngineEnd<VerifyReport>> {
  return runThread(settings, { kind: 'verify', request }, ports) as Promise<EngineEnd<VerifyReport>>;
}

function runThread(settings: Settings, job: Job, ports: EnginePorts): Promise<EngineEnd<unknown>> {
  const { alerts: _alerts, api: given, network: way, ...others } = settings;
  const { key, ...api } = given;
  const { proxy, ...network } = way;
  const task: EngineTask = { settings: { ...others, api, network }, key: key?.reveal(), proxy: proxy?.reveal(), job };
  return new Promise((resolve, reject) => {
    const thread = startThread('../engine-thread', import.meta.url, { workerData: task, resourceLimits });
    const onAbort = (): void => {
      const code = (ports.signal.reason as Partial<OperatorError>).exitCode;
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin, a window has
      thread.postMessage({ stop: code === 143 ? 'SIGTERM' : 'SIGINT' } satisfies ToThread);
    };
    if (ports.signal.aborted) onAbort();
    else ports.signal.addEventListener('abort', onAbort, { once: true });
    let end: EngineEnd<unknown> | undefined;
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
    thread.on('error', (error: Error) => reject(threadError(error)));
    thread.on('exit', () => {
      ports.signal.removeEventListener('abort', onAbort);
      if (end === undefined) reject(new Error('the thread ended without an answer'));
      else resolve(end);
    });
  });
}
