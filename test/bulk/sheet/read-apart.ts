/** Reads the named file and prints the outcome and how much memory that took. */
import { peakRssOf } from '../../support/process-size.ts';
import { readSheet } from '../../../src/bulk/sheet/sheet.ts';

const outcome = await readSheet(process.argv[2] ?? '', { signal: new AbortController().signal }).then(
  ({ rows }) => `read ${rows.length} rows`,
  (error: unknown) => (error instanceof Error ? error.message : String(error)),
);
const megabytes = Math.round(peakRssOf(process.pid) / 1_048_576);
process.stdout.write(JSON.stringify({ outcome, megabytes }));
