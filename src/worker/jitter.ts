/** How much later than its time a job begins, so that not everybody asks a server at the full hour. */
import { createHash } from 'node:crypto';
import type { Job } from '../model/job.ts';

/** The delay of one occurrence in ms, from 0 up to the job's jitter: drawn by lot, and always the same for the same one. */
export function jitterOf({ name, jitterMs }: Pick<Job, 'name' | 'jitterMs'>, occurrence: number): number {
  if (jitterMs === 0) return 0;
  const lot = createHash('sha256').update(`${name} ${occurrence}`).digest().readUInt32BE(0) / 2 ** 32;
  return Math.floor(lot * jitterMs);
}
