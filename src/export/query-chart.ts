/** The result of a statement as a picture: SVG, or text for a terminal. */
import { Buffer } from 'node:buffer';
import type { ReadingStore, Row } from '../store/ports/reading.ts';
import { chartOf, type ChartRequest, mostRows, tooManyRows } from './chart/chart.ts';
import { guessChart } from './chart/guess.ts';
import type { TerminalRoom } from './chart/terminal.ts';

export interface ChartJob {
  readonly sql: string;
  /** What to draw; found out from the result where it is not given. */
  readonly chart?: ChartRequest;
  readonly to: 'svg' | TerminalRoom;
}

/** The picture, in one piece. Throws a UsageError for SQL that fails, and for a result that cannot be drawn. */
export async function* chartChunks(store: ReadingStore, { sql, chart, to }: ChartJob): AsyncGenerator<Uint8Array> {
  const snapshot = store.snapshot();
  try {
    const { columns, batches } = snapshot.query(sql);
    const rows: Row[] = [];
    for (const batch of batches(() => 1_000)) {
      rows.push(...batch);
      if (rows.length > mostRows.line) throw tooManyRows(chart?.kind ?? 'line');
    }
    const drawn = chartOf(columns, rows, chart ?? guessChart(columns, rows));
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
