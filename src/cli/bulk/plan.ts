/** `bulk template`, `select`, `plan` and `undo`: makes files, and batches from files. Sends nothing. */
import { resolve } from 'node:path';
import { Argument, type Command } from 'commander';
import type { Action } from '../../bulk/action.ts';
import { actionNames, actionOf } from '../../bulk/actions.ts';
import { readOtherServer } from '../../bulk/open.ts';
import { newBatchId, planBatch, type Plannable, undoOf } from '../../bulk/plan.ts';
import { readRows, rulesOf } from '../../bulk/read-rows.ts';
import { type BatchReport, reportOf } from '../../bulk/report.ts';
import { type BatchRows, notedRows, plannedRows } from '../../bulk/review.ts';
import { selectSheet, templateTable, templateText, type WrittenFormat, writtenFormatOf } from '../../bulk/select.ts';
import { columnsQuestion, renamed } from '../../bulk/sheet/columns.ts';
import { readSheet, type Sheet } from '../../bulk/sheet/sheet.ts';
import { tableWriter } from '../../data/export.ts';
import { openReading } from '../../data/open.ts';
import { writeToStream } from '../../data/job-process.ts';
import { textPieces } from '../../data/text-lines.ts';
import type { Batch } from '../../journal/port.ts';
import { moneyText } from '../../model/money.ts';
import { counted } from '../../model/text.ts';
import { UsageError } from '../../model/errors.ts';
import { writeDurableFile } from '../../store/files/durable-file.ts';
import type { CliContext } from '../context.ts';
import { newFile } from '../files.ts';
import { printJson, printLine, printLines, printNote, printWarning } from '../output.ts';
import {
  addReviewFlags,
  lookLines,
  nextWords,
  noteRows,
  planLines,
  printRows,
  type ReviewFile,
  reviewFile,
  type ReviewFlags,
  wholePlan,
} from './words.ts';
import { addAgainFlags, addPlanFlags, againOf, type BulkPorts, openBulk, type PlanFlags } from './shared.ts';

export function definePlanning(bulk: Command, context: CliContext): void {
  const plan = bulk
    .command('plan')
    .description('Read and check every row, look up the users, and show what would happen. Sends nothing.')
    .addArgument(actionArgument())
    .argument('<file>', 'a .csv, .tsv, .xlsx or .jsonl file')
    .action((action: string, file: string, flags: PlanFlags & ReviewFlags) =>
      planAndShow(context, flags, async (ports) => {
        const sheet = await sheetOf(context, file, flags);
        const wanted = plannable(context, action, file, sheet, flags);
        const question = questionOf(context, wanted, sheet);
        if (question === null) return planRows(ports, wanted);
        printJson(context, question);
        return null;
      }),
    );
  addReviewFlags(addAgainFlags(addPlanFlags(plan)));
  const undo = bulk
    .command('undo')
    .description('Plan a batch that undoes another one: each applied row once. `bulk apply` sends it.')
    .argument('<batch>', 'the batch to undo')
    .action((batch: string, flags: ReviewFlags) =>
      planAndShow(context, flags, async (ports) => planRows(ports, await undoOf(ports.journal, batch))),
    );
  addReviewFlags(undo);
}

async function planAndShow(
  context: CliContext,
  flags: ReviewFlags,
  plan: (ports: BulkPorts) => Promise<PlannedBatch | null>,
): Promise<void> {
  // Reject a wrong file name before anything is planned.
  const sheet = reviewFile(context, flags);
  const ports = await openBulk(context);
  const planned = await plan(ports);
  if (planned === null) return;
  // Whoever started this process reads the plan in the journal.
  if (context.send !== undefined) printJson(context, { batch: planned.batch.batch });
  else await showPlan(context, ports, planned, sheet);
}

interface PlannedBatch {
  readonly batch: Batch;
  /** As they were planned: reading a large batch back would take as long as planning it. */
  readonly rows: BatchRows;
  readonly report: BatchReport;
  /** It was planned before. */
  readonly isEarlier: boolean;
}

/** Plans the rows under a new name, which the log has from the first request on, and stores the batch, as `planBatch` does. */
export async function planRows(ports: BulkPorts, wanted: Plannable, goesOn = false): Promise<PlannedBatch> {
  const name = newBatchId(ports.clock);
  ports.about(name);
  const { batch, rows } = await planBatch(ports, wanted, name, goesOn);
  ports.about(batch.batch);
  const report = await reportOf(ports.journal, batch, rows);
  return { batch, rows: plannedRows(rows), report, isEarlier: batch.batch !== name };
}

/** What the console must ask a person before the sheet can be planned; null if nothing, or if no console started this process. */
function questionOf(context: CliContext, { action, rows: { question } }: Plannable, sheet: Sheet) {
  if (context.send === undefined) return null;
  const columns = columnsQuestion(sheet, rulesOf(action));
  if (columns !== null) return { columns };
  if (question === undefined) return null;
  const { row, text, count } = question;
  const readings = question.readings.map(({ mark, amount }) => ({ mark, amount: moneyText(amount) }));
  return { question: { row, text, count, readings } };
}

/** Reads the rows. */
export async function readFile(
  context: CliContext,
  action: string,
  file: string,
  flags: PlanFlags,
): Promise<Plannable> {
  return plannable(context, action, file, await sheetOf(context, file, flags), flags);
}

async function sheetOf(
  { folder, signal }: CliContext,
  file: string,
  { sheet, column = [] }: PlanFlags,
): Promise<Sheet> {
  const read = await readSheet(resolve(folder, file), { signal, ...(sheet !== undefined && { sheet }) });
  return renamed(read, column);
}

function plannable(context: CliContext, name: string, file: string, sheet: Sheet, flags: PlanFlags): Plannable {
  const action = actionOf(name);
  const { decimals } = context.settings().bulk;
  const options = { decimals, mark: flags.decimal ?? null, allowForce: flags.allowForce === true };
  const from = { title: flags.name ?? null, file: { name: file, bytes: sheet.bytes, hash: sheet.hash } };
  return { action, rows: readRows(sheet, action, options), source: { ...from, undoOf: null, again: againOf(flags) } };
}

/** Prints the whole plan, or its JSON, or writes it to a sheet. With invalid rows, the exit code is 2. */
async function showPlan(
  context: CliContext,
  { journal }: BulkPorts,
  { batch, rows, report }: PlannedBatch,
  writeSheet: ReviewFile,
): Promise<void> {
  if (!isValid(report)) context.exit(2);
  await writeSheet?.(journal, batch);
  if (context.json()) return printJson(context, { ...report, ...(await wholePlan(rows)) });
  if (writeSheet === undefined) {
    await printRows(context, rows);
    printLine(context, '');
  } else printLines(context, lookLines(context, await notedRows(rows)));
  printLines(context, planLines(context, report));
  printNote(context, nextWords(report));
}

/** Notes one screen of the plan, for the person who is asked next. With invalid rows, the exit code is 2. */
export async function notePlan(context: CliContext, { rows, report }: PlannedBatch): Promise<void> {
  if (!isValid(report)) context.exit(2);
  if (!context.json()) await noteRows(context, rows, report, planLines(context, report));
}

export function isValid({ counts, problems }: BatchReport): boolean {
  return counts.invalid === 0 && problems.length === 0;
}

interface MakeFlags {
  readonly output?: string;
  readonly force?: true;
}

interface SelectFlags extends MakeFlags {
  readonly sql: string;
  readonly allowForce?: true;
}

export function actionArgument(): Argument {
  // `actionOf` checks it instead of commander, because it suggests similar names.
  return new Argument('<action>', 'what the rows do').choices(actionNames).argParser((name) => actionOf(name).name);
}

export function defineMaking(bulk: Command, context: CliContext): void {
  bulk
    .command('template')
    .description('Write an example file for an action: its columns, and rows to replace with your own.')
    .addArgument(actionArgument())
    .option('-o, --output <file>', 'a new .csv, .tsv, .jsonl or .xlsx file (default: standard output)')
    .option('--force', 'replace the file if it exists')
    .action((action: string, flags: MakeFlags) => runTemplate(context, action, flags));
  bulk
    .command('select')
    .description(
      'Write the rows of a query on the mirror to a file for an action. Refuses rows that the action would refuse. ' +
        'Sends nothing.',
    )
    .addArgument(actionArgument())
    .requiredOption('--sql <sql>', 'one SELECT that returns the columns of the action')
    .option('-o, --output <file>', 'a new .csv, .tsv or .jsonl file (default: standard output)')
    .option('--force', 'replace the file if it exists')
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
  if (flags.output?.toLowerCase().endsWith('.xlsx') === true) {
    const path = newFile(context, flags.output, flags.force === true);
    const { chunks } = tableWriter('xlsx', context.signal, () => {});
    const bytes = await writeDurableFile(path, chunks(templateTable(action)), context.signal);
    return sayTemplate(context, action, flags, path, bytes);
  }
  const { format, path } = destinationOf(context, flags);
  const bytes = await write(context, path, [templateText(action, format)]);
  if (path !== undefined) sayTemplate(context, action, flags, path, bytes);
}

function sayTemplate(context: CliContext, action: Action, flags: MakeFlags, file: string, bytes: number): void {
  const path = file;
  if (context.json()) printJson(context, { file: path, action: action.name, rows: action.examples.length, bytes });
  else {
    printNote(context, `An example for \`bulk plan ${action.name}\` was written to ${flags.output ?? ''}.`);
    printNote(context, 'Replace its rows with your own. You can remove columns that you do not need.');
  }
}

async function runSelect(context: CliContext, actionName: string, flags: SelectFlags): Promise<void> {
  const action = actionOf(actionName);
  const { format, path } = destinationOf(context, flags);
  const settings = context.settings();
  const other = readOtherServer(settings);
  if (other !== undefined) throw other;
  const snapshot = openReading(settings, context.releases).snapshot();
  context.releases.add({ close: () => snapshot.release() });
  const sheet = await selectSheet(snapshot.query(flags.sql), action, {
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
}

/** Returns the format and the path to write to, undefined for standard output. Throws a UsageError for a file that must stay. */
function destinationOf(
  context: CliContext,
  { output, force }: MakeFlags,
): { readonly format: WrittenFormat; readonly path: string | undefined } {
  if (output === undefined || output === '-') {
    if (!context.json()) return { format: 'csv', path: undefined };
    throw new UsageError('standard output cannot hold both the rows and the JSON report', { advice: 'Give -o FILE.' });
  }
  const format = writtenFormatOf(output);
  return { format, path: newFile(context, output, force === true) };
}

/** Writes to the file, or to standard output. Returns the bytes of the file. */
async function write(context: CliContext, path: string | undefined, text: Iterable<string>): Promise<number> {
  if (path !== undefined) return writeDurableFile(path, textPieces(text), context.signal);
  await writeToStream(context.stdout, textPieces(text), context.signal);
  return 0;
}
