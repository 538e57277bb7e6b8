/** `query`: runs one read-only statement on the mirror. */
import type { Command } from 'commander';
import { UsageError } from '../model/errors.ts';
import { systemClock } from '../model/time.ts';
import { type QueryFormat, queryFormats } from '../data/formats.ts';
import type { ReadingJob } from '../data/reading-child.ts';
import type { CliContext } from './context.ts';
import { formatOption, readInput } from './flag-values.ts';
import { checkPictureName, writePicture } from './files.ts';
import { tableRoom } from './output.ts';
import { writeToStream } from '../data/job-process.ts';
import { openReadingProcess } from '../data/open.ts';

interface QueryFlags {
  readonly format: QueryFormat;
  readonly chart?: string;
  readonly mask?: boolean;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('query')
    .description('Run one read-only SQL statement. Refuses a statement that writes, attaches or sets anything.')
    .argument('[sql]', 'the SQL; read from standard input if it is missing or -')
    .addOption(formatOption('rows', queryFormats))
    .option('--chart <file>', 'draw the result as SVG to the file, and print no rows')
    .option('--mask', 'show (masked) instead of data about people; numbers, days and states stay')
    .addHelpText(
      'after',
      `
In a terminal, long text is cut so that a table fits, and rows of too many columns have a line for each value; all is
whole in a file and in a pipe, such as to less -S. Ctrl+C stops a statement.

Examples:
  admin-mirror query "SELECT status, count(*) AS users FROM users GROUP BY status"
  admin-mirror query "SELECT id, email, balance FROM users ORDER BY balance DESC LIMIT 10" --format csv
  admin-mirror query "SELECT substr(created_at, 1, 7) AS month, count(*) AS users FROM users GROUP BY 1" --chart out.svg
  admin-mirror query - < report.sql`,
    )
    .action((sql: string | undefined, flags: QueryFlags) => run(context, sql, flags));
}

async function run(context: CliContext, argument: string | undefined, flags: QueryFlags): Promise<void> {
  // First, because the process takes a moment to start.
  const reading = openReadingProcess(context.releases);
  const settings = context.settings();
  const file = flags.chart;
  if (file !== undefined) checkPictureName(file);
  const sql = argument === undefined || argument === '-' ? await fromInput(context, argument) : argument;
  const run = { signal: context.signal };
  const job = { ...jobOf(context, sql, flags), isMasked: flags.mask === true };
  const chunks = reading.chunks(settings.store.mirror, job, run);
  if (file === undefined) return writeToStream(context.stdout, chunks, context.signal);
  await writePicture(context, file, chunks);
}

function jobOf(context: CliContext, sql: string, flags: QueryFlags): ReadingJob {
  if (flags.chart !== undefined) return { kind: 'chart', what: { sql }, now: systemClock.now() };
  const format = context.json() ? 'json' : flags.format;
  if (format === 'table') return { kind: 'table', sql, room: tableRoom(context) };
  const form = { format, raw: false, compression: null, bom: false };
  return { kind: 'export', request: { what: { sql }, form } };
}

async function fromInput(context: CliContext, argument: string | undefined): Promise<string> {
  if (argument === undefined && context.stdin().isTTY) {
    throw new UsageError('there is no SQL to run', {
      advice: 'Give it in quotes: admin-mirror query "SELECT count(*) FROM users"',
    });
  }
  return readInput(context.stdin());
}
