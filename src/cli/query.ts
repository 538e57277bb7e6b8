/** `query`: one statement that reads, run on the mirror. */
import { text } from 'node:stream/consumers';
import { type Command, Option } from 'commander';
import { UsageError } from '../model/errors.ts';
import { type QueryFormat, queryFormats } from '../export/formats.ts';
import type { CliContext } from './context.ts';

export function define(program: Command, context: CliContext): void {
  program
    .command('query')
    .description('Run one SQL statement that reads. Nothing that writes, attaches or sets anything is run.')
    .argument('[sql]', 'the SQL; without it, or as -, it is read from standard input')
    .addOption(
      new Option('--format <format>', 'how rows are printed; --json stands for json')
        .choices(queryFormats)
        .default('table'),
    )
    .addHelpText(
      'after',
      `
Examples:
  admin-mirror query "SELECT status, count(*) AS users FROM users GROUP BY status"
  admin-mirror query "SELECT id, email, balance FROM users ORDER BY balance DESC LIMIT 10" --format csv
  admin-mirror query - < report.sql`,
    )
    .action((sql: string | undefined, flags: { format: QueryFormat }) => run(context, sql, flags.format));
}

async function run(context: CliContext, argument: string | undefined, format: QueryFormat): Promise<void> {
  const sql = argument === undefined || argument === '-' ? await fromInput(context, argument) : argument;
  const [{ openReading, withReleases }, { queryChunks }, { writeToStream }] = await Promise.all([
    import('../app.ts'),
    import('../export/query.ts'),
    import('../export/stream-output.ts'),
  ]);
  await withReleases(async (releases) => {
    const store = await openReading(context.settings(), releases);
    const chunks = queryChunks(store, sql, context.json() ? 'json' : format, context.signal);
    await writeToStream(context.stdout, chunks, context.signal);
  });
}

async function fromInput(context: CliContext, argument: string | undefined): Promise<string> {
  if (argument === undefined && context.stdin.isTTY) {
    throw new UsageError('there is no SQL to run', {
      advice: 'Give it in quotes: admin-mirror query "SELECT count(*) FROM users"',
    });
  }
  return text(context.stdin);
}
