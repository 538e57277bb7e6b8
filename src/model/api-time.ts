/** Times exactly as the API writes them, `2026-03-11T10:00:00.000000Z`, taken apart without losing a digit. */

const form = 'dddd-dd-ddTdd:dd:dd.ddddddZ';
const marks = Array.from(form).flatMap((mark, at) => (mark === 'd' ? [] : [{ at, code: mark.charCodeAt(0) }]));

function digits(text: string, at: number, count: number): number {
  let value = 0;
  for (let index = at; index < at + count; index += 1) {
    const digit = text.charCodeAt(index) - 48;
    if (digit < 0 || digit > 9) return Number.NaN;
    value = value * 10 + digit;
  }
  return value;
}

const monthLengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function daysIn(year: number, month: number): number {
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return month === 2 && isLeap ? 29 : (monthLengths[month - 1] ?? 0);
}

/** NaN where the text is no such time, or one that no calendar has. Many times quicker than `Date.parse`. */
export function wholeSeconds(text: string): number {
  if (text.length !== form.length) return Number.NaN;
  for (const { at, code } of marks) if (text.charCodeAt(at) !== code) return Number.NaN;
  const year = digits(text, 0, 4);
  const month = digits(text, 5, 2);
  const day = digits(text, 8, 2);
  const hour = digits(text, 11, 2);
  const minute = digits(text, 14, 2);
  const second = digits(text, 17, 2);
  // Date.UTC takes years below 100 for those of the last century.
  const isTime = year >= 100 && hour < 24 && minute < 60 && second < 60 && microseconds(text) >= 0;
  if (!isTime || !(day >= 1 && day <= daysIn(year, month))) return Number.NaN;
  return Date.UTC(year, month - 1, day, hour, minute, second) / 1000;
}

/** The microseconds behind the whole seconds. */
export function microseconds(text: string): number {
  return digits(text, 20, 6);
}

/** Microseconds since 1970 of a text that is such a time. */
function microsecondsSince1970(text: string): bigint {
  const seconds = wholeSeconds(text);
  const rest = microseconds(text);
  // Up to the year 2255 a number of JavaScript holds them, which is quicker.
  return Math.abs(seconds) < 9e9 ? BigInt(seconds * 1e6 + rest) : BigInt(seconds) * 1_000_000n + BigInt(rest);
}

/** The same of any way to write an instant that loses nothing: other fractions, a blank, an offset; undefined of other text. */
export function instantMicroseconds(text: string): bigint | undefined {
  if (!Number.isNaN(wholeSeconds(text))) return microsecondsSince1970(text);
  const [, day, time, fraction = '', zone = 'Z'] =
    /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:\d\d)?$/.exec(text) ?? [];
  if (day === undefined || time === undefined) return undefined;
  const seconds = wholeSeconds(`${day}T${time}.000000Z`);
  const shifted = Date.parse(`${day}T${time}${zone}`);
  if (Number.isNaN(seconds) || Number.isNaN(shifted)) return undefined;
  return BigInt(shifted) * 1_000n + BigInt(fraction.padEnd(6, '0'));
}
