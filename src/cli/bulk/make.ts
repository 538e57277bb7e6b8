/** `bulk template` and `bulk select`: files for a person to look at, and for `bulk plan` to read. */
import { counted } from '../../model/counted.ts';
import { UsageError } from '../../model/errors.ts';
import type { CliContext } from '../context.ts';
import { printJson, printNote, printWarning } from '../output.ts';
import type { PlanFlags } from './flags.ts';
import { newFile } from './review.ts';
import { actionOf } from '../../bulk/actions.ts';
import { selectSheet, templateText, type WrittenFormat, writtenFormatOf } from '../../bulk/select.ts';
import { openReading } from '../../data/open.ts';
import { writeToStream } from '../../data/stream-output.ts';
import { withReleases } from '../../model/releases.ts';
import { writeDurableFile } from '../../store/files/durable-file.ts';

export interface MakeFlags {
  readonly output?: string;
  readonly force?: true;
}

export interface SelectFlags extends MakeFlags, Pick<PlanFlags, 'allowForce'> {
  readonly sql: string;
}

export async function runTemplate(context: CliContext, actionName: string, flags: MakeFlags): Promise<void> {
  const action = actionOf(actionName);
  const { format, path } = await placeOf(context, flags);
  const text = templateText(action, format);
  const bytes = await write(context, path, [text]);
  if (path === undefined) return;
  if (context.json()) printJson(context, { file: path, action: action.name, rows: action.examples.length, bytes });
  else {
    printNote(context, `An example for \`bulk plan ${action.name}\` was written to ${flags.output ?? ''}.`);
    printNote(context, 'Put your own rows in the place of its rows. Columns that you do not need may go.');
  }
}

export async function runSelect(context: CliContext, actionName: string, flags: SelectFlags): Promise<void> {
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
    if (context.json())
      return printJson(context, { file: path, action: action.name, rows, totals, bytes, warnings: notes });
    for (const note of notes) printWarning(context, note);
    const amounts = totals.map(({ type, amount }) => `, ${type} ${amount}`).join('');
    printNote(context, `${counted(rows, 'row')} written to ${flags.output}${amounts}`);
    printNote(
      context,
      `Nothing was sent. To see what it would do: admin-mirror bulk plan ${action.name} ${flags.output}`,
    );
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
