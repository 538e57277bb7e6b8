/**
 * Text for people: numbers and sizes in words, and text that cannot command a terminal. Servers, files and people may send
 * control sequences that write to the clipboard, hide a line or reverse its letters.
 */

/**
 * C0 and C1 except tabs and line breaks, a carriage return without a line feed, and characters that change the direction of
 * writing or are invisible.
 */
const dangerous =
  /[[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFDD0-\uFDEF\uFFF9-\uFFFB\u{E0000}-\u{E007F}]--[\t\n\r]]|\r(?!\n)/gv;

/** Escapes each dangerous character as JSON does, which shows it to a person and keeps JSON valid. */
export function harmless(text: string): string {
  return text.replaceAll(dangerous, (characters) =>
    Array.from({ length: characters.length }, (_, at) => {
      return `\\u${characters.charCodeAt(at).toString(16).padStart(4, '0')}`;
    }).join(''),
  );
}

/** The same on one line, so that no part of it can pass for a line of ours. */
export function onOneLine(text: string): string {
  return harmless(text.replaceAll(/[\t\n\r]+/g, ' '));
}

let word: string | undefined;

/** Marks a style as ours: nobody who writes data can know the word. */
function styleWord(): string {
  return (word ??= crypto.randomUUID());
}

/** Returns a style in the form that it has until it reaches the terminal. */
export function styleMark(code: number | string): string {
  return `\uFDD0${styleWord()}:${code}\uFDD1`;
}

function ownStyle(): RegExp {
  return new RegExp(`\uFDD0${styleWord()}:([\\d;]+)\uFDD1`, 'g');
}

/** Returns what to write to a terminal: harmless text with our own styles. */
export function forTerminal(text: string): string {
  // `split` puts the captured style codes between the texts.
  const pieces = text.split(ownStyle());
  return pieces.map((piece, at) => (at % 2 === 0 ? harmless(piece) : `\u001B[${piece}m`)).join('');
}

// Spaces of all kinds, and characters without width: zero-width spaces and joiners, direction marks, the soft hyphen.
const blank = /[\s\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/;

/** The text without spaces and characters without width at its ends. */
export function trimmed(text: string): string {
  let [from, to] = [0, text.length];
  // By hand: an expression that ends with `+$` begins again at each of the spaces inside a text.
  while (from < to && blank.test(text.charAt(from))) from += 1;
  while (to > from && blank.test(text.charAt(to - 1))) to -= 1;
  return text.slice(from, to);
}

export function withoutEndSlashes(text: string): string {
  let end = text.length;
  while (text.charAt(end - 1) === '/') end -= 1;
  return text.slice(0, end);
}

/** Returns a regular expression that matches exactly this text. The oldest supported Node has no `RegExp.escape`. */
export function escapedPattern(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
}

/** Returns a given value as JSON, but names numbers that JSON would turn into null. */
export function valueText(value: unknown): string {
  if (typeof value === 'number') return String(value);
  return Array.isArray(value) ? `[${value.map(valueText).join(',')}]` : JSON.stringify(value);
}

/** Returns the words of a comma-separated list. */
export function wordsIn(text: string): string[] {
  return text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');
}

/** `1,234,567`. `Intl` would do the same but takes 12 ms to load its tables. */
export function grouped(count: number | bigint | string): string {
  return String(count).replaceAll(/\B(?=(?:\d{3}){1,20}$)/g, ',');
}

/**
 * `1 window`, `2 windows`, `1,234 rows`.
 * @param many the plural, if it is not the singular with an s
 */
export function counted(count: number | bigint, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${Number(count) === 1 ? one : many}`;
}

const units = ['bytes', 'KB', 'MB', 'GB', 'TB'] as const;

/** `980 bytes`, `1.2 GB`, `340 MB`. */
export function bytesText(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  return `${unit === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)} ${units[unit] ?? ''}`;
}

/** Returns the text as every database can store it: PostgreSQL has no NUL character, and neither has half a surrogate pair. */
export function storable(text: string): string {
  return text.isWellFormed() && !text.includes('\0') ? text : text.toWellFormed().replaceAll('\0', '\u{FFFD}');
}

/** A longer text is cut: a debug trace may follow, and it may hold secrets. */
const longestLine = 500;

/** Makes the text one line of bounded length, without control characters, which could command the terminal that shows it. */
export function shortLine(text: string): string {
  return text
    .slice(0, longestLine)
    .replaceAll(/\p{Cc}+/gu, ' ')
    .trim();
}

/** What a request is called on the wire. */
const requestName = /\b(?:GET|POST|PUT|PATCH|DELETE) https?:\/\/\S*[^\s,;:.)]/g;

/** What the system calls an error, behind its words: `(ECONNRESET)`. */
const systemCode = / \((?:E[A-Z]{3,}|UND_ERR_[A-Z_]+|ERR_[A-Z_]+)\)/g;

/** The message for people who send no requests: without the addresses of requests, and without codes of the system. */
export function withoutCodes(message: string): string {
  return message.replaceAll(requestName, 'the request').replaceAll(systemCode, '');
}
