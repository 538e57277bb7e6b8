/** A result as a table for a person: numbers to the right, long text cut, nothing that could move the cursor. */
import type { Cell, ResultColumn, Row } from '../store/ports/reading.ts';
import { plainText } from '../store/files/csv.ts';
import { cut, padEnd, padStart, width } from './text-width.ts';

/** Columns on screen that one cell may take. */
const widest = 40;

/** Rows that the widths are taken from; later ones are cut to them. */
const measuredRows = 200;

/** The lines of the table, heading first, each without its line break. Holds no more rows than are needed for the widths. */
export function* tableText(columns: readonly ResultColumn[], rows: Iterable<Row>): Generator<string> {
  const source = rows[Symbol.iterator]();
  const first: Row[] = [];
  while (first.length < measuredRows) {
    const next = source.next();
    if (next.done === true) break;
    first.push(next.value);
  }
  const layout = columns.map(({ name }, index) => {
    const cells = first.map((row) => shown(row[index] ?? null));
    const right =
      first.some((row) => isNumber(row[index] ?? null)) && first.every((row) => !isText(row[index] ?? null));
    return { name, right, width: Math.min(widest, Math.max(width(visible(name)), ...cells.map(width))) };
  });
  const line = (texts: readonly string[]) =>
    texts
      .map((text, index) => {
        const column = layout[index];
        if (column === undefined) return text;
        const short = cut(text, column.width);
        return column.right ? padStart(short, column.width) : padEnd(short, column.width);
      })
      .join('  ')
      .trimEnd();
  yield line(layout.map(({ name }) => visible(name)));
  yield layout.map((column) => '-'.repeat(column.width)).join('  ');
  for (const row of first) yield line(row.map(shown));
  for (let next = source.next(); next.done !== true; next = source.next()) yield line(next.value.map(shown));
}

function isNumber(cell: Cell): boolean {
  return typeof cell === 'number' || typeof cell === 'bigint';
}

function isText(cell: Cell): boolean {
  return cell !== null && !isNumber(cell);
}

function shown(cell: Cell): string {
  if (cell === null) return '';
  return typeof cell === 'string' ? visible(cell) : plainText(cell);
}

/** One line, and no control characters: data must not be able to command the terminal. A joiner of emoji stays. */
function visible(text: string): string {
  return text
    .slice(0, 4 * widest)
    .toWellFormed()
    .replaceAll(/[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--\u200D]+/gv, (run) => (/[\n\r\t]/.test(run) ? ' ' : ''));
}
