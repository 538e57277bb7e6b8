/** What the server said, printed: as it came under `--json`, else as a table or line by line. */
import { type ApiRecord, isRecord, type Page, recordIn } from '../api/envelope.ts';
import type { Response } from '../api/errors.ts';
import { parseExactly, stringifyExactly } from '../api/exact-json.ts';
import type { CliContext } from './context.ts';
import { printLine, printNote } from './output.ts';
import { writeToStream } from '../data/stream-output.ts';
import { cut, padEnd, padStart, width } from '../data/text-table.ts';
import { IncompleteError } from '../model/errors.ts';
import type { Resource } from '../model/resources.ts';
import { harmless } from '../model/terminal-text.ts';

const widest = 32;
const gap = '  ';

interface RecordTable {
  readonly head: readonly string[];
  /** Lines for the records, laid out as the first ones were. */
  lines(records: readonly ApiRecord[]): string[];
  /** Names of the columns for which there was no room. */
  readonly left: readonly string[];
}

/** One line, and nothing that could command the terminal: what a server sends is not ours. */
function shown(value: unknown, most = Infinity): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'string' ? value : stringifyExactly(value);
  return text.slice(0, most).replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]+/gu, ' ');
}

/**
 * Lays out the table by its first records.
 * @param names the columns in their order
 * @param room columns of the terminal; Infinity where nobody looks at one
 */
function layOut(names: readonly string[], first: readonly ApiRecord[], room: number): RecordTable {
  const columns: { name: string; size: number; right: boolean }[] = [];
  let used = 0;
  const isWhole = room === Infinity;
  const text = (value: unknown) => shown(value, isWhole ? Infinity : 4 * widest);
  for (const name of names) {
    const values = first.map((record) => record[name]);
    const wide = Math.max(width(name), ...values.map((value) => width(text(value))));
    const size = isWhole ? wide : Math.min(widest, wide);
    const wanted = size + (columns.length === 0 ? 0 : gap.length);
    if (columns.length > 0 && used + wanted > room) break;
    used += wanted;
    const filled = values.filter((value) => value !== null && value !== undefined);
    const right = filled.length > 0 && filled.every((value) => ['number', 'bigint'].includes(typeof value));
    columns.push({ name, size, right });
  }
  const line = (texts: readonly string[]) =>
    columns
      .map(({ size, right }, index) => {
        const fitted = isWhole ? (texts[index] ?? '') : cut(texts[index] ?? '', size);
        return right ? padStart(fitted, size) : padEnd(fitted, size);
      })
      .join(gap)
      .trimEnd();
  return {
    head: [line(columns.map(({ name }) => name)), columns.map(({ size }) => '-'.repeat(size)).join(gap)],
    lines: (records) => records.map((record) => line(columns.map(({ name }) => text(record[name])))),
    left: names.slice(columns.length),
  };
}

function recordLines(record: ApiRecord): string[] {
  const names = Object.keys(record);
  const size = Math.min(widest, Math.max(0, ...names.map((name) => width(shown(name)))));
  return names.flatMap((name) => {
    const value = record[name];
    const long = typeof value === 'string' ? value.split(/\r?\n/) : [shown(value)];
    const [head = '', ...more] = long.map((each) => each.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]+/gu, ' '));
    return [
      `${padEnd(shown(name), size)}${gap}${head}`.trimEnd(),
      ...more.map((each) => `${' '.repeat(size)}${gap}${each}`),
    ];
  });
}

function roomOf(context: CliContext): number {
  return context.stdout.isTTY ? context.stdout.columns : Number.POSITIVE_INFINITY;
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
  const table = layOut(namesOf(resource, include), page.records, roomOf(context));
  for (const line of [...table.head, ...table.lines(page.records)]) printLine(context, line);
  printNote(context, `Page ${page.page} of ${page.lastPage}, ${page.total} ${resource.name} in all.`);
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
    table ??= layOut(namesOf(resource, include), records, roomOf(context));
    const lines = [...(head ? table.head : []), ...table.lines(records)];
    count += records.length;
    if (lines.length > 0) yield Buffer.from(`${lines.join('\n')}\n`);
  }
  printNote(context, `${count} ${resource.name}.`);
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
    const table = layOut(names, records, roomOf(context));
    for (const line of [...table.head, ...table.lines(records)]) printLine(context, line);
    noteLeft(context, table);
  } else if (record !== undefined) {
    for (const line of recordLines(record)) printLine(context, line);
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
