/** The result of a statement or of a saved report as a picture: SVG, or text for a terminal. */
import { Buffer } from 'node:buffer';
import { UsageError } from '../model/errors.ts';
import type { Row } from '../store/reading-types.ts';
import type { Snapshot } from '../store/reading.ts';
import { chartOf, type ChartRequest, guessChart, mostRows, tooManyRows } from './chart/chart.ts';
import type { TerminalRoom } from './chart/terminal.ts';
import { type ReportRequest, reportRows } from './reports/run.ts';

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
