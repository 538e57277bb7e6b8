/** Results of statements and reports for people: as a table, as a picture, and as the console shows them. */
import { Buffer } from 'node:buffer';
import type { Cell, Row } from './reading-types.ts';
import type { Snapshot } from './reading.ts';
import { textPieces } from './text-lines.ts';
import { tableText } from './text-table.ts';
import { plainText } from './csv.ts';
import { readingPace } from './reading-pace.ts';
import { type ReportRequest, reportRows } from './reports/run.ts';
import { UsageError } from '../model/errors.ts';
import { chartOf, type ChartRequest, guessChart, mostRows, tooManyRows } from './chart/chart.ts';

export interface TableJob {
  readonly sql: string;
  /** The width of the terminal; without it, no value is cut. */
  readonly room?: number | undefined;
}

/** Yields the result as a table. Throws a UsageError for SQL that fails or does more than read. */
export async function* tableChunks(snapshot: Snapshot, { sql, room }: TableJob): AsyncGenerator<Uint8Array> {
  const { columns, batches } = snapshot.query(sql);
  const rows = Iterator.from(batches(() => 200)).flatMap((batch) => batch);
  yield* textPieces(Iterator.from(tableText(columns, rows, room)).map((line) => `${line}\n`));
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
  /** In ms since 1970: what is not over then is marked. */
  readonly now: number;
}

/** Returns the picture. Throws a UsageError for SQL that fails, and for a result that cannot be drawn. */
export async function chartBytes(
  snapshot: Snapshot,
  { what, now }: ChartJob,
  onWarning: (warning: string) => void,
): Promise<Uint8Array> {
  const declared = 'report' in what ? declaredChart(what) : undefined;
  const { columns, batches } = resultOf(snapshot, what, onWarning);
  const rows: Row[] = [];
  for (const batch of batches(() => 1_000)) {
    rows.push(...batch);
    if (rows.length > mostRows.line) throw tooManyRows(declared?.kind ?? 'line');
  }
  const drawn = chartOf(columns, rows, declared ?? guessChart(columns, rows), now);
  return Buffer.from((await import('./chart/svg.ts')).chartSvg(drawn));
}

function declaredChart({ report }: ReportRequest): ChartRequest {
  if (report.chart !== null) return { ...report.chart, title: report.title };
  throw new UsageError(`report ${report.name} has no picture`, {
    advice: `Say in the header of ${report.file} what to draw, as in "-- chart: bar status users", or draw a query of your own with \`admin-mirror query --chart\`.`,
  });
}
