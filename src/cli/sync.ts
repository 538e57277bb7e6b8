/** `sync`: brings the mirror up to date. */
import { Option, type Command } from 'commander';
import { counted, grouped } from '../model/text.ts';
import { UsageError } from '../model/errors.ts';
import { type DayRange, eraEnd, eraStart } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import { runId } from '../model/program.ts';
import { addDays, type Day, earliest, systemClock } from '../model/time.ts';
import type { ResourceReport, RunReport } from '../store/mirror-types.ts';
import { addAllFlags, type AllFlags, runForAll } from './all.ts';
import type { CliContext } from './context.ts';
import { namedOf, resourcesArgument, toDayOf, toWholeNumber } from './flag-values.ts';
import { alignedLines, freshWords, notCompleteYet, printResult, printWarning } from './output.ts';
import { openDirectory } from '../bulk/open.ts';
import { openJournalMemory } from '../bulk/open-memory.ts';
import { refreshMemory } from '../bulk/journal-memory.ts';
import { recordLate } from '../bulk/late.ts';
import { openSurroundings } from './logger.ts';
import { openSyncWatch } from './progress.ts';
import { mayHaveJournal, openJournal } from '../journal/open.ts';
import { openPlan, openSync, type RunPlan } from '../mirror/open.ts';
import { withReleases } from '../model/releases.ts';

interface Flags extends AllFlags {
  readonly full?: true;
  readonly quick?: true;
  readonly since?: Day;
  readonly until?: Day;
  readonly maxRequests?: number;
  readonly allowDeletions?: true;
  readonly acceptNewServer?: true;
  readonly dryRun?: true;
}

export function define(program: Command, context: CliContext): void {
  const command = program
    .command('sync')
    .description(
      'Bring the mirror up to date: new records, those of the last days, and as many older ones as the budget of requests allows. ' +
        'Continues a run that was stopped.',
    )
    .addArgument(resourcesArgument('read'))
    .addOption(new Option('--full', 'read every record again').conflicts('quick'))
    .option('--quick', 'read only what may have been added, and compare counts')
    .option(
      '--since <time>',
      'only records created on that day or later: a day, a time, or 7d for seven days ago',
      toDayOf,
    )
    .option('--until <time>', 'only records created on that day or earlier', toDayOf)
    .option('--max-requests <n>', 'how many requests to spend on reading old records again', toWholeNumber)
    .option('--allow-deletions', 'remove records that the server no longer has, however many')
    .option('--accept-new-server', 'continue although the server seems to be another one, or restored from a backup')
    .option('--dry-run', 'show what would be read, why, and what it would cost; send nothing');
  addAllFlags(command).action(async (resources: readonly ResourceName[], flags: Flags) => {
    if (flags.all) return runForAll(context, command, { one: flags.dryRun ? planWords : syncWords });
    const named = namedOf(resources);
    await (flags.dryRun ? plan(context, named, flags) : sync(context, named, flags));
  });
}

/** `12 new, 3 changed, 0 deleted, 24 requests, fresh as of …`. */
function syncWords(report: unknown): string {
  const { resources, requests } = report as RunReport;
  const all = Object.values(resources);
  const sum = (key: 'inserted' | 'updated' | 'deleted') => grouped(all.reduce((total, each) => total + each[key], 0));
  const fresh = earliest(all.map(({ fresh_as_of }) => fresh_as_of));
  const changes = `${sum('inserted')} new, ${sum('updated')} changed, ${sum('deleted')} deleted`;
  return `${changes}, ${counted(requests, 'request')}, ${freshWords(fresh)}`;
}

function planWords(plan: unknown): string {
  return `at least ${counted((plan as RunPlan).requests, 'request')}`;
}

/** Syncs and prints the report. Throws the reason if the sync is not complete. */
export async function sync(context: CliContext, resources: readonly ResourceName[], flags: Flags): Promise<void> {
  const { run = runId(systemClock) } = context;
  const surroundings = openSurroundings(context, () => ({ run }));
  const request = { ...requestOf(context, resources, flags), run, actor: context.actor() };
  const { report, error } = await withReleases(async (releases) => {
    const watch = releases.add(openSyncWatch(context, surroundings.log, resources));
    const end = await openSync(surroundings, releases)(request, watch.progress);
    const { status, requests, retries } = end.report;
    watch.ended({ status, requests, retries });
    return end;
  });
  printResult(context, report, reportLines(report));
  await noteLate(context);
  if (error !== null) throw error;
}

/** Records and reports rows of batches that the server applied late, as the transactions of this sync show. */
async function noteLate(context: CliContext): Promise<void> {
  const settings = context.settings();
  if (!settings.resources.users.include.includes('balance_transactions') || !mayHaveJournal(settings)) return;
  await withReleases(async (releases) => {
    const directory = openDirectory(settings, releases);
    if (directory === null) return;
    const journal = await openJournal(settings, context.actor(), systemClock, releases);
    const late = await recordLate({ journal, directory, clock: journal.clock });
    const memory = openJournalMemory(settings, releases);
    await refreshMemory({ journal, memory, clock: journal.clock });
    for (const { batch, row, state } of late) {
      const what = state === 'applied' ? 'is applied' : 'needs a person';
      printWarning(context, `row ${row} of batch ${batch} counted as not applied, but was made late: it ${what} now`);
    }
  });
}

function requestOf(context: CliContext, resources: readonly ResourceName[], flags: Flags) {
  return {
    resources,
    mode: flags.full ? ('full' as const) : flags.quick ? ('quick' as const) : ('default' as const),
    only: rangeOf(flags),
    allowDeletions: flags.allowDeletions ?? false,
    acceptNewServer: flags.acceptNewServer ?? false,
    requestsPerRun: flags.maxRequests ?? context.settings().sync.requestsPerRun,
  };
}

function plan(context: CliContext, resources: readonly ResourceName[], flags: Flags): void {
  const request = requestOf(context, resources, flags);
  const planned = openPlan(context.settings(), request, context.releases);
  printResult(context, planned, planLines(planned));
}

function planLines({ resources, requests: all }: RunPlan): string[] {
  const steps = Object.entries(resources).flatMap(([resource, steps]) =>
    steps.map(({ reason, windows, requests }) => {
      const cost = requests === null ? 'as many requests as it takes' : counted(requests, 'request');
      const what = windows === null ? '' : `${counted(windows, 'window')}, `;
      return `${resource.padEnd(9)} ${reason}: ${what}${cost}`;
    }),
  );
  return [...steps, `at least ${counted(all, 'request')}; nothing was sent`];
}

function rangeOf({ since, until }: Flags): DayRange | null {
  if (since === undefined && until === undefined) return null;
  const range = { from: since ?? eraStart, to: until === undefined || until >= eraEnd ? eraEnd : addDays(until, 1) };
  if (range.from < range.to) return range;
  if (since === undefined) throw new UsageError(`--until ${until} is before ${eraStart}, the first day that is read`);
  throw new UsageError(
    range.to === eraEnd
      ? `--since ${since} is after ${addDays(eraEnd, -1)}, the last day that is read`
      : `--since ${since} is after --until ${until}`,
  );
}

/** Returns the report as a table with a line for each resource, and a line about the run. */
function reportLines(report: RunReport): string[] {
  const heads = ['resource', 'status', 'records', 'new', 'changed', 'deleted', 'requests', 'fresh as of'];
  const rows = Object.entries(report.resources).map(([name, each]) => rowOf(name, each));
  return [
    // Right-align the numbers.
    ...alignedLines([heads, ...rows], (column) => column >= 2 && column <= 6),
    `run ${report.run}: ${report.status}, ${counted(report.requests, 'request')}, ${counted(report.retries, 'retry', 'retries')}`,
  ];
}

function rowOf(name: string, each: ResourceReport): string[] {
  const numbers = [each.live, each.inserted, each.updated, each.deleted, each.requests];
  return [name, each.status, ...numbers.map((value) => grouped(value)), each.fresh_as_of ?? notCompleteYet];
}
