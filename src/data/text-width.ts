/** How many columns of a terminal a text takes. */

let segmenter: Intl.Segmenter | undefined;

/** Its data takes longer to load than a short answer to print; text of plain letters does without. */
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
