/**
 * The mark of one row: it goes out at the end of a text that the server keeps, and is looked for afterwards. Section
 * "Writing" of docs/architecture.md.
 */
import { randomFillSync } from 'node:crypto';

/** Base 32 without what is easily misread. */
const letters = 'abcdefghijklmnopqrstuvwxyz234567';
const tokenLetters = 12;

/** Random bytes are fetched for many tokens at once: a plan needs one for each of its rows. */
const pool = new Uint8Array(1_000 * tokenLetters);
let used = pool.length;

/** `am:` and 12 letters: 60 bits, so that no two of any journal are the same. */
export function newToken(): string {
  if (used >= pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  let text = 'am:';
  for (const end = used + tokenLetters; used < end; used += 1) text += letters[(pool[used] ?? 0) & 31] ?? '';
  return text;
}

/** The text with the token at its end. */
export function withToken(text: string | null, token: string): string {
  return text === null || text === '' ? token : `${text} ${token}`;
}

/** The word of a text that could be taken for a token, or for what a cut left of one; undefined where there is none. */
export function tokenLike(text: string): string | undefined {
  return /\S*am:[a-z2-7]\S*/i.exec(text)?.[0];
}

/** How many characters the token adds to a text. */
export const tokenLength = ' am:'.length + tokenLetters;

/** What the text holds of a token: all of it, or the part that a cut left; undefined where there is none. */
export function tokenPartIn(text: string): string | undefined {
  return /am:[a-z2-7]{0,12}/.exec(text)?.[0];
}
