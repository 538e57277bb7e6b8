/**
 * The mark of one row: it goes out at the end of a text that the server keeps, and is looked for afterwards. Section
 * "Writing" of docs/architecture.md.
 */
import { randomBytes } from 'node:crypto';

/** Base 32 without what is easily misread. */
const letters = 'abcdefghijklmnopqrstuvwxyz234567';
const tokenLetters = 12;

/** `am:` and 12 letters: 60 bits, so that no two of any journal are the same. */
export function newToken(): string {
  let text = '';
  for (const byte of randomBytes(tokenLetters)) text += letters[byte & 31] ?? '';
  return `am:${text}`;
}

/** The text with the token at its end. */
export function withToken(text: string | null, token: string): string {
  return text === null || text === '' ? token : `${text} ${token}`;
}

/** How many characters the token adds to a text. */
export const tokenLength = ' am:'.length + tokenLetters;

/** What the text holds of a token: all of it, or the part that a cut left; undefined where there is none. */
export function tokenPartIn(text: string): string | undefined {
  return /am:[a-z2-7]{0,12}/.exec(text)?.[0];
}
