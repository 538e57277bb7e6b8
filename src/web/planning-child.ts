/** The process that reads, checks and plans a sheet for the console. It can change nothing. */
import { Buffer } from 'node:buffer';
import { serveJob } from '../data/job-process.ts';
import type { Log } from '../model/log.ts';
import { systemClock } from '../model/time.ts';
import { receivedSettings } from '../settings/passed.ts';
import { planParts, type PlanTask } from './planning.ts';

serveJob(async function* (task, emit) {
  const { job, settings, aheadMs } = task as PlanTask;
  const logged =
    (level: keyof Log): Log[keyof Log] =>
    (fields, message) =>
      emit({ kind: 'log', level, fields, message });
  const log = { debug: logged('debug'), info: logged('info'), warn: logged('warn'), error: logged('error') };
  // With a shared store, the clock of the database counts, not that of this machine.
  const clock = aheadMs === 0 ? systemClock : { now: () => Date.now() + aheadMs };
  // Never aborted: the console ends this process instead.
  const { signal } = new AbortController();
  const parts = planParts({ settings: receivedSettings(settings), log, clock, signal }, job);
  for await (const part of parts) yield Buffer.from(`${JSON.stringify(part)}\n`);
});
