/** The parts that lines of progress are made of. */
import { secondMs } from '../model/time.ts';

/** `2:05`, or `1:02:03` from an hour on. */
export function durationText(ms: number): string {
  const seconds = Math.round(ms / secondMs);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const [hours = 0, minutes = 0, rest = 0] = parts;
  const tail = `${String(minutes).padStart(hours > 0 ? 2 : 1, '0')}:${String(rest).padStart(2, '0')}`;
  return hours > 0 ? `${hours}:${tail}` : tail;
}

const barWidth = 24;

/** A bar filled to that share, 0 to 1. */
export function barOf(share: number): string {
  const filled = Math.round(share * barWidth);
  return '█'.repeat(filled) + '░'.repeat(barWidth - filled);
}
