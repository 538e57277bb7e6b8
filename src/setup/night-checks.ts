/** Checks what the nightly jobs need: the jobs, where they write, and the alerts. Runs no job, sends nothing. */
import { constants } from 'node:fs';
import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path';
import type { Socket } from 'node:net';
import { getCACertificates, TLSSocket } from 'node:tls';
import { buildConnector } from 'undici';
import { mayAccess } from '../model/files.ts';
import { mayBeProxied, type Network } from '../api/transport.ts';
import { dictionary } from '../data/dictionary.ts';
import { formatOfName } from '../data/formats.ts';
import { counted } from '../model/text.ts';
import { suggestion, UnreachableError, UsageError } from '../model/errors.ts';
import type { Job } from '../model/job.ts';
import { silentLog } from '../model/log.ts';
import type { SecretAddress } from '../model/secret.ts';
import { secondMs, systemClock } from '../model/time.ts';
import { networkOf } from '../settings/server.ts';
import { type Check, type Finding, failed, ok, skipped, warn } from './check.ts';
import { checkFolder } from './local-checks.ts';
import { checkCertificate, orNone } from './server-checks.ts';
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

/** The addresses and the program of the alerts. Sends nothing and runs nothing. */
export const alertsCheck: Check = {
  name: 'alerts',
  run: async ({ settings, folder, environment }) => {
    const { alerts, jobs } = settings;
    const network = orNone(() => networkOf(settings)) ?? {};
    const reached = await Promise.all([
      checkAddress('webhook', alerts.webhook, network),
      checkAddress('ping', alerts.ping, network),
    ]);
    const isMute = jobs.length > 0 && alerts.webhook === undefined && alerts.command === undefined;
    return [
      ...reached.flat(),
      ...checkCommand(alerts.command, folder, environment['PATH'] ?? ''),
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

/** Checks that the program exists, without running it. */
function checkCommand(command: readonly string[] | undefined, folder: string, path: string): Finding[] {
  const [program] = command ?? [];
  if (program === undefined) return [];
  const places = program.includes('/')
    ? [isAbsolute(program) ? program : join(folder, program)]
    : path.split(delimiter).map((each) => join(each, program));
  if (places.some((place) => mayAccess(place, constants.X_OK))) return [ok('alert command', program)];
  const error = new UsageError(`the program ${program} does not exist or cannot be run`, {
    advice: 'Correct alerts.command or ADMIN_MIRROR_ALERTS_COMMAND.',
  });
  return [failed('alert command', error)];
}

const connectTimeoutMs = 8 * secondMs;

/** Only connects: a request would be a false alert, or a ping that says that a run succeeded. */
async function checkAddress(name: string, address: SecretAddress | undefined, network: Network): Promise<Finding[]> {
  if (address === undefined) return [];
  const href = address.reveal();
  if (mayBeProxied(href, network)) {
    return [skipped(name, `${address.host} is behind the proxy: try it with \`admin-mirror schedule --test-alert\``)];
  }
  let socket: Socket | undefined;
  try {
    socket = await connected(new URL(href), network);
    const certificate = socket instanceof TLSSocket ? socket.getPeerCertificate() : undefined;
    return [ok(name, `${address.host} accepts connections`), ...checkCertificate(`${name} certificate`, certificate)];
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'no connection';
    const advice = `Check alerts.${name}: until it works, nobody is told about problems.`;
    return [failed(name, new UnreachableError(`${address.host} cannot be reached (${code})`, { advice }))];
  } finally {
    socket?.destroy();
  }
}

function connected({ protocol, hostname, port }: URL, { ca }: Network): Promise<Socket> {
  const trusted = ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] };
  const connect = buildConnector({ timeout: connectTimeoutMs, ...trusted });
  return new Promise((done, reject) => {
    connect({ protocol, hostname, port }, (error, socket) => (error === null ? done(socket) : reject(error)));
  });
}
