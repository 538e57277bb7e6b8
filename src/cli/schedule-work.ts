/** `schedule` without flags: the worker, from the settings to its end. Each job is a child process of its own. */
import { renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { jobVariable } from '../model/actor.ts';
import { FileError, OperatorError, UsageError } from '../model/errors.ts';
import { explainFileError } from '../model/file-error.ts';
import { makeFolder } from '../model/folder.ts';
import type { Log } from '../model/log.ts';
import { withReleases } from '../model/releases.ts';
import { parseInstant, secondMs, systemClock, timestampOf } from '../model/time.ts';
import { type SettingsReading, settingsFrom } from '../settings/settings.ts';
import { allSettings, isSecret } from '../settings/table.ts';
import { openWorker, watchSettingsOf } from '../worker/open.ts';
import type { JobRun } from '../worker/store/port.ts';
import type { Watch } from '../worker/watch.ts';
import type { RunCommand, Worker, WorkerEvent } from '../worker/worker.ts';
import { commandRunner } from '../worker/command.ts';
import type { CliContext } from './context.ts';
import { openLog } from './logger.ts';
import { givenFlags } from './flag-values.ts';
import { bugText } from './output.ts';
import { pasteable } from './pasteable.ts';

function workerLog(log: Log): (event: WorkerEvent) => void {
  return (event) => {
    switch (event.kind) {
      case 'started':
        log.info({ jobs: event.jobs.map(({ name }) => name) }, 'the worker has started');
        break;
      case 'run_started': {
        const { run, job, cause, occurrence, attempt, command } = event.run;
        const fields = {
          job,
          job_run: run,
          cause,
          occurrence: timeOf(occurrence),
          attempt,
          passed_over: event.skippedBefore,
        };
        log.info(fields, `${job} begins: ${command}`);
        break;
      }
      case 'run_ended':
        logEnd(log, event.run);
        break;
      case 'not_run': {
        const { job, occurrence, outcome, why, skippedBefore } = event;
        log.warn(
          { job, outcome, occurrence: timeOf(occurrence), passed_over: skippedBefore },
          `${job} is ${outcome}: ${why}`,
        );
        break;
      }
      case 'clock_set_back':
        log.warn({ job: event.job }, `the clock was set back by more than a day; ${event.job} begins anew from now`);
        break;
      case 'reloaded':
        log.info({ jobs: event.jobs.map(({ name }) => name) }, 'the config file was read again');
        break;
      case 'trouble':
        log.error({ advice: event.error.advice }, event.error.message);
        break;
      case 'stopping':
        log.info({ running: event.running }, 'the worker stops');
        break;
      case 'stopped':
        log.info({}, 'the worker has stopped');
    }
  };
}

function timeOf(occurrence: number | null): string | null {
  return occurrence === null ? null : timestampOf(occurrence);
}

function logEnd(log: Log, { run, job, outcome, exitCode, problem, startedAt, finishedAt }: JobRun): void {
  const seconds = ((parseInstant(finishedAt) ?? 0) - (parseInstant(startedAt) ?? 0)) / secondMs;
  const fields = { job, job_run: run, outcome, exit_code: exitCode, seconds };
  if (outcome === 'complete') log.info(fields, `${job} is complete`);
  else if (outcome === 'stopped') log.warn(fields, `${job} was stopped with the worker`);
  else log.error(fields, `${job} ended as ${outcome}${problem === null ? '' : `: ${problem}`}`);
}

/**
 * Keeps a copy of the config file beside the mirror, and gives its path: a file that is being edited, or was broken since,
 * neither stops tonight's jobs nor changes half of them. SIGHUP brings a new one into force. Throws a FileError.
 */
function keepConfig(reading: SettingsReading): string {
  const { mirror } = settingsFrom(reading).store;
  const copy = `${mirror.replace(/\.db$/, '')}.worker.yaml`;
  try {
    makeFolder(dirname(copy));
    // What was checked and not what stands there by now; in one step, since a disk that is full must leave the copy that the
    // old config file goes on by.
    writeFileSync(`${copy}.new`, reading.config() ?? '', { mode: 0o600 });
    renameSync(`${copy}.new`, copy);
  } catch (error) {
    throw explainFileError(error, 'keep the config file as', copy) ?? new FileError(String(error), { cause: error });
  }
  return copy;
}

const secretNames = allSettings.filter(isSecret).map(({ env }) => env);

/** The environment as programs of others may have it: the key, that of a profile too, and the like stay here. */
export function withoutSecrets(environment: CliContext['environment']): CliContext['environment'] {
  const holdsSecret = (name: string) => secretNames.some((each) => name === each || name.startsWith(`${each}_`));
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !holdsSecret(name)));
}

/** Works until the signal of the context is aborted. Throws LockHeldError where another worker is at this mirror. */
export async function work(context: CliContext): Promise<void> {
  const log = await openLog(context);
  const { folder, environment, signal } = context;
  const settings = context.settings();
  const reading = context.reading();
  const flags = givenFlags(reading);
  let config: readonly string[] = [];
  const run = commandRunner({ folder, environment, log, globalFlags: () => [...flags, ...config] });
  const runCommand: RunCommand = (commandLine, { job, run: jobRun }, signal) =>
    run(commandLine, { variables: { [jobVariable]: job }, fields: { job, job_run: jobRun } }, signal);
  const toLog = workerLog(log);
  const emit = (event: WorkerEvent): void => {
    // Before it has started, the copy may be that of another worker.
    if (event.kind === 'started') config = ['--config', keepConfig(reading)];
    toLog(event);
  };

  function reload({ worker, watch }: { readonly worker: Worker; readonly watch: Watch }): void {
    try {
      const again = context.readAgain();
      const read = settingsFrom(again);
      const { jobs, store } = read;
      if (store.mirror !== settings.store.mirror) {
        throw new UsageError('store.mirror names another mirror now', { advice: 'Start the worker anew for that.' });
      }
      const watching = watchSettingsOf(read);
      // From here on nothing fails: a file is in force whole or not at all.
      config = ['--config', keepConfig(again)];
      worker.reload(jobs);
      watch.reload(watching);
    } catch (error) {
      // Whatever is wrong with the file, or with us, is no reason to give up tonight's jobs.
      const isOurs = !(error instanceof OperatorError);
      const more = isOurs ? { stack: bugText(error) } : { advice: error.advice };
      const why = error instanceof Error ? error.message : String(error);
      log.error(more, `the config file was not read again, and the old one stays in force: ${why}`);
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
        pasteable: (text) => pasteable(context, text),
      },
      releases,
    );
    releases.add({ close: context.onHangUp(() => reload(opened)) });
    const ended = new AbortController();
    const running = opened.worker.run().finally(() => ended.abort());
    await Promise.all([running, opened.watch.run(AbortSignal.any([signal, ended.signal]))]);
  });
}
