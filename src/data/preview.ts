/** A statement or a saved report as a page shows it: its first rows with how many more there are, or a picture. */
import { Buffer } from 'node:buffer';
import { plainText } from '../store/files/csv.ts';
import type { Cell, Row } from '../store/reading-types.ts';
import type { Snapshot } from '../store/reading.ts';
import { readingPace } from './reading-pace.ts';
import { type ReportRequest, reportRows } from './reports/run.ts';
import { UsageError } from '../model/errors.ts';
import { chartOf, type ChartRequest, guessChart, mostRows, tooManyRows } from './chart/chart.ts';
import type { TerminalRoom } from './chart/terminal.ts';

export interface PreviewJob {
  readonly what: { readonly sql: string } | ReportRequest;
  readonly rows: number;
}

/** What the job gives, as JSON. */
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
