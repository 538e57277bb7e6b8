/** A result as a table for a person: numbers to the right, text cut to the terminal alone, nothing that could move the cursor. */
import { plainText } from '../store/files/csv.ts';
import type { Cell, ResultColumn, Row } from '../store/reading-types.ts';

let segmenter: Intl.Segmenter | undefined;

/** Its data takes longer to load than a short result to print; text of plain letters does without. */
function segmentsOf(text: string): Intl.Segments {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  return segmenter.segment(text);
}

// Scripts whose characters take two columns, and signs shown as pictures.
const wide =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\u3000-\u303E\uFF01-\uFF60\uFFE0-\uFFE6]|\p{Emoji}\uFE0F/u;
const ascii = /^[\x20-\x7E]*$/;

function characterWidth(character: string): number {
  return wide.test(character) ? 2 : 1;
}

/** The width of a text without control characters. */
export function width(text: string): number {
  if (ascii.test(text)) return text.length;
  let sum = 0;
  for (const { segment } of segmentsOf(text)) sum += characterWidth(segment);
  return sum;
}

/** The text in at most that many columns, with `…` where something is missing. */
export function cut(text: string, columns: number): string {
  if (width(text) <= columns) return text;
  if (ascii.test(text)) return `${text.slice(0, Math.max(0, columns - 1))}…`;
  let kept = '';
  let left = columns - 1;
  for (const { segment } of segmentsOf(text)) {
    left -= characterWidth(segment);
    if (left < 0) break;
    kept += segment;
  }
  return `${kept}…`;
}

export function padEnd(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - width(text)));
}

export function padStart(text: string, columns: number): string {
  return ' '.repeat(Math.max(0, columns - width(text))) + text;
}

/** Columns that are of no table, named in one text: `time, who, what`. */
export function namedColumns(names: string): ResultColumn[] {
  return names.split(', ').map((name) => ({ name, table: null, origin: null }));
}

/** What is left of a column where many share a narrow terminal: enough to see that its values differ. */
const narrowest = 10;

/** What says nothing, or another thing, with its end cut off: a time, a number, the name of a run or a batch. */
const unbroken = /^(?:\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?: UTC|Z|[+-]\d\d:\d\d)?)?|-?[\d.,]{1,40}|\d{8}T?-?\d{6}-\w+)$/;

/** Between two columns. */
const between = '  ';

/** Rows that the widths are taken from; in a terminal, later ones are cut to them. */
const measuredRows = 200;

/**
 * The lines of the table, heading first, each without its line break. @param room columns of the terminal: the widest cells of text
 * give way first; without it nothing is cut, and a wider value that comes late stands out
 */
export function* tableText(columns: readonly ResultColumn[], rows: Iterable<Row>, room?: number): Generator<string> {
  const lines = linesOf(columns, room);
  for (const row of rows) yield* lines.with(row);
  yield* lines.rest();
}

/** The same of rows that come one after the other. */
export async function* asyncTableText(
  columns: readonly ResultColumn[],
  rows: AsyncIterable<Row>,
  room?: number,
): AsyncGenerator<string> {
  const lines = linesOf(columns, room);
  for await (const row of rows) yield* lines.with(row);
  yield* lines.rest();
}

/** The lines that are ready with each row: none before the widths are known. */
function linesOf(columns: readonly ResultColumn[], room: number | undefined) {
  const first: Row[] = [];
  let layout: TableLayout | undefined;
  const begun = (): string[] => {
    layout = tableLayout(columns, first, room);
    return [...layout.heading, ...first.map(layout.line)];
  };
  return {
    with: (row: Row): string[] => {
      if (layout !== undefined) return [layout.line(row)];
      return first.push(row) === measuredRows ? begun() : [];
    },
    rest: (): string[] => (layout === undefined ? begun() : []),
  };
}

export type TableLayout = ReturnType<typeof tableLayout>;

/** How rows are laid out by the first of them. @param room `Infinity` where later cells are cut to the widths of these alone */
export function tableLayout(columns: readonly ResultColumn[], first: readonly Row[], room: number | undefined) {
  // What is longer than some lines is cut in any case.
  const most = room === undefined ? Infinity : 4 * Math.max(narrowest, room);
  const texts = (row: Row) => columns.map((_, index) => shown(row[index] ?? null, most));
  const layout = columns.map(({ name }, index) => {
    const values = first.map((row) => row[index] ?? null);
    const cells = values.map((value) => shown(value, most));
    const right = values.some(isNumber) && values.every((value) => value === null || isNumber(value));
    const wanted = Math.max(width(visible(name, most)), ...cells.map(width));
    const isWhole = right || (cells.some(Boolean) && cells.every((cell) => cell === '' || unbroken.test(cell)));
    return { name, right, isWhole, width: wanted };
  });
  if (room !== undefined) narrow(layout, room);
  const line = (texts: readonly string[]) =>
    texts
      .map((text, index) => {
        const column = layout[index];
        if (column === undefined) return text;
        if (column.right) return padStart(text, column.width);
        const isWhole = room === undefined || unbroken.test(text);
        // A column that was empty so far has the room of its name alone.
        return padEnd(isWhole ? text : cut(text, Math.max(narrowest, column.width)), column.width);
      })
      .join(between)
      .trimEnd();
  const names = line(layout.map(({ name }) => visible(name, most)));
  const rule = layout.map((column) => '-'.repeat(column.width)).join(between);
  return { heading: [names, rule], line: (row: Row) => line(texts(row)) };
}

/** Takes columns from the widest of text until the line fits or none can give more. */
function narrow(layout: { readonly isWhole: boolean; width: number }[], room: number): void {
  const texts = layout.filter(({ isWhole }) => !isWhole);
  const length = () => layout.reduce((sum, column) => sum + column.width, between.length * (layout.length - 1));
  for (let over = length() - room; over > 0; over = length() - room) {
    const [first, second] = texts.toSorted((a, b) => b.width - a.width);
    if (first === undefined || first.width <= narrowest) return;
    // Down to the next one at once; columns of one width give way together.
    const floor = Math.max(narrowest, Math.min(second?.width ?? 0, first.width - 1));
    first.width = Math.max(floor, first.width - over);
  }
}

function isNumber(cell: Cell): boolean {
  return typeof cell === 'number' || typeof cell === 'bigint';
}

function shown(cell: Cell, most: number): string {
  if (cell === null) return '';
  return typeof cell === 'string' ? visible(cell, most) : plainText(cell);
}

/** One line, and no control characters: data must not be able to command the terminal. A joiner of emoji stays. */
export function visible(text: string, most = Infinity): string {
  const start = text.slice(0, most);
  if (ascii.test(start)) return start;
  return start
    .toWellFormed()
    .replaceAll(/[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--\u200D]+/gv, (run) => (/[\n\r\t]/.test(run) ? ' ' : ''));
}
