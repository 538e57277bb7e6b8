/** A batch in words: what a person reads where a script reads `--json`. */
import { counted } from '../../model/counted.ts';
import { countNames } from '../../bulk/intent.ts';
import type { BatchReport } from '../../bulk/report.ts';
import type { TypeTotal } from '../../bulk/totals.ts';
import type { Intent } from '../../store/ports/journal.ts';
import type { CliContext } from '../context.ts';
import { paint } from '../output.ts';

const number = new Intl.NumberFormat('en-US');

/** Problems and warnings that are printed; all of them are in the results. */
const mostLines = 25;

/** `3 planned, 1 invalid`; what there is none of is left out. */
export function countWords({ counts }: BatchReport): string {
  const words = countNames.filter((name) => counts[name] > 0).map((name) => `${number.format(counts[name])} ${name}`);
  return words.join(', ') || 'no rows';
}

export function reportLines(context: CliContext, report: BatchReport): string[] {
  const { batch, action, file, rows, state } = report;
  const { profile } = context.settings();
  const count = `rows      ${number.format(rows)}: ${countWords(report)}`;
  const totals = totalLines(context, report);
  return [
    `batch     ${paint(context, 'bold', batch)}`,
    ...(profile === undefined ? [] : [`profile   ${profile}`]),
    `action    ${action}${file === null ? '' : `, from ${file}`}`,
    `state     ${state}`,
    ...(state === 'planned' ? [count, ...totals] : [...totals, count]),
  ];
}

/** The money: what was applied, then what was planned, then what the balances seen do not show. */
export function totalLines(context: CliContext, report: BatchReport): string[] {
  const { state, net, gross, users, discrepancies } = report;
  if (state === 'planned') return [`net       ${totalWords(net, gross, users)}`];
  return [
    `applied   net ${totalWords(report.applied_net, report.applied_gross, report.applied_users)}`,
    `planned   net ${totalWords(net, gross, users)}`,
    ...(discrepancies === 0
      ? []
      : [
          `${paint(context, 'yellow', 'differs')}   ${plural(discrepancies, 'row')} whose balance shows something else, or ` +
            'made twice: look at the users on the server before you send more',
        ]),
  ];
}

/** `0.00, gross 1000.00, 2 users`; where all go one way, the gross says nothing more. */
function totalWords(net: string, gross: string, users: number): string {
  const both = net.replace('-', '') === gross ? net : `${net}, gross ${gross}`;
  return `${both}, ${plural(users, 'user')}`;
}

/** The batch in one line, among others. */
export function batchLine(report: BatchReport): string {
  const { batch, state, action, file, net, discrepancies } = report;
  const total = state === 'planned' ? `net ${net}` : `applied net ${report.applied_net} (planned ${net})`;
  const differs = discrepancies === 0 ? '' : `, ${discrepancies} differs`;
  const from = file === null ? '' : `  ${file}`;
  return `${batch}  ${state.padEnd(8)}  ${action.padEnd(8)}  ${total}  ${countWords(report)}${differs}${from}`;
}

function plural(count: number, noun: string): string {
  return counted(count, noun);
}

/** The plan: what each row would do, as far as a screen holds it. */
export function planLines(
  context: CliContext,
  report: BatchReport,
  rows: readonly Intent[],
  totals: readonly TypeTotal[],
): string[] {
  const more = report.rows - rows.length;
  return [
    ...rowTable(rows),
    ...(more > 0 ? [`… and ${number.format(more)} more rows`] : []),
    '',
    ...reportLines(context, report),
    ...totals.map(({ type, rows: count, amount }) => `          ${type.padEnd(8)} ${counted(count, 'row')}, ${amount}`),
    `hash      ${report.hash}`,
    ...problemLines(context, report),
  ];
}

export function problemLines(
  context: CliContext,
  { problems, warnings }: Pick<BatchReport, 'problems' | 'warnings'>,
): string[] {
  const wrong = problems.map(
    ({ row, column, problem }) =>
      `${paint(context, 'red', 'invalid')}   row ${row}${column === null ? '' : `, ${column}`}: ${problem}`,
  );
  const odd = warnings.map((text) => `${paint(context, 'yellow', 'warning')}   ${text}`);
  return [...cut(wrong), ...cut(odd)];
}

/** What became of each row, as far as a screen holds it. */
export function outcomeLines(rows: readonly Intent[], count: number): string[] {
  const lines = rowTable(rows, ({ state, before, plannedBefore, after, problem }) => {
    const change = changeOf({ plannedBefore: before ?? plannedBefore, plannedAfter: after });
    return `${change}${change === '' ? '' : '  '}${state.replace('_', ' ')}${problem === null ? '' : `: ${problem}`}`;
  });
  return count > rows.length ? [...lines, `… and ${number.format(count - rows.length)} more rows`] : lines;
}

function cut(lines: readonly string[]): string[] {
  const more = lines.length - mostLines;
  return more > 0 ? [...lines.slice(0, mostLines), `          … and ${number.format(more)} more`] : [...lines];
}

function rowTable(rows: readonly Intent[], end = plannedEnd): string[] {
  const cells = rows.map((intent) => [
    `row ${intent.row}`,
    intent.user === null ? (intent.subject ?? '') : `user ${intent.user}`,
    intent.parameters === null ? '' : wordsOf(intent.parameters),
    end(intent),
  ]);
  const widths = [0, 1, 2].map((at) => Math.max(0, ...cells.map((row) => (row[at] ?? '').length)));
  return cells.map((row) =>
    row
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

function plannedEnd(intent: Intent): string {
  return intent.state === 'invalid' ? 'invalid' : changeOf(intent);
}

function changeOf({ plannedBefore, plannedAfter }: Pick<Intent, 'plannedBefore' | 'plannedAfter'>): string {
  return plannedBefore === null && plannedAfter === null ? '' : `${plannedBefore ?? '?'} → ${plannedAfter ?? '?'}`;
}

const longestWords = 40;

/** The first parameters in their order, as `add 5.00 Refund`. */
function wordsOf(parameters: Readonly<Record<string, unknown>>): string {
  const words = Object.values(parameters).filter((value) => typeof value === 'string' || typeof value === 'number');
  const text = words.join(' ').replaceAll(/\p{Cc}+/gu, ' ');
  return text.length > longestWords ? `${text.slice(0, longestWords - 1)}…` : text;
}
