/** How a window is asked for: a range of days that is wide enough whatever the server's rule (pure). */
import type { Capabilities } from '../api/capabilities.ts';
import { coverageOf, eraEnd, eraStart, type DayRange } from '../model/era.ts';
import { addDays, dayOf, parseInstant } from '../model/time.ts';

/**
 * The two days to send for the half-open window, both as the server reads them; null where no range can ask for it. A
 * server may take the second day as its midnight or as the whole day, and count days in its own time zone: where that
 * was not measured, a day more is asked for at either side. What lies outside the window is left alone.
 */
export function askedRange(window: DayRange, capabilities: Capabilities): DayRange | null {
  if (coverageOf(window) !== 'days') return null;
  const shifted = capabilities.dayShiftMinutes !== 0;
  const from = shifted && window.from > eraStart ? addDays(window.from, -1) : window.from;
  const lastWhole = capabilities.rangeEnd === 'inclusive' ? addDays(window.to, -1) : window.to;
  const to = shifted && lastWhole < eraEnd ? addDays(lastWhole, 1) : lastWhole;
  return { from, to };
}

/** Whether the server cannot have kept to the range: a record lies days outside of it, whatever the rule. */
export function breaksRange(range: DayRange, createdAt: unknown): boolean {
  const created = parseInstant(createdAt);
  if (created === undefined) return false;
  const day = dayOf(created);
  return day < addDays(range.from, -1) || (range.to < eraEnd && day > addDays(range.to, 1));
}
