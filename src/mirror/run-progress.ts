/** How far a run is, from what it has put on record (pure). */
import type { ResourceName } from '../model/resources.ts';
import { parseInstant } from '../model/time.ts';
import type { RunDetail } from '../store/mirror-types.ts';

export interface RunProgress {
  readonly records: number;
  /** Records that it set out to read; null where it does not know yet, or was of a version that did not note it. */
  readonly expected: number | null;
  readonly requests: number;
  /** Pages of the records that it expects, a request each at the least; null where these are not known. */
  readonly expectedRequests: number | null;
  /** At the pace so far; null where that cannot be told, and of a run that has ended. */
  readonly leftMs: number | null;
}

/** The sum over the resources. Windows that are read twice bring more records than were expected. */
export function runProgress(
  { status, started_at, resources, expected }: RunDetail,
  pageSizes: ReadonlyMap<ResourceName, number>,
  now: number,
): RunProgress {
  const parts = Object.entries(resources) as [ResourceName, { readonly received: number; readonly requests: number }][];
  const records = parts.reduce((sum, [, { received }]) => sum + received, 0);
  const requests = parts.reduce((sum, [, each]) => sum + each.requests, 0);
  const known = Object.entries(expected) as [ResourceName, number][];
  const whole = known.length === 0 ? null : known.reduce((sum, [, count]) => sum + count, 0);
  const pages = known.reduce((sum, [name, count]) => sum + Math.ceil(count / (pageSizes.get(name) ?? 1)), 0);
  const spentMs = now - (parseInstant(started_at) ?? now);
  const isTold = status === 'running' && whole !== null && records > 0 && records < whole && spentMs > 0;
  return {
    records,
    expected: whole,
    requests,
    expectedRequests: whole === null ? null : pages,
    leftMs: isTold ? (spentMs / records) * (whole - records) : null,
  };
}
