/** Words that programs write for an empty cell: `NULL` from databases, `nan` and `None` from Python, `\N` from MySQL. */
import { counted } from '../model/text.ts';
import type { ReadRow } from './read-rows.ts';
import { shown } from './sheet/rows.ts';

const words = new Set(String.raw`null (null) <null> [null] nil none nan nat <na> n/a \n undefined`.split(' '));

function isPlaceholder(text: string): boolean {
  // In lower case, R's NA is a word and a name.
  return text === 'NA' || (text.length <= 9 && words.has(text.toLowerCase()));
}

/** Counts such words in the texts that rows would send, and in the names of their users. A server stores them as text. */
export class Placeholders {
  readonly #columns = new Map<string, { readonly first: number; readonly texts: Set<string>; count: number }>();

  /** Returns notes on the row. */
  add({ row, key, parameters, undoOfRow }: ReadRow): string[] {
    // What a row takes back was on the server.
    if (undoOfRow !== null) return [];
    const texts = Object.entries(parameters);
    if (key !== null) texts.push([key.column, key.value]);
    return texts.flatMap(([column, text]) => {
      if (typeof text !== 'string' || !isPlaceholder(text)) return [];
      const there = this.#columns.get(column) ?? { first: row, texts: new Set(), count: 0 };
      there.texts.add(text);
      there.count += 1;
      this.#columns.set(column, there);
      return `${column} is the text ${shown(text)}`;
    });
  }

  /** One warning for each column. */
  warnings(): string[] {
    return [...this.#columns].map(([column, { first, texts, count }]) => {
      const said = [...texts].slice(0, 5).map(shown).join(', ');
      const cells = counted(count, 'cell says', 'cells say');
      return `${column}: ${cells} ${said}, first in row ${first}. Programs write that for an empty cell, and it would be sent as text: empty the cell if nothing is meant`;
    });
  }
}
