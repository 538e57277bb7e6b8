/** `schedule --once`: one job now, as a person would run its command, and on record with the others. */
import { type ExitCode, IncompleteError } from '../../model/errors.ts';
import { commandText, type Job } from '../../model/job.ts';
import { runId } from '../../model/run-id.ts';
import { systemClock } from '../../model/time.ts';
import { outcomeOf } from '../../worker/run-job.ts';
import type { CliContext } from '../context.ts';
import { printNote } from '../output.ts';
import { startChild } from './child.ts';
import { givenFlags } from './config-copy.ts';

/** Runs the job; its exit code is the command's. Throws LockHeldError while the worker, or somebody else, runs it. */
export async function runOnce(context: CliContext, job: Job): Promise<void> {
  const { openWorkerStore, withReleases } = await import('../../app.ts');
  const { folder, environment, signal } = context;
  const command = commandText(job.commandLine);
  await withReleases(async (releases) => {
    const store = await openWorkerStore(context.settings(), systemClock, releases);
    const run = runId(systemClock);
    store.beginRun({ run, job: job.name, cause: 'by_hand', occurrence: null, attempt: 1, command });
    printNote(context, `${job.name}: ${command}`);
    const reading = context.reading();
    const config = reading.readings.find(({ setting }) => setting.key === 'config');
    const argv = [
      ...givenFlags(reading),
      ...(config?.origin === 'flag --config' ? ['--config', String(config.value)] : []),
      ...job.commandLine,
      ...(context.json() ? ['--json'] : []),
    ];
    const exitCode = await new Promise<number | null>((resolve, reject) => {
      const child = startChild(argv, { folder, environment, output: 'inherit', signal });
      child.once('error', reject).once('close', resolve);
    });
    const outcome = outcomeOf(exitCode, { timedOut: false, stopped: false });
    store.endRun(run, { outcome, exitCode, problem: null, report: null });
    if (exitCode === null) throw new IncompleteError(`the job ${job.name} was ended by a signal`);
    context.exit(exitCode as ExitCode);
  });
}
