/** Every row of a batch: on the terminal through the pager, in `--json`, and as a sheet. */
import { existsSync } from 'node:fs';
import { extname, resolve } from 'node:path';
import type { Command } from 'commander';
import { type TableFormat, tableFormats } from '../../model/table.ts';
import { UsageError } from '../../model/errors.ts';
import type { Batch, Journal } from '../../journal/port.ts';
import type { CliContext } from '../context.ts';
import { printNote, printWarning } from '../output.ts';
import { refuseOwnFiles } from '../own-files.ts';
import { tableRoom, writePaged } from '../pager.ts';
import { notedRows, type ReviewRow, reviewRow, reviewTable } from '../../bulk/review.ts';
import { tableWriter } from '../../data/table-file.ts';
import { addPagerFlag } from './shared.ts';
import { lookLines, rowLines } from './words.ts';
import { writeDurableFile } from '../../store/files/durable-file.ts';

export interface ReviewFlags {
  readonly output?: string;
  readonly force?: true;
  readonly pager: boolean;
}

/** How a whole plan is read. */
export function addReviewFlags(command: Command): Command {
  return addPagerFlag(command)
    .option('-o, --output <file>', 'write every row to a new .xlsx or .csv file, to look through')
    .option('--force', 'replace the file if it is there');
}

/** What `--json` has beside the report. */
export interface WholePlan {
  /** Rows that deserve a look, the largest changes first. */
  readonly look_at: readonly number[];
  /** Every row, in the order of the file. */
  readonly plan: readonly ReviewRow[];
}

export async function wholePlan(journal: Journal, { batch }: Batch): Promise<WholePlan> {
  return {
    look_at: (await notedRows(journal, batch)).map(({ row }) => row),
    plan: await Array.fromAsync(journal.intents(batch), reviewRow),
  };
}

/** What deserves a look, then every row. */
export async function printRows(
  context: CliContext,
  journal: Journal,
  { batch }: Batch,
  pager: boolean,
): Promise<void> {
  const room = tableRoom(context, pager);
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (const line of lookLines(context, await notedRows(journal, batch))) yield Buffer.from(`${line}\n`);
    for await (const line of rowLines(journal.intents(batch), room)) yield Buffer.from(`${line}\n`);
  }
  await writePaged(context, chunks(), pager);
}

export type ReviewFile = ReturnType<typeof reviewFile>;

/** What writes the sheet that the flags name; undefined where they name none. Throws a UsageError for a file that must not be written. */
export function reviewFile(context: CliContext, { output, force }: ReviewFlags) {
  if (output === undefined) return undefined;
  const format = formatOf(output);
  const path = newFile(context, output, force === true);
  return async (journal: Journal, batch: Batch): Promise<void> => {
    const writer = tableWriter(format, context.signal, (warning) => printWarning(context, warning));
    await writeDurableFile(path, writer.chunks(reviewTable(journal, batch)), context.signal);
    printNote(context, `Every row was written to ${output}: those that deserve a look stand on top.`);
  };
}

function formatOf(output: string): TableFormat {
  const format = tableFormats.find((each) => extname(output).toLowerCase() === `.${each}`);
  if (format !== undefined) return format;
  throw new UsageError(`${output} does not end in .csv or .xlsx`, {
    advice: 'Name a file for the sheet: -o review.xlsx',
  });
}

/** The path of a file that may be written. Throws a UsageError where it is there already, or is one of ours. */
export function newFile(context: CliContext, output: string, force: boolean): string {
  const path = resolve(context.folder, output);
  refuseOwnFiles(path, context.settings());
  if (force || !existsSync(path)) return path;
  throw new UsageError(`${output} is there already`, { advice: 'Name another file, or replace it with --force.' });
}
