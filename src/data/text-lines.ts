/** Writes rows as lines of CSV, TSV or JSON; and lists of entries that are no rows, such as changes, in every format of a query. */
import { distinctColumns } from './column-type.ts';
import type { TextFormat, QueryFormat } from './formats.ts';
import { csvLines, type CsvStyle, plainText } from './csv.ts';
import type { ResultColumn, Row, Cell } from './reading-types.ts';
import { isResourceName, resourceOf } from '../model/resources.ts';
import { Buffer } from 'node:buffer';
import { asyncTableText } from './text-table.ts';
import { setImmediate } from 'node:timers/promises';

export interface TextStyle {
  readonly format: TextFormat;
  /** Without the guard against formulas in text cells. */
  readonly raw: boolean;
}

export function csvStyle({ format, raw }: TextStyle): CsvStyle {
  return { delimiter: format === 'tsv' ? '\t' : ',', guard: !raw };
}

export function isJson({ format }: TextStyle): boolean {
  return format === 'json' || format === 'jsonl';
}

/** Returns a function that writes rows, each ended by LF. */
export function rowLines(style: TextStyle, columns: readonly ResultColumn[]): (rows: readonly Row[]) => string {
  return isJson(style) ? jsonLines(distinctColumns(columns)) : csvLines(csvStyle(style));
}

/** Returns the line of column names; empty for JSON. */
export function header(style: TextStyle, columns: readonly ResultColumn[]): string {
  return isJson(style) ? '' : csvLines(csvStyle(style))([columns.map(({ name }) => name)]);
}

/** Whether the column's text may be JSON that JSON formats embed as such: objects, lists, fields of any type, `_extra`; nothing computed. */
export function mayHoldJson({ table, origin }: ResultColumn): boolean {
  if (table === null || !isResourceName(table)) return false;
  const type = resourceOf(table).fields.find(({ name }) => name === origin)?.type;
  return origin === '_extra' || type === 'object' || type === 'strings' || type === 'any';
}

/** Returns a function that writes rows as JSON objects, each ended by LF. */
export function jsonLines(columns: readonly ResultColumn[]): (rows: readonly Row[]) => string {
  const objectOf = jsonObject(columns);
  return (rows) => rows.map((row) => `${objectOf(row)}\n`).join('');
}

/** Makes one JSON array of JSON lines. No line has a line break inside, so the bytes need not be parsed. */
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

/** Returns the cell as JSON. @param embedded text that is a JSON object or array is written as such, not as a string */
export function jsonCell(cell: Cell, embedded: boolean): string {
  if (cell === null) return 'null';
  if (typeof cell === 'string') return (embedded ? storedJson(cell) : undefined) ?? JSON.stringify(cell);
  if (cell instanceof Uint8Array) return JSON.stringify(plainText(cell));
  // JSON has no infinity; readers take a number that is too large for it.
  if (cell === Infinity || cell === -Infinity) return cell > 0 ? '1e999' : '-1e999';
  return plainText(cell);
}

/** Returns the text if it is a JSON object or array. Writing the parsed value would round its large numbers. */
function storedJson(text: string): string | undefined {
  if (!text.startsWith('{') && !text.startsWith('[')) return undefined;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  // In valid JSON, line breaks are white space only.
  return text.replaceAll(/[\n\r]+/g, ' ');
}

export interface TextList<Entry> {
  readonly columns: readonly ResultColumn[];
  /** An entry may be several rows. */
  readonly rowsOf: (entry: Entry) => Iterable<Row>;
  readonly jsonOf: (entry: Entry) => string;
  /** The beginning of the JSON document, up to the name of the list: `"steps": `. */
  readonly head: string;
}

export interface TextListForm {
  readonly format: QueryFormat;
  /** The width of the terminal, for tables; undefined: nothing is cut. */
  readonly room: number | undefined;
}

const textsPerPiece = 200;

/** Writes the entries in the format. Holds no more of them than a screen or two. */
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

/** Joins the texts into larger pieces of bytes. */
export async function* textPieces(texts: AsyncIterable<string> | Iterable<string>): AsyncGenerator<Uint8Array> {
  let held: string[] = [];
  for await (const text of texts) {
    if (held.push(text) < textsPerPiece) continue;
    yield Buffer.from(held.join(''));
    held = [];
    // Lets signals be handled between two pieces.
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
