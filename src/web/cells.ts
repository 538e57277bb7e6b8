/** Cells of the mirror on a page. What people and servers have written there may be anything, and is shown harmlessly. */
import type { ColumnType } from '../data/column-type.ts';
import { maskedText } from '../data/personal.ts';
import { bytesText } from '../model/bytes.ts';
import { harmless } from '../model/terminal-text.ts';
import { parseInstant } from '../model/time.ts';
import type { Cell } from '../store/reading-types.ts';
import { html, type Part, timeTag } from './html.ts';

/** Characters of a cell in a table; the page of the record has all of them. */
const mostShown = 120;

/** The cell. A text cannot turn the direction of what stands beside it. @param isWhole not cut */
export function cellTag(cell: Cell, type: ColumnType | undefined, isWhole = false): Part {
  if (cell === null) return html`<span class="none">–</span>`;
  if (cell === maskedText) return html`<span class="none">masked</span>`;
  if (cell instanceof Uint8Array) return `(${bytesText(cell.length)})`;
  if (typeof cell === 'number') return numberText(cell, type);
  if (typeof cell === 'bigint') return String(cell);
  if (type === 'time' && parseInstant(cell) !== undefined) return timeTag(cell);
  return html`<bdi>${isWhole ? harmless(cell) : cutText(cell)}</bdi>`;
}

/** Amounts to the cent, and every digit of what has more. */
function numberText(value: number, type: ColumnType | undefined): string {
  const cents = value.toFixed(2);
  return type === 'decimal' && Number(cents) === value ? cents : String(value);
}

function cutText(text: string): string {
  const characters = harmless(text.length > 4 * mostShown ? text.slice(0, 4 * mostShown) : text);
  return characters.length <= mostShown ? characters : `${characters.slice(0, mostShown).toWellFormed()}…`;
}

/** Whether the column's cells stand to the right. */
export function isNumberType(type: ColumnType | undefined): boolean {
  return type === 'integer' || type === 'decimal' || type === 'double';
}
