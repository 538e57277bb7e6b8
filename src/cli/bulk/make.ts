/** `bulk template` and `bulk select`: files for a person to look at, and for `bulk plan` to read. */
import { Argument, type Command } from 'commander';
import { actionNames, actionOf } from '../../bulk/actions.ts';
import { selectSheet, templateText, type WrittenFormat, writtenFormatOf } from '../../bulk/select.ts';
import { openReading } from '../../data/open.ts';
import { writeToStream } from '../../data/stream-output.ts';
import { withReleases } from '../../model/releases.ts';
import { counted } from '../../model/counted.ts';
import { UsageError } from '../../model/errors.ts';
import { writeDurableFile } from '../../store/files/durable-file.ts';
import type { CliContext } from '../context.ts';
import { printJson, printNote, printWarning } from '../output.ts';
import { newFile } from './review.ts';

interface MakeFlags {
  readonly output?: string;
  readonly force?: true;
}

interface SelectFlags extends MakeFlags {
  readonly sql: string;
  readonly allowForce?: true;
}

export function actionArgument(): Argument {
  // Checked by what knows the nearest of them.
  return new Argument('<action>', 'what the rows do').choices(actionNames).argParser((name) => actionOf(name).name);
}

export function defineMaking(bulk: Command, context: CliContext): void {
  bulk
    .command('template')
    .description('Write an example file for an action: its columns, and rows to be replaced by your own.')
    .addArgument(actionArgument())
    .option('-o, --output <file>', 'a new .csv, .tsv or .jsonl file (default: standard output)')
    .option('--force', 'replace the file if it is there')
    .action((action: string, flags: MakeFlags) => runTemplate(context, action, flags));
  bulk
    .command('select')
    .description(
      'Write the rows of a query on the mirror to a file for an action; refuse what the action would refuse. ' +
        'Nothing is sent.',
    )
    .addArgument(actionArgument())
    .requiredOption('--sql <sql>', "one SELECT whose columns are the action's")
    .option('-o, --output <file>', 'a new .csv, .tsv or .jsonl file (default: standard output)')
    .option('--force', 'replace the file if it is there')
    .option('--allow-force', 'as for `bulk plan delete`')
    .addHelpText(
      'after',
      `
Examples:
  admin-mirror bulk select balance -o credit.csv --sql \
    "SELECT id AS user_id, 'add' AS type, 5 AS amount FROM users WHERE status = 'active'"
  admin-mirror bulk select notify -o note.csv --sql \
    "SELECT id AS user_id, 'warning' AS type, 'bx bx-time' AS icon, 'Top up soon' AS message FROM users WHERE balance < 1"`,
    )
    .action((action: string, flags: SelectFlags) => runSelect(context, action, flags));
}

async function runTemplate(context: CliContext, actionName: string, flags: MakeFlags): Promise<void> {
  const action = actionOf(actionName);
  const { format, path } = await placeOf(context, flags);
  const bytes = await write(context, path, [templateText(action, format)]);
  if (path === undefined) return;
  if (context.json()) printJson(context, { file: path, action: action.name, rows: action.examples.length, bytes });
  else {
    printNote(context, `An example for \`bulk plan ${action.name}\` was written to ${flags.output ?? ''}.`);
    printNote(context, 'Put your own rows in the place of its rows. Columns that you do not need may go.');
  }
}

async function runSelect(context: CliContext, actionName: string, flags: SelectFlags): Promise<void> {
  const action = actionOf(actionName);
  const { format, path } = await placeOf(context, flags);
  await withReleases(async (releases) => {
    const settings = context.settings();
    const store = openReading(settings, releases);
    const sheet = await selectSheet(store, flags.sql, action, {
      format,
      decimals: settings.bulk.decimals,
      mark: null,
      allowForce: flags.allowForce === true,
      signal: context.signal,
    });
    const bytes = await write(context, path, sheet.text());
    if (path === undefined) return;
    const { rows, totals, notes } = sheet;
    const document = { file: path, action: action.name, rows, totals, bytes, warnings: notes };
    if (context.json()) return printJson(context, document);
    for (const note of notes) printWarning(context, note);
    const amounts = totals.map(({ type, amount }) => `, ${type} ${amount}`).join('');
    printNote(context, `${counted(rows, 'row')} written to ${flags.output}${amounts}`);
    const next = `admin-mirror bulk plan ${action.name} ${flags.output}`;
    printNote(context, `Nothing was sent. To see what it would do: ${next}`);
  });
}

/** Where to, undefined for standard output. Throws a UsageError for a file that must not be replaced. */
async function placeOf(
  context: CliContext,
  { output, force }: MakeFlags,
): Promise<{ readonly format: WrittenFormat; readonly path: string | undefined }> {
  if (output === undefined || output === '-') {
    if (!context.json()) return { format: 'csv', path: undefined };
    throw new UsageError('standard output cannot hold both the rows and the JSON report', { advice: 'Give -o FILE.' });
  }
  const format = writtenFormatOf(output);
  return { format, path: newFile(context, output, force === true) };
}

async function write(context: CliContext, path: string | undefined, text: Iterable<string>): Promise<number> {
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (const piece of text) yield Buffer.from(piece);
  }
  if (path === undefined) {
    await writeToStream(context.stdout, chunks(), context.signal);
    return 0;
  }
  return writeDurableFile(path, chunks(), context.signal);
}
