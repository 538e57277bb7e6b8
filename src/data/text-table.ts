/** Prints a result as a table: numbers on the right, text cut only to fit a terminal, no characters that could control it. */
import { plainText } from './csv.ts';
import type { Cell, ResultColumn, Row } from './reading-types.ts';

let segmenter: Intl.Segmenter | undefined;

/** Loads the segmenter late: that takes longer than printing a short result, and ASCII does not need it. */
function segmentsOf(text: string): Intl.Segments {
  segmenter ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  return segmenter.segment(text);
}

// Characters that take two columns: those of East Asian scripts, and emoji.
const wide =
  /[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Emoji_Presentation}\u3000-\u303E\uFF01-\uFF60\uFFE0-\uFFE6]|\p{Emoji}\uFE0F/u;
const ascii = /^[\x20-\x7E]*$/;

function characterWidth(character: string): number {
  return wide.test(character) ? 2 : 1;
}

/** Returns how many columns a text without control characters takes. */
export function width(text: string): number {
  if (ascii.test(text)) return text.length;
  let sum = 0;
  for (const { segment } of segmentsOf(text)) sum += characterWidth(segment);
  return sum;
}

/** Cuts the text to that many columns, the last of them `…`. */
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

function padStart(text: string, columns: number): string {
  return ' '.repeat(Math.max(0, columns - width(text))) + text;
}

/** Makes columns that belong to no table from their names: `time, who, what`. */
export function namedColumns(names: string): ResultColumn[] {
  return names.split(', ').map((name) => ({ name, table: null, origin: null }));
}

/** No column gets narrower than this: enough to tell its values apart. */
const narrowest = 10;

/** Values that would say nothing, or something else, without their end: a time, a number, the name of a run or a batch. */
const uncuttable = /^(?:\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?: UTC|Z|[+-]\d\d:\d\d)?)?|-?[\d.,]{1,40}|\d{8}T?-?\d{6}-\w+)$/;

/** A table of more is easier to read by row, if it exceeds the terminal. */
const mostColumns = 10;

const gap = '  ';

/** The widths come from the first rows; in a terminal, later cells are cut to them. */
const measuredRows = 200;

/**
 * Yields the lines of the table, heading first. Where even narrow columns have no room, each row has a line for each of its values.
 * @param room the width of the terminal: the widest columns of text shrink first. Without it nothing is cut, and a wider value that
 * comes late sticks out
 */
export function* tableText(columns: readonly ResultColumn[], rows: Iterable<Row>, room?: number): Generator<string> {
  const lines = linesOf(columns, room);
  for (const row of rows) yield* lines.with(row);
  yield* lines.rest();
}

/** The same for rows from an asynchronous source. */
export async function* asyncTableText(
  columns: readonly ResultColumn[],
  rows: AsyncIterable<Row>,
  room?: number,
): AsyncGenerator<string> {
  const lines = linesOf(columns, room);
  for await (const row of rows) yield* lines.with(row);
  yield* lines.rest();
}

/** Returns the lines that each row completes: none before the widths are known. */
function linesOf(columns: readonly ResultColumn[], room: number | undefined) {
  const first: Row[] = [];
  let layout: TableLayout | undefined;
  const begin = (): string[] => {
    const table = tableLayout(columns, first, room);
    const isTooWide = columns.length > mostColumns && room !== undefined && table.width > room;
    layout = isTooWide ? rowLayout(columns, room) : table;
    return [...layout.heading, ...first.map(layout.line)];
  };
  return {
    with: (row: Row): string[] => {
      if (layout !== undefined) return [layout.line(row)];
      return first.push(row) === measuredRows ? begin() : [];
    },
    rest: (): string[] => (layout === undefined ? begin() : []),
  };
}

export interface TableLayout {
  /** The names and the rule below them. */
  readonly heading: readonly string[];
  /** The text of the row: one line, or a line for each of its values. */
  readonly line: (row: Row) => string;
}

/** For rows that no table of this width can show: each row below the one before it, with a line for each value that it has. */
function rowLayout(columns: readonly ResultColumn[], room: number): TableLayout {
  const names = columns.map(({ name }) => visible(name));
  const wide = Math.max(...names.map(width));
  let number = 0;
  const line = (row: Row): string => {
    number += 1;
    const values = names.flatMap((name, index) => {
      const text = shown(row[index] ?? null, 4 * room);
      return text === '' ? [] : [cut(`${padEnd(name, wide)}${gap}${text}`, room)];
    });
    return [`--- row ${number} ---`, ...values].join('\n');
  };
  return { heading: [], line };
}

/** Lays the table out by its first rows. @param room the width of the terminal; `Infinity`: later cells are only cut to these widths */
export function tableLayout(
  columns: readonly ResultColumn[],
  first: readonly Row[],
  room: number | undefined,
): TableLayout & { readonly width: number } {
  // Text of more than a few lines is cut before it is measured.
  const most = room === undefined ? Infinity : 4 * Math.max(narrowest, room);
  const texts = (row: Row) => columns.map((_, index) => shown(row[index] ?? null, most));
  const layout = columns.map(({ name }, index) => {
    const values = first.map((row) => row[index] ?? null);
    const cells = values.map((value) => shown(value, most));
    const right = values.some(isNumber) && values.every((value) => value === null || isNumber(value));
    const wanted = Math.max(width(visible(name, most)), ...cells.map(width));
    const isWhole = right || (cells.some(Boolean) && cells.every((cell) => cell === '' || uncuttable.test(cell)));
    return { name, right, isWhole, width: wanted };
  });
  if (room !== undefined) narrow(layout, room);
  const line = (texts: readonly string[]) =>
    texts
      .map((text, index) => {
        const column = layout[index];
        if (column === undefined) return text;
        if (column.right) return padStart(text, column.width);
        const isWhole = room === undefined || uncuttable.test(text);
        // A column that was empty at first is only as wide as its name.
        return padEnd(isWhole ? text : cut(text, Math.max(narrowest, column.width)), column.width);
      })
      .join(gap)
      .trimEnd();
  const names = line(layout.map(({ name }) => visible(name, most)));
  const rule = layout.map((column) => '-'.repeat(column.width)).join(gap);
  return { heading: [names, rule], line: (row: Row) => line(texts(row)), width: rule.length };
}

/** Shrinks the widest columns of text until the line fits, or none can shrink further. */
function narrow(layout: { readonly isWhole: boolean; width: number }[], room: number): void {
  const texts = layout.filter(({ isWhole }) => !isWhole);
  const length = () => layout.reduce((sum, column) => sum + column.width, gap.length * (layout.length - 1));
  for (let over = length() - room; over > 0; over = length() - room) {
    const [first, second] = texts.toSorted((a, b) => b.width - a.width);
    if (first === undefined || first.width <= narrowest) return;
    // Down to the width of the second in one step, then both together.
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

/** Makes one line without control characters, so that data cannot control the terminal. The joiner of emoji stays. */
function visible(text: string, most = Infinity): string {
  const start = text.slice(0, most);
  if (ascii.test(start)) return start;
  return start
    .toWellFormed()
    .replaceAll(/[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--\u200D]+/gv, (run) => (/[\n\r\t]/.test(run) ? ' ' : ''));
}
