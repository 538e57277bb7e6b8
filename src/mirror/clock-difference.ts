/**
 * This machine's clock beside the server's. A clock that was ahead would make the mirror fresh until it is caught up with.
 * Section "Windows and walks" of docs/architecture.md.
 */
import { minuteMs, secondMs, timestampOf, type Timestamp } from '../model/time.ts';
import type { MirrorStore } from './store/mirror-store.ts';

/** `Date` headers are cut to seconds, and responses take some time. */
const noiseMs = 2 * secondMs;

/** From here on the difference is reported. */
const reportedMs = 2 * minuteMs;

/** The time by whichever clock was behind. @param aheadMs by how much the server's is ahead */
export function byEarlierClock(at: Timestamp, aheadMs: number): Timestamp {
  return aheadMs < -noiseMs ? timestampOf(Date.parse(at) + aheadMs - noiseMs) : at;
}

/** Puts a difference that matters on record; gives the words for it, undefined where there is none. */
export function noteClockDifference(
  store: Pick<MirrorStore, 'recordEvent'>,
  run: string,
  aheadMs: number,
): string | undefined {
  if (Math.abs(aheadMs) < reportedMs) return undefined;
  const side = aheadMs > 0 ? 'behind' : 'ahead of';
  const minutes = Math.round(Math.abs(aheadMs) / minuteMs);
  const detail = `this machine's clock is ${minutes} min ${side} the server's; how fresh the mirror is goes by the earlier of the two`;
  store.recordEvent(run, { resource: null, kind: 'clock_differs', subject: run, detail });
  return detail;
}
