/** One resource's part of a run: measure, plan, walk its windows side by side, and prove the sum. */
import { counted } from '../model/text.ts';
import type { Capabilities } from '../api/capabilities.ts';
import { isPageFailure } from '../api/errors.ts';
import { coverageOf, type DayRange, everything, outsideEra, outsideStart, owns } from '../model/era.ts';
import { OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { type Clock, type Day, type Timestamp, timestampOf } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { forgetReading, recordCapabilities, storedCapabilities } from './capability-record.ts';
import { BesideRangeError, ContradictionError, noteForeign } from './failures.ts';
import { heldIn, type Mode, planSteps, type Step, wholeResources } from './plan.ts';
import { dayReader, type Source } from './source.ts';
import { Removal, type RequestPermit } from './reconcile.ts';
import { forgetEmptyOutside, proveSum } from './sum.ts';
import type { Look } from './server-contact.ts';
import { byLaterClock } from './server-check.ts';
import { Surplus } from './surplus.ts';
import { type VisitPorts, WindowVisitor } from './window-visitor.ts';
import { firstWindows, isOpen, mergeWindows, sealDay } from './windows.ts';

export interface SyncOptions {
  readonly mode: Mode;
  /** Only windows that hold days of this range; null for all. */
  readonly only: DayRange | null;
  readonly allowDeletions: boolean;
  /** Not given where nobody has to approve what goes past the brake. */
  readonly requestPermit?: RequestPermit | undefined;
  readonly requestsPerRun: number;
  /** How long after its end a window may still gain records. */
  readonly graceMs: number;
  /** Rows that may go at once, by resource, where that is not left to the brake's own rule. */
  readonly brake?: Partial<Record<ResourceName, number>>;
  readonly windowPages: number;
}

export interface ResourceEnd {
  readonly status: 'complete' | 'partial' | 'failed';
  readonly serverTotal: number | null;
  readonly problem: string | null;
  /** What ended the resource before its time, where something did. */
  readonly error: OperatorError | null;
}

/** The view `mirror_freshness` reads this record, too. */
const heldFreshness = 'fresh_until_proven';

/** New records of one run that are not odd, whatever the mirror holds. */
const oddGrowth = 10_000;

/** A merged window is left room to grow without being cut again. */
const mergedShare = 0.5;

export type ResourcePorts = Omit<
  VisitPorts,
  'capabilities' | 'seal' | 'maxRecords' | 'trustsStored' | 'comparesRows' | 'removal' | 'surplus'
> & {
  readonly options: SyncOptions;
};

interface Course {
  readonly startedAt: Timestamp;
  /** How many were removed counts for both. */
  readonly removed: { rows: number };
}

/** Brings one resource up to date. Its problems are its result; it rejects for a bug, or where the run itself is stopped. */
export async function syncResource(ports: ResourcePorts): Promise<ResourceEnd> {
  const { store, resource, signal, clock } = ports;
  const course: Course = { startedAt: timestampOf(clock.now()), removed: { rows: 0 } };
  try {
    const stored = storedCapabilities(store, resource)?.capabilities;
    await forgetFutureReading(ports, stored);
    // Ranges may have seemed not to work only because there were too few records to show it.
    // Where there was no record at all, there is none to measure by: the reading shows the first one.
    const isBlank =
      store.liveCount(resource) === 0 && store.windows(resource).every(({ serverTotal }) => serverTotal === 0);
    if (stored === undefined || (stored.ranges === 'none' && !isBlank)) {
      return await readResource(ports, course, await measure(ports), false);
    }
    try {
      return await readResource(ports, course, stored, true);
    } catch (error) {
      if (!(error instanceof ContradictionError)) throw error;
      store.recordEvent(ports.run, {
        resource,
        kind: 'capability_contradicted',
        subject: ports.run,
        detail: error.message,
      });
      return await readResource(ports, course, await measure(ports, error instanceof BesideRangeError), false, true);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof OperatorError)) throw error;
    return endedBy(error, { store, resource, run: ports.run });
  }
}

/** How the resource ends where nothing more of it could be read: failed, where this run reached nothing of it. */
export function endedBy(
  error: OperatorError,
  { store, resource, run }: Pick<ResourcePorts, 'store' | 'resource' | 'run'>,
): ResourceEnd {
  noteForeign(error, { store, resource, run });
  const read = (store.run(run)?.resources[resource]?.received ?? 0) > 0;
  return { status: read ? 'partial' : 'failed', serverTotal: null, problem: error.message, error };
}

/** @param beside whether days begin at other times than they were measured to: not all of them, as where a zone has changed its clocks */
async function measure({ source, store, resource, signal }: ResourcePorts, beside = false): Promise<Capabilities> {
  const found = await source.measure(resource, signal, storedCapabilities(store, resource)?.capabilities);
  const measured = beside && found.dayShiftMinutes === 0 ? { ...found, dayShiftMinutes: 'unknown' as const } : found;
  recordCapabilities(store, resource, measured);
  return measured;
}

/**
 * @param trustsStored whether the capabilities come from an earlier run, so that a contradiction is worth measuring again
 * @param again whether this is the second reading: what the first has settled is not read again
 */
async function readResource(
  ports: ResourcePorts,
  { startedAt, removed }: Course,
  capabilities: Capabilities,
  trustsStored: boolean,
  again = false,
): Promise<ResourceEnd> {
  const { resource, store, options, run, clock, allowance } = ports;
  const { only } = options;
  const seal = sealOf(clock, capabilities, options);
  // Where the order does not hold still only a single page can be trusted, so windows are cut down to one.
  const pages = capabilities.pageSize * (capabilities.sorts === 'ignored' ? 1 : options.windowPages);
  const maxRecords = Math.min(pages, capabilities.depth ?? pages);
  const surplus = new Surplus(store, resource);
  const removal = removalOf(ports, capabilities, removed);
  const comparesRows = options.mode === 'full';
  const visitor = new WindowVisitor({
    ...ports,
    capabilities,
    seal,
    maxRecords,
    trustsStored,
    comparesRows,
    removal,
    surplus,
  });

  // From now on the resource stays as fresh as it is; what an earlier run has left unproven still is.
  const isHeld = store.capability(heldFreshness, resource) !== undefined;
  if (trustsStored && !isHeld) store.recordCapability(heldFreshness, resource, store.freshAsOf(resource));
  prepareWindows(store, resource, capabilities, only === null ? [seal] : [seal, only.from, only.to]);
  const steps = plannedSteps({ store, resource, options, capabilities, seal, surplus }, again ? startedAt : null);
  const planned = steps.map(({ window }) => window);
  const isForUnsent = resource === 'emails' && options.mode === 'default' && only === null;
  const read = isForUnsent ? [...planned, ...(await unsentWindows(ports, capabilities, planned))] : planned;
  ports.progress({ kind: 'expected', resource, records: await expectedRecords(store, visitor, surplus, read) });
  allowance.allow(resource, heldIn(store, resource, read), capabilities.pageSize);
  try {
    await visitor.visitAll(read);
  } finally {
    keepLimits(ports, capabilities, visitor.maxRecords < maxRecords ? visitor.maxRecords : undefined);
  }
  const sum = await proveSum({
    run,
    visitor,
    store,
    resource,
    capabilities,
    surplus,
    allowance,
    only,
    trustsStored,
    isOpen: (window) => isOpen(window, seal),
  });
  forgetEmptyOutside(store, resource);
  if (sum.proven) store.forgetCapability(heldFreshness, resource);
  // Records are missing that no window has shown, or none is shown at all by now: how fresh it is, nobody knows.
  else if (only === null && (sum.missing || (sum.total === 0 && !trustsStored && !isHeld)))
    store.recordCapability(heldFreshness, resource, null);

  const problem = unsettledProblem(store.windows(resource)) ?? sum.problem;
  joinSmall(store, resource, seal, visitor.maxRecords * mergedShare, surplus);
  return { status: problem === null ? 'complete' : 'partial', serverTotal: sum.total, problem, error: null };
}

function removalOf(ports: ResourcePorts, capabilities: Capabilities, removed: Course['removed']): Removal {
  const { run, resource, store, clock, source, signal, options } = ports;
  return new Removal({
    run,
    resource,
    store,
    clock,
    // A record that cannot be given is neither there nor absent.
    look: (name, id) =>
      source.look(name, id, signal).catch((error: unknown): Look => {
        if (isPageFailure(error)) return { kind: 'unknown' };
        throw error;
      }),
    readDays: dayReader(source, resource, capabilities, signal),
    allowDeletions: options.allowDeletions,
    requestPermit: options.requestPermit,
    brake: options.brake?.[resource],
    removed,
  });
}

/** Records that reading these windows will show, as far as is known. */
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
  // What was never counted holds what the other windows do not.
  const isCounted = read.every(({ serverTotal }) => serverTotal !== null);
  const rest = isCounted ? 0 : Math.max(0, (await visitor.total(null)) - known(store.windows(resource)));
  const records = known(read) + rest;
  // Totals may be wrong, those of now and those that windows once had: there are no more than the list shows now.
  const isOdd = records > 2 * store.liveCount(resource) + oddGrowth;
  return isOdd ? Math.min(records, await visitor.shownInList()) : records;
}

/** Joins small neighbours that are settled. */
function joinSmall(store: MirrorStore, resource: ResourceName, seal: Day, maxRecords: number, surplus: Surplus): void {
  const windows = store.windows(resource);
  const more = surplus.inEach();
  for (const merged of mergeWindows(windows, seal, maxRecords, more)) {
    // One that is as it was keeps what it remembers of its pages.
    const parts = windows.filter(({ from, to }) => from >= merged.from && to <= merged.to);
    if (parts.length === 1) continue;
    store.replaceWindows(resource, [merged]);
    surplus.note(
      merged,
      parts.reduce((sum, part) => sum + surplus.of(part) - more, more),
    );
  }
}

/** From the next run on, pages are requested in the size that the server was seen to make, and windows as deep as it shows them. */
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
  if (pageSize < before.pageSize || depth !== undefined)
    recordCapabilities(store, resource, { ...before, pageSize, ...(depth === undefined ? {} : { depth }) });
}

/** The first day that may still gain records, by the server's clock. */
export function sealOf(clock: Clock, capabilities: Capabilities, { graceMs }: SyncOptions): Day {
  return sealDay(clock.now() + (capabilities.clockDifferenceMs ?? 0), graceMs);
}

interface PlanPorts {
  readonly store: Pick<MirrorStore, 'windows' | 'isAltered'>;
  readonly resource: ResourceName;
  readonly options: SyncOptions;
  readonly capabilities: Capabilities;
  readonly seal: Day;
  readonly surplus: Surplus;
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

/** Makes sure that the windows cover all of time, cut at the given days where the server has ranges. */
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
  // A row that has come to be in no window of days is in one of its own: else nothing would say that it is as fresh as the others.
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
 * Where a window was read later than now, the clock was set back: how fresh the rows are is not known. Not where it is not later by the
 * server's clock: then another machine has read it, and this one's clock is behind.
 */
async function forgetFutureReading(
  { store, clock, run, resource, source, signal }: ResourcePorts,
  stored: Capabilities | undefined,
): Promise<void> {
  const readAfter = (time: number) =>
    store.windows(resource).find(({ freshAsOf }) => freshAsOf !== null && freshAsOf > timestampOf(time));
  if (readAfter(clock.now()) === undefined) return;
  // For the time in its response.
  if (stored !== undefined) await source.total(resource, null, stored, signal);
  const now = timestampOf(clock.now());
  const future = readAfter(byLaterClock(clock.now(), source.serverAheadMs()));
  if (future === undefined) return;
  const detail = `it is ${now}, and ${future.from}..${future.to} was read at ${future.freshAsOf}; all is read again`;
  // In this order a stop in between reports it twice rather than never.
  store.recordEvent(run, { resource, kind: 'clock_set_back', subject: run, detail });
  forgetReading(store, resource);
}

interface UnsentPorts {
  readonly run: string;
  readonly source: Pick<Source, 'page'>;
  readonly store: Pick<MirrorStore, 'windows' | 'unsentEmails' | 'forgetPages' | 'recordPage' | 'keptOut'>;
  readonly signal: AbortSignal;
}

/** Windows, not read by this run, with emails that have been sent or deleted since they waited; none where the filter does not work. */
async function unsentWindows(
  ports: UnsentPorts,
  capabilities: Capabilities,
  read: readonly Window[],
): Promise<Window[]> {
  const settled = ports.store
    .windows('emails')
    .filter(({ from, state }) => state === 'settled' && !read.some((window) => window.from === from));
  if (settled.length === 0) return [];
  try {
    const gone = await readWaiting(ports, capabilities, settled);
    return settled.filter((window) => gone.some((createdAt) => owns(window, createdAt)));
  } catch (error) {
    ports.signal.throwIfAborted();
    if (error instanceof OperatorError) return [];
    throw error;
  }
}

/** Keeps what still waits; gives the creation times of the rows that wait here and no longer there. */
async function readWaiting(
  { run, source, store, signal }: UnsentPorts,
  capabilities: Capabilities,
  settled: readonly Window[],
): Promise<unknown[]> {
  const waiting = new Map(store.unsentEmails().map(({ id, createdAt }) => [id, createdAt]));
  const paginate = capabilities.pageSize;
  for (let number = 1, last = 1; number <= last; number += 1) {
    const request = { page: number, paginate, range: null, unsent: true };
    const rowsOf = settled.map((window) => owns.bind(null, window));
    const wanted = { rowsOf, field: 'is_sent', keptOut: store.keptOut('emails') };
    const page = await source.page('emails', request, capabilities, signal, wanted);
    if (page.field.some((isSent) => Number(isSent) !== 0)) return [];
    // A total may count what no page shows.
    last = page.ids.length === 0 ? number : page.lastPage;
    for (const part of page.parts ?? [page]) {
      for (const [at, window] of settled.entries()) {
        const rows = part.rows[at];
        const received = part.createdAt.filter((createdAt) => owns(window, createdAt)).length;
        if (rows === undefined || received === 0) continue;
        // Its rows are no longer only those of its last walk.
        store.forgetPages(window);
        store.recordPage(run, window, rows, received);
      }
    }
    for (const id of page.ids) if (id !== null) waiting.delete(id);
  }
  return [...waiting.values()];
}
