/** Text out of a file, as a message shows it. */

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
