/**
 * Text for people: numbers and sizes in words, and text that no terminal can be commanded by. What servers, files and people
 * give may hold control sequences that write to the clipboard, hide a line or turn its letters round.
 */

/**
 * C0 and C1 but for tabs and line breaks, a return that begins no new line, and what turns the direction of writing or
 * cannot be seen.
 */
const dangerous =
  /[[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFDD0-\uFDEF\uFFF9-\uFFFB\u{E0000}-\u{E007F}]--[\t\n\r]]|\r(?!\n)/gv;

/** Each dangerous character as JSON writes it, which shows it to a person and leaves JSON what it is. */
export function harmless(text: string): string {
  return text.replaceAll(dangerous, (characters) =>
    Array.from({ length: characters.length }, (_, at) => {
      return `\\u${characters.charCodeAt(at).toString(16).padStart(4, '0')}`;
    }).join(''),
  );
}

/** The same on one line: what stands in it cannot pass for a line of ours. */
export function onOneLine(text: string): string {
  return harmless(text.replaceAll(/[\t\n\r]+/g, ' '));
}

let word: string | undefined;

/** What makes a style ours: nobody who writes data can know it. A process that styles text for this one gets it. */
export function styleWord(): string {
  return (word ??= crypto.randomUUID());
}

/** As a style is written until the terminal gets it. @param known the word of the process that writes there */
export function styleMark(code: number | string, known = styleWord()): string {
  return `\uFDD0${known}:${code}\uFDD1`;
}

function ownStyle(): RegExp {
  return new RegExp(`\uFDD0${styleWord()}:([\\d;]+)\uFDD1`, 'g');
}

/** What is written to a terminal: harmless, with the styles that are ours. */
export function forTerminal(text: string): string {
  // Between the texts stand the numbers of styles.
  const pieces = text.split(ownStyle());
  return pieces.map((piece, at) => (at % 2 === 0 ? harmless(piece) : `\u001B[${piece}m`)).join('');
}

/** The part of a regular expression that is just this text. `RegExp.escape` is younger than the oldest Node that runs the program. */
export function escapedPattern(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
}

/** A value that somebody gave, as JSON; numbers that JSON does not know, and has as null, by their names. */
export function valueText(value: unknown): string {
  if (typeof value === 'number') return String(value);
  return Array.isArray(value) ? `[${value.map(valueText).join(',')}]` : JSON.stringify(value);
}

/** What a text names, with commas between. */
export function wordsIn(text: string): string[] {
  return text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');
}

/** `1,234,567`. `Intl` would do the same, and takes 12 ms to load its tables. */
export function grouped(count: number | bigint): string {
  return String(count).replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
}

/** `1 window`, `2 windows`, `1,234 rows`. @param many where it is not the one with an s */
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

/** The text as every database gives it back: PostgreSQL has no character NUL, and neither has half a surrogate pair. */
export function storable(text: string): string {
  return text.isWellFormed() && !text.includes('\0') ? text : text.toWellFormed().replaceAll('\0', '\u{FFFD}');
}
