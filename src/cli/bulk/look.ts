/** `bulk status`, `results`, `resolve` and `discard`: shows the outcome of a batch, or records what a person knows about it. */
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { batchOf } from '../../bulk/claim.ts';
import { openStates } from '../../bulk/intent.ts';
import { appliedNetOf, type BatchReport, holdingAdvice, recordOf, reportOf, summaryOf } from '../../bulk/report.ts';
import { rowsInJournal } from '../../bulk/review.ts';
import { writeResults } from '../../bulk/results.ts';
import { discardBatch, resolveRow } from '../../bulk/resolve.ts';
import { tableWriter } from '../../data/export.ts';
import type { Journal } from '../../journal/port.ts';
import { counted } from '../../model/text.ts';
import { UsageError } from '../../model/errors.ts';
import { type TableFormat, tableFormats } from '../../model/spreadsheet.ts';
import { systemClock } from '../../model/time.ts';
import type { CliContext } from '../context.ts';
import { toCount } from '../flag-values.ts';
import { printJson, printLine, printLines, printResult, printWarning, printWords } from '../output.ts';
import {
  approvalLines,
  batchLine,
  peopleLines,
  printRows,
  problemLines,
  reportLines,
  totalLines,
  wholePlan,
} from './words.ts';
import { batchHelp, batchToLookAt, lookAtJournal, lookHelp, openBatch, setExitCode } from './shared.ts';

interface StatusFlags {
  readonly rows?: true;
}

interface ResultsFlags {
  readonly output?: string;
  readonly format: TableFormat;
  readonly force?: true;
}

interface ResolveFlags {
  readonly row: number;
  readonly applied?: true;
  readonly notApplied?: true;
  readonly resend?: true;
  readonly reason: string;
}

export function defineLooking(bulk: Command, context: CliContext): void {
  bulk
    .command('status')
    .description('Show a batch, or all of them. Ends with 8 while an outcome is unknown.')
    .argument('[batch]', lookHelp)
    .option('--rows', 'every row of the batch, those that deserve a look first')
    .action((batch: string | undefined, flags: StatusFlags) => runStatus(context, batch, flags));
  bulk
    .command('results')
    .description(
      'Write the rows of a batch to four files - applied, rejected, unknown and unprocessed - and a manifest.',
    )
    .argument('<batch>', lookHelp)
    .option('-o, --output <folder>', 'the folder (default: bulk-<batch> in the working folder)')
    .addOption(new Option('--format <format>', 'the format of the files').choices(tableFormats).default('csv'))
    .option('--force', 'replace files there even if somebody changed them')
    .action((batch: string, flags: ResultsFlags) => runResults(context, batch, flags));
  bulk
    .command('resolve')
    .description('Record the outcome of a row that only a person can know, or have a row sent once more.')
    .argument('<batch>', batchHelp)
    .requiredOption('--row <n>', 'the number of the row in the file; the header is row 1', toCount)
    .option('--applied', 'it happened')
    .option('--not-applied', 'it did not happen; the later rows of its user may follow')
    .option('--resend', 'send it once more with the next `bulk resume`; only with --not-applied')
    .requiredOption('--reason <text>', 'how you know; it stays on record')
    .action((batch: string, flags: ResolveFlags) => runResolve(context, batch, flags));
  bulk
    .command('discard')
    .description('Discard a batch: rows that were not sent yet will never be sent.')
    .argument('<batch>', batchHelp)
    .requiredOption('--reason <text>', 'why; it stays on record')
    .action((batch: string, { reason }: Pick<ResolveFlags, 'reason'>) => runDiscard(context, batch, reason));
}

async function runDiscard(context: CliContext, name: string, reason: string): Promise<void> {
  const [journal, batch] = await openBatch(context, name);
  await discardBatch(journal, batch, reason);
  await printBatch(context, journal, name);
}

async function runStatus(context: CliContext, name: string | undefined, flags: StatusFlags): Promise<void> {
  if (flags.rows === true && name === undefined) {
    throw new UsageError('--rows needs a batch', { advice: 'Name one, or `last` for the newest.' });
  }
  if (name === undefined) return listBatches(context);
  const [journal, batch] = await batchToLookAt(context, name);
  const report = await reportOf(journal, batch);
  setExitCode(context, [report]);
  const record = await recordOf(journal, batch);
  const whole = flags.rows === true ? await wholePlan(rowsInJournal(journal, batch)) : {};
  if (context.json()) return printJson(context, { ...report, ...record, ...whole });
  printLines(context, reportLines(context, report));
  printLine(context, `hash      ${report.hash}`);
  printLines(context, [
    ...peopleLines(await journal.people(batch.batch)),
    ...approvalLines(report),
    ...problemLines(context, report),
  ]);
  printWords(context, await openLines(journal, report));
  if (flags.rows !== true) return;
  printLine(context, '');
  await printRows(context, rowsInJournal(journal, batch));
}

async function listBatches(context: CliContext): Promise<void> {
  const journal = await lookAtJournal(context);
  const batches = (await journal?.batches()) ?? [];
  if (journal === undefined || batches.length === 0) {
    const head = (await journal?.head()) ?? null;
    return printResult(context, { batches: [], head }, ['nothing has been planned yet']);
  }
  if (context.json()) {
    const reports: BatchReport[] = [];
    for (const batch of batches) reports.push(await reportOf(journal, batch));
    setExitCode(context, reports);
    return printJson(context, { batches: reports, head: (await journal.head()) ?? null });
  }
  for (const batch of batches) {
    const summary = await summaryOf(journal, batch);
    setExitCode(context, [summary]);
    printLine(context, batchLine(summary, await appliedNetOf(journal, summary), context.settings().bulk.currency));
  }
}

const maxRows = 25;

/** Returns lines for the rows that contradict their balance, are open or hold back others, each with what was seen. */
async function openLines(journal: Journal, { batch, discrepancies, holding }: BatchReport): Promise<string[]> {
  const differing: string[] = [];
  // Searching for them reads every row, so do it only if there are any.
  const applied = discrepancies === 0 ? [] : journal.intents(batch, ['applied']);
  for await (const { row, user, problem, discrepancy } of applied) {
    if (discrepancy !== null) differing.push(`differs   row ${row}, user ${user}: ${problem}`);
    if (differing.length === maxRows) break;
  }
  const open: string[] = [];
  let firstForPerson: number | undefined;
  for await (const { row, state, user, token, problem } of journal.intents(batch, openStates)) {
    const what = state === 'needs_human' ? 'needs a person' : 'unknown';
    open.push(`${what}   row ${row}, user ${user ?? 'new'}, ${token}: ${problem ?? 'not looked at yet'}`);
    if (state === 'needs_human') firstForPerson ??= row;
    if (open.length === maxRows) break;
  }
  const held = holding.slice(0, maxRows).map(({ row, user, later, problem }) => {
    const waits = counted(later, 'later row waits', 'later rows wait');
    return `not made   row ${row}, user ${user}: ${problem}; ${waits} for it`;
  });
  if (holding[0] !== undefined) held.push(holdingAdvice(batch, holding[0]));
  if (firstForPerson === undefined) return [...differing, ...open, ...held];
  const next =
    'Look at the user on the server, then record what you found: ' +
    `admin-mirror bulk resolve ${batch} --row ${firstForPerson} --applied (or --not-applied) --reason "…"`;
  return [...differing, ...open, next, ...held];
}

async function runResults(context: CliContext, name: string, flags: ResultsFlags): Promise<void> {
  const [journal, batch] = await batchToLookAt(context, name);
  const folder = flags.output ?? `bulk-${batch.batch}`;
  const writer = tableWriter(flags.format, context.signal, (warning) => printWarning(context, warning));
  const ports = { journal, clock: systemClock, signal: context.signal };
  const manifest = await writeResults(ports, batch, resolve(context.folder, folder), writer, flags.force === true);
  const report = await reportOf(journal, batch);
  setExitCode(context, [report]);
  const files = manifest.files.map(
    ({ file, rows, bytes }) => `${folder}/${file.padEnd(16)}  ${counted(rows, 'row')}, ${counted(bytes, 'byte')}`,
  );
  const lines = [...totalLines(context, report), ...files, `${folder}/manifest.json`];
  printResult(context, { folder, ...manifest }, lines);
}

async function runResolve(context: CliContext, name: string, flags: ResolveFlags): Promise<void> {
  const { row, reason, applied, notApplied, resend = false } = flags;
  if (applied === notApplied) throw new UsageError('say what happened: --applied or --not-applied');
  const [journal, batch] = await openBatch(context, name);
  await resolveRow(journal, batch, { row, outcome: applied ? 'applied' : 'not_applied', resend, reason });
  await printBatch(context, journal, name);
}

async function printBatch(context: CliContext, journal: Journal, name: string): Promise<void> {
  const report = await reportOf(journal, await batchOf(journal, name));
  setExitCode(context, [report]);
  printResult(context, report, reportLines(context, report));
}
