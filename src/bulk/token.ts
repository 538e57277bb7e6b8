/**
 * The mark of one row: it goes out at the end of a text that the server keeps, and is looked for afterwards. Section
 * "Writing" of docs/architecture.md.
 */
import { randomBytes } from 'node:crypto';

/** Base 32 without what is easily misread. */
const letters = 'abcdefghijklmnopqrstuvwxyz234567';
const tokenLetters = 12;

/** Random letters are fetched for many tokens at once: a plan needs one for each of its rows. */
let ready = '';

/** `am:` and 12 letters: 60 bits, so that no two of any journal are the same. */
export function newToken(): string {
  if (ready === '') ready = Array.from(randomBytes(1_000 * tokenLetters), (byte) => letters.charAt(byte & 31)).join('');
  const token = `am:${ready.slice(0, tokenLetters)}`;
  ready = ready.slice(tokenLetters);
  return token;
}

export function withToken(text: string | null, token: string): string {
  return text === null || text === '' ? token : `${text} ${token}`;
}

/** The word of a text that could be taken for a token, or for what a cut left of one; undefined where there is none. */
export function tokenLike(text: string): string | undefined {
  return /\S*am:[a-z2-7]\S*/i.exec(text)?.[0];
}

export const tokenLength = ' am:'.length + tokenLetters;

/** Where an action puts its token: at the end of a text, or in a comment of HTML at its end, which a server may escape. */
const atEnd = /(?:^|\s)(am:[a-z2-7]{12})(?:\s+--(?:>|&gt;))?\s*$/;
const cutAtEnd = /(?:^|\s)(am:[a-z2-7]{0,11})$/;

/**
 * The token with which the text ends, in small letters; undefined where there is none. A mark anywhere else is somebody's
 * words: `Team:blue bonus` holds no token, and neither does a text about another one.
 */
export function tokenAtEnd(text: string): string | undefined {
  return atEnd.exec(text.toLowerCase())?.[1];
}

/** Whether the text may be one with this token of which the end was cut off: it ends with no token, and no part of another. */
export function mayHaveLost(text: string, token: string): boolean {
  if (tokenAtEnd(text) !== undefined) return false;
  const part = cutAtEnd.exec(text.toLowerCase())?.[1];
  return part === undefined || token.startsWith(part);
}
