/**
 * How many pages the search for deletions requests, compared with an earlier simulation of such a search. Nothing is
 * sent: the server is a list in memory.
 */
import { searchMissing } from '../src/mirror/find-deletions.ts';
import { Random } from '../src/sandbox/random.ts';
import type { Row } from './table.ts';

const pageSize = 100;
/** Requests of the earlier simulation by records, and by deletions among them. */
export const simulated: readonly { readonly records: number; readonly requests: Readonly<Record<number, number>> }[] = [
  { records: 100_000, requests: { 1: 10, 5: 37, 20: 96, 100: 289, 300: 520 } },
  { records: 1_000_000, requests: { 1: 14, 5: 51, 20: 162, 100: 593, 300: 1306 } },
];
/** The factor over the requests of the table that still passes. */
export const leeway = 1.5;

/**
 * Deletes `deletions` records at random and searches for them; returns the number of requested pages. Throws if the
 * result is wrong.
 */
export function requestsOfSearch(records: number, deletions: number, random: Random): number {
  const ids = Float64Array.from({ length: records }, (_, index) => index + 1);
  const gone = new Set<number>();
  while (gone.size < deletions) gone.add(random.below(records) + 1);
  const served = ids.filter((id) => !gone.has(id));
  const search = searchMissing({ ids, moments: ids }, { total: served.length, pageSize });
  let requests = 0;
  let step = search.next();
  while (step.done !== true) {
    requests += step.value.length;
    step = search.next(step.value.map((page) => [...served.subarray((page - 1) * pageSize, page * pageSize)]));
  }
  const found = step.value;
  if (found.kind !== 'missing' || found.ids.length !== gone.size || !found.ids.every((id) => gone.has(id))) {
    throw new Error(`the search for ${deletions} of ${records} records did not find them`);
  }
  return requests;
}

/** The rows of the results: means of `searches` searches each. */
export function benchRankProbes(searches: number): Row[] {
  const random = new Random(11);
  return simulated.flatMap(({ records, requests }) =>
    Object.entries(requests).map(([deletions, floor]) => {
      let sum = 0;
      for (let search = 0; search < searches; search += 1) sum += requestsOfSearch(records, Number(deletions), random);
      const mean = sum / searches;
      return {
        what: `requests to find ${deletions} deleted of ${records.toLocaleString('en')} records in pages of ${pageSize}`,
        floor: `${floor} (simulation)`,
        ours: mean.toFixed(1),
        ratio: `${(mean / floor).toFixed(2)} ×`,
        goal: `at most ${leeway} ×`,
        met: mean <= floor * leeway,
      };
    }),
  );
}
