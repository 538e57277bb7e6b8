/** `report:NAME` on the command line: which report, with which values, and what its reader should know. */
import { InvalidArgumentError } from 'commander';
import { UsageError } from '../model/errors.ts';
import { systemClock } from '../model/time.ts';
import type { StatementPart } from '../store/reading-types.ts';
import type { CliContext } from './context.ts';
import { printNote } from './output.ts';
import { openReports } from '../data/open.ts';
import { reportNamed } from '../data/reports/reports.ts';
import { assumptionsWith, boundValues, type ReportRequest } from '../data/reports/run.ts';

const prefix = 'report:';

export function isReport(what: string | undefined): what is string {
  return what?.startsWith(prefix) === true;
}

/** A flag `name=value` that may be given several times, each name once. */
export function toParameter(
  text: string,
  before: ReadonlyMap<string, string> = new Map<string, string>(),
): ReadonlyMap<string, string> {
  const [, name = '', value = ''] = /^([^=]+)=([^]*)$/.exec(text) ?? [];
  if (name === '') throw new InvalidArgumentError('It must be name=value, as in from=2026-10-01.');
  if (before.has(name)) throw new InvalidArgumentError(`The parameter "${name}" is given twice.`);
  return new Map([...before, [name, value]]);
}

export interface ReportFlags {
  readonly param?: ReadonlyMap<string, string>;
  readonly sql?: string;
  readonly meta?: boolean;
}

/**
 * The report to run. Says on standard error what its numbers rest on, and where an own report stands in the place of a
 * shipped one. Throws a UsageError or FileError where it cannot be run so.
 */
export async function reportRequest(
  context: CliContext,
  what: string,
  flags: ReportFlags,
  part: StatementPart = {},
): Promise<ReportRequest> {
  if (flags.sql !== undefined)
    throw new UsageError(`--sql stands in place of a table: give it, or "${what}", not both`);
  if (flags.meta === true) throw new UsageError('--meta is for tables and views; a report has the columns that it has');
  const reports = await openReports(context.settings());
  const report = reportNamed(reports, what.slice(prefix.length));
  // At an earlier time, today and 30d ago are those of then.
  const now = part.asOf === undefined ? systemClock.now() : Date.parse(part.asOf);
  const values = boundValues(report, flags.param ?? new Map<string, string>(), now);
  if (reports.replaced.includes(report.name)) {
    printNote(
      context,
      `report ${report.name} is your own, ${report.file}, in the place of the one that comes with the program`,
    );
  }
  for (const words of assumptionsWith(report, values)) printNote(context, `assumed: ${words}`);
  return { report, values, part };
}
