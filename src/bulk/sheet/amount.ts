/** Reads amounts from cells, digit for digit. A text that could mean two numbers is refused. */
import { Big } from 'big.js';
import { errorReason, shown } from './rows.ts';
import type { SheetCell, SheetRow } from './sheet.ts';

/** The mark before the decimals. Null if nobody said: then thousands separators are refused. */
export type DecimalMark = 'point' | 'comma' | null;

export interface AmountOptions {
  readonly decimals: number;
  readonly mark: DecimalMark;
}

/** A server that stores doubles cannot change a number of at most so many digits. */
const significantDigits = 15;
/** Far more characters than an amount needs, so that no text can keep the machine busy. */
const longest = 100;
const plain = /^-?\d+(?:\.\d+)?$/;
const exponent = /^[-+]?\d+(?:[.,]\d+)?e[-+]?\d+$/i;
const digitsAlone = /^-?[\d.,]+$/;
/** A comma, or two points: only the mark says whether they stand before decimals or thousands. */
const separated = /,|\..*\./;
// Nobody writes 500 as 0,500: that is a half with the other mark. So thousands do not begin with a zero.
const withPoint = /^-?(?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?$/;
const withComma = /^-?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+)(?:,\d+)?$/;

function plainText(text: string, mark: DecimalMark): string | undefined {
  if (text.length > longest) return undefined;
  switch (mark) {
    case 'point':
      return withPoint.test(text) ? text.replaceAll(',', '') : undefined;
    case 'comma':
      return withComma.test(text) ? text.replaceAll('.', '').replace(',', '.') : undefined;
    case null:
      return plain.test(text) ? text : undefined;
  }
}

function reason(text: string, mark: DecimalMark): string {
  const cell = shown(text);
  if (text.length > longest) return `${cell} is not an amount; write a plain number, as 1234.56`;
  if (exponent.test(text)) {
    return `${cell} is in scientific notation, which may have lost digits; format the column as text and write it out`;
  }
  if (/\p{Sc}/u.test(text)) return `${cell} has a currency sign; write the number alone`;
  if (text.endsWith('%')) return `${cell} is a percentage; write the amount itself`;
  if (text.startsWith('+')) return `${cell} has a plus sign; leave it out`;
  if (digitsAlone.test(text)) {
    if (mark !== null) return `${cell} is not a number whose decimals follow a ${mark}; write it plainly, as 1234.56`;
    if (separated.test(text)) {
      return `${cell} is ambiguous; write it as 1234.56`;
    }
  }
  if (/^[\u2010-\u2015\u2212\uff0d]/.test(text))
    return `${cell} begins with a dash that is not a minus sign; write a plain -`;
  if (/\p{Nd}/u.test(text) && !/[0-9]/.test(text)) return `${cell} has digits other than 0 to 9; write it as 1234.56`;
  return `${cell} is not an amount; write a plain number, as 1234.56`;
}

/** Says what is wrong with a cell of kind `altered`. */
export function alteredReason(raw: string): string {
  return `the file holds ${shown(raw)}, and its format shows something else or nothing; format the cell as a plain number or as text`;
}

/** The exact amount, or a text that says what is wrong. The mark applies to text; number cells have a plain point. */
export function amountOf(cell: SheetCell, options: AmountOptions): Big | string {
  const { text, kind } = cell;
  switch (kind) {
    case 'empty':
      return 'the cell is empty; an amount is needed';
    case 'error':
      return errorReason(cell);
    case 'boolean':
      return `${shown(text)} is a truth value, not an amount`;
    case 'date':
      return `${shown(cell.raw)} is formatted as a date; format the cell as a number`;
    case 'percent':
      return `${shown(cell.raw)} is formatted as a percentage; write the amount itself, formatted as a number`;
    case 'altered':
      return alteredReason(cell.raw);
    case 'number':
    case 'formatted':
    case 'text':
  }
  const mark = kind === 'text' ? options.mark : null;
  const number = plainText(text, mark);
  if (number === undefined) return reason(text, mark);
  const places = number.split('.')[1]?.length ?? 0;
  if (places > options.decimals)
    return `${shown(text)} has ${places} decimal places; at most ${options.decimals} are allowed`;
  const amount = new Big(number);
  if (amount.c.length > significantDigits)
    return `${shown(text)} has more than ${significantDigits} significant digits`;
  return amount;
}

/** What a person must decide before the amounts of a sheet can be read. */
export interface MarkQuestion {
  /** The one or two marks with which every amount can be read, each with the value of the first ambiguous amount. */
  readonly readings: readonly { readonly mark: Exclude<DecimalMark, null>; readonly amount: Big }[];
  /** The first ambiguous amount, and how many there are. */
  readonly row: number;
  readonly column: number;
  readonly text: string;
  readonly count: number;
}

/** Finds the marks that explain the separators of all amounts in these columns. Null if none does, or none is needed. */
export function markQuestion(
  rows: Iterable<SheetRow>,
  columns: readonly number[],
  decimals: number,
): MarkQuestion | null {
  const texts = (): Iterable<AmountText> => amountTexts(rows, columns);
  let first: AmountText | undefined;
  let count = 0;
  for (const each of texts()) {
    if (!separated.test(each.text)) continue;
    first ??= each;
    count += 1;
  }
  if (first === undefined) return null;
  const { row, column, text, cell } = first;
  const readings = (['comma', 'point'] as const).flatMap((mark) => {
    const amount = amountOf(cell, { decimals, mark });
    if (typeof amount === 'string') return [];
    for (const each of texts()) {
      if (typeof amountOf(each.cell, { decimals, mark }) === 'string') return [];
    }
    return [{ mark, amount }];
  });
  return readings.length === 0 ? null : { row, column, text, count, readings };
}

interface AmountText {
  readonly row: number;
  readonly column: number;
  readonly cell: SheetCell;
  readonly text: string;
}

/** The text cells with nothing but digits and separators. A generator, since a sheet may have a million of them. */
function* amountTexts(rows: Iterable<SheetRow>, columns: readonly number[]): Generator<AmountText> {
  for (const { row, cells } of rows) {
    for (const column of columns) {
      const cell = cells[column];
      if (cell?.kind === 'text' && digitsAlone.test(cell.text)) yield { row, column, cell, text: cell.text };
    }
  }
}
