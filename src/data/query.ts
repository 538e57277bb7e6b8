/** Results of statements and reports: in every format, as a plan, and as the console shows them (preview, picture). */
import { Buffer } from 'node:buffer';
import type { Cell, Row } from '../store/reading-types.ts';
import type { Snapshot } from '../store/reading.ts';
import { fileChunks } from './export.ts';
import type { QueryFormat } from './formats.ts';
import { sourceOf } from './source.ts';
import { textPieces } from './text-lines.ts';
import { tableText } from './text-table.ts';
import { plainText } from './csv.ts';
import { readingPace } from './reading-pace.ts';
import { type ReportRequest, reportRows } from './reports/run.ts';
import { UsageError } from '../model/errors.ts';
import { chartOf, type ChartRequest, guessChart, mostRows, tooManyRows } from './chart/chart.ts';

export interface QueryRequest {
  readonly sql: string;
  readonly format: QueryFormat;
  /** The width of the terminal, for tables; without it, no value is cut. */
  readonly room?: number | undefined;
}

/** Yields the output of the query. Throws a UsageError for SQL that fails or does more than read. */
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
  // Never aborted: to stop a query, its process is killed.
  const { signal } = new AbortController();
  const run = { signal, onRows: () => {}, onWarning: () => {} };
  yield* fileChunks(sourceOf(snapshot, { sql }, run.onWarning), form, run);
}

export type PlanFormat = 'text' | 'json';

/** A step and the steps below it. Scripts read this shape under `--json`. */
interface PlanStep {
  /** SQLite's own words. */
  readonly detail: string;
  /** What makes the step expensive; null if nothing does. */
  readonly note: string | null;
  readonly steps: readonly PlanStep[];
}

export interface QueryPlan {
  readonly steps: readonly PlanStep[];
  /** Tables of which every row is read, by the names that the statement gives them. */
  readonly read_whole: readonly string[];
}

/** Returns the plan as printed. Throws a UsageError for SQL that SQLite refuses or that does more than read. */
export function planText(snapshot: Snapshot, sql: string, format: PlanFormat): Uint8Array {
  // SQLite cannot explain an EXPLAIN that the operator wrote.
  const statement = sql.replace(/^\s*EXPLAIN\s+(?:QUERY\s+PLAN\s+)?/i, '');
  const result = snapshot.query(`EXPLAIN QUERY PLAN ${statement}`);
  const plan = planOf([...result.batches(() => 1_000)].flat());
  return Buffer.from(format === 'json' ? `${JSON.stringify(plan, undefined, 2)}\n` : wordsOf(plan));
}

function planOf(rows: readonly Row[]): QueryPlan {
  // The columns are described at https://sqlite.org/eqp.html
  const steps = rows.map(([id, parent, , detail]) => ({
    id: Number(id),
    parent: Number(parent),
    detail: String(detail),
  }));
  const under = (parent: number): PlanStep[] =>
    steps
      .filter((step) => step.parent === parent)
      .map(({ id, detail }) => ({ detail, note: noteOn(detail), steps: under(id) }));
  // The statement's own intermediate results are no tables.
  const intermediate = new Set(steps.map(({ detail }) => /^(?:MATERIALIZE|CO-ROUTINE) (\S+)$/.exec(detail)?.[1]));
  const whole = steps
    .filter(({ detail }) => noteOn(detail) === everyRow)
    .map(({ detail }) => detail.split(' ')[1] ?? '')
    .filter((name) => !intermediate.has(name) && !name.startsWith('('));
  return { steps: under(0), read_whole: [...new Set(whole)] };
}

const everyRow = 'reads every row';

/** Notes by the pattern of SQLite's words; the first that matches counts. */
const notes: readonly (readonly [RegExp, string | null])[] = [
  [/^SCAN (?:\d+ )?CONSTANT ROWS?$|^SCAN \S+ VIRTUAL TABLE/, null],
  [/^SCAN \S+ USING COVERING INDEX/, 'reads the whole index, and not the table'],
  [/^SCAN /, everyRow],
  [/^SEARCH \S+ USING AUTOMATIC /, 'builds an index of every row, each time it runs'],
  // The minimum or maximum of a column without an index: with one, SQLite would name it.
  [/^SEARCH \S+$/, everyRow],
  [/^USE TEMP B-TREE FOR (?:LAST|RIGHT) /, 'sorts rows that are partly in order'],
  [/^USE TEMP B-TREE FOR ORDER BY/, 'sorts, so no row comes before all are read'],
  [/^USE TEMP B-TREE FOR /, 'sorts'],
  [/^CORRELATED /, 'runs again for each row'],
];

function noteOn(detail: string): string | null {
  return notes.find(([pattern]) => pattern.test(detail))?.[1] ?? null;
}

function wordsOf({ steps, read_whole }: QueryPlan): string {
  const end = read_whole.length === 0 ? 'No table is read whole.' : `Reads every row of: ${read_whole.join(', ')}.`;
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

type ResultRequest = { readonly sql: string } | ReportRequest;

function resultOf(snapshot: Snapshot, what: ResultRequest, onWarning: (warning: string) => void) {
  return 'report' in what ? reportRows(snapshot, what, onWarning) : snapshot.query(what.sql);
}

export interface PreviewJob {
  readonly what: ResultRequest;
  readonly rows: number;
}

export interface Preview {
  readonly columns: readonly { readonly name: string; readonly isNumber: boolean }[];
  /** Numbers as digits, bytes as hex. */
  readonly rows: readonly (readonly (string | null)[])[];
  readonly more: number;
  /** There are more rows than `more` says: counting stopped. */
  readonly isCut: boolean;
}

const mostCounted = 100_000;
const longestText = 300;

/** Returns the preview as JSON. Throws a UsageError for SQL that fails or does more than read. */
export function previewBytes(
  snapshot: Snapshot,
  { what, rows: mostShown }: PreviewJob,
  onWarning: (warning: string) => void,
): Uint8Array {
  const { columns, batches } = resultOf(snapshot, what, onWarning);
  const shown: Row[] = [];
  const pace = readingPace();
  let count = 0;
  for (const batch of batches(pace.rows)) {
    pace.addRows(batch);
    count += batch.length;
    shown.push(...batch.slice(0, mostShown - shown.length));
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
  readonly what: ResultRequest;
}

/** Returns the picture. Throws a UsageError for SQL that fails, and for a result that cannot be drawn. */
export async function chartBytes(
  snapshot: Snapshot,
  { what }: ChartJob,
  onWarning: (warning: string) => void,
): Promise<Uint8Array> {
  const declared = 'report' in what ? declaredChart(what) : undefined;
  const { columns, batches } = resultOf(snapshot, what, onWarning);
  const rows: Row[] = [];
  for (const batch of batches(() => 1_000)) {
    rows.push(...batch);
    if (rows.length > mostRows.line) throw tooManyRows(declared?.kind ?? 'line');
  }
  const drawn = chartOf(columns, rows, declared ?? guessChart(columns, rows));
  return Buffer.from((await import('./chart/svg.ts')).chartSvg(drawn));
}

function declaredChart({ report }: ReportRequest): ChartRequest {
  if (report.chart !== null) return { ...report.chart, title: report.title };
  throw new UsageError(`report ${report.name} has no picture`, {
    advice: `Say in the header of ${report.file} what to draw, as in "-- chart: bar status users", or draw a query of your own with \`admin-mirror query --chart\`.`,
  });
}
