/** Shows a batch and its rows to a person, as text, table or sheet; and every row in `--json`. */
import { extname } from 'node:path';
import type { Command } from 'commander';
import { approvalSteps } from '../../bulk/approval.ts';
import {
  type BatchReport,
  type BatchSummary,
  countWords,
  discrepancyWords,
  isDiscarded,
  stateWords,
  totalWords,
} from '../../bulk/report.ts';
import {
  balancesOf,
  type BatchRows,
  notedRows,
  parameterWords,
  reviewRow,
  type ReviewRow,
  reviewTable,
} from '../../bulk/review.ts';
import { writeToStream } from '../../data/job-process.ts';
import { tableWriter } from '../../data/export.ts';
import { textPieces } from '../../data/text-lines.ts';
import { asyncTableText, namedColumns } from '../../data/text-table.ts';
import type { ApprovalState, Batch, BatchPeople, Journal, RowView } from '../../journal/port.ts';
import { approversWords } from '../../journal/standing.ts';
import { actorText } from '../../model/actor.ts';
import { amountWords } from '../../model/money.ts';
import { counted, grouped, onOneLine } from '../../model/text.ts';
import { UsageError } from '../../model/errors.ts';
import { type TableFormat, tableFormats } from '../../model/spreadsheet.ts';
import { writeDurableFile } from '../../store/files/durable-file.ts';
import type { Row } from '../../data/reading-types.ts';
import type { CliContext } from '../context.ts';
import { minuteOf } from '../../model/time.ts';
import { paint, printNote, printWarning, tableRoom } from '../output.ts';
import { newFile } from '../files.ts';

/** How many rows, problems and warnings to show on a screen. The results have all of them. */
const maxLines = 25;

export function reportLines(context: CliContext, report: BatchReport): string[] {
  const { batch, title, action, file, rows, state } = report;
  const { environment, profile } = context.settings();
  const count = `rows      ${grouped(rows)}: ${countWords(report)}`;
  const totals = totalLines(context, report);
  return [
    `batch     ${batch}, ${paint(context, 'bold', onOneLine(title))}`,
    ...(environment === undefined ? [] : [`server    ${environment.name}`]),
    ...(profile === undefined ? [] : [`profile   ${profile}`]),
    `action    ${action}${file === null ? '' : `, from ${file}`}`,
    `state     ${stateWords(report)}${report.discarded && !isDiscarded(report) ? ', the rest was discarded' : ''}`,
    ...reversalLines(report),
    ...(state === 'planned' ? [count, ...totals] : [...totals, count]),
  ];
}

/** Returns the sums: applied, planned, and by how much the balances seen differ. */
export function totalLines(context: CliContext, report: BatchReport): string[] {
  const { state, net, gross, users } = report;
  const { currency } = context.settings().bulk;
  const differs = discrepancyWords(report);
  if (state === 'planned') return [`net       ${totalWords(net, gross, users, currency)}`];
  return [
    `applied   net ${totalWords(report.applied_net, report.applied_gross, report.applied_users, currency)}`,
    `planned   net ${totalWords(net, gross, users, currency)}`,
    ...(differs === null ? [] : [`${paint(context, 'yellow', 'differs')}   ${differs}`]),
  ];
}

/** Returns a line for each step and who did it: `planned   by anna@office`. */
export function peopleLines(people: BatchPeople): string[] {
  return Object.entries(people).flatMap(([what, actors]) =>
    actors.length === 0 ? [] : [`${what.padEnd(10)}by ${actors.map((each) => onOneLine(actorText(each))).join(', ')}`],
  );
}

export function batchLine(summary: BatchSummary, appliedNet: string, currency: string | undefined): string {
  const { batch, title, state, action, file, net, discrepancies } = summary;
  const words = (amount: string): string => amountWords(amount, currency);
  const total = state === 'planned' ? `net ${words(net)}` : `applied net ${words(appliedNet)} (planned ${words(net)})`;
  const differs = discrepancies === 0 ? '' : `, ${discrepancies} ${discrepancies === 1 ? 'differs' : 'differ'}`;
  const from = file === null ? '' : `  ${onOneLine(file)}`;
  const first = `${batch}  ${stateWords(summary).padEnd(18)}  ${onOneLine(title)}`;
  return `${first}  ${action}  ${total}  ${countWords(summary)}${differs}${from}`;
}

function reversalLines({ undo_of: of, reversals }: BatchReport): string[] {
  const by = reversals.map(({ batch, rows, applied }) => `${batch} (${applied} of ${counted(rows, 'row')} sent)`);
  return [...(of === null ? [] : [`reverses  ${of}`]), ...(by.length === 0 ? [] : [`reversal  ${by.join(', ')}`])];
}

/** Returns the lines below the rows of a plan. */
export function planLines(context: CliContext, report: BatchReport): string[] {
  return [
    ...reportLines(context, report),
    ...report.types.map(
      ({ type, rows: count, amount }) =>
        `          ${type.padEnd(8)} ${counted(count, 'row')}, ${amountWords(amount, context.settings().bulk.currency)}`,
    ),
    `hash      ${report.hash}`,
    ...approvalLines(report),
    ...problemLines(context, report),
  ];
}

/** Returns the state of the approval: what is needed, who must approve, who approved or denied it, until when it is valid. */
export function approvalLines({ approval, state: batchState }: Pick<BatchReport, 'approval' | 'state'>): string[] {
  if (approval === null) return [];
  const { state, needed, missing, reasons, until } = approval;
  const isDone = batchState === 'done';
  const waitsFor = state === 'waiting' ? ` ${missing} of ${needed} (${approversWords(approval)})` : '';
  const good = until === null ? '' : `, good until ${minuteOf(until)}`;
  return [
    // A batch that is done waits for nobody, and its approval need not be valid any more.
    `approval  ${isDone && missing > 0 ? 'was needed' : `${approvalStates[state]}${waitsFor}${good}`}`,
    ...reasons.map((reason) => `          because ${reason}`),
    ...approvalSteps(approval, isDone).map(
      ({ what, by, at, more }) =>
        `          ${what.toLowerCase()} by ${onOneLine(actorText(by))} on ${minuteOf(at)}${onOneLine(more)}`,
    ),
  ];
}

const approvalStates: Readonly<Record<ApprovalState, string>> = {
  not_needed: 'not needed',
  not_submitted: 'needed, and not requested yet',
  waiting: 'waits for',
  approved: 'approved',
  denied: 'denied',
  expired: 'expired',
};

/** Returns what to do next with a batch that was not sent. */
export function nextWords({ batch, state, counts, approval }: BatchReport): string {
  const send = `admin-mirror bulk ${state === 'planned' ? 'apply' : 'resume'} ${batch}`;
  if (counts.planned + counts.blocked === 0) return 'Nothing was sent, and there is nothing to send.';
  if (approval !== null && approval.missing > 0) {
    return approval.state === 'waiting'
      ? `Nothing was sent. Another person must approve it: admin-mirror bulk approve ${batch}`
      : `Nothing was sent. Another person must approve it. To request that: admin-mirror bulk submit ${batch}`;
  }
  if (counts.invalid === 0) return `Nothing was sent. To send it: ${send}`;
  return `Nothing was sent. Correct the file and plan it again, or send only the valid rows: ${send}`;
}

/** If more rows have the same note, they share one line. */
const maxAlike = 5;

/** Tells which texts so many rows have that they share a line, and returns these lines. */
function alike(label: string, found: readonly { readonly row: number; readonly text: string }[]) {
  const byText = Map.groupBy(found, ({ text }) => text);
  const isCommon = (text: string): boolean => (byText.get(text)?.length ?? 0) > maxAlike;
  const common = [...byText].flatMap(([text, rows]) => {
    if (!isCommon(text)) return [];
    const named = rows.slice(0, maxAlike).map(({ row }) => row);
    return [`${label}   ${counted(rows.length, 'row')}: ${text} (rows ${named.join(', ')}, …)`];
  });
  return { isCommon, common };
}

/** Returns lines for what deserves a look before the plan is approved, and an empty line; none if nothing does. */
export function lookLines(context: CliContext, noted: readonly ReviewRow[]): string[] {
  const label = paint(context, 'yellow', 'look at');
  const { isCommon, common } = alike(
    label,
    noted.flatMap(({ row, notes }) => notes.map((text) => ({ row, text }))),
  );
  const alone = noted.flatMap((each) => {
    const notes = each.notes.filter((note) => !isCommon(note));
    if (notes.length === 0) return [];
    const { row, user_id: user, username } = each;
    const words = (text: string | null): string =>
      text === null ? '?' : each.change === null ? text : amountWords(text, context.settings().bulk.currency);
    const [before, after] = [words(each.before), words(each.after)];
    const who = user === null ? '' : `, user ${user}${username === null ? '' : ` ${username}`}`;
    const change = each.before === null && each.after === null ? '' : `, ${before} → ${after}`;
    return [`${label}   row ${row}${who}${change}: ${notes.join('; ')}`];
  });
  const lines = [...cut(alone), ...cut(common)];
  return lines.length === 0 ? [] : [...lines, ''];
}

export function problemLines(
  context: CliContext,
  { problems, warnings }: Pick<BatchReport, 'problems' | 'warnings'>,
): string[] {
  const label = paint(context, 'red', 'invalid');
  // The same in a column is a list of cells to correct.
  const { isCommon, common } = alike(
    label,
    problems.flatMap(({ row, column, problem: text }) => (column === null ? [{ row, text }] : [])),
  );
  const wrong = problems.flatMap(({ row, column, problem }) => {
    if (column !== null) return [`${label}   row ${row}, ${column}: ${problem}`];
    return isCommon(problem) ? [] : [`${label}   row ${row}: ${problem}`];
  });
  const odd = warnings.map((text) => `${paint(context, 'yellow', 'warning')}   ${text}`);
  return [...cut(wrong), ...cut(common), ...cut(odd)];
}

function cut(lines: readonly string[]): string[] {
  const more = lines.length - maxLines;
  return more > 0 ? [...lines.slice(0, maxLines), `          … and ${grouped(more)} more`] : [...lines];
}

const rowColumns = namedColumns('row, user, username, email, what, before, after, state, note');

/** Returns the rows as lines of a table. @param room columns of the terminal; undefined to cut nothing @param max how many rows */
function rowLines(context: CliContext, { all }: BatchRows, room?: number, max = Infinity): AsyncGenerator<string> {
  return asyncTableText(rowColumns, cellsOf(context, all(), max), room);
}

async function* cellsOf(
  context: CliContext,
  rows: Iterable<RowView> | AsyncIterable<RowView>,
  max: number,
): AsyncGenerator<Row> {
  const { currency } = context.settings().bulk;
  let left = max;
  for await (const intent of rows) {
    const { row, user, subject, plannedUsername, plannedEmail, state, notes, problem } = intent;
    const { before, after } = balancesOf(intent);
    // Only a row about money has an amount. Otherwise these are other texts.
    const isMoney = intent.parameters !== null && 'amount' in intent.parameters;
    const words = (text: string | null): string | null =>
      text === null || !isMoney ? text : amountWords(text, currency);
    const what = intent.parameters === null ? '' : parameterWords(intent.parameters, currency);
    const note = [...notes, ...(problem === null ? [] : [problem])].join('; ');
    yield [
      row,
      user ?? subject,
      plannedUsername,
      plannedEmail,
      what,
      words(before),
      words(after),
      state.replace('_', ' '),
      note,
    ];
    left -= 1;
    if (left === 0) return;
  }
}

/** Notes one screen of the batch for the person who is asked next: what deserves a look, the first rows, and the lines. */
export async function noteRows(
  context: CliContext,
  rows: BatchRows,
  report: BatchReport,
  lines: readonly string[],
): Promise<void> {
  const { isTTY, columns } = context.stderr;
  const look = lookLines(context, await notedRows(rows));
  const first = await firstRows(context, rows, report, isTTY ? columns : undefined);
  for (const line of [...look, ...first, '', ...lines]) printNote(context, line);
}

/** Returns one screen of rows, and a line that says how many more there are. */
async function firstRows(
  context: CliContext,
  rows: BatchRows,
  { batch, rows: count }: Pick<BatchReport, 'batch' | 'rows'>,
  room: number | undefined,
): Promise<string[]> {
  const more = Math.max(0, count - maxLines);
  const rest = `… and ${grouped(more)} more: admin-mirror bulk status ${batch} --rows`;
  return [...(await Array.fromAsync(rowLines(context, rows, room, maxLines))), ...(more > 0 ? [rest] : [])];
}

export interface ReviewFlags {
  readonly output?: string;
  readonly force?: true;
}

/** Adds the flags that write the whole plan to a file. */
export function addReviewFlags(command: Command): Command {
  return command
    .option('-o, --output <file>', 'write every row to a new .xlsx or .csv file for review')
    .option('--force', 'replace the file if it exists');
}

/** What `--json` has besides the report. */
export interface WholePlan {
  /** Rows that deserve a look, the largest changes first. */
  readonly look_at: readonly number[];
  /** Every row, in the order of the file. */
  readonly plan: readonly ReviewRow[];
}

export async function wholePlan(rows: BatchRows): Promise<WholePlan> {
  return {
    look_at: (await notedRows(rows)).map(({ row }) => row),
    plan: await Array.fromAsync(rows.all(), reviewRow),
  };
}

/** Prints what deserves a look, then every row. */
export async function printRows(context: CliContext, rows: BatchRows): Promise<void> {
  const room = tableRoom(context);
  const look = lookLines(context, await notedRows(rows));
  async function* lines(): AsyncGenerator<string> {
    for (const line of look) yield `${line}\n`;
    for await (const line of rowLines(context, rows, room)) yield `${line}\n`;
  }
  await writeToStream(context.stdout, textPieces(lines()), context.signal);
}

export type ReviewFile = ReturnType<typeof reviewFile>;

/** Returns the function that writes the sheet; undefined without --output. Throws a UsageError for a file that must not be written. */
export function reviewFile(context: CliContext, { output, force }: ReviewFlags) {
  if (output === undefined) return undefined;
  const format = formatOf(output);
  const path = newFile(context, output, force === true);
  return async (journal: Journal, batch: Batch): Promise<void> => {
    const writer = tableWriter(format, context.signal, (warning) => printWarning(context, warning));
    await writeDurableFile(path, writer.chunks(reviewTable(journal, batch)), context.signal);
    printNote(context, `Every row was written to ${output}, those that deserve a look first.`);
  };
}

function formatOf(output: string): TableFormat {
  const format = tableFormats.find((each) => extname(output).toLowerCase() === `.${each}`);
  if (format !== undefined) return format;
  throw new UsageError(`${output} does not end in .csv or .xlsx`, {
    advice: 'Name a file for the sheet: -o review.xlsx',
  });
}
