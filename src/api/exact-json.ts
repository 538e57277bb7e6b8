/**
 * Parses and writes JSON without changing a number: one that a double cannot hold becomes a bigint or stays text, and
 * amounts are written digit for digit.
 */
import { Big } from 'big.js';

/** From this many digits and points in a row, a number may not fit into a double; 15 digits always do. */
const longRun = 16;
const period = 0x2e;
const zero = 0x30;
const nine = 0x39;

/**
 * Whether the text has 16 digits or points in a row anywhere. Such a run covers one of every 16 positions, so it is enough
 * to look at those, in a sixteenth of the time.
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

/** A number with an exponent of three digits, which may be beyond the range of a double. */
const longExponent = /[:,[\s]-?\d[\d.]*e[+-]?\d{3}/i;

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

interface JsonWithRaw {
  rawJSON(text: string): object;
}

/** Returns a value that `JSON.stringify` writes in exactly these digits. Throws a SyntaxError if the text is not valid JSON. */
export function exactNumber(text: string): object {
  return (JSON as unknown as JsonWithRaw).rawJSON(text);
}

/** Writes JSON, with bigints as plain numbers. */
export function stringifyExactly(value: unknown, indent?: number): string {
  const replace = (_: string, each: unknown) => (typeof each === 'bigint' ? exactNumber(String(each)) : each);
  return JSON.stringify(value, replace, indent);
}

/** SQLite reads JSON of at most a thousand levels; `JSON.stringify` overflows its stack at some thousands. */
const maxLevels = 1_000;

/** Whether arrays and objects are nested too deeply to be stored. Takes a tenth of the time of parsing a page. */
export function isTooDeep(parsed: unknown, levels = maxLevels): boolean {
  if (typeof parsed !== 'object' || parsed === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(parsed)) return parsed.some((each) => isTooDeep(each, levels - 1));
  // Not Object.values: making the list would take twice as long as looking at the values.
  const record = parsed as Readonly<Record<string, unknown>>;
  for (const name in record) {
    const value = record[name];
    if (typeof value === 'object' && isTooDeep(value, levels - 1)) return true;
  }
  return false;
}
