/** One resource's part of a run: measure the server, choose windows, read them side by side, and prove the total. */
import { coverageOf, type DayRange, everything, outsideEra, outsideStart } from '../model/era.ts';
import { OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { counted } from '../model/text.ts';
import { type Day, type Timestamp, timestampOf } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import { ContradictionError, noteForeign } from './failures.ts';
import { forgetReading, type Profile, recordProfile, storedProfile } from './profile.ts';
import { forgetEmptyOutside, proveTotal } from './prove.ts';
import { Removal } from './remove.ts';
import { byLaterClock } from './server-check.ts';
import { dayReader } from './source.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { type VisitPorts, WindowVisitor } from './sync-window.ts';
import {
  choose,
  coverAllTime,
  firstWindows,
  holdsSome,
  largestWindow,
  mergeWindows,
  type Mode,
  sealDay,
  type Step,
  touchedWords,
  wholeResources,
} from './windows.ts';

export interface SyncOptions {
  readonly mode: Mode;
  /** Read only windows that hold days of this range; null for all. */
  readonly only: DayRange | null;
  readonly allowDeletions: boolean;
  readonly requestsPerRun: number;
  /** How many rows may go at once, by resource, if the operator has set it. */
  readonly brake?: Partial<Record<ResourceName, number>>;
  readonly windowPages: number;
}

export interface ResourceEnd {
  readonly status: 'complete' | 'partial' | 'failed';
  readonly serverTotal: number | null;
  readonly problem: string | null;
  /** What ended the resource early, if anything did. */
  readonly error: OperatorError | null;
}

/** How full a merged window may be, as a share of the largest one: the rest is room to grow without being cut again. */
const mergedShare = 0.5;

/**
 * The rows of a page that comes again unchanged are compared every so many runs all the same: a bit that flipped on the disk leaves
 * no trace.
 */
const comparedAfter = 100;

export type ResourcePorts = Omit<
  VisitPorts,
  'profile' | 'seal' | 'maxRecords' | 'trustsStored' | 'comparesRows' | 'removal'
> & {
  readonly options: SyncOptions;
};

/** One reading of a resource. A run reads twice if the first reading contradicts the profile. */
interface Reading {
  readonly profile: Profile;
  /** Whether the profile comes from an earlier run; then a contradiction has it measured again. */
  readonly trustsStored: boolean;
  /** Windows that were settled since this time are not read again; null on the first reading. */
  readonly readSince: Timestamp | null;
  /** How many rows the run has removed so far: the brake counts them over both readings. */
  readonly removed: { rows: number };
}

/** Brings one resource up to date. Problems are part of the result. Rejects only for a bug, or if the run itself is stopped. */
export async function syncResource(ports: ResourcePorts): Promise<ResourceEnd> {
  const { store, resource, run, signal, clock } = ports;
  const startedAt = timestampOf(clock.now());
  const first = { readSince: null, removed: { rows: 0 } };
  try {
    const stored = storedProfile(store, resource)?.profile;
    await forgetFutureReading(ports, stored);
    const trustsStored = stored !== undefined && !(await isWorthMeasuring(ports, stored));
    let reading: Reading = { ...first, profile: trustsStored ? stored : await measure(ports), trustsStored };
    for (;;) {
      try {
        return await readResource(ports, reading);
      } catch (error) {
        if (!(error instanceof ContradictionError)) throw error;
        if (!reading.trustsStored && reading.profile.dayBounds === 'wide') throw error;
        store.recordEvent(run, { resource, kind: 'capability_contradicted', subject: run, detail: error.message });
        const profile = reading.trustsStored ? await measure(ports, error.what) : widen(ports, reading.profile);
        reading = { ...first, profile, trustsStored: false, readSince: startedAt };
      }
    }
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof OperatorError)) throw error;
    return endedBy(error, { store, resource, run });
  }
}

/**
 * Whether the list may do better now than when it was measured: ranges may have seemed not to work because there were too few
 * records to show it, and pages may have failed for a while. A list that was empty still has nothing to measure with.
 */
async function isWorthMeasuring({ store, resource, source, signal }: ResourcePorts, stored: Profile): Promise<boolean> {
  const live = store.liveCount(resource);
  if (stored.dates === 'none') {
    return live > 0 || store.windows(resource).some(({ serverTotal }) => serverTotal !== 0);
  }
  if (stored.isNarrowed !== true || live <= stored.pageSize) return false;
  return source.makesPage(resource, 2 * stored.pageSize, stored, signal);
}

/** Stores the page size that the host can make, for the next run. */
function keepPageSize({ source, store, resource, run }: ResourcePorts, profile: Profile): void {
  const pageSize = source.readablePage(resource);
  if (pageSize >= profile.pageSize) return;
  const detail = `pages of ${counted(profile.pageSize, 'record')} fail; they are requested with ${pageSize} from now on`;
  store.recordEvent(run, { resource, kind: 'page_size_lowered', subject: String(pageSize), detail });
  recordProfile(store, resource, { ...profile, pageSize, isNarrowed: true });
}

/** Returns how the resource ends if nothing more of it could be read: failed, if this run read nothing of it. */
export function endedBy(
  error: OperatorError,
  { store, resource, run }: Pick<ResourcePorts, 'store' | 'resource' | 'run'>,
): ResourceEnd {
  noteForeign(error, { store, resource, run });
  const read = (store.run(run)?.resources[resource]?.received ?? 0) > 0;
  return { status: read ? 'partial' : 'failed', serverTotal: null, problem: error.message, error };
}

/** @param contradicted how the list contradicted its profile in this run, if it did */
async function measure(
  { source, store, resource, signal }: ResourcePorts,
  contradicted?: ContradictionError['what'],
): Promise<Profile> {
  const found = await source.measure(resource, signal);
  const before = storedProfile(store, resource)?.profile;
  // A list that shows nothing now (during a deployment, say) says nothing about ranges.
  const mayHaveRanges = contradicted !== 'refused';
  const isBlank =
    mayHaveRanges && found.dates === 'none' && source.met(resource).ids.size === 0 && before !== undefined;
  const measured = isBlank ? { ...before, pageSize: found.pageSize } : found;
  if (contradicted === 'beside') return widen({ store, resource }, measured);
  recordProfile(store, resource, measured);
  return measured;
}

/** Requests a day more on each side of every range from now on. */
function widen({ store, resource }: Pick<ResourcePorts, 'store' | 'resource'>, measured: Profile): Profile {
  const profile = { ...measured, dayBounds: 'wide' as const };
  recordProfile(store, resource, profile);
  return profile;
}

async function readResource(ports: ResourcePorts, reading: Reading): Promise<ResourceEnd> {
  const { resource, store, options, clock, allowance } = ports;
  const { profile, trustsStored, removed } = reading;
  const { only } = options;
  const seal = sealDay(clock.now() + profile.clockAheadMs);
  const maxRecords = largestWindow(profile, options.windowPages);
  const removal = removalOf(ports, profile, removed);
  const rules = { profile, trustsStored, seal };
  const turn = store.runNumber(ports.run);
  const comparesRows = (page: number) => options.mode === 'full' || (page + turn) % comparedAfter === 0;
  const visitor = new WindowVisitor({ ...ports, ...rules, maxRecords, comparesRows, removal });

  // Until the total is proven the resource stays as fresh as it is now, or as an earlier run left it that proved nothing.
  const isHeld = store.isUnproven(resource);
  if (trustsStored && !isHeld) store.recordUnproven(resource, store.freshAsOf(resource));
  prepareWindows(store, resource, profile, only === null ? [seal] : [seal, only.from, only.to]);
  store.forgetStrays(resource, options.mode === 'full');
  const windows = plannedSteps({ ...ports, profile, seal }, reading.readSince).map(({ window }) => window);
  allowance.setPageSize(resource, profile.pageSize);
  ports.progress({ kind: 'expected', resource, records: await expectedRecords(ports, visitor, windows) });
  try {
    await visitor.visitAll(windows);
  } finally {
    keepPageSize(ports, profile);
  }
  const total = (days: DayRange | null) => visitor.total(days);
  const read = (again: readonly Window[]) => visitor.visitAll(again);
  const proof = await proveTotal({ ...rules, store, resource, allowance, only, total, read });
  forgetEmptyOutside(store, resource);
  if (proof.problem === null) store.recordProven(resource);
  // Records are missing that no window has shown, or the list shows none at all: nobody knows how fresh the rows are.
  else if (only === null && (proof.missing || (proof.total === 0 && !trustsStored && !isHeld))) {
    store.recordUnproven(resource, null);
  }
  const problem = unsettledProblem(store, resource) ?? proof.problem ?? (await lossProblem(ports, proof.total));
  joinSmall(store, resource, seal, maxRecords * mergedShare);
  return { status: problem === null ? 'complete' : 'partial', serverTotal: proof.total, problem, error: null };
}

/** So many lost records are looked for by themselves. */
const maxLooks = 3;

/**
 * Returns what the run has met of the list and no window has shown; null if there is nothing. A list that is empty for a minute,
 * or that shows no page beyond some depth, looks complete otherwise. Then nothing is fresh until a total is proven.
 */
async function lossProblem(
  { store, resource, source, run, signal }: ResourcePorts,
  total: number,
): Promise<string | null> {
  const { some, ids } = source.met(resource);
  let problem: string | null = null;
  if (total === 0 && some) problem = 'the list counted records earlier in this run, and shows none now';
  for (const id of store.lacking(resource, [...ids]).slice(0, maxLooks)) {
    if (problem !== null) break;
    // One that is gone by now was deleted meanwhile.
    if ((await source.look(resource, id, signal)).kind === 'absent') continue;
    problem = `the list showed record ${id} while it was measured, and no window shows it`;
  }
  if (problem === null) return null;
  store.recordUnproven(resource, null);
  store.recordEvent(run, { resource, kind: 'records_not_shown', subject: run, detail: problem });
  return problem;
}

function removalOf(ports: ResourcePorts, profile: Profile, removed: Reading['removed']): Removal {
  const { run, resource, store, clock, source, signal, options } = ports;
  return new Removal({
    run,
    resource,
    store,
    clock,
    look: (name, id) => source.look(name, id, signal),
    readDays: dayReader(source, resource, profile, signal),
    allowDeletions: options.allowDeletions,
    brake: options.brake?.[resource],
    removed,
  });
}

/** Returns how many records these windows will show, as far as is known. */
async function expectedRecords(
  { store, resource }: ResourcePorts,
  visitor: WindowVisitor,
  read: readonly Window[],
): Promise<number> {
  const known = (windows: readonly Window[]) => windows.reduce((sum, each) => sum + (each.serverTotal ?? 0), 0);
  if (read.every(({ serverTotal }) => serverTotal !== null)) return known(read);
  // Windows that were never counted hold the records that no other window does.
  return known(read) + Math.max(0, (await visitor.total(null)) - known(store.windows(resource)));
}

function joinSmall(store: MirrorStore, resource: ResourceName, seal: Day, maxRecords: number): void {
  const windows = store.windows(resource);
  for (const merged of mergeWindows(windows, seal, maxRecords)) {
    // A window that was not joined keeps its remembered pages.
    const parts = windows.filter(({ from, to }) => from >= merged.from && to <= merged.to);
    if (parts.length > 1) store.replaceWindows(resource, [merged]);
  }
}

interface PlanPorts {
  readonly store: Pick<MirrorStore, 'windows' | 'touchedDays'>;
  readonly resource: ResourceName;
  readonly options: SyncOptions;
  readonly profile: Profile;
  readonly seal: Day;
}

export function plannedSteps(
  { store, resource, options, profile, seal }: PlanPorts,
  readSince: Timestamp | null,
): Step[] {
  const touched = store.touchedDays(resource);
  return choose({
    windows: store.windows(resource),
    isTouched: (window) => holdsSome(window, touched),
    seal,
    mode: options.mode,
    whole: wholeResources.has(resource),
    only: options.only,
    readSince,
    budget: options.requestsPerRun,
    pageSize: profile.pageSize,
  });
}

/** Makes sure that the windows cover all of time. If the server has ranges, new windows are cut at the given days. */
function prepareWindows(store: MirrorStore, resource: ResourceName, { dates }: Profile, cuts: readonly Day[]): void {
  const windows = store.windows(resource);
  const ranges = dates !== 'none';
  const byDays = windows.some((window) => coverageOf(window) === 'days');
  if (windows.length === 0 || byDays !== ranges || !coverAllTime(windows)) {
    store.resetWindows(resource, ranges ? firstWindows(cuts) : [everything]);
  } else if (windows[0]?.from !== outsideStart && store.liveCount(resource, outsideEra) > 0) {
    // Rows that no range of days shows get a window of their own. Otherwise nothing would say how fresh they are.
    store.resetWindows(resource, [outsideEra, ...windows]);
  }
}

/** Returns the reason of an unsettled window, or of one whose rows another program has changed; null if all are settled. */
function unsettledProblem(store: Pick<MirrorStore, 'windows' | 'touchedDays'>, resource: ResourceName): string | null {
  const windows = store.windows(resource);
  const unsettled = windows.filter(({ state }) => state !== 'settled');
  if (unsettled.length === 0) {
    const touched = store.touchedDays(resource);
    const altered = windows.find((window) => holdsSome(window, touched)) ?? outsideEra;
    return touched.length === 0 ? null : touchedWords(altered);
  }
  const reason = unsettled.find(({ problem }) => problem !== null)?.problem;
  const days = `${unsettled.length} of ${counted(windows.length, 'window')} of creation time are not settled`;
  return reason === undefined ? days : `${days}: ${reason}`;
}

/**
 * If a window seems to have been read later than now, the clock was set back, and nobody knows how fresh the rows are: all is
 * read again. If only this machine's clock says so, it is behind, and another machine has read the window.
 */
async function forgetFutureReading(
  { store, clock, run, resource, source, signal }: ResourcePorts,
  stored: Profile | undefined,
): Promise<void> {
  const readAfter = (time: number) =>
    store.windows(resource).find(({ freshAsOf }) => freshAsOf !== null && freshAsOf > timestampOf(time));
  if (readAfter(clock.now()) === undefined) return;
  // Any response has the server's time.
  if (stored !== undefined) await source.total(resource, null, stored, signal);
  const now = timestampOf(clock.now());
  const future = readAfter(byLaterClock(clock.now(), source.serverAheadMs()));
  if (future === undefined) return;
  const detail = `it is ${now}, and ${future.from}..${future.to} was read at ${future.freshAsOf}; all is read again`;
  // In this order, a stop in between reports it twice rather than never.
  store.recordEvent(run, { resource, kind: 'clock_set_back', subject: run, detail });
  forgetReading(store, resource);
}
