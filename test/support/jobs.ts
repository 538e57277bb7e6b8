/** Jobs as the settings return them. */
import type { Job } from '../../src/model/job.ts';

/** A nightly job at 02:15 UTC by default. */
export function jobOf(name: string, more: Partial<Job> = {}): Job {
  return {
    name,
    run: 'sync',
    call: { path: ['sync'], operands: [], options: {} },
    cron: '15 2 * * *',
    timezone: 'UTC',
    after: [],
    requireComplete: false,
    ...more,
  };
}
