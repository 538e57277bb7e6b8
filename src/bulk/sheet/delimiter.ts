/** What separates the cells of a text file: found once, from its header and first records, and never changed after. */
import { refusal } from './refusal.ts';
import { shown } from './shown.ts';

export type Delimiter = ',' | ';' | '\t';

const delimiters: readonly Delimiter[] = [',', ';', '\t'];
/** Records that are counted where the header leaves it open. */
const sampled = 20;

const delimiterNames: Readonly<Record<Delimiter, string>> = { ',': 'comma', ';': 'semicolon', '\t': 'tab' };

/** How often each delimiter stands outside of quotes, a record. */
function countRecords(text: string): Readonly<Record<Delimiter, number>>[] {
  const records: Record<Delimiter, number>[] = [];
  let counts: Record<Delimiter, number> = { ',': 0, ';': 0, '\t': 0 };
  let quoted = false;
  let begun = false;
  for (const character of text) {
    if (records.length >= sampled) return records;
    // Quotes in a quoted cell are doubled, so that they cancel each other out here.
    if (character === '"') quoted = !quoted;
    if (!quoted && (character === '\n' || character === '\r')) {
      if (begun) records.push(counts);
      counts = { ',': 0, ';': 0, '\t': 0 };
      begun = false;
      continue;
    }
    begun = true;
    if (!quoted && (character === ',' || character === ';' || character === '\t')) counts[character] += 1;
  }
  if (begun) records.push(counts);
  return records;
}

/**
 * The delimiter: the only one that the header has; if it has several, the one that every record has as often as the header.
 * @returns undefined where the header is a single cell
 * @throws UsageError where more than one would do
 */
export function findDelimiter(file: string, text: string): Delimiter | undefined {
  const records = countRecords(text);
  const header = records[0];
  if (header === undefined) return undefined;
  const there = delimiters.filter((each) => header[each] > 0);
  if (there.length <= 1) return there[0];
  const steady = there.filter((each) => records.every((record) => record[each] === header[each]));
  const [only, another] = steady;
  if (only !== undefined && another === undefined && records.length > 1) return only;
  const names = there.map((each) => delimiterNames[each]).join(' and ');
  const advice = 'Put a line with the delimiter before the header, such as sep=; and leave the rest as it is.';
  throw refusal(file, `its cells may be separated by ${names}`, advice);
}

const separatorLine = /^sep=(.?)(?:\r\n|\n|\r|$)/i;

/**
 * The line that tells spreadsheet programs the delimiter, and that they neither show nor count as a row: `sep=;`.
 * @throws UsageError where it names another delimiter
 */
export function separatorOf(
  file: string,
  text: string,
): { readonly delimiter: Delimiter; readonly length: number } | undefined {
  const line = separatorLine.exec(text);
  if (line === null) return undefined;
  const delimiter = delimiters.find((each) => each === line[1]);
  if (delimiter !== undefined) return { delimiter, length: line[0].length };
  throw refusal(
    file,
    `its first line, ${shown(line[0].trimEnd())}, names no delimiter that is read here`,
    'Use a comma, a semicolon or a tab.',
  );
}
