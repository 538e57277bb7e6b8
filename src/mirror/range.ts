/** How a window is asked for: a range of days that is wide enough whatever the server's rule (pure). */
import type { Capabilities } from '../api/capabilities.ts';
import { coverageOf, eraEnd, eraStart, outsideStart, type DayRange } from '../model/era.ts';
import { addDays } from '../model/time.ts';

/**
 * The two days to send for the half-open window, both as the server reads them; null where no range can ask for it. A
 * server may take the second day as its midnight or as the whole day, and count days in its own time zone: where that
 * was not measured, a day more is asked for at either side. What lies outside the window is left alone.
 */
export function requestedRange(window: DayRange, capabilities: Capabilities): DayRange | null {
  if (coverageOf(window) !== 'days') return null;
  const shifted = capabilities.dayShiftMinutes !== 0;
  const from = shifted && window.from > eraStart ? addDays(window.from, -1) : window.from;
  const lastWhole = capabilities.rangeEnd === 'inclusive' ? addDays(window.to, -1) : window.to;
  const to = shifted && lastWhole < eraEnd ? addDays(lastWhole, 1) : lastWhole;
  return { from, to };
}

/** Days in which records of the range may have been created, whatever the server's rule. */
export function reachOf(range: DayRange): DayRange {
  return {
    from: range.from > eraStart ? addDays(range.from, -1) : eraStart,
    to: range.to < eraEnd ? addDays(range.to, 2) : eraEnd,
  };
}

/**
 * Tells records that show that the server cannot have kept to the range: created days outside of it, whatever the rule.
 * Compares text, which timestamps in ISO 8601 allow: this is asked of every record that is read.
 */
export function rangeBreaker(range: DayRange): (createdAt: unknown) => boolean {
  const from = range.from > eraStart ? addDays(range.from, -1) : outsideStart;
  // The day after the last possible one is no longer four digits of a year.
  const to = range.to < eraEnd ? addDays(range.to, 2) : null;
  return (createdAt) =>
    typeof createdAt === 'string' && startsWithDay(createdAt) && (createdAt < from || (to !== null && createdAt >= to));
}

const dash = 45;

/** Whether the text begins like `2026-03-11`; anything else says nothing of a range. */
function startsWithDay(text: string): boolean {
  return text.charCodeAt(4) === dash && text.charCodeAt(7) === dash;
}
