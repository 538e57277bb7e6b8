/** What the server said, printed: as it came under `--json`, else as a table or line by line. */
import { type ApiRecord, isRecord, type Page, recordIn } from '../api/envelope.ts';
import type { Answer } from '../api/errors.ts';
import { parseExactly, stringifyExactly } from '../api/exact-json.ts';
import { writeToStream } from '../data/stream-output.ts';
import { IncompleteError } from '../model/errors.ts';
import type { Resource } from '../model/resources.ts';
import { harmless } from '../model/terminal-text.ts';
import type { CliContext } from './context.ts';
import { printLine, printNote } from './output.ts';
import { layOut, recordLines, type RecordTable } from './record-table.ts';

function roomOf(context: CliContext): number {
  return context.stdout.isTTY ? context.stdout.columns : Number.POSITIVE_INFINITY;
}

/** The columns of a list: the document's fields, then the related records that were asked for. */
function namesOf(resource: Resource, include: readonly string[]): string[] {
  return [...resource.fields.map(({ name }) => name), ...include];
}

function noteLeft(context: CliContext, table: RecordTable): void {
  if (table.left.length === 0) return;
  printNote(context, `No room for ${table.left.join(', ')}: widen the terminal, or use --json.`);
}

function bytesAsText(raw: Buffer): string {
  const text = raw.toString('utf8');
  return text.endsWith('\n') ? text : `${text}\n`;
}

/** One page of a list. */
export function printPage(context: CliContext, resource: Resource, include: readonly string[], page: Page): void {
  if (context.json()) {
    context.stdout.write(harmless(bytesAsText(page.bytes)));
    return;
  }
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

/** The records of an answer that holds several: an array, bare or under `data`. */
function recordsIn(body: unknown): ApiRecord[] | undefined {
  const list = isRecord(body) ? body['data'] : body;
  return Array.isArray(list) && list.length > 0 && list.every(isRecord) ? list : undefined;
}

/** An answer whose shape is not documented: as it came, or laid out as far as it can be told what it is. */
export function printAnswer(context: CliContext, { body, raw, status }: Answer): void {
  if (context.json()) {
    context.stdout.write(harmless(jsonText(raw)));
    return;
  }
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
  printNote(context, `The server answered with ${status}.`);
}

/** The body as one JSON document: itself where it is JSON, else its text as a string, or null where it is empty. */
export function jsonText(raw: Buffer): string {
  if (raw.length === 0) return 'null\n';
  try {
    parseExactly(raw);
  } catch {
    return `${JSON.stringify(raw.toString('utf8'))}\n`;
  }
  return bytesAsText(raw);
}
