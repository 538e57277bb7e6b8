/** Cells as plain text: ids, names, descriptions, whatever is not an amount. */
import { errorReason } from './cell.ts';
import type { SheetCell } from './sheet.ts';
import { shown } from './shown.ts';

const plainNumber = /^-?\d{1,15}(?:\.\d{1,15})?$/;

/**
 * What to take for the text of a cell, '' where it is empty, or what is wrong with it in words. A date of a spreadsheet is
 * `2026-03-11` or `2026-03-11 14:30:00`; a truth value is `true` or `false`. A number must have kept all of its digits: a
 * long id that was typed into a spreadsheet has not.
 */
export function textOf(cell: SheetCell): { readonly text: string } | { readonly problem: string } {
  switch (cell.kind) {
    case 'error':
      return { problem: errorReason(cell) };
    case 'percent':
      return { problem: `${shown(cell.raw)} is formatted as a percentage; format the cell as text` };
    case 'number':
      if (plainNumber.test(cell.text)) return { text: cell.text };
      return {
        problem: `the number ${shown(cell.raw)} may have lost digits; format the column as text and write it anew`,
      };
    case 'empty':
    case 'text':
    case 'boolean':
    case 'date':
      return { text: cell.text };
  }
}
