/** One resource's part of a run: measure the server, plan, read the windows side by side, and prove the sum. */
import { counted } from '../model/text.ts';
import type { Capabilities } from '../api/capabilities.ts';
import { isPageFailure } from '../api/errors.ts';
import { coverageOf, type DayRange, everything, outsideEra, outsideStart } from '../model/era.ts';
import { OperatorError } from '../model/errors.ts';
import type { RecordKey } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';
import { type Clock, type Day, type Timestamp, timestampOf } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { BesideRangeError, ContradictionError, noteForeign } from './failures.ts';
import {
  firstWindows,
  heldIn,
  isOpen,
  mergeWindows,
  type Mode,
  planSteps,
  sealDay,
  type Step,
  wholeResources,
} from './plan.ts';
import { dayReader } from './source.ts';
import { Removal, type RequestPermit } from './reconcile.ts';
import { forgetEmptyOutside, proveSum } from './sum.ts';
import type { Look } from './server-contact.ts';
import { byLaterClock, forgetReading, recordCapabilities, storedCapabilities } from './server-check.ts';
import { Surplus } from './surplus.ts';
import { unsentWindows } from './unsent-emails.ts';
import { type VisitPorts, WindowVisitor } from './window-visitor.ts';

export interface SyncOptions {
  readonly mode: Mode;
  /** Read only windows that hold days of this range; null for all. */
  readonly only: DayRange | null;
  readonly allowDeletions: boolean;
  /** Not given if nobody has to approve removals beyond the brake. */
  readonly requestPermit?: RequestPermit | undefined;
  readonly requestsPerRun: number;
  /** How long after its end a window may still gain records. */
  readonly graceMs: number;
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

/** The view `mirror_freshness` reads this record, too: until the sum is proven, the resource is no fresher than this. */
const heldFreshness = 'fresh_until_proven';

/** So many new records in one run are never odd, whatever the mirror holds. */
const oddGrowth = 10_000;

/** How full a merged window may be, as a share of the largest one: the rest is room to grow without being cut again. */
const mergedShare = 0.5;

export type ResourcePorts = Omit<
  VisitPorts,
  'capabilities' | 'seal' | 'maxRecords' | 'trustsStored' | 'comparesRows' | 'removal' | 'surplus'
> & {
  readonly options: SyncOptions;
};

/** One reading of a resource. A run reads twice if the first reading contradicts the capabilities. */
interface Reading {
  readonly capabilities: Capabilities;
  /** Whether the capabilities come from an earlier run; then a contradiction has them measured again. */
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
    const stored = storedCapabilities(store, resource)?.capabilities;
    await forgetFutureReading(ports, stored);
    // Ranges may have seemed not to work only because there were too few records to show it. A list that was empty still has
    // nothing to measure with; reading it finds its first record.
    const isBlank =
      store.liveCount(resource) === 0 && store.windows(resource).every(({ serverTotal }) => serverTotal === 0);
    if (stored === undefined || (stored.ranges === 'none' && !isBlank)) {
      return await readResource(ports, { ...first, capabilities: await measure(ports), trustsStored: false });
    }
    try {
      const capabilities = await tryLarger(ports, stored);
      return await readResource(ports, { ...first, capabilities, trustsStored: true });
    } catch (error) {
      if (!(error instanceof ContradictionError)) throw error;
      store.recordEvent(run, { resource, kind: 'capability_contradicted', subject: run, detail: error.message });
      const capabilities = await measure(ports, error instanceof BesideRangeError);
      return await readResource(ports, { ...first, capabilities, trustsStored: false, readSince: startedAt });
    }
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof OperatorError)) throw error;
    return endedBy(error, { store, resource, run });
  }
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

/** @param beside whether some days begin at another time than was measured, as in a zone that has changed its clocks */
async function measure({ source, store, resource, signal }: ResourcePorts, beside = false): Promise<Capabilities> {
  const found = await source.measure(resource, signal, storedCapabilities(store, resource)?.capabilities);
  const measured = beside && found.dayShiftMinutes === 0 ? { ...found, dayShiftMinutes: 'unknown' as const } : found;
  recordCapabilities(store, resource, measured);
  return measured;
}

/**
 * Tries larger pages if the host could not make them before: twice the size and, if that comes, the one requested at first. So
 * a bad night costs no more than the next run or two.
 */
async function tryLarger(
  { source, store, resource, run, signal }: ResourcePorts,
  before: Capabilities,
): Promise<Capabilities> {
  const { failedSize, ...known } = before;
  // All records are on one page.
  if (failedSize === undefined || store.liveCount(resource) <= before.pageSize) return before;
  let { pageSize } = before;
  for (const size of new Set([Math.min(2 * pageSize, failedSize), failedSize])) {
    if (!(await source.makesPage(resource, size, before, signal))) break;
    pageSize = size;
  }
  if (pageSize === before.pageSize) return before;
  const detail = `pages of ${counted(pageSize, 'record')} come again; they are requested with ${pageSize} from now on`;
  store.recordEvent(run, { resource, kind: 'page_size_raised', subject: String(pageSize), detail });
  const larger = { ...known, pageSize, ...(pageSize < failedSize ? { failedSize } : {}) };
  recordCapabilities(store, resource, larger);
  return larger;
}

async function readResource(ports: ResourcePorts, reading: Reading): Promise<ResourceEnd> {
  const { resource, store, options, run, clock, allowance } = ports;
  const { capabilities, trustsStored, removed } = reading;
  const { only } = options;
  const seal = sealOf(clock, capabilities, options);
  // Without an order only a single page can be trusted, so windows are cut down to one page.
  const pages = capabilities.pageSize * (capabilities.sorts === 'ignored' ? 1 : options.windowPages);
  const maxRecords = Math.min(pages, capabilities.depth ?? pages);
  const surplus = new Surplus(store, resource);
  const removal = removalOf(ports, capabilities, removed);
  const comparesRows = options.mode === 'full';
  const rules = { capabilities, trustsStored, seal, surplus };
  const visitor = new WindowVisitor({ ...ports, ...rules, maxRecords, comparesRows, removal });

  // Until the sum is proven the resource stays as fresh as it is now, or as an earlier run left it that proved nothing.
  const isHeld = store.capability(heldFreshness, resource) !== undefined;
  if (trustsStored && !isHeld) store.recordCapability(heldFreshness, resource, store.freshAsOf(resource));
  prepareWindows(store, resource, capabilities, only === null ? [seal] : [seal, only.from, only.to]);
  const windows = await windowsToRead(ports, reading, seal, surplus);
  ports.progress({ kind: 'expected', resource, records: await expectedRecords(store, visitor, surplus, windows) });
  allowance.allow(resource, heldIn(store, resource, windows), capabilities.pageSize);
  try {
    await visitor.visitAll(windows);
  } finally {
    keepLimits(ports, capabilities, visitor.maxRecords < maxRecords ? visitor.maxRecords : undefined);
  }
  const isOpenWindow = (window: DayRange) => isOpen(window, seal);
  const sum = await proveSum({ ...rules, run, visitor, store, resource, allowance, only, isOpen: isOpenWindow });
  forgetEmptyOutside(store, resource);
  if (sum.proven) store.forgetCapability(heldFreshness, resource);
  // Records are missing that no window has shown, or the list shows none at all: nobody knows how fresh the rows are.
  else if (only === null && (sum.missing || (sum.total === 0 && !trustsStored && !isHeld)))
    store.recordCapability(heldFreshness, resource, null);

  const problem = unsettledProblem(store.windows(resource)) ?? sum.problem ?? (await lossProblem(ports, sum.total));
  joinSmall(store, resource, seal, visitor.maxRecords * mergedShare, surplus);
  return { status: problem === null ? 'complete' : 'partial', serverTotal: sum.total, problem, error: null };
}

/** So many lost records are looked for by themselves. */
const maxLooks = 3;

/**
 * Returns what the run has met of the list and no window has shown; null if there is nothing. A list that is empty for a minute
 * looks complete otherwise. Then nothing is fresh until a sum is proven.
 */
async function lossProblem(ports: ResourcePorts, total: number): Promise<string | null> {
  const { store, resource, source, run } = ports;
  const { some, ids } = source.met(resource);
  let problem: string | null = null;
  if (total === 0 && some) problem = 'the list counted records earlier in this run, and shows none now';
  for (const id of store.lacking(resource, [...ids]).slice(0, maxLooks)) {
    if (problem !== null) break;
    // One that is gone by now was deleted meanwhile.
    if ((await lookAt(ports, resource, id)).kind === 'absent') continue;
    problem = `the list showed record ${id} while it was measured, and no window shows it`;
  }
  if (problem === null) return null;
  store.recordCapability(heldFreshness, resource, null);
  store.recordEvent(run, { resource, kind: 'records_not_shown', subject: run, detail: problem });
  return problem;
}

/** Requests one record by itself. One that the server fails on is neither there nor absent. */
async function lookAt({ source, signal }: ResourcePorts, resource: ResourceName, id: RecordKey): Promise<Look> {
  return source.look(resource, id, signal).catch((error: unknown): Look => {
    if (isPageFailure(error)) return { kind: 'unknown' };
    throw error;
  });
}

async function windowsToRead(
  ports: ResourcePorts,
  { capabilities, readSince }: Reading,
  seal: Day,
  surplus: Surplus,
): Promise<readonly Window[]> {
  const { store, resource, options } = ports;
  const steps = plannedSteps({ store, resource, options, capabilities, seal, surplus }, readSince);
  const planned = steps.map(({ window }) => window);
  if (resource !== 'emails' || options.mode !== 'default' || options.only !== null) return planned;
  return [...planned, ...(await unsentWindows(ports, capabilities, planned))];
}

function removalOf(ports: ResourcePorts, capabilities: Capabilities, removed: Reading['removed']): Removal {
  const { run, resource, store, clock, source, signal, options } = ports;
  return new Removal({
    run,
    resource,
    store,
    clock,
    look: (name, id) => lookAt(ports, name, id),
    readDays: dayReader(source, resource, capabilities, signal),
    allowDeletions: options.allowDeletions,
    requestPermit: options.requestPermit,
    brake: options.brake?.[resource],
    removed,
  });
}

/** Returns how many records these windows will show, as far as is known. */
async function expectedRecords(
  store: MirrorStore,
  visitor: WindowVisitor,
  surplus: Surplus,
  read: readonly Window[],
): Promise<number> {
  const [first] = read;
  if (first === undefined) return 0;
  const { resource } = first;
  const known = (windows: readonly Window[]) => windows.reduce((sum, window) => sum + surplus.shownIn(window), 0);
  // Windows that were never counted hold the records that no other window does.
  const isCounted = read.every(({ serverTotal }) => serverTotal !== null);
  const rest = isCounted ? 0 : Math.max(0, (await visitor.total(null)) - known(store.windows(resource)));
  const records = known(read) + rest;
  // Totals may be wrong, present and past ones. There are no more records than the list shows now.
  const isOdd = records > 2 * store.liveCount(resource) + oddGrowth;
  return isOdd ? Math.min(records, await visitor.shownInList()) : records;
}

function joinSmall(store: MirrorStore, resource: ResourceName, seal: Day, maxRecords: number, surplus: Surplus): void {
  const windows = store.windows(resource);
  const inEach = surplus.inEach();
  for (const merged of mergeWindows(windows, seal, maxRecords, inEach)) {
    // A window that was not joined keeps its remembered pages.
    const parts = windows.filter(({ from, to }) => from >= merged.from && to <= merged.to);
    if (parts.length === 1) continue;
    store.replaceWindows(resource, [merged]);
    surplus.note(
      merged,
      parts.reduce((sum, part) => sum + surplus.of(part) - inEach, inEach),
    );
  }
}

/** Stores the page size that the server can make, and the depth to which it shows a list, for the next run. */
function keepLimits({ source, store, resource, run }: ResourcePorts, before: Capabilities, depth?: number): void {
  const pageSize = Math.min(before.pageSize, source.readablePage(resource));
  if (pageSize < before.pageSize) {
    const detail = `pages of ${counted(before.pageSize, 'record')} fail; they are requested with ${pageSize} from now on`;
    store.recordEvent(run, { resource, kind: 'page_size_lowered', subject: String(pageSize), detail });
  }
  if (depth !== undefined) {
    const detail = `pages show no more than some ${counted(depth, 'record')} of a list; windows are no larger from now on`;
    store.recordEvent(run, { resource, kind: 'depth_limited', subject: String(depth), detail });
  }
  const limits = {
    ...(pageSize < before.pageSize ? { pageSize, failedSize: before.failedSize ?? before.pageSize } : {}),
    ...(depth === undefined ? {} : { depth }),
  };
  if (Object.keys(limits).length > 0) recordCapabilities(store, resource, { ...before, ...limits });
}

/** The first day that may still gain records, by the server's clock. */
export function sealOf(clock: Clock, capabilities: Capabilities, { graceMs }: SyncOptions): Day {
  return sealDay(clock.now() + (capabilities.clockDifferenceMs ?? 0), graceMs);
}

interface PlanPorts extends Pick<VisitPorts, 'resource' | 'capabilities' | 'seal' | 'surplus'> {
  readonly store: Pick<MirrorStore, 'windows' | 'isAltered'>;
  readonly options: SyncOptions;
}

export function plannedSteps(
  { store, resource, options, capabilities, seal, surplus }: PlanPorts,
  readSince: Timestamp | null,
): Step[] {
  return planSteps({
    windows: store.windows(resource),
    isAltered: (window) => store.isAltered(window),
    isOpen: (window) => isOpen(window, seal),
    mode: options.mode,
    whole: wholeResources.has(resource),
    only: options.only,
    readSince,
    budget: options.requestsPerRun,
    pageSize: capabilities.pageSize,
    shownIn: (window) => surplus.shownIn(window),
    searchedAt: (window) => surplus.searchedAt(window),
  });
}

/** Makes sure that the windows cover all of time. If the server has ranges, new windows are cut at the given days. */
function prepareWindows(
  store: MirrorStore,
  resource: ResourceName,
  capabilities: Capabilities,
  cuts: readonly Day[],
): void {
  const windows = store.windows(resource);
  const ranges = capabilities.ranges !== 'none';
  const byDays = windows.some((window) => coverageOf(window) === 'days');
  if (windows.length === 0 || byDays !== ranges)
    store.resetWindows(resource, ranges ? firstWindows(cuts) : [everything]);
  // Rows that no range of days shows get a window of their own. Otherwise nothing would say how fresh they are.
  else if (windows[0]?.from !== outsideStart && store.accountedCount(resource, outsideEra) > 0)
    store.resetWindows(resource, [outsideEra, ...windows]);
}

function unsettledProblem(windows: readonly Window[]): string | null {
  const unsettled = windows.filter(({ state }) => state !== 'settled');
  const first = unsettled[0];
  if (first === undefined) return null;
  const reason = unsettled.map(({ problem }) => problem ?? undefined).find((each) => each !== undefined);
  const days = `${unsettled.length} of ${counted(windows.length, 'window')} of creation time are not settled`;
  return reason === undefined ? days : `${days}: ${reason}`;
}

/**
 * If a window seems to have been read later than now, the clock was set back, and nobody knows how fresh the rows are: all is
 * read again. If only this machine's clock says so, it is behind, and another machine has read the window.
 */
async function forgetFutureReading(
  { store, clock, run, resource, source, signal }: ResourcePorts,
  stored: Capabilities | undefined,
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
