/**
 * Finds the few records that a long window has lost, in far fewer requests than reading it. Section "Deletions" of
 * docs/architecture.md.
 */
import type { Capabilities } from '../api/capabilities.ts';
import { type DayRange, everything } from '../model/era.ts';
import type { RecordKey } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { idsOn, type MirrorPage } from './page.ts';
import { type RankFindings, searchMissing } from './rank-search.ts';
import { possibleDays } from './source.ts';

export interface SearchPorts {
  readonly store: Pick<MirrorStore, 'rankedRows' | 'liveCount' | 'accountedCount' | 'unseenIds'>;
  readonly read: (page: number) => Promise<MirrorPage>;
  readonly pageSize: number;
}

/** The window's rows that the search did not find; `undecided` if only a walk can show what it has lost. */
type Searched =
  | { readonly kind: 'found'; readonly lost: readonly RecordKey[] }
  | { readonly kind: 'undecided'; readonly problem: string };

/** Windows with no more pages are walked: that shows more. */
const fewPages = 4;
/** A search may cost at most this share of the pages, since a walk also brings the rows up to date. */
const worthwhileShare = 0.5;
/** Pages requested side by side. */
const pagesAtOnce = 8;

/** Whether to search a window in which the server counts fewer records than before. */
export function isWorthSearching(window: Window, total: number, capabilities: Capabilities): boolean {
  const lost = (window.serverTotal ?? 0) - total;
  const pages = Math.ceil(total / capabilities.pageSize);
  if (capabilities.sorts !== 'kept' || window.state !== 'settled' || lost <= 0 || pages <= fewPages) return false;
  return expectedProbes(lost, pages) <= pages * worthwhileShare;
}

/**
 * Searches the window for lost records.
 * @param range the requested days; null for all
 * @param total what the server counts in them
 */
export async function findDeletions(
  ports: SearchPorts,
  window: Window,
  range: DayRange | null,
  total: number,
): Promise<Searched> {
  const { store } = ports;
  const { resource } = window;
  const reach = range === null ? everything : possibleDays(range);
  if (store.accountedCount(resource, reach) !== store.liveCount(resource, reach)) {
    return undecided('it has records that are kept out of the mirror');
  }
  const found = await search(ports, window, reach, total);
  if (found.kind === 'contradiction') return undecided(found.problem);
  const missing = new Set<RecordKey>(found.ids);
  const lost = store.unseenIds(window, new Set()).filter((id) => missing.has(id));
  return { kind: 'found', lost };
}

/**
 * Finds the windows that lack records by the places of a few records; undefined if counting each window is necessary, or cheaper.
 */
export async function findLosses(
  ports: SearchPorts,
  resource: ResourceName,
  windows: readonly Window[],
  total: number,
  capabilities: Capabilities,
): Promise<Window[] | undefined> {
  const { store, pageSize } = ports;
  const live = store.liveCount(resource);
  const known = { pagesRead: 0, freshAsOf: null, problem: null };
  const whole: Window = { resource, ...everything, ...known, state: 'settled', serverTotal: live };
  if (!isWorthSearching(whole, total, capabilities)) return undefined;
  if (windows.length <= expectedProbes(live - total, Math.ceil(total / pageSize))) return undefined;
  const searched = await findDeletions(ports, whole, null, total);
  if (searched.kind !== 'found') return undefined;
  const lost = new Set(searched.lost);
  return windows.filter((window) => store.unseenIds(window, new Set()).some((id) => lost.has(id)));
}

function undecided(problem: string): Searched {
  return { kind: 'undecided', problem };
}

async function search(ports: SearchPorts, window: Window, reach: DayRange, total: number): Promise<RankFindings> {
  const { read, pageSize, store } = ports;
  const rows = store.rankedRows(window.resource, reach);
  if (!Array.from(rows.ids).every(Number.isSafeInteger)) {
    return { kind: 'contradiction', problem: 'it has ids that are too large to be put in order' };
  }
  const steps = searchMissing(rows, { total, pageSize });
  // If more is missing than the counts show, a search can cost more than reading everything.
  let left = Math.ceil(total / pageSize);
  let step = steps.next();
  while (step.done !== true) {
    left -= step.value.length;
    if (left < 0) return { kind: 'contradiction', problem: 'it takes more requests than reading it' };
    const found: (readonly RecordKey[])[] = [];
    for (let at = 0; at < step.value.length; at += pagesAtOnce) {
      const pages = await Promise.all(step.value.slice(at, at + pagesAtOnce).map(read));
      if (pages.some((page) => page.total !== total || page.perPage !== pageSize)) {
        return { kind: 'contradiction', problem: 'records came or went meanwhile' };
      }
      found.push(...pages.map(idsOn));
    }
    step = steps.next(found);
  }
  return step.value;
}

/** Estimates how many pages the search requests: the first, the last, and a halving for each missing record. */
function expectedProbes(missing: number, pages: number): number {
  return 2 + missing * Math.log2(Math.max(2, pages / missing));
}
