/** JSON without a changed number: one that a double cannot hold becomes a bigint or stays text. */
import { Big } from 'big.js';

/** Longer numbers stay text: calculating with ten million digits takes a minute. */
const maxDigits = 1_000;

/** Returns a number as a double if that is exact, else as a bigint if it is an integer, else as its text. */
function exactValue(value: number, source: string): number | bigint | string {
  if (source.length > maxDigits) return source;
  if (/^-?\d+$/.test(source)) return Number.isSafeInteger(value) ? value : BigInt(source);
  return Number.isFinite(value) && new Big(source).eq(new Big(String(value))) ? value : source;
}

type ReviverWithSource = (key: string, value: unknown, context?: { readonly source?: string }) => unknown;

const reviveExactly: ReviverWithSource = (_, value, context) =>
  typeof value === 'number' && context?.source !== undefined ? exactValue(value, context.source) : value;

/**
 * Parses a body. Integers beyond 2^53 become bigints, and decimals that a double would change stay text. The slow parser
 * that this takes runs only if the text may hold such a number. Throws a SyntaxError if the body is not JSON.
 */
export function parseExactly(text: string): unknown {
  if (!hasLongNumber(text) && !longExponent.test(text)) return JSON.parse(text) as unknown;
  return JSON.parse(text, reviveExactly as Parameters<typeof JSON.parse>[1]) as unknown;
}

/** A number with an exponent of three digits, which may be beyond the range of a double. */
const longExponent = /[:,[\s]-?\d[\d.]*e[+-]?\d{3}/i;
/** From this many digits and points in a row, a number may not fit into a double; 15 digits always do. */
const longRun = 16;

/**
 * Whether the text has 16 digits or points in a row anywhere. Such a run covers one of every 16 positions, so it is enough
 * to look at those, in a sixteenth of the time.
 */
function hasLongNumber(text: string): boolean {
  for (let at = longRun - 1; at < text.length; at += longRun) {
    if (!isNumeric(text, at)) continue;
    let [first, last] = [at, at];
    while (first > 0 && isNumeric(text, first - 1)) first -= 1;
    while (isNumeric(text, last + 1)) last += 1;
    if (last - first + 1 >= longRun) return true;
  }
  return false;
}

/** Whether a digit or a point is there. */
function isNumeric(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return (code >= 0x30 && code <= 0x39) || code === 0x2e;
}

/** Returns a value that `JSON.stringify` writes in exactly these digits. Throws a SyntaxError if the text is not valid JSON. */
export function exactNumber(text: string): object {
  // The library's types do not have it yet.
  return (JSON as typeof JSON & { rawJSON(text: string): object }).rawJSON(text);
}

/** Parses JSON, with each number as an `exactNumber` of its own digits. Throws a SyntaxError if the text is not JSON. */
export function parseDigits(text: string): unknown {
  const revive: ReviverWithSource = (_, value, context) =>
    typeof value === 'number' && context?.source !== undefined ? exactNumber(context.source) : value;
  return JSON.parse(text, revive as Parameters<typeof JSON.parse>[1]) as unknown;
}

/** Writes JSON, with bigints as plain numbers. */
export function stringifyExactly(value: unknown, indent?: number): string {
  const replace = (_: string, each: unknown) => (typeof each === 'bigint' ? exactNumber(String(each)) : each);
  return JSON.stringify(value, replace, indent);
}
