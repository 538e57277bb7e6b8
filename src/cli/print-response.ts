/** Prints responses of the server: unchanged under `--json`, else as a table or line by line. */
import { type ApiRecord, recordIn } from '../api/body.ts';
import { parseExactly, stringifyExactly } from '../api/exact.ts';
import type { Page } from '../api/body.ts';
import type { Response } from '../api/errors.ts';
import type { CliContext } from './context.ts';
import { printLine, printLines, printNote } from './output.ts';
import { writeToStream } from '../data/job-process.ts';
import { cut, padEnd, type TableLayout, tableLayout, width } from '../data/text-table.ts';
import type { Cell } from '../data/reading-types.ts';
import { IncompleteError } from '../model/errors.ts';
import { isRecord } from '../model/records.ts';
import type { Resource } from '../model/resources.ts';
import { grouped, harmless } from '../model/text.ts';

/** Columns of a cell on a terminal. */
const maxCellWidth = 32;
const gap = '  ';

interface RecordTable extends Pick<TableLayout, 'heading'> {
  /** Returns the lines of records, in the layout of the first ones. */
  readonly lines: (records: readonly ApiRecord[]) => string[];
  /** Names of the columns that did not fit. */
  readonly omitted: readonly string[];
}

/** Returns the value as one line without control characters, since the server's text is not ours. */
function cellText(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'string' ? value : stringifyExactly(value);
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]+/gu, ' ');
}

/** Lays out a table by its first records. On a terminal, omits columns that do not fit. @param names the columns in order */
function layOut({ stdout }: CliContext, names: readonly string[], first: readonly ApiRecord[]): RecordTable {
  const { isTTY } = stdout;
  const cellOf = (value: unknown): Cell => {
    if (typeof value === 'number' || typeof value === 'bigint' || value === null || value === undefined)
      return value ?? null;
    return isTTY ? cut(cellText(value).slice(0, 4 * maxCellWidth), maxCellWidth) : cellText(value);
  };
  const rowOf = (record: ApiRecord) => names.map((name) => cellOf(record[name]));
  const rows = first.map(rowOf);
  let used = -gap.length;
  const fitting = names.filter((name, at) => {
    used += gap.length + Math.max(width(name), ...rows.map((row) => width(String(row[at] ?? ''))));
    return !isTTY || at === 0 || used <= stdout.columns;
  });
  const layout = tableLayout(
    fitting.map((name) => ({ name, table: null, origin: null })),
    rows,
    isTTY ? Infinity : undefined,
  );
  return {
    heading: layout.heading,
    lines: (records) => records.map((record) => layout.line(rowOf(record).slice(0, fitting.length))),
    omitted: names.slice(fitting.length),
  };
}

function recordLines(record: ApiRecord): string[] {
  const names = Object.keys(record);
  const size = Math.min(maxCellWidth, Math.max(0, ...names.map((name) => width(cellText(name)))));
  return names.flatMap((name) => {
    const value = record[name];
    const [head = '', ...more] = typeof value === 'string' ? value.split(/\r?\n/).map(cellText) : [cellText(value)];
    return [
      `${padEnd(cellText(name), size)}${gap}${head}`.trimEnd(),
      ...more.map((each) => `${' '.repeat(size)}${gap}${each}`),
    ];
  });
}

/** Returns the columns of a list: the fields of the resource, then the related records that were requested. */
function namesOf(resource: Resource, include: readonly string[]): string[] {
  return [...resource.fields.map(({ name }) => name), ...include];
}

function noteOmitted(context: CliContext, { omitted }: RecordTable): void {
  if (omitted.length === 0) return;
  printNote(context, `No room for ${omitted.join(', ')}: widen the terminal, or use --json.`);
}

function withLineEnd(text: string): string {
  return text.endsWith('\n') ? text : `${text}\n`;
}

/** Prints one page of a list. */
export function printPage(context: CliContext, resource: Resource, include: readonly string[], page: Page): void {
  if (context.json()) return void context.stdout.write(harmless(withLineEnd(page.text)));
  const table = layOut(context, namesOf(resource, include), page.records);
  printLines(context, [...table.heading, ...table.lines(page.records)]);
  printNote(
    context,
    `Page ${grouped(page.page)} of ${grouped(page.lastPage)}, ${grouped(page.total)} ${resource.name} in all.`,
  );
  noteOmitted(context, table);
}

/** Prints every page as it arrives: as one JSON array, or as one table in the layout of the first page. */
export async function printPages(
  context: CliContext,
  resource: Resource,
  include: readonly string[],
  pages: AsyncIterable<Page>,
): Promise<void> {
  const chunks = context.json() ? jsonArray(pages) : tableText(context, resource, include, pages);
  await writeToStream(context.stdout, chunks, context.signal);
}

async function* jsonArray(pages: AsyncIterable<Page>): AsyncGenerator<Buffer> {
  let before = '[';
  let incomplete: IncompleteError | undefined;
  try {
    for await (const { records } of pages) {
      if (records.length === 0) continue;
      yield Buffer.from(harmless(`${before}\n${records.map((record) => stringifyExactly(record)).join(',\n')}`));
      before = ',';
    }
  } catch (error) {
    // Everything that can be read was printed: end the document properly, then fail.
    if (!(error instanceof IncompleteError)) throw error;
    incomplete = error;
  }
  yield Buffer.from(before === '[' ? '[]\n' : '\n]\n');
  if (incomplete !== undefined) throw incomplete;
}

async function* tableText(
  context: CliContext,
  resource: Resource,
  include: readonly string[],
  pages: AsyncIterable<Page>,
): AsyncGenerator<Buffer> {
  let table: RecordTable | undefined;
  let count = 0;
  for await (const { records } of pages) {
    const head = table === undefined;
    table ??= layOut(context, namesOf(resource, include), records);
    const lines = [...(head ? table.heading : []), ...table.lines(records)];
    count += records.length;
    if (lines.length > 0) yield Buffer.from(`${lines.join('\n')}\n`);
  }
  printNote(context, `${grouped(count)} ${resource.name}.`);
  if (table !== undefined) noteOmitted(context, table);
}

/** Returns the records of a response that has several: an array, bare or under `data`. */
function recordsIn(body: unknown): ApiRecord[] | undefined {
  const list = isRecord(body) ? body['data'] : body;
  return Array.isArray(list) && list.length > 0 && list.every(isRecord) ? list : undefined;
}

/** Prints a response whose shape is not documented: unchanged, or laid out as far as its shape is recognised. */
export function printResponse(context: CliContext, { body, raw, status }: Response): void {
  if (context.json()) return void context.stdout.write(harmless(jsonText(raw)));
  const records = recordsIn(body);
  const record = recordIn(body);
  if (records !== undefined) {
    const names = [...new Set(records.flatMap((each) => Object.keys(each)))];
    const table = layOut(context, names, records);
    printLines(context, [...table.heading, ...table.lines(records)]);
    noteOmitted(context, table);
  } else if (record !== undefined) {
    printLines(context, recordLines(record));
  } else if (typeof body !== 'string') {
    printLine(context, stringifyExactly(body, 2));
  } else if (body !== '') {
    printLine(context, body);
  }
  printNote(context, `The server returned ${status}.`);
}

/** Returns the body as one JSON document: unchanged if it is JSON, null if it is empty, else as a string. */
export function jsonText(raw: string): string {
  if (raw === '') return 'null\n';
  try {
    parseExactly(raw);
  } catch {
    return `${JSON.stringify(raw)}\n`;
  }
  return withLineEnd(raw);
}
