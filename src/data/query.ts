/** Queries: the rows of one statement that reads, in every format; and a statement or report as a page of the console shows it. */
import { Buffer } from 'node:buffer';
import type { Cell, Row } from '../store/reading-types.ts';
import type { Snapshot } from '../store/reading.ts';
import { fileChunks } from './export.ts';
import type { QueryFormat } from './formats.ts';
import { sourceOf } from './source.ts';
import { textPieces } from './text-lines.ts';
import { tableText } from './text-table.ts';
import { plainText } from '../store/files/csv.ts';
import { readingPace } from './reading-pace.ts';
import { type ReportRequest, reportRows } from './reports/run.ts';
import { UsageError } from '../model/errors.ts';
import { chartOf, type ChartRequest, guessChart, mostRows, tooManyRows } from './chart/chart.ts';
import type { TerminalRoom } from './chart/terminal.ts';

export interface QueryRequest {
  readonly sql: string;
  readonly format: QueryFormat;
  /** Columns of the terminal that a table is to fit in; without it, every value is whole. */
  readonly room?: number | undefined;
}

/** What the query prints, in pieces. Throws a UsageError for SQL that fails or would do more than read. */
export async function* queryChunks(
  snapshot: Snapshot,
  { sql, format, room }: QueryRequest,
): AsyncGenerator<Uint8Array> {
  if (format === 'table') {
    const { columns, batches } = snapshot.query(sql);
    const rows = Iterator.from(batches(() => 200)).flatMap((batch) => batch);
    yield* textPieces(Iterator.from(tableText(columns, rows, room)).map((line) => `${line}\n`));
    return;
  }
  const form = { format, raw: false, compression: null, bom: false };
  // Nobody stops it from within: the process that reads is ended.
  const { signal } = new AbortController();
  const run = { signal, onRows: () => {}, onWarning: () => {} };
  yield* fileChunks(sourceOf(snapshot, { sql }, run.onWarning), form, run);
}

export type PlanFormat = 'text' | 'json';

/** A step with what belongs to it; the form of the output under `--json`. */
interface PlanStep {
  readonly detail: string;
  /** What the step costs; null where there is nothing to say of it. */
  readonly note: string | null;
  readonly steps: readonly PlanStep[];
}

export interface QueryPlan {
  readonly steps: readonly PlanStep[];
  /** Tables, by the names that the statement gives them, of which every row is read. */
  readonly read_whole: readonly string[];
}

/** The plan as it is printed. Throws a UsageError for SQL that SQLite refuses or that would do more than read. */
export function planText(snapshot: Snapshot, sql: string, format: PlanFormat): Uint8Array {
  // An EXPLAIN of the operator's own must not be explained once more.
  const statement = sql.replace(/^\s*EXPLAIN\s+(?:QUERY\s+PLAN\s+)?/i, '');
  const result = snapshot.query(`EXPLAIN QUERY PLAN ${statement}`);
  const plan = planOf([...result.batches(() => 1_000)].flat());
  return Buffer.from(format === 'json' ? `${JSON.stringify(plan, undefined, 2)}\n` : wordsOf(plan));
}

function planOf(rows: readonly Row[]): QueryPlan {
  // In the words of SQLite: https://sqlite.org/eqp.html
  const steps = rows.map(([id, parent, , detail]) => ({
    id: Number(id),
    parent: Number(parent),
    detail: String(detail),
  }));
  const under = (parent: number): PlanStep[] =>
    steps
      .filter((step) => step.parent === parent)
      .map(({ id, detail }) => ({ detail, note: noteOn(detail), steps: under(id) }));
  // What the statement itself has put together is no table, however much of it is read.
  const own = new Set(steps.map(({ detail }) => /^(?:MATERIALIZE|CO-ROUTINE) (\S+)$/.exec(detail)?.[1]));
  const whole = steps
    .filter(({ detail }) => noteOn(detail) === everyRow)
    .map(({ detail }) => detail.split(' ')[1] ?? '')
    .filter((name) => !own.has(name) && !name.startsWith('('));
  return { steps: under(0), read_whole: [...new Set(whole)] };
}

const everyRow = 'reads every row';

/** Patterns of SQLite's words, the first that fits. */
const notes: readonly (readonly [RegExp, string | null])[] = [
  [/^SCAN (?:\d+ )?CONSTANT ROWS?$|^SCAN \S+ VIRTUAL TABLE/, null],
  [/^SCAN \S+ USING COVERING INDEX/, 'reads the whole index, and not the table'],
  [/^SCAN /, everyRow],
  [/^SEARCH \S+ USING AUTOMATIC /, 'by an index that is made anew each time, from every row'],
  // The least or greatest value of a column; where an index has it, SQLite names the index.
  [/^SEARCH \S+$/, everyRow],
  [/^USE TEMP B-TREE FOR (?:LAST|RIGHT) /, 'sorts rows that come partly in order'],
  [/^USE TEMP B-TREE FOR ORDER BY/, 'sorts, and gives nothing before all is read'],
  [/^USE TEMP B-TREE FOR /, 'sorts'],
  [/^CORRELATED /, 'done anew for each row'],
];

function noteOn(detail: string): string | null {
  return notes.find(([pattern]) => pattern.test(detail))?.[1] ?? null;
}

function wordsOf({ steps, read_whole }: QueryPlan): string {
  const end = read_whole.length === 0 ? 'No table is read whole.' : `Every row is read of: ${read_whole.join(', ')}.`;
  return `${treeOf(steps, '')}\n${end}\n`;
}

function treeOf(steps: readonly PlanStep[], indent: string): string {
  return steps
    .map(({ detail, note, steps: below }, index) => {
      const isLast = index === steps.length - 1;
      const line = `${indent}${isLast ? '└─' : '├─'} ${detail}${note === null ? '' : ` (${note})`}\n`;
      return line + treeOf(below, `${indent}${isLast ? '   ' : '│  '}`);
    })
    .join('');
}

export interface PreviewJob {
  readonly what: { readonly sql: string } | ReportRequest;
  readonly rows: number;
}

export interface Preview {
  readonly columns: readonly { readonly name: string; readonly isNumber: boolean }[];
  /** Numbers as their digits, bytes as hex. */
  readonly rows: readonly (readonly (string | null)[])[];
  readonly more: number;
  /** There are even more: beyond that nobody counts. */
  readonly isCut: boolean;
}

/** Rows are counted up to here, and text is shown up to there. */
const mostCounted = 100_000;
const longestText = 300;

/** The preview, as JSON. Throws a UsageError for SQL that fails or would do more than read. */
export function previewBytes(
  snapshot: Snapshot,
  { what, rows: wanted }: PreviewJob,
  onWarning: (warning: string) => void,
): Uint8Array {
  const { columns, batches } = 'report' in what ? reportRows(snapshot, what, onWarning) : snapshot.query(what.sql);
  const shown: Row[] = [];
  const pace = readingPace();
  let count = 0;
  for (const batch of batches(pace.rows)) {
    pace.addRows(batch);
    count += batch.length;
    shown.push(...batch.slice(0, wanted - shown.length));
    if (count > mostCounted) break;
  }
  const preview: Preview = {
    columns: columns.map(({ name }, at) => {
      const types = new Set(shown.map((row) => (row[at] === null ? 'null' : typeof row[at])));
      const isNumber = types.has('number') || types.has('bigint');
      return { name, isNumber: isNumber && !types.has('string') && !types.has('object') };
    }),
    rows: shown.map((row) => row.map(textOf)),
    more: Math.min(count, mostCounted) - shown.length,
    isCut: count > mostCounted,
  };
  return Buffer.from(JSON.stringify(preview));
}

function textOf(cell: Cell): string | null {
  if (cell === null) return null;
  const text = typeof cell === 'string' ? cell : plainText(cell);
  return text.length <= longestText ? text : `${text.slice(0, longestText).toWellFormed()}…`;
}

export interface ChartJob {
  readonly what: { readonly sql: string } | ReportRequest;
  readonly to: 'svg' | TerminalRoom;
}

/** The picture. Throws a UsageError for SQL that fails, and for a result that cannot be drawn. */
export async function chartBytes(
  snapshot: Snapshot,
  { what, to }: ChartJob,
  onWarning: (warning: string) => void,
): Promise<Uint8Array> {
  const declared = 'report' in what ? declaredChart(what) : undefined;
  const { columns, batches } = 'report' in what ? reportRows(snapshot, what, onWarning) : snapshot.query(what.sql);
  const rows: Row[] = [];
  for (const batch of batches(() => 1_000)) {
    rows.push(...batch);
    if (rows.length > mostRows.line) throw tooManyRows(declared?.kind ?? 'line');
  }
  const drawn = chartOf(columns, rows, declared ?? guessChart(columns, rows));
  if (to === 'svg') return Buffer.from((await import('./chart/svg.ts')).chartSvg(drawn));
  const { chartText } = await import('./chart/terminal.ts');
  return Buffer.from(`${[...chartText(drawn, to)].join('\n')}\n`);
}

function declaredChart({ report }: ReportRequest): ChartRequest {
  if (report.chart !== null) return { ...report.chart, title: report.title };
  throw new UsageError(`report ${report.name} has no picture`, {
    advice: `Say in the header of ${report.file} what to draw, as in "-- chart: bar status users", or draw a query of your own with \`admin-mirror query --chart\`.`,
  });
}
