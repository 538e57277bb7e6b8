/** `reports`: which saved reports there are, and what each shows and needs. Needs no mirror. */
import type { Command } from 'commander';
import { resolve } from 'node:path';
import type { CliContext } from './context.ts';
import { paint, printJson, printLine, printNote, printWarning } from './output.ts';
import { refuseOwnFiles } from './own-files.ts';
import { isReport, type ReportFlags, reportRequest } from './report-request.ts';
import { UsageError } from '../model/errors.ts';
import type { StatementPart } from '../store/reading-types.ts';
import { openReadingProcess, openReports } from '../data/open.ts';
import {
  type BrokenReport,
  type Report,
  reportNamed,
  type ReportParameter,
  type Reports,
} from '../data/reports/reports.ts';
import { withReleases } from '../model/releases.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';

/** Draws the report into the file, which appears whole or not at all. */
export async function drawReport(
  context: CliContext,
  what: string | undefined,
  flags: ReportFlags & { readonly output?: string },
  part: StatementPart,
  file: string,
): Promise<void> {
  if (!isReport(what)) {
    throw new UsageError('--chart is for reports: export report:NAME --chart out.svg', {
      advice: 'Draw anything else with `admin-mirror query "SELECT …" --chart out.svg`.',
    });
  }
  if (!file.toLowerCase().endsWith('.svg')) {
    throw new UsageError(`a picture is written as SVG, and "${file}" does not end in .svg`);
  }
  if (flags.output !== undefined || part.columns !== undefined) {
    throw new UsageError(
      `--chart draws in the place of rows: leave out ${flags.output === undefined ? '--columns' : '-o'}`,
    );
  }
  await withReleases(async (releases) => {
    const reading = openReadingProcess(releases);
    const settings = context.settings();
    const path = resolve(context.folder, file);
    refuseOwnFiles(path, settings);
    const request = await reportRequest(context, what, flags, part);
    const chunks = reading.chunks(
      settings.store.mirror,
      { kind: 'chart', what: request, to: 'svg' },
      { signal: context.signal, onWarning: (warning) => printWarning(context, warning) },
    );
    const bytes = await writeDurableFile(path, chunks, context.signal);
    if (context.json()) printJson(context, { file: path, format: 'svg', bytes });
    else printNote(context, `drawn to ${file}`);
  });
}

export function define(program: Command, context: CliContext): void {
  program
    .command('reports')
    .description(
      'List the saved reports, or explain one: what it shows, its parameters and columns. `export report:NAME` runs it. ' +
        'Those of your own lie in the folder of the setting export.reports.',
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
    if (context.json()) printJson(context, documentOf(report));
    else for (const line of linesOf(context, report)) printLine(context, line);
    return;
  }
  if (context.json()) {
    printJson(context, { reports: found.reports.map(documentOf), broken: found.broken });
    return;
  }
  for (const line of listOf(context, found)) printLine(context, line);
  for (const each of found.broken) printWarning(context, brokenWords(each));
}

function documentOf({ sql, parameters, needs, ...rest }: Report) {
  return {
    ...rest,
    // No default is one that must be given; null is one that stands for nothing.
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
    const own = origin === 'own' ? `(your own${replaced.includes(name) ? ', in the place of a shipped one' : ''})` : '';
    const requested = paint(context, 'dim', parameters.map(shortly).join(' '));
    return [paint(context, 'bold', name.padEnd(names)), title.padEnd(titles), requested, own].join('  ').trimEnd();
  });
}

/** `from=30d`, `user=` where it can be left out, `user=…` where it must be given. */
function shortly({ name, default: standing }: ReportParameter): string {
  return `${name}=${standing === undefined ? '…' : (standing?.replaceAll(/\s+ago$/g, '') ?? '')}`;
}

function linesOf(context: CliContext, report: Report): string[] {
  const { parameters, columns, needs, assumptions, chart } = report;
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
    `admin-mirror export report:${report.name}${parameters
      .filter((each) => each.default === undefined)
      .map(({ name }) => ` --param ${name}=…`)
      .join('')}`,
  ];
}

/** Lines of a width that is read with ease. */
function wrapped(text: string): string[] {
  return text.match(/.{1,100}(?:\s|$)/g)?.map((line) => line.trim()) ?? [text];
}

function defaultWords(standing: string | null | undefined): string {
  return standing === undefined ? 'must be given' : standing === null ? '' : `default ${standing}`;
}

function table(title: string, rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, index) => Math.max(...rows.map((row) => row[index]?.length ?? 0)));
  const lines = rows.map((row) =>
    `  ${row.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join('  ')}`.trimEnd(),
  );
  return rows.length === 0 ? [] : ['', `${title}:`, ...lines];
}

function brokenWords({ file, problems }: BrokenReport): string {
  return `${file} is no report: ${problems.join('; ')}`;
}
