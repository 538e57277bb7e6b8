/** `schedule`: runs the jobs of the config file at their times, or one of them now, or lists when they will run. */
import { type Command, Option } from 'commander';
import { oneNamed, UnreachableError, UsageError } from '../model/errors.ts';
import { commandText, type Job, timesAfter, wallText } from '../model/job.ts';
import { counted } from '../model/text.ts';
import { runId, version } from '../model/program.ts';
import { systemClock, timestampOf } from '../model/time.ts';
import { networkOf } from '../settings/server.ts';
import { settingsFrom } from '../settings/settings.ts';
import { payloadOf } from '../worker/alerts.ts';
import { channelsOf } from '../worker/channels.ts';
import { openWorkerStore } from '../worker/open-store.ts';
import type { Channel } from '../worker/store/port.ts';
import { addAllFlags, type AllFlags } from './all.ts';
import { type CliContext, terminalOutput } from './context.ts';
import { openLog } from './logger.ts';
import { paint, printNote, printResult, serverLabel } from './output.ts';
import { withoutSecrets } from '../settings/passed.ts';
import { outcomeOf } from '../worker/run-job.ts';
import { run as runCommand } from './program.ts';
import { noJobs, work, workForAll } from './schedule-work.ts';

interface Flags extends AllFlags {
  readonly once?: string;
  readonly list?: true;
  readonly testAlert?: true;
}

export function define(program: Command, context: CliContext): void {
  const command = program
    .command('schedule')
    .description(
      'Run the jobs of the config file at their times, until it is stopped: syncs, exports, reports, comparisons and ' +
        'copies. SIGTERM and SIGINT let running jobs stop in an orderly way.',
    )
    .addOption(new Option('--once <job>', 'run this job now, and exit with its exit code').conflicts(['list', 'all']))
    .option('--list', 'print each job with the next five times at which it will run')
    .addOption(
      new Option('--test-alert', 'send a test alert to the webhook and the command of the settings').conflicts([
        'once',
        'list',
        'all',
      ]),
    );
  addAllFlags(command).action(async (flags: Flags) => {
    if (flags.all) return flags.list ? printJobsOfAll(context) : workForAll(context);
    if (flags.testAlert) return sendTestAlert(context);
    const { jobs } = context.settings();
    if (jobs.length === 0) throw noJobs();
    if (flags.list) return printJobs(context, jobs);
    await (flags.once === undefined ? work(context) : runOnce(context, oneNamed(jobs, flags.once, 'there is no job')));
  });
}

const shownTimes = 5;

function printJobs(context: CliContext, jobs: readonly Job[]): void {
  const now = systemClock.now();
  const lines = jobs.flatMap((job, index) => [...(index > 0 ? [''] : []), ...jobLines(context, job, now)]);
  printResult(context, { jobs: jobs.map((job) => documentOf(job, now)) }, lines);
}

/** Prints the jobs of every server of the config file. Throws a UsageError if a setting of one of them is wrong. */
function printJobsOfAll(context: CliContext): void {
  const now = systemClock.now();
  const servers = context.allSettings().map(({ profile, reading }) => ({ profile, jobs: settingsFrom(reading).jobs }));
  const lines = servers.flatMap(({ profile, jobs }) => [
    paint(context, 'bold', serverLabel(profile)),
    ...(jobs.length === 0 ? ['no jobs'] : jobs.flatMap((job) => jobLines(context, job, now))).map(
      (line) => `  ${line}`,
    ),
  ]);
  const profiles = servers.map(({ profile, jobs }) => ({ profile, jobs: jobs.map((job) => documentOf(job, now)) }));
  const all = servers.flatMap(({ profile, jobs }) =>
    jobs.map((job) => ({ job, profile, at: nextTimes(job, now)[0] ?? Infinity })),
  );
  const [next] = all.toSorted((a, b) => a.at - b.at);
  const when =
    next === undefined || next.at === Infinity
      ? ''
      : `, next ${next.job.name} of ${serverLabel(next.profile)}, at ${utc(next.at)}`;
  const sum = `${counted(servers.length, 'server')}: ${counted(all.length, 'job')}${when}`;
  printResult(context, { profiles }, [sum, ...lines]);
}

function jobLines(context: CliContext, job: Job, now: number): string[] {
  const times = nextTimes(job, now);
  return [
    `${paint(context, 'bold', job.name)}  ${commandText(job.call)}`,
    `  ${ruleWords(job)}`,
    ...(times.length === 0 ? ['  never'] : times.map((time) => `  ${wallText(time, job.timezone)}  ${utc(time)}`)),
  ];
}

function nextTimes(job: Job, now: number): number[] {
  return [...timesAfter(job, now).take(shownTimes)];
}

function ruleWords({ cron, timezone, after, requireComplete }: Job): string {
  return [
    `${cron} in ${timezone}`,
    ...(after.length > 0 ? [`after ${after.join(' and ')}${requireComplete ? ', if complete' : ''}`] : []),
  ].join(', ');
}

function utc(time: number): string {
  return `${new Date(time).toISOString().slice(0, 19)}Z`;
}

function documentOf(job: Job, now: number): unknown {
  return {
    name: job.name,
    run: job.run,
    command: commandText(job.call),
    cron: job.cron,
    timezone: job.timezone,
    after: job.after,
    require: job.requireComplete ? 'complete' : null,
    next: nextTimes(job, now).map((time) => ({ local: wallText(time, job.timezone), utc: utc(time) })),
  };
}

/** Runs the job and exits with its exit code. Throws a LockHeldError if it is already running. */
async function runOnce(context: CliContext, job: Job): Promise<void> {
  const command = commandText(job.call);
  const store = await openWorkerStore(context.settings(), systemClock, context.releases);
  const run = runId(systemClock);
  await store.beginRun({ run, job: job.name, cause: 'by_hand', occurrence: null, attempt: 1, command });
  printNote(context, `${job.name}: ${command}`);
  const given = {
    reading: context.reading(),
    servers: context.serversOfConfig(),
    actor: { ...context.actor(), job: job.name },
    run: null,
    output: terminalOutput(context),
  } as const;
  const exitCode = await runCommand(job.call, { ...context.world, given });
  await store.endRun(run, { outcome: outcomeOf(exitCode), exitCode, problem: null, report: null });
  context.exit(exitCode);
}

/** Sends a test alert once through each channel of the settings. Throws an UnreachableError if one did not arrive. */
async function sendTestAlert(context: CliContext): Promise<void> {
  const { folder, environment, signal } = context;
  const settings = context.settings();
  const { alerts } = settings;
  const userAgent = `admin-mirror/${version()}`;
  const ports = { userAgent, folder, environment: withoutSecrets(environment), log: openLog(context) };
  const channels = Object.entries(channelsOf({ ...alerts, network: networkOf(settings) }, ports));
  if (channels.length === 0) {
    throw new UsageError('no alert channel is set', {
      advice: 'Set alerts.webhook or alerts.command in the config file, or ADMIN_MIRROR_ALERTS_WEBHOOK or …_COMMAND.',
    });
  }
  const results = await Promise.all(
    channels.map(async ([channel, deliver]) => {
      const since = timestampOf(systemClock.now());
      const alert = { problem: { code: 'test', facts: {}, since }, told: {}, endedAt: null } as const;
      const sender = { profile: settings.profile ?? null, version: version() };
      const payload = payloadOf(alert, channel as Channel, systemClock.now(), sender, null);
      return { channel, id: payload.id, problem: await deliver(payload, signal) };
    }),
  );
  const lines = results.map(({ channel, id, problem }) => `${channel}: ${problem ?? `delivered (${id})`}`);
  printResult(context, { alerts: results }, lines);
  const failed = results.filter(({ problem }) => problem !== null);
  if (failed.length > 0) {
    throw new UnreachableError(`the test alert did not arrive: ${failed.map(({ problem }) => problem).join('; ')}`);
  }
}
