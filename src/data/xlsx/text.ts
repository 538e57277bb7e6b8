/** Text as a sheet may hold it. */

/** Characters that one cell may hold, in UTF-16 units as the format counts them. */
export const longestText = 32_767;

// What XML cannot hold, or would not give back (a carriage return), and what looks like the sign for it.
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const unwritable = /[\0-\x08\v\f\r\x0E-\x1F\uFFFE\uFFFF]|_(?=x[0-9A-Fa-f]{4}_)/;
const everyUnwritable = new RegExp(unwritable, 'g');
const special = new RegExp(`[&<>]|${unwritable.source}`);

function sign(character: string): string {
  return `_x${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}_`;
}

/** The text for the inside of an element. */
export function escaped(text: string): string {
  if (!special.test(text)) return text;
  return text
    .replaceAll(everyUnwritable, sign)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;');
}

/** The text, cut where it is too long; never between the two halves of a character. */
export function fitting(text: string): string {
  if (text.length <= longestText) return text;
  const isHalf = text.codePointAt(longestText - 1) !== text.charCodeAt(longestText - 1);
  return text.slice(0, isHalf ? longestText - 1 : longestText);
}

// Blanks at an end, two in a row and line breaks would be joined into one without the mark to keep them.
const blanks = /^\s|\s$|\s\s|[\t\n]/;

/** The content of a cell of text. */
export function textElement(text: string): string {
  return `<t${blanks.test(text) ? ' xml:space="preserve"' : ''}>${escaped(text)}</t>`;
}
