/** `schedule`: the worker. Runs the jobs of the config file at their times, or one of them now, or says when they come. */
import { type Command, Option } from 'commander';
import { UsageError } from '../model/errors.ts';
import type { Job } from '../model/job.ts';
import { suggestion } from '../model/nearest.ts';
import type { CliContext } from './context.ts';
import { printJobs, runOnce, sendTestAlert } from './schedule/shown.ts';
import { work } from './schedule/work.ts';

interface Flags {
  readonly once?: string;
  readonly list?: true;
  readonly testAlert?: true;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('schedule')
    .description(
      'Run the jobs of the config file at their times, until it is stopped: syncs, exports, reports, comparisons and ' +
        'copies. SIGTERM and SIGINT stop what is running in order, SIGHUP reads the config file again.',
    )
    .addOption(new Option('--once <job>', 'run this job now, wait for it, and end as it ends').conflicts('list'))
    .option('--list', 'print each job with the next five times at which it will run')
    .addOption(
      new Option('--test-alert', 'send a test alert to the webhook and the command of the settings').conflicts([
        'once',
        'list',
      ]),
    )
    .action(async (flags: Flags) => {
      if (flags.testAlert) {
        await sendTestAlert(context);
        return;
      }
      const { jobs } = context.settings();
      if (jobs.length === 0) {
        throw new UsageError('there are no jobs to run', {
          advice: 'List them under "jobs" in the config file; config/admin-mirror.example.yaml has examples.',
        });
      }
      if (flags.list) {
        printJobs(context, jobs);
      } else if (flags.once === undefined) {
        await work(context);
      } else {
        await runOnce(context, jobNamed(flags.once, jobs));
      }
    });
}

function jobNamed(name: string, jobs: readonly Job[]): Job {
  const job = jobs.find((each) => each.name === name);
  if (job !== undefined) return job;
  const advice = suggestion(
    name,
    jobs.map((each) => each.name),
  );
  throw new UsageError(`there is no job "${name}"`, { advice });
}
