/** Names of runs. */
import { randomUUID } from 'node:crypto';
import { type Clock, timestampOf } from './time.ts';

/** Sorts by time, and two of the same moment differ: `20260311T021500-1f0c9a3e`. */
export function runId(clock: Clock): string {
  return `${timestampOf(clock.now()).slice(0, 19).replaceAll(/[-:]/g, '')}-${randomUUID().slice(0, 8)}`;
}
