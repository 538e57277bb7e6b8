/**
 * Estimates what it costs to keep every row younger than some time, and how old rows become with the current budget. Goes through
 * the coming nights as the planner does, with as many new and deleted records as lately. Section "The cost of a run" of
 * docs/architecture.md.
 */
import { eraEnd } from '../model/era.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { addDays, type Clock, dayMs, dayOf, minuteMs, parseInstant } from '../model/time.ts';
import type { RunReport, Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { storedCapabilities } from './server-check.ts';
import { graceMs, isOpen, pagesOf, sealDay, wholeResources } from './plan.ts';
import { Surplus } from './surplus.ts';

export interface PriceOptions {
  /** `sync.requests_per_run`. */
  readonly requestsPerRun: number;
  /** `sync.window_pages`. */
  readonly windowPages: number;
  /** `api.requests_per_second`; undefined if the server decides. */
  readonly requestsPerSecond: number | undefined;
}

interface Churn {
  readonly added_a_day: number;
  readonly deleted_a_day: number;
}

/** The pages of a resource, as a run reads them. */
interface Load {
  readonly resource: ResourceName;
  readonly pageSize: number;
  /** Pages that every run reads, whatever the budget. */
  readonly always: number;
  /** Pages of the other windows, those read longest ago first. */
  readonly old: readonly number[];
  readonly churn: Churn;
}

const simulatedNights = 30;

/**
 * Returns within how many nights every row is read (null: never), and the mean requests of a run; null if no list was measured.
 */
export function rhythmOf(store: MirrorStore, clock: Clock, options: PriceOptions) {
  const loads = loadsOf(store, clock, resourceNames);
  if (loads.length === 0) return null;
  const { longest, requests } = costOf(loads, options.requestsPerRun, { ...options, runsADay: 1 });
  return { nights: Number.isFinite(longest) ? longest : null, requests: Math.round(requests) };
}

/** Returns the price of keeping every row of the resources younger than `withinMs`; null if no list was measured. */
export function priceOf(
  store: MirrorStore,
  clock: Clock,
  resources: readonly ResourceName[],
  withinMs: number,
  options: PriceOptions,
) {
  const loads = loadsOf(store, clock, resources);
  if (loads.length === 0) return null;
  const perMinute = speedOf(store, loads, options);
  const minutesOf = (requests: number): number => (perMinute === null ? 0 : requests / perMinute);
  const found = rhythmsWithin(withinMs)
    .map(({ runsADay, everyRuns }) => {
      const settings = { ...options, runsADay };
      const budget = Math.max(...loads.map((load) => budgetFor(load, everyRuns, settings)));
      const { requests } = costOf(loads, budget, settings);
      return { runsADay, everyRuns, budget, requests, ms: minutesOf(requests) * minuteMs };
    })
    .find(({ runsADay, everyRuns, ms }) => {
      const betweenMs = dayMs / runsADay;
      // A row that one run reads first may be the last in the next.
      return ms <= betweenMs && everyRuns * betweenMs + ms <= withinMs;
    });
  const { requests } = found ?? costOf(loads, Infinity, { ...options, runsADay: 1 });
  return {
    within_seconds: Math.round(withinMs / 1000),
    /** What the server or the settings allow, else what the last runs reached; null if nothing is known. */
    requests_a_minute: perMinute === null ? null : Math.round(perMinute),
    churn: Object.fromEntries(loads.map(({ resource, churn }) => [resource, churn])) as Partial<
      Record<ResourceName, Churn>
    >,
    /** How many runs in 24 hours it takes; null if no number is enough. */
    runs_a_day: found?.runsADay ?? null,
    /** Every row is read once in so many runs. */
    every_runs: found?.everyRuns ?? null,
    /** What `sync.requests_per_run` must be for it. */
    requests_per_run: found?.budget ?? null,
    /** The mean of all runs in 24 hours together. */
    requests_a_night: found === undefined ? null : Math.round(found.requests * found.runsADay),
    minutes_a_run: perMinute === null ? null : Math.ceil(minutesOf(requests)),
  };
}

/** Ways to read every row within that time, the one with the fewest requests first. */
function* rhythmsWithin(withinMs: number): Generator<{ readonly runsADay: number; readonly everyRuns: number }> {
  // Nobody needs more than a year of nights.
  for (let nights = Math.min(400, Math.floor(withinMs / dayMs)); nights >= 1; nights -= 1) {
    yield { runsADay: 1, everyRuns: nights };
  }
  for (let runsADay = 2; runsADay <= 24; runsADay += 1) yield { runsADay, everyRuns: 1 };
}

function loadsOf(store: MirrorStore, clock: Clock, resources: readonly ResourceName[]): Load[] {
  const runs = store.runs(churnRuns);
  return resources.flatMap((resource) => {
    const capabilities = storedCapabilities(store, resource)?.capabilities;
    const windows = store.windows(resource);
    if (capabilities === undefined || windows.length === 0) return [];
    const { pageSize, clockDifferenceMs = 0 } = capabilities;
    const seal = sealDay(clock.now() + (clockDifferenceMs ?? 0), graceMs);
    const surplus = new Surplus(store, resource);
    const pages = (each: readonly Window[]): number[] =>
      each.map((window) => pagesOf(surplus.shownIn(window), pageSize));
    const isAlways = (window: Window) => wholeResources.has(resource) || isOpen(window, seal);
    const old = windows.filter((window) => !isAlways(window));
    old.sort((a, b) => ((a.freshAsOf ?? '') < (b.freshAsOf ?? '') ? -1 : 1));
    const always = pages(windows.filter(isAlways)).reduce((sum, count) => sum + count, 0);
    return [{ resource, pageSize, always, old: pages(old), churn: churnOf(store, clock, resource, runs) }];
  });
}

const churnDays = 30;
const churnRuns = 60;

function churnOf(store: MirrorStore, clock: Clock, resource: ResourceName, runs: readonly RunReport[]): Churn {
  const now = clock.now();
  const since = addDays(dayOf(now), -churnDays);
  const added = store.liveCount(resource, { from: since, to: eraEnd });
  const complete = runs.filter(
    (run) => dayOf(parseInstant(run.started_at) ?? 0) >= since && run.resources[resource]?.status === 'complete',
  );
  // The deletions that the first of them found happened before it.
  const first = complete.at(-1);
  const begun = first === undefined ? now : (parseInstant(first.started_at) ?? now);
  const days = (now - begun) / dayMs;
  const deleted = runs
    .filter((run) => first !== undefined && run.started_at > first.started_at)
    .reduce((sum, run) => sum + (run.resources[resource]?.deleted ?? 0), 0);
  return { added_a_day: rounded(added / churnDays), deleted_a_day: days < 1 ? 0 : rounded(deleted / days) };
}

function rounded(rate: number): number {
  return Math.round(rate * 10) / 10;
}

/** Fewer requests say little about how fast the server is. */
const enoughRequests = 50;

function speedOf(store: MirrorStore, loads: readonly Load[], { requestsPerSecond }: PriceOptions): number | null {
  const announced = loads.map(({ resource }) => storedCapabilities(store, resource)?.capabilities.rateLimit?.limit);
  // No server says how long the window of its limit is; a minute is usual.
  const limits = [...announced, requestsPerSecond === undefined ? undefined : requestsPerSecond * 60].filter(
    (limit) => limit !== undefined,
  );
  if (limits.length > 0) return Math.min(...limits);
  for (const { requests, started_at: from, finished_at: to } of store.runs(10)) {
    const ms = (parseInstant(to) ?? 0) - (parseInstant(from) ?? 0);
    if (requests >= enoughRequests && ms > 0) return (requests * minuteMs) / ms;
  }
  return null;
}

interface RunSettings extends Pick<PriceOptions, 'windowPages'> {
  readonly runsADay: number;
}

/** Windows are cut and joined, and the first page of each may hold records of its neighbour. */
const reserve = 1.03;

/** Returns the smallest budget with which every window is read once in `everyRuns` runs. */
function budgetFor(load: Load, everyRuns: number, settings: RunSettings): number {
  let low = Math.max(1, ...load.old);
  let high =
    low + load.old.reduce((sum, pages) => sum + pages, 0) + Math.ceil(grownPages(load, settings) * simulatedNights);
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (simulate(load, middle, settings).longest <= everyRuns) high = middle;
    else low = middle + 1;
  }
  return Math.ceil(low * reserve);
}

function grownPages({ churn, pageSize }: Load, { runsADay }: RunSettings): number {
  return churn.added_a_day / runsADay / pageSize;
}

/**
 * Simulates the coming runs. `longest`: the most runs between two readings of a window. `read`: the mean pages of a run. `held`:
 * all pages.
 */
function simulate(load: Load, budget: number, settings: RunSettings): { longest: number; read: number; held: number } {
  const total = load.old.reduce((sum, pages) => sum + pages, 0);
  const runs = Math.max(simulatedNights * settings.runsADay, 3 * Math.ceil(total / budget));
  // A ring, in the order of the last reading; `next` is the window that was read longest ago.
  const windows = load.old.map((pages) => ({ pages, readIn: 0 }));
  let next = 0;
  let longest = 0;
  let read = 0;
  let grown = 0;
  let newest: { pages: number; readIn: number } | undefined;
  for (let run = 1; run <= runs; run += 1) {
    let left = budget;
    for (let count = windows.length; count > 0; count -= 1) {
      const window = windows[next];
      if (window === undefined || window.readIn === run || window.pages > left) break;
      left -= window.pages;
      read += window.pages;
      longest = Math.max(longest, run - window.readIn);
      window.readIn = run;
      next = (next + 1) % windows.length;
    }
    // New records leave the open window for a window of their own, which grows until it is as long as the others.
    grown += grownPages(load, settings);
    if (newest !== undefined && grown <= settings.windowPages / 2) newest.pages = Math.ceil(grown);
    else if (grown > 0) {
      [newest, grown] = [{ pages: 1, readIn: run }, 0];
      windows.splice(next, 0, newest);
      next = (next + 1) % windows.length;
    }
  }
  for (const { readIn } of windows) longest = Math.max(longest, runs - readIn);
  const held = windows.reduce((sum, { pages }) => sum + pages, 0);
  // A window that does not fit into the budget blocks all behind it.
  const isStuck = windows.some(({ pages }) => pages > budget);
  return { longest: isStuck ? Infinity : Math.max(1, longest), read: read / runs, held };
}

/** Returns the mean requests of a run with this budget, and the most runs between two readings of a window. */
function costOf(loads: readonly Load[], budget: number, settings: RunSettings): { longest: number; requests: number } {
  // The check of the server.
  let requests = 1;
  let longest = 1;
  for (const load of loads) {
    const found = simulate(load, budget, settings);
    longest = Math.max(longest, found.longest);
    const share = found.held === 0 ? 1 : Math.min(1, found.read / found.held);
    // The list's total and, if not all emails are read, a page of those that wait.
    requests += 1 + load.always + found.read + (load.resource === 'emails' && share < 1 ? 1 : 0);
    requests += deletionCost(load.churn.deleted_a_day / settings.runsADay, share, found.held);
  }
  return { longest, requests };
}

/** By how much finding a deletion by halves exceeds the least possible cost; `npm run bench` has the table. */
const halving = 1.2;

/** Each deletion is confirmed, with control records. In windows that the run does not read it must first be found by halves. */
function deletionCost(deleted: number, share: number, pages: number): number {
  if (deleted === 0) return 0;
  const unread = deleted * (1 - share);
  const found = unread === 0 ? 0 : halving * unread * (1 + Math.log2(Math.max(2, pages / unread)));
  return found + deleted * 1.05 + 1;
}
