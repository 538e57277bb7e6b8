/** The first rows of a statement or of a saved report, for a page: bounded in rows and in text, with how many more there are. */
import { Buffer } from 'node:buffer';
import { plainText } from '../store/files/csv.ts';
import type { Cell, ReadingStore } from '../store/reading-types.ts';
import { readingPace, weightOfRows } from './reading-pace.ts';
import { type ReportRequest, reportRows } from './reports/run.ts';

export interface PreviewJob {
  readonly what: { readonly sql: string } | ReportRequest;
  /** Rows that are shown. */
  readonly rows: number;
}

/** What the job gives, as JSON. */
export interface Preview {
  readonly columns: readonly { readonly name: string; readonly isNumber: boolean }[];
  /** Numbers as their digits, bytes as hex. */
  readonly rows: readonly (readonly (string | null)[])[];
  /** Rows that are not shown. */
  readonly more: number;
  /** There are even more: beyond that nobody counts. */
  readonly isCut: boolean;
}

/** Rows are counted up to here, and text is shown up to there. */
const mostCounted = 100_000;
const longestText = 300;

/** The preview, in one piece. Throws a UsageError for SQL that fails or would do more than read. */
export async function* previewChunks(
  store: ReadingStore,
  { what, rows: wanted }: PreviewJob,
  onWarning: (warning: string) => void,
): AsyncGenerator<Uint8Array> {
  const snapshot = store.snapshot();
  try {
    const { columns, batches } = 'report' in what ? reportRows(snapshot, what, onWarning) : snapshot.query(what.sql);
    const rows: (string | null)[][] = [];
    const numeric = columns.map(() => ({ numbers: 0, others: 0 }));
    const pace = readingPace();
    let count = 0;
    for (const batch of batches(pace.rows)) {
      pace.add({ weight: weightOfRows(batch), rows: batch.length });
      count += batch.length;
      for (const row of batch.slice(0, wanted - rows.length)) {
        for (const [at, cell] of row.entries()) {
          const seen = numeric[at];
          if (seen === undefined || cell === null) continue;
          if (typeof cell === 'number' || typeof cell === 'bigint') seen.numbers += 1;
          else seen.others += 1;
        }
        rows.push(row.map(textOf));
      }
      if (count > mostCounted) break;
    }
    const preview: Preview = {
      columns: columns.map(({ name }, at) => ({
        name,
        isNumber: (numeric[at]?.numbers ?? 0) > 0 && numeric[at]?.others === 0,
      })),
      rows,
      more: Math.min(count, mostCounted) - rows.length,
      isCut: count > mostCounted,
    };
    yield Buffer.from(JSON.stringify(preview));
  } finally {
    snapshot.release();
  }
}

function textOf(cell: Cell): string | null {
  if (cell === null) return null;
  const text = typeof cell === 'string' ? cell : plainText(cell);
  return text.length <= longestText ? text : `${text.slice(0, longestText).toWellFormed()}…`;
}
