/** `query`: runs one read-only statement on the mirror. */
import { type Command, Option } from 'commander';
import { UsageError } from '../model/errors.ts';
import { type QueryFormat, queryFormats } from '../data/formats.ts';
import type { ReadingJob } from '../data/reading-child.ts';
import { styleWord } from '../model/text.ts';
import type { CliContext } from './context.ts';
import { formatOption, readInput, toDuration } from './flag-values.ts';
import { writePicture } from './files.ts';
import { tableRoom } from './output.ts';
import { writeToStream } from '../data/stream-output.ts';
import { openReadingProcess } from '../data/open.ts';

interface QueryFlags {
  readonly format: QueryFormat;
  readonly timeout?: number;
  readonly explain?: boolean;
  readonly chart?: string | true;
  readonly mask?: boolean;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('query')
    .description('Run one read-only SQL statement. Refuses a statement that writes, attaches or sets anything.')
    .argument('[sql]', 'the SQL; read from standard input if it is missing or -')
    .addOption(formatOption('rows', queryFormats))
    .option('--timeout <duration>', 'stop when the statement takes longer: 30s, 10m (default: no limit)', toDuration)
    .addOption(new Option('--explain', 'show how the statement would run, and which tables it reads in full'))
    .addOption(
      new Option('--chart [file]', 'draw the result: in the terminal, or as SVG to the file').conflicts('explain'),
    )
    .option('--mask', 'show (masked) instead of data about people; numbers, days and states stay')
    .addHelpText(
      'after',
      `
In a terminal, long text is cut so that a table fits; it is whole in a file and in a pipe, such as to less -S. Ctrl+C
stops a statement.

Examples:
  admin-mirror query "SELECT status, count(*) AS users FROM users GROUP BY status"
  admin-mirror query "SELECT id, email, balance FROM users ORDER BY balance DESC LIMIT 10" --format csv
  admin-mirror query "SELECT substr(created_at, 1, 7) AS month, count(*) AS users FROM users GROUP BY 1" --chart
  admin-mirror query "SELECT count(*) FROM emails WHERE subject LIKE '%invoice%'" --explain
  admin-mirror query - --timeout 30s < report.sql`,
    )
    .action((sql: string | undefined, flags: QueryFlags) => run(context, sql, flags));
}

async function run(context: CliContext, argument: string | undefined, flags: QueryFlags): Promise<void> {
  // First, because the process takes a moment to start.
  const reading = openReadingProcess(context.releases);
  const settings = context.settings();
  const { sql, file } = await requestOf(context, argument, flags);
  const run = { signal: context.signal, timeoutMs: flags.timeout };
  const job = { ...jobOf(context, sql, flags, file), isMasked: flags.mask === true };
  const chunks = reading.chunks(settings.store.mirror, job, run);
  if (file === undefined) return writeToStream(context.stdout, chunks, context.signal);
  await writePicture(context, file, chunks);
}

/** Returns the SQL, and the file for a picture. */
async function requestOf(
  context: CliContext,
  argument: string | undefined,
  { chart }: QueryFlags,
): Promise<{ readonly sql: string; readonly file: string | undefined }> {
  // In `--chart "SELECT …"`, commander takes the SQL as the flag's value.
  const isFile = typeof chart === 'string' && chart.toLowerCase().endsWith('.svg');
  if (typeof chart === 'string' && !isFile && (argument !== undefined || !/\s/.test(chart))) {
    throw new UsageError(`a picture is written as SVG, but "${chart}" does not end in .svg`, {
      advice: 'Name a file such as out.svg, or no file for a picture in the terminal.',
    });
  }
  const given = typeof chart === 'string' && !isFile ? chart : argument;
  if (chart !== undefined && !isFile && context.json()) {
    throw new UsageError('a picture in the terminal is not JSON', { advice: 'Leave out --chart or --json.' });
  }
  const sql = given === undefined || given === '-' ? await fromInput(context, given) : given;
  return { sql, file: isFile ? chart : undefined };
}

/** The size of a picture outside a terminal. */
const usual = { columns: 80, rows: 24 };

function jobOf(context: CliContext, sql: string, flags: QueryFlags, file: string | undefined): ReadingJob {
  const { stdout } = context;
  if (flags.explain === true) return { kind: 'plan', sql, format: context.json() ? 'json' : 'text' };
  if (file !== undefined) return { kind: 'chart', what: { sql }, to: 'svg' };
  if (flags.chart !== undefined) {
    const { columns, rows } = stdout.isTTY ? stdout : usual;
    return { kind: 'chart', what: { sql }, to: { columns, rows, style: context.color() ? styleWord() : undefined } };
  }
  const format = context.json() ? 'json' : flags.format;
  return { kind: 'query', request: { sql, format, room: tableRoom(context) } };
}

async function fromInput(context: CliContext, argument: string | undefined): Promise<string> {
  if (argument === undefined && context.stdin().isTTY) {
    throw new UsageError('there is no SQL to run', {
      advice: 'Give it in quotes: admin-mirror query "SELECT count(*) FROM users"',
    });
  }
  return readInput(context.stdin());
}
