/** `reports`: lists and explains the saved reports. Also runs `report:NAME` for `export`, as rows or as a picture. */
import { type Command, InvalidArgumentError } from 'commander';
import { openReadingProcess, openReports } from '../data/open.ts';
import { type Report, reportNamed, type ReportParameter, type Reports } from '../data/reports/reports.ts';
import { assumptionsWith, requestFor, type ReportRequest } from '../data/reports/run.ts';
import { UsageError } from '../model/errors.ts';
import { systemClock } from '../model/time.ts';
import type { StatementPart } from '../data/reading-types.ts';
import type { CliContext } from './context.ts';
import { alignedLines, paint, printNote, printResult, printWarning } from './output.ts';
import { checkPictureName, writePicture } from './files.ts';

/** Draws the report to the file, which appears complete or not at all. */
export async function drawReport(
  context: CliContext,
  what: string | undefined,
  flags: ReportFlags,
  part: StatementPart,
  file: string,
): Promise<void> {
  if (!isReport(what)) {
    throw new UsageError('--chart is for reports: export report:NAME --chart out.svg', {
      advice: 'Draw anything else with `admin-mirror query "SELECT …" --chart out.svg`.',
    });
  }
  checkPictureName(file);
  const reading = openReadingProcess(context.releases);
  const request = await reportRequest(context, what, flags, part);
  const chunks = reading.chunks(
    context.settings().store.mirror,
    { kind: 'chart', what: request, now: part.asOf === undefined ? systemClock.now() : Date.parse(part.asOf) },
    { signal: context.signal, onWarning: (warning) => printWarning(context, warning) },
  );
  await writePicture(context, file, chunks);
}

export function define(program: Command, context: CliContext): void {
  program
    .command('reports')
    .description(
      'List the saved reports, or explain one: what it shows, its parameters and columns. `export report:NAME` runs it. ' +
        'Your own reports are in config/reports.',
    )
    .argument('[name]', 'only this one, in full')
    .addHelpText(
      'after',
      `
Examples:
  admin-mirror reports
  admin-mirror reports signups-by-month
  admin-mirror export report:signups-by-month --param from=2026-01-01 -o signups.csv`,
    )
    .action((name: string | undefined) => run(context, name));
}

async function run(context: CliContext, name: string | undefined): Promise<void> {
  const found = await openReports(context.settings());
  if (name !== undefined) {
    const report = reportNamed(found, name);
    return printResult(context, documentOf(report), linesOf(context, report));
  }
  const { reports, broken } = found;
  printResult(context, { reports: reports.map(documentOf), broken }, listOf(context, found));
  if (context.json()) return;
  for (const { file, problems } of broken)
    printWarning(context, `${file} is not a valid report: ${problems.join('; ')}`);
}

function documentOf({ sql, parameters, needs, ...rest }: Report) {
  return {
    ...rest,
    // A parameter without a default is required; a default of null means "no value".
    parameters: parameters.map(({ default: standing, ...each }) => ({
      ...each,
      required: standing === undefined,
      default: standing ?? null,
    })),
    needs: needs.map(({ table, relation, keys }) => ({
      table,
      include: relation === null ? null : `${relation.resource}.${relation.relation}`,
      keys,
    })),
    sql,
  };
}

function listOf(context: CliContext, { reports, replaced }: Reports): string[] {
  const names = Math.max(0, ...reports.map(({ name }) => name.length));
  const titles = Math.max(0, ...reports.map(({ title }) => title.length));
  return reports.map(({ name, title, origin, parameters }) => {
    const own = origin === 'own' ? `(your own${replaced.includes(name) ? ', in place of a shipped one' : ''})` : '';
    const requested = paint(context, 'dim', parameters.map(parameterText).join(' '));
    return [paint(context, 'bold', name.padEnd(names)), title.padEnd(titles), requested, own].join('  ').trimEnd();
  });
}

/** Returns `from=30d`, `user=` for an optional parameter without a value, `user=…` for a required one. */
function parameterText({ name, default: standing }: ReportParameter): string {
  return `${name}=${standing === undefined ? '…' : (standing?.replace(/\sago$/, '').trimEnd() ?? '')}`;
}

function linesOf(context: CliContext, report: Report): string[] {
  const { parameters, columns, needs, assumptions, chart } = report;
  const needed = parameters.filter((each) => each.default === undefined);
  return [
    `${paint(context, 'bold', report.name)}: ${report.title}`,
    ...wrapped(report.description),
    '',
    ...assumptions.map((words) => `assumes: ${words}`),
    `reads: ${needs.map(({ table }) => table).join(', ')}`,
    ...(chart === null ? [] : [`picture: ${chart.kind}, ${chart.y.join(', ')} by ${chart.x}`]),
    `file: ${report.file}`,
    ...table(
      'parameters',
      parameters.map(({ name, type, default: standing, meaning }) => [name, type, defaultWords(standing), meaning]),
    ),
    ...table(
      'columns',
      columns.map(({ name, type, meaning }) => [name, type, meaning]),
    ),
    '',
    `admin-mirror export report:${report.name}${needed.map(({ name }) => ` --param ${name}=…`).join('')}`,
  ];
}

/** Wraps the text at a width that is easy to read. */
function wrapped(text: string): string[] {
  return text.match(/.{1,100}(?:\s|$)/g)?.map((line) => line.trim()) ?? [text];
}

function defaultWords(standing: string | null | undefined): string {
  return standing === undefined ? 'must be given' : standing === null ? '' : `default ${standing}`;
}

function table(title: string, rows: readonly (readonly string[])[]): string[] {
  return rows.length === 0 ? [] : ['', `${title}:`, ...alignedLines(rows).map((line) => `  ${line}`)];
}

const prefix = 'report:';

export function isReport(what: string | undefined): what is `report:${string}` {
  return what?.startsWith(prefix) === true;
}

/** Parses a flag `name=value`. It may be given several times, but each name only once. */
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

/** Returns the report to run, and notes its assumptions on standard error. Throws a UsageError or FileError. */
export async function reportRequest(
  context: CliContext,
  what: string,
  flags: ReportFlags,
  part: StatementPart,
): Promise<ReportRequest> {
  if (flags.sql !== undefined) throw new UsageError(`--sql replaces the table: give either --sql or "${what}"`);
  if (flags.meta === true) throw new UsageError('--meta is for tables and views; the columns of a report are fixed');
  const reports = await openReports(context.settings());
  const report = reportNamed(reports, what.slice(prefix.length));
  const request = requestFor(report, flags.param ?? new Map<string, string>(), part, systemClock.now());
  if (reports.replaced.includes(report.name)) {
    printNote(
      context,
      `report ${report.name} is your own (${report.file}) and replaces the one that comes with the program`,
    );
  }
  for (const words of assumptionsWith(report, request.values)) printNote(context, `assumed: ${words}`);
  return request;
}
