/** A point in time as an operator writes it: an instant, a day, or how long ago. */
import { dayMs, parseDay, parseDuration, parseInstant, startOfDay } from './time.ts';

/** The words for it in errors and help. */
export const momentForms = 'a time such as 2026-03-11T10:00:00Z, a day such as 2026-03-11, or how long ago, as in 7d';

/** In ms since 1970, UTC where no offset is given. @param dayEnd a day stands for its last millisecond */
export function parseMoment(text: string, now: number, dayEnd = false): number | undefined {
  const trimmed = text.trim();
  const day = parseDay(trimmed);
  if (day !== undefined) return startOfDay(day) + (dayEnd ? dayMs - 1 : 0);
  const ago = parseDuration(trimmed);
  return ago === undefined ? parseInstant(trimmed) : Math.max(0, now - ago);
}
