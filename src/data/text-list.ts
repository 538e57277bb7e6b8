/** Entries that are no rows of one table - changes, steps of the journal - in every format of a query, as they come. */
import { Buffer } from 'node:buffer';
import { setImmediate } from 'node:timers/promises';
import type { ResultColumn, Row } from '../store/reading-types.ts';
import type { QueryFormat } from './formats.ts';
import { header, rowLines } from './text-lines.ts';
import { asyncTableText } from './text-table.ts';

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
