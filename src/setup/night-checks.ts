/** Checks what the nightly jobs need: the jobs, where they write, and the alerts. Runs no job, sends nothing. */
import { dirname, resolve } from 'node:path';
import { dictionary } from '../data/dictionary.ts';
import { formatOfName } from '../data/formats.ts';
import { counted } from '../model/text.ts';
import { suggestion, UsageError } from '../model/errors.ts';
import type { Job } from '../model/job.ts';
import { silentLog } from '../model/log.ts';
import { systemClock } from '../model/time.ts';
import { type Check, type Finding, failed, ok, warn } from './check.ts';
import { checkFolder } from './local-checks.ts';
import { openReports } from '../data/open.ts';

export const jobsCheck: Check = {
  name: 'jobs',
  run: async ({ settings, folder }) => {
    const { jobs } = settings;
    if (jobs.length === 0) return [];
    const { reports } = await openReports(settings);
    const known = { tables: dictionary().map(({ name }) => name), reports: reports.map(({ name }) => name) };
    const list = `${counted(jobs.length, 'job')}: ${jobs.map(({ name }) => name).join(', ')}`;
    const hasSync = jobs.some(({ run }) => run === 'sync');
    const all = hasSync ? ok('jobs', list) : warn('jobs', list, 'None of them is a sync, so the mirror gets old.');
    return [all, ...jobs.flatMap((job) => checkJob(job, known, folder))];
  },
};

export const backupsCheck: Check = {
  name: 'backups',
  run: ({ settings: { backup } }) =>
    checkFolder({ name: 'backups', folder: backup.folder, places: 'admin-mirror backup FOLDER' }),
};

/** Connects and reads; writes nothing. */
export const publishCheck: Check = {
  name: 'publish',
  run: async ({ settings, signal }) => {
    if (settings.publish.url === undefined) return [];
    const { openPublisher } = await import('../data/open-publish.ts');
    const at = await openPublisher({ settings, clock: systemClock, signal, log: silentLog }, () => {}).publishedAt();
    return [
      ok('publish', at === null ? 'the database can be reached; nothing is published there yet' : `published ${at}`),
    ];
  },
};

/** Sends nothing and runs nothing: a test alert is the check of a channel. */
export const alertsCheck: Check = {
  name: 'alerts',
  run: ({ settings: { alerts, jobs } }) => {
    const { webhook, command, ping } = alerts;
    const named = { webhook: webhook?.host, command: command?.[0], ping: ping?.host };
    const channels = Object.entries(named).flatMap(([name, where]) =>
      where === undefined ? [] : [`${name} ${where}`],
    );
    const isMute = jobs.length > 0 && webhook === undefined && command === undefined;
    return [
      ...(channels.length === 0
        ? []
        : [ok('alerts', `${channels.join(', ')}; to try: \`admin-mirror schedule --test-alert\``)]),
      ...(isMute ? [warn('alerts', 'nobody is told when a job fails', 'Set alerts.webhook or alerts.command.')] : []),
    ];
  },
};

function checkJob(
  { name, call: { path, operands, options } }: Job,
  known: { readonly tables: readonly string[]; readonly reports: readonly string[] },
  folder: string,
): Finding[] {
  const title = `job ${name}`;
  const [[command], [what]] = [path, operands];
  const given = options['output'] ?? options['chart'];
  const output = typeof given === 'string' ? given : command === 'snapshot' ? what : undefined;
  try {
    if (command === 'export' && what !== undefined) checkSource(what, known);
    if (command === 'export' && output !== undefined && options['all'] === undefined) checkEnding(output, options);
  } catch (error) {
    return [failed(title, error)];
  }
  const place = command === 'backup' ? what : undefined;
  const target = place ?? (output === undefined ? undefined : dirname(output));
  if (target === undefined) return [];
  return checkFolder({ name: title, folder: resolve(folder, target), places: 'the settings of the job' });
}

function checkSource(what: string, { tables, reports }: Parameters<typeof checkJob>[1]): void {
  const report = /^report:(.*)$/.exec(what)?.[1];
  const names = report === undefined ? tables : reports;
  const name = report ?? what;
  // Only the mirror knows whether a table of related records, or a view of the user's, exists.
  if (names.includes(name) || (report === undefined && /_/.test(name))) return;
  throw new UsageError(`there is no ${report === undefined ? 'table' : 'report'} "${name}" to export`, {
    advice: suggestion(name, names),
  });
}

function checkEnding(output: string, options: Job['call']['options']): void {
  const { ending, format } = formatOfName(output);
  if (ending === undefined || format !== undefined) return;
  if (options['format'] !== undefined || options['chart'] !== undefined) return;
  throw new UsageError(`"${ending}" is not the ending of any format (${output})`, {
    advice: 'Change the output of the job, or add a format.',
  });
}
