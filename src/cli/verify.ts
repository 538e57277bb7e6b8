/** `verify`: compares the mirror with the server. Changes no record of either. */
import type { Command } from 'commander';
import { counted, grouped } from '../model/text.ts';
import type { ResourceName } from '../model/resources.ts';
import { namedOf, resourcesArgument } from './flag-values.ts';
import { runId } from '../model/program.ts';
import { systemClock } from '../model/time.ts';
import { findingsOf, type ResourceVerdict, sinceWords, type VerifyReport } from '../mirror/verify.ts';
import { addAllFlags, type AllFlags, runForAll } from './all.ts';
import type { CliContext } from './context.ts';
import { paint, printResult } from './output.ts';
import { openSurroundings } from './logger.ts';
import { followedMs, openSyncWatch } from './progress.ts';
import { withReleases } from '../model/releases.ts';
import { openVerify } from '../mirror/open.ts';

interface Flags extends AllFlags {
  readonly deep?: true;
}

export function define(program: Command, context: CliContext): void {
  const command = program
    .command('verify')
    .description(
      'Compare the mirror with the server: the number of records in each window of creation time, and the records themselves ' +
        'if the numbers differ. Changes no record, and may run during a sync; the next sync compares again what differs.\n' +
        'Ends with 0 if everything is equal, 6 if anything differs, 5 if something could not be compared.',
    )
    .addArgument(resourcesArgument('compare'))
    .option('--deep', 'compare every record, field by field');
  addAllFlags(command).action(async (resources: readonly ResourceName[], flags: Flags) => {
    if (flags.all) return runForAll(context, command, { one: verdictWords, ends });
    await verify(context, namedOf(resources), flags);
  });
}

const ends = { 0: 'equal', 5: 'not compared', 6: 'different' };

/** `users different; 24 requests`. */
function verdictWords(report: unknown): string {
  const { resources, requests } = report as VerifyReport;
  const unequal = Object.entries(resources).filter(([, { status }]) => status !== 'equal');
  return [...unequal.map(([name, { status }]) => `${name} ${status}`), counted(requests, 'request')].join(', ');
}

async function verify(context: CliContext, resources: readonly ResourceName[], flags: Flags): Promise<void> {
  const { run = runId(systemClock) } = context;
  const surroundings = openSurroundings(context, () => ({ run }));
  const request = { resources, deep: flags.deep ?? false };
  const { report, error } = await withReleases(async (releases) => {
    const everyMs = context.run === undefined ? undefined : followedMs;
    const watch = releases.add(openSyncWatch(context, surroundings.log, resources, everyMs));
    const end = await openVerify(surroundings, releases)(request, watch.progress);
    watch.ended({ status: end.report.status, requests: end.report.requests });
    return end;
  });
  printResult(context, report, linesOf(context, report));
  if (error !== null) throw error;
  if (report.status === 'different') context.exit(6);
}

/** How many ids and windows of each kind to show. --json has all. */
const shown = 20;

const styles = { equal: 'green', different: 'red', incomplete: 'yellow' } as const;

function linesOf(context: CliContext, report: VerifyReport): string[] {
  const lines = Object.entries(report.resources).flatMap(([name, each]) => [
    `${name.padEnd(9)} ${paint(context, styles[each.status], each.status.padEnd(10))}  ${sizes(each)}`,
    ...findingsOf(each, shown).map((line) => `  ${line}`),
  ]);
  return [
    ...lines,
    ...(report.status === 'equal' ? [] : [sinceWords(report)]),
    `${report.status}, ${counted(report.requests, 'request')}`,
  ];
}

function sizes({ live, surplus, server_total: total, windows }: ResourceVerdict): string {
  const unseen = surplus === 0 ? '' : ` (${grouped(surplus)} of which no page shows)`;
  const server = total === null ? 'not counted on the server' : `${grouped(total)} on the server${unseen}`;
  return `${grouped(live)} in the mirror, ${server}, ${counted(windows, 'window')} compared`;
}
