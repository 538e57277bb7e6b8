/** What the worker does, in the log. */
import type { Log } from '../../model/log.ts';
import { parseInstant, secondMs, timestampOf } from '../../model/time.ts';
import type { JobRun } from '../../worker/store/store-types.ts';
import type { WorkerEvent } from '../../worker/events.ts';

/** Writes each event of the worker to the log. */
export function workerLog(log: Log): (event: WorkerEvent) => void {
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
          passed_over: event.passedOver,
        };
        log.info(fields, `${job} begins: ${command}`);
        break;
      }
      case 'run_ended':
        logEnd(log, event.run);
        break;
      case 'passed_over': {
        const { job, occurrence, outcome, why, passedOver } = event;
        log.warn(
          { job, outcome, occurrence: timeOf(occurrence), passed_over: passedOver },
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
