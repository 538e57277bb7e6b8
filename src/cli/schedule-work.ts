/** `schedule` without flags: runs the worker. Each job is a child process of its own. */
import { InterruptedError, messageOf, OperatorError, UsageError } from '../model/errors.ts';
import type { JobKind } from '../model/job.ts';
import { type Log, logWith } from '../model/log.ts';
import { withReleases } from '../model/releases.ts';
import { runId } from '../model/program.ts';
import { minuteMs, parseInstant, secondMs, systemClock, timestampOf } from '../model/time.ts';
import { type ServerReading, type Settings, type SettingsReading, settingsFrom } from '../settings/settings.ts';
import { passedToChild, withoutSecrets } from '../settings/passed.ts';
import { workInFleet } from '../worker/open-fleet.ts';
import { openHealthOfAll, type OpenWorker, openWorker, type Watched, watchSettingsOf } from '../worker/open.ts';
import type { JobRun } from '../worker/store/port.ts';
import type { InTurn, RunCommand, WorkerEvent, WorkerPorts } from '../worker/worker.ts';
import { sleepFor } from '../worker/sleep.ts';
import { jobRunner } from '../worker/run-job.ts';
import { turnsOf } from './all.ts';
import { type CliContext, waitForStop } from './context.ts';
import { openLog } from './logger.ts';
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
    case 'reloaded':
      return log.info({ jobs: event.jobs.map(({ name }) => name) }, 'the config file was read again');
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
  if (outcome === 'complete') log.info(fields, `${job} is complete`);
  else if (outcome === 'stopped') log.warn(fields, `${job} was stopped with the worker`);
  else if (outcome === 'locked') log.warn(fields, `${job} found the lock held: ${problem ?? 'another run has it'}`);
  else log.error(fields, `${job} ended as ${outcome}${problem === null ? '' : `: ${problem}`}`);
}

interface Place {
  readonly reading: SettingsReading;
  readonly readAgain: () => SettingsReading;
  /** Every server of the config file, whose files jobs must not overwrite. */
  readonly servers: () => readonly ServerReading[];
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly onHangUp: CliContext['onHangUp'];
  /** If it is one of many in this process: when a job may begin, and who reports health. */
  readonly many?: Watched & { readonly inTurn: InTurn };
  /** If it is one of several workers. */
  readonly member?: Pick<WorkerPorts, 'id' | 'prepare'>;
}

/** Works until the context's signal is aborted. Throws a LockHeldError if another worker has this mirror. */
export async function work(context: CliContext): Promise<void> {
  const log = openLog(context);
  const reading = context.reading();
  const { signal, readAgain, onHangUp } = context;
  const place: Place = { reading, readAgain, servers: context.serversOfConfig, log, signal, onHangUp };
  const settings = settingsFrom(reading);
  if (settings.store.shared === undefined) return workAt(context, place);
  await withReleases(async (releases) => {
    const watched: Watched = { watches: new Map(), troubles: new Map() };
    // Health is served while it waits for its turn, too.
    await openHealthOfAll(settings, watched, log, releases);
    await workInTurn(context, { ...place, many: { inTurn: (_, begin) => begin(), ...watched } });
  });
}

/** Works at once or, if several machines share a store, whenever it is this one's turn. */
async function workInTurn(context: CliContext, place: Place): Promise<void> {
  const settings = settingsFrom(place.reading);
  if (settings.store.shared === undefined) return workAt(context, place);
  const { log, signal, many } = place;
  const id = runId(systemClock);
  const name = serverLabel(settings.profile ?? null);
  const onTrouble = (problem: string | null): void => {
    if (problem === null) many?.troubles.delete(name);
    else many?.troubles.set(name, problem);
  };
  await workInFleet({ settings, id, log, signal, onTrouble }, (prepare) =>
    workAt(context, { ...place, reading: newestOf(place), member: { id, prepare } }),
  );
}

/** Reads the settings again, because they may have changed while it waited. Returns the old ones if that fails. */
function newestOf({ reading, readAgain, log }: Place): SettingsReading {
  try {
    const again = readAgain();
    checkSameStore(settingsFrom(reading), settingsFrom(again));
    return again;
  } catch (error) {
    logNotRead(log, error);
    return reading;
  }
}

/** Throws if the settings now name another store: the worker would keep its lock and records in one place, its jobs in another. */
function checkSameStore({ store: before }: Settings, { store: now }: Settings): void {
  const moved = (['mirror', 'journal', 'shared'] as const).find(
    (name) => JSON.stringify(before[name]) !== JSON.stringify(now[name]),
  );
  if (moved === undefined) return;
  throw new UsageError(`store.${moved} names another place now`, { advice: 'Restart the worker to use it.' });
}

async function workAt(context: CliContext, place: Place): Promise<void> {
  const { folder, environment } = context;
  const { reading, servers, log, signal, many } = place;
  const settings = settingsFrom(reading);
  // Jobs work with these until SIGHUP, whatever happens to the config file.
  let given = passedToChild({ reading, servers: servers() });
  const run = jobRunner({ folder, environment: withoutSecrets(environment), log });
  const runCommand: RunCommand = (call, { job, run: jobRun }, signal) => {
    const actor = { ...context.actor(), job };
    return run(call, { given, actor, fields: { job, job_run: jobRun } }, signal);
  };
  const emit = (event: WorkerEvent): void => logEvent(log, event);

  function reload({ worker, watch }: OpenWorker): void {
    try {
      const again = place.readAgain();
      const read = settingsFrom(again);
      const { jobs } = read;
      checkSameStore(settings, read);
      const watching = watchSettingsOf(read);
      const passed = passedToChild({ reading: again, servers: servers() });
      // Nothing after this line can fail: a config file is applied completely or not at all.
      given = passed;
      worker.reload(jobs);
      watch.reload(watching);
    } catch (error) {
      logNotRead(log, error);
    }
  }

  await withReleases(async (releases) => {
    const opened = await openWorker(
      { settings, clock: systemClock, log, signal },
      {
        runCommand,
        emit,
        folder,
        environment: withoutSecrets(environment),
        pasteable: (text) => pasteable({ reading: () => reading }, text),
        ...(many !== undefined && { inTurn: many.inTurn, isOneOfMany: true }),
        ...place.member,
      },
      releases,
    );
    releases.add({ close: place.onHangUp(() => reload(opened)) });
    const name = serverLabel(settings.profile ?? null);
    many?.watches.set(name, opened.watch);
    releases.add({ close: () => void many?.watches.delete(name) });
    await opened.run();
  });
}

/** A broken config file, or a bug, must not stop tonight's jobs: log it and keep the old settings. */
function logNotRead(log: Log, error: unknown): void {
  log.error(
    detailsOf(error),
    `the config file was not read again; the old settings stay in force: ${messageOf(error)}`,
  );
}

function detailsOf(error: unknown) {
  return error instanceof OperatorError ? { advice: error.advice } : { stack: bugText(error) };
}

/** How long to wait before trying a server again that has another worker, or whose files or settings could not be used. */
const retryMs = minuteMs;

/**
 * Works for every server of the config file, in one process. If a server cannot be worked for, it is tried again each minute; the
 * others continue. SIGHUP reads the config file again.
 */
export async function workForAll(context: CliContext): Promise<void> {
  let readings = byProfile(context.allSettings());
  if ([...readings.values()].every(({ rest }) => rest.jobs.length === 0)) {
    // A job with a problem is left out there.
    for (const reading of readings.values()) settingsFrom(reading);
    throw noJobs();
  }
  const { rest } = context.reading();
  const log = openLog({ ...context, settings: () => ({ ...rest, profile: undefined }) });
  const inTurn = turnsOf();
  const watched: Watched = { watches: new Map(), troubles: new Map() };
  const running = new Map<string | null, { stop: () => void; hangUp: () => void; done: Promise<void> }>();

  function start(profile: string | null): void {
    const stop = new AbortController();
    const signal = AbortSignal.any([context.signal, stop.signal]);
    const listeners = new Set<() => void>();
    const readAgain = () => readings.get(profile) ?? context.reading();
    const ofServer = logWith(log, () => (profile === null ? {} : { profile }));
    const onTrouble = (why: string) => void watched.troubles.set(serverLabel(profile), why);
    const done = untilStopped(signal, ofServer, onTrouble, async () => {
      const reading = readAgain();
      const { settings } = reading;
      await workInTurn(context, {
        reading,
        readAgain,
        servers: () => Array.from(readings, ([name, each]) => ({ profile: name, reading: each })),
        log: ofServer,
        signal,
        onHangUp: (listener) => {
          listeners.add(listener);
          return () => void listeners.delete(listener);
        },
        many: { inTurn: ({ run }, begin) => inTurn(sending.includes(run) ? settings : undefined, begin), ...watched },
      });
    });
    const hangUp = () => {
      for (const listener of listeners) listener();
    };
    running.set(profile, { stop: () => stop.abort(new InterruptedError('SIGTERM')), hangUp, done });
    void done.finally(() => {
      running.delete(profile);
      watched.troubles.delete(serverLabel(profile));
      // The profile was removed, and came back while its jobs were still stopping.
      if (readings.has(profile) && !context.signal.aborted) start(profile);
    });
  }

  function reload(): void {
    try {
      readings = byProfile(context.allSettings());
    } catch (error) {
      return logNotRead(log, error);
    }
    for (const [profile, { stop, hangUp }] of running) {
      if (readings.has(profile)) hangUp();
      else stop();
    }
    for (const profile of readings.keys()) if (!running.has(profile)) start(profile);
  }

  await withReleases(async (releases) => {
    await openHealthOfAll(rest, watched, log, releases);
    for (const profile of readings.keys()) start(profile);
    releases.add({ close: context.onHangUp(reload) });
    await waitForStop(context);
    await Promise.all(Array.from(running.values(), ({ done }) => done));
  });
}

function byProfile(all: readonly ServerReading[]): Map<string | null, SettingsReading> {
  return new Map(all.map(({ profile, reading }) => [profile, reading]));
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
      if (why !== problem) log.error(detailsOf(error), `no worker is running here: ${why}`);
      onTrouble(why);
      problem = why;
    }
    await sleepFor(retryMs, signal);
  }
}

/** Commands that send requests to the server. With the same key, only one runs at a time. */
const sending: readonly JobKind[] = ['sync', 'verify'];

export function noJobs(): UsageError {
  return new UsageError('there are no jobs to run', {
    advice: 'List them under "jobs" in the config file; config/admin-mirror.example.yaml has examples.',
  });
}
