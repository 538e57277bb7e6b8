/** The result of a statement or of a saved report as a picture: SVG, or text for a terminal. */
import { Buffer } from 'node:buffer';
import { UsageError } from '../model/errors.ts';
import type { ReadingStore, Row, Rows, Snapshot } from '../store/reading-types.ts';
import { chartOf, type ChartRequest, guessChart, mostRows, tooManyRows } from './chart/chart.ts';
import type { TerminalRoom } from './chart/terminal.ts';
import { type ReportRequest, reportRows } from './reports/run.ts';

export interface ChartJob {
  readonly what: { readonly sql: string } | ReportRequest;
  readonly to: 'svg' | TerminalRoom;
}

/** The picture, in one piece. Throws a UsageError for SQL that fails, and for a result that cannot be drawn. */
export async function* chartChunks(
  store: ReadingStore,
  { what, to }: ChartJob,
  onWarning: (warning: string) => void,
): AsyncGenerator<Uint8Array> {
  const snapshot = store.snapshot();
  try {
    const declared = 'report' in what ? declaredChart(what) : undefined;
    const { columns, batches } = resultOf(snapshot, what, onWarning);
    const rows: Row[] = [];
    for (const batch of batches(() => 1_000)) {
      rows.push(...batch);
      if (rows.length > mostRows.line) throw tooManyRows(declared?.kind ?? 'line');
    }
    const drawn = chartOf(columns, rows, declared ?? guessChart(columns, rows));
    if (to === 'svg') {
      const { chartSvg } = await import('./chart/svg.ts');
      yield Buffer.from(chartSvg(drawn));
    } else {
      const { chartText } = await import('./chart/terminal.ts');
      yield Buffer.from(`${[...chartText(drawn, to)].join('\n')}\n`);
    }
  } finally {
    snapshot.release();
  }
}

function resultOf(snapshot: Snapshot, what: ChartJob['what'], onWarning: (warning: string) => void): Rows {
  return 'report' in what ? reportRows(snapshot, what, onWarning) : snapshot.query(what.sql);
}

/** What the report's own header says is to be drawn of it. */
function declaredChart({ report }: ReportRequest): ChartRequest {
  if (report.chart !== null) return { ...report.chart, title: report.title };
  throw new UsageError(`report ${report.name} has no picture`, {
    advice: `Say in the header of ${report.file} what to draw, as in "-- chart: bar status users", or draw a query of your own with \`admin-mirror query --chart\`.`,
  });
}
