/** `export`: rows of the mirror into a file or to standard output. */
import { type Command, Option } from 'commander';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { CliContext } from './context.ts';
import { checkAll, type ExportFlags, formOf, partOf, removeOlder, targetOf, whatOf } from './export-flags.ts';
import { toCount, toMoment } from './flag-values.ts';
import { printJson, printNote, printWarning } from './output.ts';
import { refuseOwnFiles } from './own-files.ts';
import { toParameter } from './report-request.ts';
import { exportFormats, isPacked } from '../data/formats.ts';
import { isWhole } from '../data/selection.ts';
import { counted } from '../model/counted.ts';
import { UsageError } from '../model/errors.ts';
import { systemClock, timestampOf } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { drawReport } from './reports.ts';
import { exportSet, manifestProgram } from '../data/export-set.ts';
import { exportChunks, type ExportRequest, type ExportRun, type FileForm } from '../data/export.ts';
import { openCertified, openReading, openReadingProcess } from '../data/open.ts';
import { maskedStore } from '../data/personal.ts';
import { writeToStream } from '../data/stream-output.ts';
import { type Releases, withReleases } from '../model/releases.ts';
import { requireSpace } from '../store/files/disk-space.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';

export function define(program: Command, context: CliContext): void {
  program
    .command('export')
    .description(
      'Write a table or view of the mirror, or the result of a query, as CSV or another format. A file appears whole or ' +
        'not at all.',
    )
    .argument(
      '[what]',
      'a table or view (`admin-mirror schema` lists them), or report:NAME (`admin-mirror reports` lists those)',
    )
    .option(
      '-o, --output <file>',
      'write to the file (default: standard output, as for -); {date} and {time} in its name are those of now, in UTC',
    )
    .addOption(
      new Option(
        '--format <format>',
        "how rows are written (default: what the file's name ends with, else csv)",
      ).choices(exportFormats),
    )
    .option('--all', 'every table, each into a file of the folder that -o names, with a manifest.json')
    .option('--sql <sql>', 'the rows of one query that reads, in place of a table')
    .option('--columns <names>', 'only these columns, in this order: id,email,balance')
    .option('--where <sql>', 'only rows for which the condition holds: "balance > 100"')
    .option('--order <sql>', 'in this order (default: by id): "balance DESC, id"')
    .option('--as-of <time>', 'the table as the mirror knew it then: a time, a day (its start) or 7d ago', toMoment())
    .option(
      '--changed-since <cursor>',
      'only what changed since the export that gave this cursor, and what went (column _deleted); 0 for everything',
    )
    .option(
      '--param <name=value>',
      'a parameter of the report: from=2026-10-01; may be given several times',
      toParameter,
    )
    .option('--chart <file>', 'draw the report as SVG into the file, in the place of its rows')
    .option('--mask', 'put (masked) in the place of what is about people; numbers, days and states stay')
    .option('--meta', "also the mirror's own columns, whose names begin with _")
    .option(
      '--keep <number>',
      'keep so many that a name with {date} made, this one included; remove older ones',
      toCount,
    )
    .option('--gzip', 'compress with gzip: csv, tsv, json and jsonl')
    .option('--zstd', 'compress with zstd: csv, tsv, json and jsonl')
    .option('--raw', "leave text that a spreadsheet would run as it is in csv and tsv (default: put a ' before it)")
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
      if (flags.mask === true) throw new UsageError('--mask is for rows, and --chart draws a picture');
      return drawReport(context, what, flags, partOf(flags), flags.chart);
    });
}

async function run(context: CliContext, what: string | undefined, flags: ExportFlags): Promise<void> {
  const named = flags.output === '-' ? undefined : flags.output;
  const request = { what: await whatOf(context, what, flags), form: formOf(flags, named) };
  checkStandardOutput(context, request.form, flags, named);
  const target = named === undefined ? undefined : targetOf(context, named, flags.keep);
  const { signal } = context;
  await withReleases(async (releases) => {
    let rows = 0;
    let cursor: string | null = null;
    const before = certifiedOf(context);
    const chunks = await openChunks(context.settings(), releases, request, flags.mask === true, {
      signal,
      writesAtOnce: target !== undefined,
      onRows: (more) => void (rows += more),
      onCursor: (of) => {
        cursor = of;
      },
      onWarning: (warning) => printWarning(context, warning),
    });
    if (target === undefined) {
      await writeToStream(context.stdout, chunks, signal);
      noteCursor(context, flags, cursor);
      return;
    }
    refuseOwnFiles(target.path, context.settings());
    const bytes = await writeDurableFile(target.path, chunks, signal);
    printNote(context, `${counted(rows, 'row')} written to ${target.shown}`);
    noteCursor(context, flags, cursor);
    const older = await removeOlder(context, target, 'files');
    const { format, compression } = request.form;
    const asOf = flags.asOf === undefined ? {} : { as_of: timestampOf(flags.asOf) };
    if (!context.json()) return;
    const since = flags.changedSince === undefined ? {} : { changed_since: flags.changedSince };
    // The same before and after: no run has begun meanwhile, and the rows are of this state.
    const after = certifiedOf(context);
    const certificate = before?.written_at === after?.written_at ? after : null;
    printJson(context, {
      file: target.path,
      format,
      compression,
      rows,
      bytes,
      ...asOf,
      ...since,
      cursor,
      certificate,
      ...older,
    });
  });
}

/** Says how to go on, once all of it is written. */
function noteCursor(context: CliContext, { changedSince }: ExportFlags, cursor: string | null): void {
  if (changedSince !== undefined && cursor !== null) printNote(context, `go on with --changed-since ${cursor}`);
}

/** The certificate of the mirror as it is, where its root is reported. */
function certifiedOf(context: CliContext) {
  return context.json() ? openCertified(context.settings()) : null;
}

/** A statement runs where it can be ended, since SQLite may work on it for minutes; a whole table is read in pieces here. */
async function openChunks(
  settings: Settings,
  releases: Releases,
  request: ExportRequest,
  isMasked: boolean,
  run: ExportRun,
): Promise<AsyncGenerator<Uint8Array>> {
  if ('relation' in request.what && isWhole(request.what)) {
    const store = openReading(settings, releases);
    return exportChunks(isMasked ? maskedStore(store) : store, request, run);
  }
  const reading = openReadingProcess(releases);
  return reading.chunks(settings.store.mirror, { kind: 'export', request, isMasked }, run);
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
  checkAll(what, flags);
  if (flags.output === undefined || flags.output === '-') {
    throw new UsageError('--all writes many files, and no folder was named', { advice: 'Give -o FOLDER.' });
  }
  const form = formOf(flags, undefined);
  const target = targetOf(context, flags.output, flags.keep);
  const manifest = await withReleases(async (releases) => {
    const settings = context.settings();
    const request = {
      folder: target.path,
      form,
      meta: flags.meta === true,
      ...(flags.changedSince === undefined ? {} : { changedSince: flags.changedSince }),
      check: (file: string) => refuseOwnFiles(join(target.path, file), settings),
    };
    const store = openReading(settings, releases);
    const { size } = statSync(settings.store.mirror);
    requireSpace('export every table', target.path, isSmall(form) ? size / 2 : size);
    return exportSet(flags.mask === true ? maskedStore(store) : store, request, {
      signal: context.signal,
      clock: systemClock,
      onRows: () => {},
      onWarning: (warning) => printWarning(context, warning),
    });
  });
  const rows = manifest.files.reduce((sum, file) => sum + file.rows, 0);
  printNote(
    context,
    `${counted(manifest.files.length, 'file')} with ${counted(rows, 'row')} written to ${target.shown}`,
  );
  noteCursor(context, flags, manifest.cursor);
  await removeOlder(context, target, { foldersOf: manifestProgram });
  if (context.json()) printJson(context, manifest);
}

/** Whether what is written takes less room than the same rows in the mirror. */
function isSmall({ format, compression }: FileForm): boolean {
  return compression !== null || isPacked(format);
}
