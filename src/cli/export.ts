/** `export`: rows of the mirror into a file or to standard output. */
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { UsageError } from '../model/errors.ts';
import { systemClock, timestampOf, type Timestamp } from '../model/time.ts';
import type { ExportRequest } from '../export/export.ts';
import { type ExportFormat, exportFormats } from '../export/formats.ts';
import type { ReadingStore } from '../store/ports/reading.ts';
import type { CliContext } from './context.ts';
import { toMoment } from './moment-flag.ts';
import { printJson, printNote, printWarning } from './output.ts';
import { refuseOwnFiles } from './own-files.ts';

interface ExportFlags {
  readonly sql?: string;
  readonly output?: string;
  readonly format: ExportFormat;
  readonly columns?: string;
  readonly where?: string;
  readonly order?: string;
  readonly asOf?: number;
  readonly gzip?: boolean;
  readonly raw?: boolean;
  readonly bom?: boolean;
  readonly meta?: boolean;
  readonly mask?: string;
  readonly pseudonymKey?: string;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('export')
    .description(
      'Write a table or view of the mirror, or the result of a query, as CSV. The file appears whole or not at all.',
    )
    .argument('[what]', 'a table or view; `admin-mirror schema` lists them')
    .option('-o, --output <file>', 'write to the file (default: standard output, as for -)')
    .addOption(new Option('--format <format>', 'how rows are written').choices(exportFormats).default('csv'))
    .option('--sql <sql>', 'the rows of one query that reads, in place of a table')
    .option('--columns <names>', 'only these columns, in this order: id,email,balance')
    .option('--where <sql>', 'only rows for which the condition holds: "balance > 100"')
    .option('--order <sql>', 'in this order (default: by id): "balance DESC, id"')
    .option('--as-of <time>', 'the table as the mirror knew it then: a time, a day (its start) or 7d ago', toMoment())
    .option('--meta', "also the mirror's own columns, whose names begin with _")
    .option('--mask <names>', 'pseudonyms in these columns, the same one for the same text: email,first_name')
    .option('--pseudonym-key <file>', 'a file from which the pseudonyms follow, for the same ones in every export')
    .option('--gzip', 'compress with gzip')
    .option('--raw', "leave text that a spreadsheet would run as it is (default: put a ' before it)")
    .option('--bom', 'begin with a byte order mark, for spreadsheets that need one')
    .addHelpText(
      'after',
      `
Examples:
  admin-mirror export users -o users.csv
  admin-mirror export users --columns id,email,balance --where "balance > 0" --order "balance DESC"
  admin-mirror export users --as-of 7d -o users-last-week.csv
  admin-mirror export users --mask email,username,first_name,last_name -o for-others.csv
  admin-mirror export emails --format jsonl --gzip -o emails.jsonl.gz
  admin-mirror export --sql "SELECT status, count(*) AS users FROM users GROUP BY status"`,
    )
    .action((what: string | undefined, flags: ExportFlags) => run(context, what, flags));
}

async function run(context: CliContext, what: string | undefined, flags: ExportFlags): Promise<void> {
  const request = requestOf(what, flags);
  const file = flags.output === undefined || flags.output === '-' ? undefined : flags.output;
  if (file === undefined && context.json()) {
    throw new UsageError('standard output cannot hold both the rows and the JSON report', {
      advice: 'Give -o FILE with --json, or ask for the rows as JSON with --format jsonl.',
    });
  }
  if (file === undefined && request.gzip && context.stdout.isTTY) {
    throw new UsageError('a terminal cannot show compressed bytes', { advice: 'Give -o FILE with --gzip.' });
  }
  const [{ openReading, withReleases }, { exportChunks }] = await Promise.all([
    import('../app.ts'),
    import('../export/export.ts'),
  ]);
  const { signal } = context;
  await withReleases(async (releases) => {
    const store = await maskedBy(context, flags, await openReading(context.settings(), releases));
    let rows = 0;
    const chunks = exportChunks(store, request, {
      signal,
      onRows: (more) => void (rows += more),
      onWarning: (warning) => printWarning(context, warning),
    });
    if (file === undefined) {
      const { writeToStream } = await import('../export/stream-output.ts');
      await writeToStream(context.stdout, chunks, signal);
      return;
    }
    const { writeDurableFile } = await import('../store/files/durable-file.ts');
    const path = resolve(context.folder, file);
    refuseOwnFiles(path, context.settings());
    const bytes = await writeDurableFile(path, chunks, signal);
    const asOf = 'asOf' in request.what ? { as_of: request.what.asOf } : {};
    const report = { file: path, format: flags.format, gzip: request.gzip, rows, bytes, ...asOf };
    if (context.json()) printJson(context, report);
    else printNote(context, `${rows.toLocaleString('en')} ${rows === 1 ? 'row' : 'rows'} written to ${file}`);
  });
}

/** The store as the export shall see it. */
async function maskedBy(context: CliContext, flags: ExportFlags, store: ReadingStore): Promise<ReadingStore> {
  const { mask, pseudonymKey } = flags;
  if (mask === undefined) {
    if (pseudonymKey === undefined) return store;
    throw new UsageError('--pseudonym-key is for columns with pseudonyms', { advice: 'Name them with --mask.' });
  }
  const [{ maskedStore }, { namesOfFlag, readPseudonymKey }] = await Promise.all([
    import('../export/mask.ts'),
    import('./pseudonym-key.ts'),
  ]);
  const secret = readPseudonymKey(context.folder, pseudonymKey);
  return maskedStore(store, { columns: namesOfFlag('--mask', mask), secret });
}

function requestOf(what: string | undefined, flags: ExportFlags): ExportRequest {
  if (flags.bom === true && flags.format === 'jsonl') throw new UsageError('--bom is for csv and tsv, not for jsonl');
  return {
    what: flags.sql === undefined ? tableOf(what, flags) : queryOf(what, flags.sql, flags),
    style: { format: flags.format, raw: flags.raw === true },
    gzip: flags.gzip === true,
    bom: flags.bom === true,
  };
}

function queryOf(what: string | undefined, sql: string, flags: ExportFlags): ExportRequest['what'] {
  if (what !== undefined) throw new UsageError(`--sql stands in place of a table: give it, or "${what}", not both`);
  const names = ['columns', 'where', 'order', 'asOf', 'meta'] as const;
  const other = names.find((name) => flags[name] !== undefined);
  if (other === undefined) return { sql };
  throw new UsageError(
    `--${other === 'asOf' ? 'as-of' : other} is for tables and views; with --sql, say it in the SQL`,
  );
}

function tableOf(what: string | undefined, flags: ExportFlags): ExportRequest['what'] {
  if (what === undefined) {
    throw new UsageError('nothing to export was named', {
      advice: 'Name a table or view (`admin-mirror schema` lists them), or give --sql.',
    });
  }
  const columns = flags.columns?.split(',').map((name) => name.trim());
  if (columns?.includes('') === true) throw new UsageError(`--columns has an empty name: "${flags.columns}"`);
  return {
    relation: what,
    meta: flags.meta === true,
    ...(columns === undefined ? {} : { columns }),
    ...(flags.where === undefined ? {} : { where: flags.where }),
    ...(flags.order === undefined ? {} : { order: flags.order }),
    ...(flags.asOf === undefined ? {} : { asOf: past(flags.asOf) }),
  };
}

function past(moment: number): Timestamp {
  const at = timestampOf(moment);
  if (moment <= systemClock.now()) return at;
  throw new UsageError(`--as-of ${at} lies in the future`, { advice: 'Leave it out to export what is there now.' });
}
