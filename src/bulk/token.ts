/**
 * The token of a row: sent at the end of a text that the server keeps, and looked for afterwards. Section "Writing" of
 * docs/architecture.md.
 */
import { randomBytes } from 'node:crypto';

/** Base 32, without characters that are easily misread. */
const letters = 'abcdefghijklmnopqrstuvwxyz234567';
const tokenLetters = 12;

/** Random letters for the next tokens. They are made for many tokens at once, since a plan needs one for each row. */
let ready = '';

/** `am:` and 12 letters: 60 bits, so that no two tokens of any journal are the same. */
export function newToken(): string {
  if (ready === '') ready = Array.from(randomBytes(1_000 * tokenLetters), (byte) => letters.charAt(byte & 31)).join('');
  const token = `am:${ready.slice(0, tokenLetters)}`;
  ready = ready.slice(tokenLetters);
  return token;
}

export function withToken(text: string | null, token: string): string {
  return text === null || text === '' ? token : `${text} ${token}`;
}

/** The word of the text that could be taken for a token, or for part of one; undefined if there is none. */
export function tokenLike(text: string): string | undefined {
  return text.split(/\s+/).find((word) => /am:[a-z2-7]/i.test(word));
}

export const tokenLength = ' am:'.length + tokenLetters;

/** Where actions put the token: at the end of a text, or in an HTML comment there, which a server may escape. */
const atEnd = /(?:^|\s)(am:[a-z2-7]{12})(?:\s+--(?:>|&gt;))?\s*$/;
const cutAtEnd = /(?:^|\s)(am:[a-z2-7]{0,11})$/;

/**
 * The token at the end of the text, in lower case; undefined if there is none. A token anywhere else does not count: somebody may
 * write about one, and `Team:blue bonus` holds none.
 */
export function tokenAtEnd(text: string): string | undefined {
  return atEnd.exec(text.toLowerCase())?.[1];
}

/** Whether the text may have ended with this token before it was cut: it ends with no token, and with no part of another. */
export function mayHaveLost(text: string, token: string): boolean {
  if (tokenAtEnd(text) !== undefined) return false;
  const part = cutAtEnd.exec(text.toLowerCase())?.[1];
  return part === undefined || token.startsWith(part);
}

/** The words for a change that takes back what was made too often. `saysCorrection` looks for them. */
export const correctionOf = (token: string): string => `Correction of ${token}`;

/** Whether the text says anywhere, in any case, that the change corrects what was made with this token. */
export function saysCorrection(text: string, token: string): boolean {
  const [, ...rest] = text.toLowerCase().split(correctionOf(token).toLowerCase());
  // Behind the token, no letter or digit: that would be another word.
  return rest.some((each) => !/^[a-z0-9]/.test(each));
}
