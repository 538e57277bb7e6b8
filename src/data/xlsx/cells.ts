/** Cells of a sheet: numbers as numbers, times as dates with their time of day, all else as text. Never a formula. */
import { microseconds, wholeSeconds } from '../../model/api-time.ts';
import { plainText } from '../../store/files/csv.ts';
import type { Cell } from '../../store/reading-types.ts';
import { headingStyle, timeStyle } from './parts.ts';
import { fitting, textElement } from './text.ts';

/** Whole numbers of more digits are text: a spreadsheet shows 15, and puts zeros in the place of the others. */
const endOfDigits = 10n ** 15n;

const daySeconds = 86_400;
/** Days of a spreadsheet up to 1970. */
const epochDay = 25_569;
/** 1900-03-01: before it, spreadsheets disagree, for 1900 has a February 29th in some. */
const firstDay = 61;

/** The time as a day of a spreadsheet, its time of day as the fraction; undefined of what is no time, or too early. */
export function serialOf(text: string): number | undefined {
  const seconds = wholeSeconds(text);
  if (Number.isNaN(seconds)) return undefined;
  // A day has not enough digits for more than milliseconds, and rounding up would make it another day.
  const serial = (seconds + Math.floor(microseconds(text) / 1000) / 1000) / daySeconds + epochDay;
  return serial >= firstDay ? serial : undefined;
}

function textCell(at: string, text: string, style = ''): string {
  return `<c r="${at}"${style} t="inlineStr"><is>${textElement(text)}</is></c>`;
}

export function headingCell(at: string, text: string): string {
  return textCell(at, fitting(text), ` s="${headingStyle}"`);
}

/**
 * The cell as XML; nothing at all for null.
 * @param mayBeTime whether text in the column that is a time stands for one
 * @param onCut told of text that was too long
 */
export function cellElement(at: string, cell: Cell, mayBeTime: boolean, onCut: () => void): string {
  if (cell === null) return '';
  if (typeof cell === 'bigint' && cell < endOfDigits && cell > -endOfDigits) return `<c r="${at}"><v>${cell}</v></c>`;
  if (typeof cell === 'number' && Number.isFinite(cell)) {
    return `<c r="${at}"><v>${Object.is(cell, -0) ? '-0' : cell}</v></c>`;
  }
  const whole = typeof cell === 'string' ? cell : plainText(cell);
  const serial = mayBeTime && typeof cell === 'string' ? serialOf(cell) : undefined;
  if (serial !== undefined) return `<c r="${at}" s="${timeStyle}"><v>${serial}</v></c>`;
  const text = fitting(whole);
  if (text !== whole) onCut();
  return textCell(at, text);
}
