/**
 * Which rows a server counts in a range of days (pure): those that it must count whatever is not known of its rules, and
 * those that it may. Section "Verifying" of docs/architecture.md.
 */
import type { Capabilities } from '../api/capabilities.ts';
import type { DayRange } from '../model/era.ts';
import { dayMs, hourMs, minuteMs, secondMs, startOfDay, timestampOf } from '../model/time.ts';
import type { Stretch } from './store/verify-types.ts';

interface Bounds {
  readonly sure: Stretch;
  readonly possible: Stretch;
}

/** No clock on earth is further from UTC. */
const largestShiftMs = 14 * hourMs;

/** @param range as it is asked for, which is wider than the window where the server's rules are not known */
export function countedStretches(range: DayRange, capabilities: Capabilities): Bounds {
  const { rangeEnd, dayShiftMinutes } = capabilities;
  const [earliest, latest] =
    dayShiftMinutes === 'unknown'
      ? [-largestShiftMs, largestShiftMs]
      : [-dayShiftMinutes * minuteMs, -dayShiftMinutes * minuteMs];
  const start = startOfDay(range.from);
  const midnight = startOfDay(range.to);
  // Whether the very last moment belongs to a range is another rule of each server's, and one second is its extent.
  const sureEnd = rangeEnd === 'inclusive' ? midnight + dayMs - secondMs : midnight;
  const possibleEnd = (rangeEnd === 'exclusive' ? midnight : midnight + dayMs) + secondMs;
  return {
    sure: { from: secondOf(start + latest), to: secondOf(sureEnd + earliest) },
    possible: { from: secondOf(start + earliest), to: secondOf(possibleEnd + latest) },
  };
}

/** Text that sorts before every timestamp of that second, and after those of the one before. */
function secondOf(ms: number): string {
  return timestampOf(ms).slice(0, 'YYYY-MM-DDTHH:MM:SS'.length);
}
