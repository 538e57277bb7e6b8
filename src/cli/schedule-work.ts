/** `schedule` without flags: runs the worker. Each job is a child process of its own. */
import pLimit from 'p-limit';
import { messageOf, OperatorError, UsageError } from '../model/errors.ts';
import { type Log, logWith } from '../model/log.ts';
import { withReleases } from '../model/releases.ts';
import { minuteMs, parseInstant, secondMs, sleepFor, systemClock, timestampOf } from '../model/time.ts';
import { type ServerReading, type SettingsReading, settingsFrom } from '../settings/settings.ts';
import { passedToChild, withoutSecrets } from '../settings/passed.ts';
import { workInFleet } from '../worker/open-fleet.ts';
import type { Watched } from '../worker/health-server.ts';
import { openHealth, openWorker } from '../worker/open.ts';
import type { JobRun } from '../worker/store/port.ts';
import type { InTurn, RunCommand, WorkerEvent, WorkerPorts } from '../worker/worker.ts';
import { jobRunner } from '../worker/run-job.ts';
import { atOnce } from './all.ts';
import { type CliContext, waitForStop } from './context.ts';
import { logOfChildren, openLog } from './logger.ts';
import { bugText, pasteable, serverLabel } from './output.ts';

function logEvent(log: Log, event: WorkerEvent): void {
  switch (event.kind) {
    case 'started':
      return log.info({ jobs: event.jobs.map(({ name }) => name) }, 'the worker has started');
    case 'run_started': {
      const { run, job, cause, occurrence, attempt, command } = event.run;
      const due = { occurrence: timeOf(occurrence), attempt };
      return log.info({ job, job_run: run, cause, ...due }, `${job} begins: ${command}`);
    }
    case 'run_ended':
      return logEnd(log, event.run);
    case 'not_run': {
      const { job, occurrence, outcome, why } = event;
      const fields = { job, outcome, occurrence: timeOf(occurrence) };
      return log.warn(fields, `${job} is ${outcome}: ${why}`);
    }
    case 'clock_set_back':
      return log.warn(
        { job: event.job },
        `the clock was set back by more than a day; ${event.job} is scheduled anew from now`,
      );
    case 'trouble':
      return log.error({ advice: event.error.advice }, event.error.message);
    case 'stopping':
      return log.info({ running: event.running }, 'the worker stops');
    case 'stopped':
      return log.info({}, 'the worker has stopped');
  }
}

function timeOf(occurrence: number | null): string | null {
  return occurrence === null ? null : timestampOf(occurrence);
}

function logEnd(log: Log, { run, job, outcome, exitCode, problem, startedAt, finishedAt }: JobRun): void {
  const seconds = ((parseInstant(finishedAt) ?? 0) - (parseInstant(startedAt) ?? 0)) / secondMs;
  const fields = { job, job_run: run, outcome, exit_code: exitCode, seconds };
  if (outcome === 'complete') log.info(fields, `${job} is complete, after ${seconds.toFixed(1)} s`);
  else if (outcome === 'stopped') log.warn(fields, `${job} was stopped with the worker`);
  else if (outcome === 'locked') log.warn(fields, `${job} found the lock held: ${problem ?? 'another run has it'}`);
  else log.error(fields, `${job} ended as ${outcome}${problem === null ? '' : `: ${problem}`}`);
}

interface Place {
  readonly reading: SettingsReading;
  /** Every server of the config file, whose files jobs must not overwrite. */
  readonly servers: readonly ServerReading[];
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly watched: Watched;
  /** When a job may begin, if it is one of many in this process. */
  readonly inTurn?: InTurn;
  readonly prepare?: WorkerPorts['prepare'];
}

/** Works until the context's signal is aborted. Throws a LockHeldError if another worker has this mirror. */
export async function work(context: CliContext): Promise<void> {
  const log = openLog(context);
  const reading = context.reading();
  const settings = settingsFrom(reading);
  const watched: Watched = { watches: new Map(), troubles: new Map() };
  const place = { reading, servers: context.serversOfConfig(), log, signal: context.signal, watched };
  await withReleases(async (releases) => {
    const serve = () => openHealth(settings, watched, log, releases);
    // If another worker has this mirror, it has the port, too, and the lock says why this one cannot work.
    if (settings.store.shared === undefined) return workAt(context, { ...place, prepare: serve });
    // Health is served while it waits for its turn, too.
    await serve();
    await workInTurn(context, place);
  });
}

/** Works at once or, if several machines share a store, whenever it is this one's turn. */
async function workInTurn(context: CliContext, place: Place): Promise<void> {
  const settings = settingsFrom(place.reading);
  if (settings.store.shared === undefined) return workAt(context, place);
  const { log, signal, watched } = place;
  const name = serverLabel(settings.profile ?? null);
  const onTrouble = (problem: string | null): void => {
    if (problem === null) watched.troubles.delete(name);
    else watched.troubles.set(name, problem);
  };
  await workInFleet({ settings, log, signal, onTrouble }, (prepare) => workAt(context, { ...place, prepare }));
}

async function workAt(context: CliContext, place: Place): Promise<void> {
  const { folder } = context;
  const { reading, servers, log, signal, watched, ...ports } = place;
  const environment = withoutSecrets(context.environment);
  const settings = settingsFrom(reading);
  // Jobs work with these, whatever happens to the config file.
  const given = passedToChild({ reading, servers });
  const run = jobRunner({ folder, environment, log: logOfChildren(context, log) });
  const runCommand: RunCommand = (call, { job, run: jobRun }, signal) => {
    const actor = { ...context.actor(), job };
    return run(call, { given, actor, fields: { job, job_run: jobRun } }, signal);
  };
  const emit = (event: WorkerEvent): void => logEvent(log, event);
  const pasteableHere = (text: string) => pasteable({ reading: () => reading }, text);
  await withReleases(async (releases) => {
    const opened = await openWorker(
      { settings, clock: systemClock, log, signal },
      { runCommand, emit, folder, environment, pasteable: pasteableHere, ...ports },
      releases,
    );
    const name = serverLabel(settings.profile ?? null);
    watched.watches.set(name, opened.watch);
    releases.add({ close: () => void watched.watches.delete(name) });
    await opened.run();
  });
}

/** How long to wait before trying a server again that has another worker, or whose files or settings could not be used. */
const retryMs = minuteMs;

/**
 * Works for every server of the config file, in one process. If a server cannot be worked for, it is tried again each minute; the
 * others continue.
 */
export async function workForAll(context: CliContext): Promise<void> {
  const all = context.allSettings();
  if (all.every(({ reading }) => reading.rest.jobs.length === 0)) {
    // A job with a problem is left out there.
    for (const { reading } of all) settingsFrom(reading);
    throw noJobs();
  }
  const { signal } = context;
  const { rest } = context.reading();
  const log = openLog({ ...context, settings: () => ({ ...rest, profile: undefined }) });
  const limit = pLimit(atOnce);
  const inTurn: InTurn = (_, begin) => limit(begin);
  const watched: Watched = { watches: new Map(), troubles: new Map() };

  function workFor({ profile, reading }: ServerReading): Promise<void> {
    const ofServer = logWith(log, () => (profile === null ? {} : { profile }));
    const onTrouble = (why: string) => void watched.troubles.set(serverLabel(profile), why);
    const place = { reading, servers: all, log: ofServer, signal, watched, inTurn };
    return untilStopped(signal, ofServer, onTrouble, () => workInTurn(context, place));
  }

  await withReleases(async (releases) => {
    await openHealth(rest, watched, log, releases);
    await Promise.all([waitForStop(context), ...all.map(workFor)]);
  });
}

/** Makes attempt after attempt until the signal is aborted. Logs each new error once, even a bug, so that other servers go on. */
async function untilStopped(
  signal: AbortSignal,
  log: Log,
  onTrouble: (why: string) => void,
  attempt: () => Promise<void>,
): Promise<void> {
  let problem: string | undefined;
  while (!signal.aborted) {
    try {
      await attempt();
    } catch (error) {
      const why = messageOf(error);
      const details = error instanceof OperatorError ? { advice: error.advice } : { stack: bugText(error) };
      if (why !== problem) log.error(details, `no worker is running here: ${why}`);
      onTrouble(why);
      problem = why;
    }
    await sleepFor(retryMs, signal);
  }
}

export function noJobs(): UsageError {
  return new UsageError('there are no jobs to run', {
    advice: 'List them under "jobs" in the config file; config/admin-mirror.example.yaml has examples.',
  });
}
