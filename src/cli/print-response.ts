/** What the server said, printed: as it came under `--json`, else as a table or line by line. */
import { type ApiRecord, type Page, recordIn } from '../api/envelope.ts';
import type { Response } from '../api/errors.ts';
import { parseExactly, stringifyExactly } from '../api/exact-json.ts';
import type { CliContext } from './context.ts';
import { printLine, printLines, printNote } from './output.ts';
import { writeToStream } from '../data/stream-output.ts';
import { cut, padEnd, type TableLayout, tableLayout, width } from '../data/text-table.ts';
import type { Cell } from '../store/reading-types.ts';
import { IncompleteError } from '../model/errors.ts';
import { isRecord } from '../model/records.ts';
import type { Resource } from '../model/resources.ts';
import { grouped, harmless } from '../model/text.ts';

const widest = 32;
const gap = '  ';

interface RecordTable extends Pick<TableLayout, 'heading'> {
  /** Lines for the records, laid out as the first ones were. */
  readonly lines: (records: readonly ApiRecord[]) => string[];
  /** Names of the columns for which there was no room. */
  readonly left: readonly string[];
}

/** One line, and nothing that could command the terminal: what a server sends is not ours. */
function shown(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'string' ? value : stringifyExactly(value);
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]+/gu, ' ');
}

/** Lays out the table by its first records; columns without room on a terminal are left out. @param names the columns in their order */
function layOut({ stdout }: CliContext, names: readonly string[], first: readonly ApiRecord[]): RecordTable {
  const { isTTY } = stdout;
  const cellOf = (value: unknown): Cell => {
    if (typeof value === 'number' || typeof value === 'bigint' || value === null || value === undefined)
      return value ?? null;
    return isTTY ? cut(shown(value).slice(0, 4 * widest), widest) : shown(value);
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
    left: names.slice(fitting.length),
  };
}

function recordLines(record: ApiRecord): string[] {
  const names = Object.keys(record);
  const size = Math.min(widest, Math.max(0, ...names.map((name) => width(shown(name)))));
  return names.flatMap((name) => {
    const value = record[name];
    const [head = '', ...more] = typeof value === 'string' ? value.split(/\r?\n/).map(shown) : [shown(value)];
    return [
      `${padEnd(shown(name), size)}${gap}${head}`.trimEnd(),
      ...more.map((each) => `${' '.repeat(size)}${gap}${each}`),
    ];
  });
}

/** The columns of a list: the document's fields, then the related records that were requested. */
function namesOf(resource: Resource, include: readonly string[]): string[] {
  return [...resource.fields.map(({ name }) => name), ...include];
}

function noteLeft(context: CliContext, table: RecordTable): void {
  if (table.left.length === 0) return;
  printNote(context, `No room for ${table.left.join(', ')}: widen the terminal, or use --json.`);
}

function withLineEnd(text: string): string {
  return text.endsWith('\n') ? text : `${text}\n`;
}

/** One page of a list. */
export function printPage(context: CliContext, resource: Resource, include: readonly string[], page: Page): void {
  if (context.json()) return void context.stdout.write(harmless(withLineEnd(page.text)));
  const table = layOut(context, namesOf(resource, include), page.records);
  printLines(context, [...table.heading, ...table.lines(page.records)]);
  printNote(
    context,
    `Page ${grouped(page.page)} of ${grouped(page.lastPage)}, ${grouped(page.total)} ${resource.name} in all.`,
  );
  noteLeft(context, table);
}

/** Every page, each printed as it comes: one JSON array, or one table laid out by the first page. */
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
    // All that can be read is there: it is a document all the same.
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
  if (table !== undefined) noteLeft(context, table);
}

/** The records of a response that holds several: an array, bare or under `data`. */
function recordsIn(body: unknown): ApiRecord[] | undefined {
  const list = isRecord(body) ? body['data'] : body;
  return Array.isArray(list) && list.length > 0 && list.every(isRecord) ? list : undefined;
}

/** A response whose shape is not documented: as it came, or laid out as far as its shape is known. */
export function printResponse(context: CliContext, { body, raw, status }: Response): void {
  if (context.json()) return void context.stdout.write(harmless(jsonText(raw)));
  const records = recordsIn(body);
  const record = recordIn(body);
  if (records !== undefined) {
    const names = [...new Set(records.flatMap((each) => Object.keys(each)))];
    const table = layOut(context, names, records);
    printLines(context, [...table.heading, ...table.lines(records)]);
    noteLeft(context, table);
  } else if (record !== undefined) {
    printLines(context, recordLines(record));
  } else if (typeof body !== 'string') {
    printLine(context, stringifyExactly(body, 2));
  } else if (body !== '') {
    printLine(context, body);
  }
  printNote(context, `The server returned ${status}.`);
}

/** The body as one JSON document: itself where it is JSON, else its text as a string, or null where it is empty. */
export function jsonText(raw: string): string {
  if (raw === '') return 'null\n';
  try {
    parseExactly(raw);
  } catch {
    return `${JSON.stringify(raw)}\n`;
  }
  return withLineEnd(raw);
}
