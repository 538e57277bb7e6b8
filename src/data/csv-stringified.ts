/** The same CSV by csv-stringify: header rows, and what `query` prints. */
import { stringify } from 'csv-stringify/sync';
import type { Row } from '../store/reading-types.ts';
import { type CsvStyle, guardedText, plainText } from '../store/files/csv.ts';

/** A function that writes rows, each ended by LF, byte for byte as `csvLines` does. */
export function stringifiedLines(style: CsvStyle): (rows: readonly Row[]) => string {
  const { delimiter, guard } = style;
  // Its own guard against formulas knows nothing of spreadsheets that split elsewhere.
  const options = { delimiter, record_delimiter: '\n', quoted_match: /^$|[,;\t]/, quote_record_delimiter: true };
  return (rows) =>
    stringify(
      rows.map((row) =>
        row.map((cell) => {
          if (typeof cell === 'string') return guard ? guardedText(cell) : cell;
          return cell === null ? null : plainText(cell);
        }),
      ),
      options,
    );
}
