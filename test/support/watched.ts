/** A watch over a worker whose jobs end as the test says, over real files, with a clock that the test sets. */
import { existsSync } from 'node:fs';
import { onTestFinished } from 'vitest';
import { openBackendForReading } from '../../src/journal/open.ts';
import type { Log } from '../../src/model/log.ts';
import { SecretAddress } from '../../src/model/secret.ts';
import { type Clock, hourMs, timestampOf } from '../../src/model/time.ts';
import { type HealthStore, openHealthStore } from '../../src/worker/store/health.ts';
import type { JobRun, RunOutcome } from '../../src/worker/store/port.ts';
import { openWorkerStore } from '../../src/worker/store/sqlite.ts';
import { Watch, type WatchPorts, type WatchSettings } from '../../src/worker/watch.ts';
import { jobOf } from './jobs.ts';
import { temporaryFolder } from './temporary-folder.ts';

export const watchedFrom = Date.parse('2026-03-11T10:00:00Z');

export interface WatchTry extends Partial<Pick<WatchPorts, 'store' | 'environment' | 'folder' | 'sleep'>> {
  readonly webhook?: string;
  readonly ping?: string;
  readonly command?: readonly string[];
  /** The folder of the files; a new one by default. */
  readonly files?: string;
  readonly health?: HealthStore;
  readonly maxStalenessMs?: number;
}

/** The health of mirror and journal in this folder. */
export function healthIn(files: string, clock: Clock): HealthStore {
  const journal = `${files}/journal.db`;
  const open = async () => (existsSync(journal) ? openBackendForReading(journal, clock) : undefined);
  return openHealthStore(`${files}/mirror.db`, open);
}

/** A run of `sync` with this outcome. */
export function runOf(outcome: RunOutcome, exitCode: number | null, at: number, report: unknown = null): JobRun {
  const time = timestampOf(at);
  return { ...newRun(at), startedAt: time, finishedAt: time, outcome, exitCode, problem: null, report };
}

const newRun = (at: number) =>
  ({ run: `r${at}`, job: 'sync', cause: 'scheduled', occurrence: at, attempt: 1, command: 'c' }) as const;

export async function startWatch({
  webhook,
  ping,
  command,
  files = temporaryFolder(),
  maxStalenessMs,
  ...more
}: WatchTry = {}) {
  const time = { now: watchedFrom, trouble: null as string | null };
  const job = jobOf('sync');
  const lines: string[] = [];
  const write = (fields: object, message: string) => void lines.push(`${message} ${JSON.stringify(fields)}`);
  const log: Log = { debug: write, info: write, warn: write, error: write };
  let runs = 0;
  const settings: WatchSettings = {
    maxStalenessMs: maxStalenessMs ?? 26 * hourMs,
    webhook: webhook === undefined ? undefined : new SecretAddress(webhook),
    ping: ping === undefined ? undefined : new SecretAddress(ping),
    command,
  };
  const clock = { now: () => time.now };
  const opened: { close(): void | Promise<void> }[] = [];
  const openStore = () => openWorkerStore(`${files}/mirror.worker.db`, clock);
  const store = openStore();
  await store.adoptJobs([job]);
  opened.push(store);
  async function open(): Promise<Watch> {
    const ports = {
      store: openStore(),
      health: healthIn(files, clock),
    };
    opened.push(ports.store);
    return new Watch(
      {
        ...ports,
        jobs: [job],
        state: () => ({ isStopping: false, trouble: time.trouble }),
        clock,
        sleep: () => Promise.resolve(),
        log,
        profile: null,
        version: '1.2.3',
        folder: files,
        environment: process.env,
        ...more,
      },
      settings,
      await ports.store.alerts(),
    );
  }
  let watch = await open();
  onTestFinished(async () => {
    for (const each of opened) await each.close();
  });
  return {
    watch: () => watch,
    lines,
    files,
    clock,
    /** Starts the next worker, with the files of the last one. */
    restart: async () => void (watch = await open()),
    pass: (ms: number) => void (time.now += ms),
    /** Why the worker cannot write its file. */
    trouble: (why: string | null) => void (time.trouble = why),
    /** Ends `sync` with this outcome and waits for its alerts. */
    end: async (outcome: RunOutcome, exitCode: number | null = null, report: unknown = null) => {
      const run = { ...newRun(time.now), run: `r${(runs += 1)}` };
      await store.beginRun(run);
      watch.onEvent({
        kind: 'run_ended',
        run: await store.endRun(run.run, { outcome, exitCode, problem: null, report }),
        job,
      });
      await watch.check();
      await watch.settled();
    },
    look: async () => {
      await watch.check();
      await watch.settled();
    },
  };
}
