/** The same CSV by csv-stringify: header rows, and what `query` prints. */
import { stringify } from 'csv-stringify/sync';
import type { Row } from '../store/reading-types.ts';
import { beginsWithSign, type CsvStyle, guardedText, plainText } from '../store/files/csv.ts';

/** A function that writes rows, each ended by LF, byte for byte as `csvLines` does. */
export function stringifiedLines(style: CsvStyle): (rows: readonly Row[]) => string {
  const { delimiter, guard } = style;
  // Its own guard against formulas knows nothing of spreadsheets that split elsewhere.
  const options = { delimiter, record_delimiter: '\n', quoted_match: /^$|[,;\t]/, quote_record_delimiter: true };
  const line = (row: Row): string => {
    const cells = row.map((cell) => {
      if (typeof cell === 'string') return guard ? guardedText(cell) : cell;
      return cell instanceof Uint8Array ? plainText(cell) : cell;
    });
    return stringify([cells], { ...options, quoted_string: guard && beginsWithSign(row) });
  };
  return (rows) => rows.map(line).join('');
}
