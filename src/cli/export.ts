/** `export`: writes rows of the mirror to a file or standard output. */
import { statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Command, Option } from 'commander';
import { exportSet, manifestProgram } from '../data/export-set.ts';
import { exportChunks, type ExportRequest, type ExportRun, type FileForm } from '../data/export.ts';
import { type ExportFormat, exportFormats, formatOfName, isPacked } from '../data/formats.ts';
import { openReading, openReadingProcess } from '../data/open.ts';
import { maskedStore } from '../data/personal.ts';
import { isWhole } from '../data/selection.ts';
import type { SourceRequest } from '../data/source.ts';
import { writeToStream } from '../data/job-process.ts';
import { counted } from '../model/text.ts';
import { UsageError } from '../model/errors.ts';
import { systemClock, type Timestamp, timestampOf } from '../model/time.ts';
import { requireSpace, writeDurableFile } from '../store/files/durable-file.ts';
import { manifestBeside, manifestHead, measured, writeManifest } from '../store/files/manifest.ts';
import { freshnessFacts, journalHead } from './manifest-facts.ts';
import type { StatementPart } from '../data/reading-types.ts';
import type { CliContext } from './context.ts';
import { toCount, toMoment } from './flag-values.ts';
import { pathOfFile, refuseOwnFiles, removeOlder, targetOf } from './files.ts';
import { printJson, printOutcome, printWarning } from './output.ts';
import { drawReport, isReport, type ReportFlags, reportRequest, toParameter } from './reports.ts';

/** Flags that select a part of a table or a report, by commander's names. */
const partFlags = ['columns', 'where', 'order', 'asOf'];

export function define(program: Command, context: CliContext): void {
  program
    .command('export')
    .description(
      'Write a table or view of the mirror, or the result of a query, as CSV or another format. A file appears complete or ' +
        'not at all.',
    )
    .argument(
      '[what]',
      'a table or view (`admin-mirror schema` lists them), or report:NAME (`admin-mirror reports` lists those)',
    )
    .option(
      '-o, --output <file>',
      'write to the file (default: standard output, or -); {date} and {time} in its name stand for now, in UTC',
    )
    .addOption(
      new Option('--format <format>', 'the format of the rows (default: from the name of the file, else csv)').choices(
        exportFormats,
      ),
    )
    .addOption(
      new Option('--all', 'every table, each to a file in the folder that -o names, with a manifest.json').conflicts([
        'sql',
        'param',
        'chart',
        ...partFlags,
      ]),
    )
    .addOption(
      new Option('--sql <sql>', 'the rows of one read-only query, instead of a table').conflicts([
        'param',
        'chart',
        'meta',
        'changedSince',
        ...partFlags,
      ]),
    )
    .option('--columns <names>', 'only these columns, in this order: id,email,balance')
    .option('--where <sql>', 'only rows for which the condition holds: "balance > 100"')
    .option('--order <sql>', 'in this order (default: by id): "balance DESC, id"')
    .option(
      '--as-of <time>',
      'the table as the mirror knew it then: a time, a day (its start), or 7d for seven days ago',
      toMoment(),
    )
    .addOption(
      // Gives all changes up to now, in the order in which they happened.
      new Option(
        '--changed-since <cursor>',
        'only what changed since the export that printed this cursor, with deletions (column _deleted); 0 for everything',
      ).conflicts(['where', 'order', 'asOf']),
    )
    .option(
      '--param <name=value>',
      'a parameter of the report: from=2026-10-01; may be given several times',
      toParameter,
    )
    .addOption(
      new Option('--chart <file>', 'draw the report as SVG to the file, and write no rows').conflicts([
        'output',
        'columns',
        'mask',
      ]),
    )
    .option('--mask', 'write (masked) instead of data about people; numbers, days and states stay')
    .option('--meta', "also write the mirror's own columns, which begin with _ (_seq only by name)")
    .option(
      '--keep <number>',
      'keep the newest <number> files of this name with {date}, this one included; remove older ones',
      toCount,
    )
    .option('--gzip', 'compress: csv, tsv, json and jsonl')
    .option('--raw', "in csv and tsv, do not put a ' before text that a spreadsheet would run as a formula")
    .option('--bom', 'begin with a byte order mark, for spreadsheets that need one')
    .addHelpText(
      'after',
      `
Examples:
  admin-mirror export users -o users.csv
  admin-mirror export users -o users.xlsx
  admin-mirror export users --columns id,email,balance --where "balance > 0" --order "balance DESC"
  admin-mirror export users --as-of 7d -o users-last-week.csv
  admin-mirror export users --changed-since 0 -o users.csv
  admin-mirror export emails -o emails-{date}.jsonl.gz --keep 30
  admin-mirror export report:signups-by-month --param from=2026-01-01 -o signups.csv
  admin-mirror export report:signups-by-month --chart signups.svg
  admin-mirror export --sql "SELECT status, count(*) AS users FROM users GROUP BY status"
  admin-mirror export --all --format parquet -o exports`,
    )
    .action(async (what: string | undefined, flags: ExportFlags) => {
      if (flags.all === true) return exportAll(context, what, flags);
      if (flags.chart === undefined) return run(context, what, flags);
      return drawReport(context, what, flags, partOf(flags), flags.chart);
    });
}

async function run(context: CliContext, what: string | undefined, flags: ExportFlags): Promise<void> {
  const named = flags.output === '-' ? undefined : flags.output;
  const request = { what: await whatOf(context, what, flags), form: formOf(flags, named) };
  checkStandardOutput(context, request.form, flags, named);
  if (named !== undefined) pathOfFile(context, named);
  const target = named === undefined ? undefined : targetOf(context, named, flags.keep);
  const { signal } = context;
  let rows = 0;
  let cursor: string | null = null;
  const chunks = await openChunks(context, request, flags.mask === true, {
    signal,
    writesAtOnce: target !== undefined,
    onRows: (more) => void (rows += more),
    onCursor: (of) => void (cursor = of),
    onWarning: (warning) => printWarning(context, warning),
  });
  if (target === undefined) {
    await writeToStream(context.stdout, chunks, signal);
    noteCursor(context, flags, cursor);
    return;
  }
  refuseOwnFiles(context, target.path);
  const measuring = measured(chunks);
  // As of before the export, so that no row of it is older.
  const fresh = freshnessFacts(context, 'relation' in request.what ? request.what.relation : undefined);
  const bytes = await writeDurableFile(target.path, measuring.chunks, signal);
  const { format, compression } = request.form;
  if (statSync(target.path).isFile()) {
    const manifest = {
      ...manifestHead('admin-mirror export', systemClock),
      ...fresh,
      journal_head: await journalHead(context),
      files: [{ file: basename(target.path), format, compression, rows, ...measuring.end() }],
    };
    await writeManifest(manifestBeside(target.path), manifest, signal);
  }
  printOutcome(context, `${counted(rows, 'row')} written to ${target.shown}`);
  noteCursor(context, flags, cursor);
  const older = await removeOlder(context, target, 'files');
  if (!context.json()) return;
  const times = {
    as_of: flags.asOf === undefined ? undefined : timestampOf(flags.asOf),
    changed_since: flags.changedSince,
  };
  const written = { file: target.path, format, compression, rows, bytes };
  printJson(context, { ...written, ...times, cursor, ...older });
}

/** Prints the cursor to continue from, once everything is written. */
function noteCursor(context: CliContext, { changedSince }: ExportFlags, cursor: string | null): void {
  if (changedSince !== undefined && cursor !== null) printOutcome(context, `continue with --changed-since ${cursor}`);
}

/** Runs a statement in a process that can be killed, since SQLite may work on it for minutes. Reads a whole table here, in pieces. */
async function openChunks(
  { settings, releases }: CliContext,
  request: ExportRequest,
  isMasked: boolean,
  run: ExportRun,
): Promise<AsyncGenerator<Uint8Array>> {
  if ('relation' in request.what && isWhole(request.what)) {
    const store = openReading(settings(), releases);
    return exportChunks(isMasked ? maskedStore(store) : store, request, run);
  }
  const reading = openReadingProcess(releases);
  return reading.chunks(settings().store.mirror, { kind: 'export', request, isMasked }, run);
}

function checkStandardOutput(
  context: CliContext,
  { format, compression }: ReturnType<typeof formOf>,
  { keep }: ExportFlags,
  file: string | undefined,
): void {
  if (file !== undefined) return;
  if (keep !== undefined)
    throw new UsageError('--keep is for files', { advice: 'Give -o FILE with {date} in its name.' });
  if (context.json()) {
    throw new UsageError('standard output cannot hold both the rows and the JSON report', {
      advice: 'Give -o FILE with --json, or ask for the rows as JSON with --format json.',
    });
  }
  if (!context.stdout.isTTY) return;
  if (compression !== null) {
    throw new UsageError('a terminal cannot show compressed bytes', { advice: `Give -o FILE with --${compression}.` });
  }
  if (isPacked(format)) {
    throw new UsageError(`a terminal cannot show a file of ${format}`, { advice: 'Give -o FILE.' });
  }
}

async function exportAll(context: CliContext, what: string | undefined, flags: ExportFlags): Promise<void> {
  if (what !== undefined) throw new UsageError(`--all exports every table: give either --all or "${what}"`);
  if (flags.output === undefined || flags.output === '-') {
    throw new UsageError('--all writes many files, but no folder was named', { advice: 'Give -o FOLDER.' });
  }
  const form = formOf(flags, undefined);
  const target = targetOf(context, flags.output, flags.keep);
  const settings = context.settings();
  const request = {
    folder: target.path,
    form,
    meta: flags.meta === true,
    changedSince: flags.changedSince,
    journalHead: await journalHead(context),
    check: (file: string) => refuseOwnFiles(context, join(target.path, file)),
  };
  const store = openReading(settings, context.releases);
  const { size } = statSync(settings.store.mirror);
  // Compressed files take less room than the same rows in the mirror.
  const isSmall = form.compression !== null || isPacked(form.format);
  requireSpace('export every table', target.path, isSmall ? size / 2 : size);
  const manifest = await exportSet(flags.mask === true ? maskedStore(store) : store, request, {
    signal: context.signal,
    clock: systemClock,
    onRows: () => {},
    onWarning: (warning) => printWarning(context, warning),
  });
  const rows = manifest.files.reduce((sum, file) => sum + file.rows, 0);
  printOutcome(
    context,
    `${counted(manifest.files.length, 'file')} with ${counted(rows, 'row')} written to ${target.shown}`,
  );
  noteCursor(context, flags, manifest.cursor);
  await removeOlder(context, target, { foldersOf: manifestProgram });
  if (context.json()) printJson(context, manifest);
}

interface ExportFlags extends ReportFlags {
  readonly all?: boolean;
  readonly output?: string;
  readonly keep?: number;
  readonly format?: ExportFormat;
  readonly columns?: string;
  readonly where?: string;
  readonly order?: string;
  readonly asOf?: number;
  readonly changedSince?: string;
  readonly gzip?: boolean;
  readonly raw?: boolean;
  readonly bom?: boolean;
  readonly mask?: boolean;
  readonly chart?: string;
}

/** Returns the format: from the flags, else from the name of the file, else CSV. Throws a UsageError. */
function formOf(flags: ExportFlags, file: string | undefined): FileForm {
  const named = file === undefined ? undefined : formatOfName(file);
  if (flags.format === undefined && named?.ending !== undefined && named.format === undefined) {
    throw new UsageError(`"${named.ending}" is not the ending of any format (${file})`, {
      advice: `Use a name that ends in ${exportFormats.map((each) => `.${each}`).join(', ')}, or choose with --format.`,
    });
  }
  const format = flags.format ?? named?.format ?? 'csv';
  const compression = flags.gzip === true || named?.isGzip === true ? 'gzip' : null;
  if (compression !== null && isPacked(format)) {
    throw new UsageError(`--${compression} is for csv, tsv, json and jsonl: a file of ${format} is already compressed`);
  }
  if (flags.bom === true && format !== 'csv' && format !== 'tsv') {
    throw new UsageError(`--bom is for csv and tsv, not for ${format}`);
  }
  return { format, raw: flags.raw === true, compression, bom: flags.bom === true };
}

/** Returns the rows to export. Throws a UsageError. */
async function whatOf(context: CliContext, what: string | undefined, flags: ExportFlags): Promise<SourceRequest> {
  const { sql, changedSince } = flags;
  if (isReport(what)) {
    if (changedSince === undefined) return reportRequest(context, what, flags, partOf(flags));
    throw new UsageError('--changed-since is for tables; a report is computed from all rows');
  }
  if (flags.param !== undefined) throw new UsageError('--param is for reports: export report:NAME --param name=value');
  if (sql !== undefined) {
    if (what === undefined) return { sql };
    throw new UsageError(`--sql replaces the table: give either --sql or "${what}"`);
  }
  if (what === undefined) {
    throw new UsageError('nothing to export was named', {
      advice: 'Name a table or view (`admin-mirror schema` lists them), or give --sql or --all.',
    });
  }
  return { relation: what, meta: flags.meta === true, ...partOf(flags), changedSince };
}

/** Returns which part of the rows to export. Throws a UsageError. */
function partOf({ columns: list, where, order, asOf }: ExportFlags): StatementPart {
  const columns = list?.split(',').map((name) => name.trim());
  if (columns?.includes('') === true) throw new UsageError(`--columns has an empty name: "${list}"`);
  return { columns, where, order, asOf: asOf === undefined ? undefined : past(asOf) };
}

function past(moment: number): Timestamp {
  const at = timestampOf(moment);
  if (moment <= systemClock.now()) return at;
  throw new UsageError(`--as-of ${at} is in the future`, { advice: 'Leave it out to export what is there now.' });
}
