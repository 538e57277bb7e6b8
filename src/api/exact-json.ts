/**
 * JSON in and out without harm to numbers: what a double cannot hold is kept as a bigint or as the text it was written
 * in, and an amount goes out digit for digit.
 */
import { Big } from 'big.js';

/** Digits and points in a row from which on a number may be more than a double holds; 15 digits always fit. */
const longRun = 16;
const period = 0x2e;
const zero = 0x30;
const nine = 0x39;

/**
 * Whether the text holds 16 digits or points in a row anywhere. A run of 16 covers one of every 16 positions, so
 * looking at those is enough; the response is known in a sixteenth of the time it takes to look at all.
 */
export function hasLongNumber(text: string): boolean {
  const isNumeric = (at: number): boolean => {
    const code = text.charCodeAt(at);
    return (code >= zero && code <= nine) || code === period;
  };
  for (let at = longRun - 1; at < text.length; at += longRun) {
    if (!isNumeric(at)) continue;
    let first = at;
    while (first > 0 && isNumeric(first - 1)) first -= 1;
    let last = at;
    while (isNumeric(last + 1)) last += 1;
    if (last - first + 1 >= longRun) return true;
  }
  return false;
}

/** An exponent of three digits, which may be more or less than a double can be, behind what a number stands behind. */
const longExponent = /[:,[\s]-?\d[\d.]*e[+-]?\d{3}/i;

/** Longer numbers stay text: to calculate with ten million digits takes a minute. */
const mostDigits = 1_000;

/** A number of the text: a double where that is exact, else a bigint, else the text itself. */
function exactly(value: number, source: string): number | bigint | string {
  if (source.length > mostDigits) return source;
  if (/^-?\d+$/.test(source)) return Number.isSafeInteger(value) ? value : BigInt(source);
  return Number.isFinite(value) && new Big(source).eq(new Big(String(value))) ? value : source;
}

type ReviverWithSource = (key: string, value: unknown, context?: { readonly source?: string }) => unknown;

const reviveExactly: ReviverWithSource = (_, value, context) =>
  typeof value === 'number' && context?.source !== undefined ? exactly(value, context.source) : value;

/**
 * Parses a body. Integers beyond 2^53 become bigints, decimals that a double would change stay text; the slower way
 * that this takes is used only where such a number may be there. Throws a SyntaxError where the body is not JSON.
 */
export function parseExactly(text: string): unknown {
  if (!hasLongNumber(text) && !longExponent.test(text)) return JSON.parse(text) as unknown;
  return JSON.parse(text, reviveExactly as Parameters<typeof JSON.parse>[1]) as unknown;
}

interface JsonWithRaw {
  rawJSON(text: string): object;
}

/** A number that JSON shall hold in exactly these digits. `JSON.rawJSON` refuses what is no JSON number. */
export function exactNumber(text: string): object {
  return (JSON as unknown as JsonWithRaw).rawJSON(text);
}

/** JSON text in which bigints stand as plain numbers. */
export function stringifyExactly(value: unknown, indent?: number): string {
  const replace = (_: string, each: unknown) => (typeof each === 'bigint' ? exactNumber(String(each)) : each);
  return JSON.stringify(value, replace, indent);
}

/** SQLite reads JSON of a thousand levels, and what writes it runs out of room at some thousands more. */
const mostLevels = 1_000;

/** Whether lists and objects stand in each other more deeply than can be kept. Of a page, it takes a tenth of its parsing. */
export function isTooDeep(parsed: unknown, levels = mostLevels): boolean {
  if (typeof parsed !== 'object' || parsed === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(parsed)) return parsed.some((each) => isTooDeep(each, levels - 1));
  // The names alone: making a list of the values would take twice as long as looking at them.
  const record = parsed as Readonly<Record<string, unknown>>;
  for (const name in record) {
    const value = record[name];
    if (typeof value === 'object' && isTooDeep(value, levels - 1)) return true;
  }
  return false;
}
