/** Rows as lines of CSV, TSV or JSON; and entries that are no rows of one table, such as changes, in every format of a query. */
import { distinct } from './column-type.ts';
import type { TextFormat, QueryFormat } from './formats.ts';
import { csvLines, type CsvStyle, plainText } from '../store/files/csv.ts';
import type { ResultColumn, Row, Cell } from '../store/reading-types.ts';
import { isResourceName, resourceOf } from '../model/resources.ts';
import { Buffer } from 'node:buffer';
import { asyncTableText } from './text-table.ts';
import { setImmediate } from 'node:timers/promises';

export interface TextStyle {
  readonly format: TextFormat;
  /** Text cells as they are, without the guard against formulas. */
  readonly raw: boolean;
}

export function csvStyle({ format, raw }: TextStyle): CsvStyle {
  return { delimiter: format === 'tsv' ? '\t' : ',', guard: !raw };
}

export function isJson({ format }: TextStyle): boolean {
  return format === 'json' || format === 'jsonl';
}

/** A function that writes rows, each ended by LF. */
export function rowLines(style: TextStyle, columns: readonly ResultColumn[]): (rows: readonly Row[]) => string {
  return isJson(style) ? jsonLines(distinct(columns)) : csvLines(csvStyle(style));
}

/** What stands before the first row; nothing for JSON. */
export function header(style: TextStyle, columns: readonly ResultColumn[]): string {
  return isJson(style) ? '' : csvLines(csvStyle(style))([columns.map(({ name }) => name)]);
}

/** Whether text may be JSON to be given as JSON: objects, lists, fields of open type, `_extra`; nothing computed. */
export function mayHoldJson({ table, origin }: ResultColumn): boolean {
  if (table === null || !isResourceName(table)) return false;
  const type = resourceOf(table).fields.find(({ name }) => name === origin)?.type;
  return origin === '_extra' || type === 'object' || type === 'strings' || type === 'any';
}

/** A function that writes rows as objects, each ended by LF. */
export function jsonLines(columns: readonly ResultColumn[]): (rows: readonly Row[]) => string {
  const objectOf = jsonObject(columns);
  return (rows) => rows.map((row) => `${objectOf(row)}\n`).join('');
}

/** JSON lines as one JSON array. No line has a line break within, so that the bytes need not be understood. */
export async function* jsonArray(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let between = '[';
  for await (const chunk of chunks) {
    if (chunk.length === 0) continue;
    const lines = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length - 1).toString('latin1');
    yield Buffer.from(`${between}\n  ${lines.replaceAll('\n', ',\n  ')}`, 'latin1');
    between = ',';
  }
  yield Buffer.from(between === '[' ? '[]\n' : '\n]\n');
}

function jsonObject(columns: readonly ResultColumn[]): (row: Row) => string {
  const keys = columns.map(({ name }, index) => `${index === 0 ? '' : ','}${JSON.stringify(name)}:`);
  const embedded = columns.map(mayHoldJson);
  return (row) => {
    let text = '{';
    for (const [index, cell] of row.entries()) text += `${keys[index]}${jsonCell(cell, embedded[index] === true)}`;
    return `${text}}`;
  };
}

/** The cell as JSON; `embedded`: text that is an object or array in JSON stands for it. */
export function jsonCell(cell: Cell, embedded: boolean): string {
  if (cell === null) return 'null';
  if (typeof cell === 'string') return (embedded ? storedJson(cell) : undefined) ?? JSON.stringify(cell);
  if (cell instanceof Uint8Array) return JSON.stringify(plainText(cell));
  // JSON has no word for infinity; readers take a number beyond the largest for it.
  if (cell === Infinity || cell === -Infinity) return cell > 0 ? '1e999' : '-1e999';
  return plainText(cell);
}

/** The text itself where it is a JSON object or array: parsing and writing it anew would round its large numbers. */
function storedJson(text: string): string | undefined {
  if (!text.startsWith('{') && !text.startsWith('[')) return undefined;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  // Valid JSON has line breaks between its parts only.
  return text.replaceAll(/[\n\r]+/g, ' ');
}

export interface TextList<Entry> {
  readonly columns: readonly ResultColumn[];
  /** An entry may be several rows. */
  readonly rowsOf: (entry: Entry) => Iterable<Row>;
  /** The entry as JSON. */
  readonly jsonOf: (entry: Entry) => string;
  /** What a JSON document begins with: `"steps": `. */
  readonly head: string;
}

export interface TextListForm {
  readonly format: QueryFormat;
  /** Columns of the terminal that a table is to fit in; undefined where nothing is cut. */
  readonly room: number | undefined;
}

/** Texts that are written at a time. */
const heldTexts = 200;

/** Holds no more of the entries than a screen or two. */
export async function* listChunks<Entry>(
  list: TextList<Entry>,
  entries: AsyncIterable<Entry> | Iterable<Entry>,
  form: TextListForm,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for await (const piece of textPieces(textsOf(list, entries, form))) {
    signal.throwIfAborted();
    yield piece;
  }
}

/** The texts as bytes, many at a time. */
export async function* textPieces(texts: AsyncIterable<string> | Iterable<string>): AsyncGenerator<Uint8Array> {
  let held: string[] = [];
  for await (const text of texts) {
    if (held.push(text) < heldTexts) continue;
    yield Buffer.from(held.join(''));
    held = [];
    // Signals are heard between two pieces.
    await setImmediate();
  }
  yield Buffer.from(held.join(''));
}

async function* textsOf<Entry>(
  list: TextList<Entry>,
  entries: AsyncIterable<Entry> | Iterable<Entry>,
  { format, room }: TextListForm,
): AsyncGenerator<string> {
  const { columns, jsonOf, head } = list;
  switch (format) {
    case 'table':
      for await (const line of asyncTableText(columns, rowsIn(list, entries), room)) yield `${line}\n`;
      return;
    case 'csv':
    case 'tsv': {
      const style = { format, raw: false };
      const lines = rowLines(style, columns);
      yield header(style, columns);
      for await (const row of rowsIn(list, entries)) yield lines([row]);
      return;
    }
    case 'jsonl':
      for await (const entry of entries) yield `${jsonOf(entry)}\n`;
      return;
    case 'json': {
      yield `{\n  ${head}[`;
      let between = '\n';
      for await (const entry of entries) {
        yield `${between}    ${jsonOf(entry)}`;
        between = ',\n';
      }
      yield between === ',\n' ? '\n  ]\n}\n' : ']\n}\n';
    }
  }
}

async function* rowsIn<Entry>(
  { rowsOf }: TextList<Entry>,
  entries: AsyncIterable<Entry> | Iterable<Entry>,
): AsyncGenerator<Row> {
  for await (const entry of entries) yield* rowsOf(entry);
}
