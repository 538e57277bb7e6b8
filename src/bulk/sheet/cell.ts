/** What a cell says, from what stands in it. */
import type { SheetCell } from './sheet.ts';

// Spaces of all kinds, and what has no width: zero-width spaces and joiners, marks of direction, the soft hyphen.
const blank = String.raw`\s\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff`;
const ends = new RegExp(`^[${blank}]+|[${blank}]+$`, 'gu');
/** What spreadsheet programs write where a formula failed; LibreOffice numbers some of its errors. */
const errorValue =
  /^(?:#(?:N\/A|DIV\/0!|REF!|VALUE!|NAME\?|NUM!|NULL!|SPILL!|CALC!|FIELD!|BLOCKED!|CONNECT!|GETTING_DATA)|Err:\d{3})$/;
const edge = /^[!-~]$/;

export const emptyCell: SheetCell = { text: '', raw: '', kind: 'empty' };

/** The text without spaces and what has no width at its ends. */
export function trimmed(text: string): string {
  // Nearly every text begins and ends with a plain character, and there are millions of them.
  if (edge.test(text.charAt(0)) && edge.test(text.charAt(text.length - 1))) return text;
  return text.replace(ends, '');
}

/** Whether more than plain spaces went when the cell was trimmed: what nobody sees in a spreadsheet program. */
export function hadUnseen({ text, raw, kind }: SheetCell): boolean {
  if (text === '' || raw.length === text.length || (kind !== 'text' && kind !== 'error')) return false;
  const start = raw.indexOf(text);
  return /[^ \t\r\n]/.test(raw.slice(0, start) + raw.slice(start + text.length));
}

/** A cell of text: an error that a spreadsheet program wrote out as text is still one. */
export function textCell(raw: string): SheetCell {
  const text = trimmed(raw);
  if (text === '') return raw === '' ? emptyCell : { text, raw, kind: 'empty' };
  const isError = (text.startsWith('#') || text.startsWith('Err:')) && errorValue.test(text);
  return { text, raw, kind: isError ? 'error' : 'text' };
}

const significant = (number: string): number =>
  number.replace(/e.*$/i, '').replace(/\D/g, '').replace(/^0+/, '').length;

/**
 * A number out of an .xlsx. Its numbers are doubles, and Excel writes each with 17 digits where fewer do not fall on it:
 * 0.58, typed in, is stored as 0.57999999999999996, and 0.0796 as 7.9600000000000004E-2. The text is therefore the
 * shortest that means the same double, if it has no more than the 15 digits that a person can have typed. A sum such as
 * 0.30000000000000004 is another double than 0.3, and stays what it is; so does what is as large as 1E+20.
 */
export function storedNumberCell(raw: string, kind: 'number' | 'percent'): SheetCell {
  if (significant(raw) <= 15 && !/e/i.test(raw)) return { text: raw, raw, kind };
  const shortest = String(Number(raw));
  const asTyped = !/e\+?\d/i.test(raw) && significant(shortest) <= 15;
  return { text: asTyped ? shortest : raw, raw, kind };
}

/** What is wrong with a cell of kind `error`; the raw text of a formula without a value begins with `=`. */
export function errorReason(cell: SheetCell): string {
  if (cell.raw.startsWith('=')) {
    return `the formula ${shown(cell.raw)} has no stored value, or an outdated one; open the file in a spreadsheet program and save it there, or write the value itself`;
  }
  return `the cell holds the error ${shown(cell.raw)}; correct its formula, or write the value itself`;
}

const longest = 60;
/** What a terminal would obey, or nobody would see: controls, zero-width and direction marks, odd spaces. */
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{a0}\u{2000}-\u{200a}\u{202f}\u{205f}\u{3000}\u{2800}\u{3164}\p{Cs}]/gu;

/** In quotes, with unseen characters as `\u{a0}`, cut after 60 characters. */
export function shown(text: string): string {
  // Code points, so that no surrogate pair is cut in two.
  const characters = Array.from(text.slice(0, 2 * (longest + 1)));
  const part = characters.length > longest ? `${characters.slice(0, longest).join('')}…` : text;
  return `"${part.replace(unseen, (each) => `\\u{${(each.codePointAt(0) ?? 0).toString(16)}}`)}"`;
}
