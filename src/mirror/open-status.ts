/** Reads the state of the mirror, without any request. `status` must start fast, so this loads no engine. */
import type { Releases } from '../model/releases.ts';
import { coverageOf, outsideEra } from '../model/era.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { type Clock, type Day, earliest, parseInstant, type Timestamp } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import type { LockOwner } from '../store/lock.ts';
import {
  driftKinds,
  type RunDay,
  type RunDetail,
  type RunReport,
  type Window,
  type WindowCause,
} from '../store/mirror-types.ts';
import { syncLock } from './store/run-records.ts';
import { type MirrorStore, openMirrorStoreForReading } from './store/mirror-store.ts';
import { type Profile, storedProfile } from './profile.ts';
import { holdsSome, surplusOf, touchedWords } from './windows.ts';

/** Reads the status of the mirror. Throws a FileError if there is none. */
export function openStatus(settings: Settings, releases: Releases): MirrorStatus {
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  return mirrorStatus(store);
}

/** Reads the last syncs, newest first. Throws a FileError if there is no mirror. */
export function openRuns(settings: Settings, limit: number, releases: Releases): RunReport[] {
  return lastRuns(releases.add(openMirrorStoreForReading(settings.store.mirror)), limit);
}

/** Reads what was synced on each day since then. Throws a FileError if there is no mirror. */
export function openRunDays(settings: Settings, since: Timestamp, releases: Releases): RunDay[] {
  return releases.add(openMirrorStoreForReading(settings.store.mirror)).days(since);
}

/** Shows a run whose process is gone as `killed`, before the next sync records that. */
function lastRuns(store: MirrorStore, limit: number): RunReport[] {
  const runs = store.runs(limit);
  const owner = store.lockOwner(syncLock);
  return runs.map((report) => {
    if (report.status !== 'running' || report.run === owner?.run) return report;
    // It may have ended since it was read.
    const ended = store.run(report.run) ?? report;
    return ended.status === 'running' ? { ...report, status: 'killed' } : ended;
  });
}

/** Reads one sync: its record, its progress, and who owns the lock. Returns null if there is none of that name. */
export function openRun(settings: Settings, run: string, clock: Clock, releases: Releases) {
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  const detail = store.run(run);
  if (detail === undefined) return null;
  const owner = store.lockOwner(syncLock);
  const pageSizes = new Map(
    resourceNames.map((name) => [name, capabilityStatus(store, name)?.page_size ?? settings.api.pageSize]),
  );
  return {
    detail,
    /** The living process that runs it; null if there is none. */
    owner: owner?.run === run ? owner : null,
    progress: progressOf(detail, pageSizes, clock.now()),
  };
}

/** Sums the progress up over the resources. Records may exceed what was expected, since some windows are read twice. */
function progressOf(
  { status, started_at, resources, expected }: RunDetail,
  pageSizes: ReadonlyMap<ResourceName, number>,
  now: number,
) {
  const parts = Object.entries(resources) as [ResourceName, { readonly received: number; readonly requests: number }][];
  const records = parts.reduce((sum, [, { received }]) => sum + received, 0);
  const requests = parts.reduce((sum, [, each]) => sum + each.requests, 0);
  const known = Object.entries(expected) as [ResourceName, number][];
  const whole = known.length === 0 ? null : known.reduce((sum, [, count]) => sum + count, 0);
  const pages = known.reduce((sum, [name, count]) => sum + Math.ceil(count / (pageSizes.get(name) ?? 1)), 0);
  const spentMs = now - (parseInstant(started_at) ?? now);
  const isKnown = status === 'running' && whole !== null && records > 0 && records < whole && spentMs > 0;
  return {
    records,
    /** How many records it expects to read; null if it does not know yet, or is from a version that did not record it. */
    expected: whole,
    requests,
    /** The pages of the expected records, each at least one request; null if they are not known. */
    expectedRequests: whole === null ? null : pages,
    /** The time left at the pace so far; null if that is not known, or if the run has ended. */
    leftMs: isKnown ? (spentMs / records) * (whole - records) : null,
  };
}

/** Returns who writes to the mirror now; null if nobody does. Throws a FileError if there is no mirror. */
export function openWriter(settings: Settings, releases: Releases): LockOwner | null {
  return releases.add(openMirrorStoreForReading(settings.store.mirror)).lockOwner(syncLock) ?? null;
}

/** Opens the stored capabilities, by resource. Throws a FileError if there is no mirror. */
export function openCapabilities(
  settings: Settings,
  releases: Releases,
): (resource: ResourceName) => CapabilityStatus | null {
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  return (resource) => capabilityStatus(store, resource);
}

export type CapabilityStatus = ReturnType<typeof describeProfile>;

export type MirrorStatus = ReturnType<typeof mirrorStatus>;

const shownRuns = 5;
const shownEvents = 20;
/** More than there can be. */
const shownDrift = 1_000;

/** Reads the status. `fresh_as_of` is that of the stalest resource; null if one was never read whole. */
function mirrorStatus(store: MirrorStore) {
  const running = store.lockOwner(syncLock) ?? null;
  const underWay = running?.run;
  const lines = resourceNames.map((name) => [name, resourceStatus(store, name, underWay)] as const);
  const resources = Object.fromEntries(lines) as Record<ResourceName, ReturnType<typeof resourceStatus>>;
  const address = store.server();
  return {
    fresh_as_of: earliest(Object.values(resources).map(({ fresh_as_of }) => fresh_as_of)),
    running,
    /** Null before the first contact. */
    server: address === null ? null : { address },
    resources,
    /** How records differed from the API's reference: unknown or missing fields, values of another type. */
    drift: store.events(shownDrift, driftKinds),
    runs: lastRuns(store, shownRuns),
    events: store.events(shownEvents),
  };
}

/** A window that is not settled, or whose rows another program has changed. */
interface OpenWindow {
  readonly from: Day;
  readonly to: Day;
  readonly state: Window['state'];
  readonly cause: WindowCause;
  /** Null if its walk did not get to its end. */
  readonly problem: string | null;
}

/** Returns undefined if the window is as it should be. */
function openWindow(
  window: Omit<OpenWindow, 'cause'> & Pick<Window, 'cause'>,
  touched: readonly Day[],
): OpenWindow | undefined {
  const { from, to, state, cause, problem } = window;
  if (problem !== null) return { from, to, state, cause: cause ?? 'not_read', problem };
  if (holdsSome(window, touched)) return { from, to, state, cause: 'rows_altered', problem: touchedWords(window) };
  return state === 'settled' ? undefined : { from, to, state, cause: 'not_read', problem };
}

function resourceStatus(store: MirrorStore, resource: ResourceName, underWay: string | undefined) {
  const windows = store.windows(resource);
  const touched = store.touchedDays(resource);
  // Rows without a usable time that another program has added are in no window until the next sync.
  const outside = { ...outsideEra, state: 'settled', cause: null, problem: null } as const;
  const parts = windows.every((each) => coverageOf(each) === 'days') ? [outside, ...windows] : windows;
  return {
    live: store.liveCount(resource),
    /** Records that the server's totals count and no page shows, such as those that are only marked as deleted. */
    surplus: surplusOf(windows),
    /** Records that the server may have but the mirror must not: they belong to forgotten people. */
    kept_out: store.suppressedIds(resource).size,
    fresh_as_of: store.freshAsOf(resource),
    capabilities: capabilityStatus(store, resource),
    last_run: store.lastEnd(resource, underWay) ?? null,
    windows: windows.length,
    open_problems: parts.flatMap((part) => openWindow(part, touched) ?? []),
  };
}

/** Returns the stored capabilities of the resource's list; null if it was never measured. */
function capabilityStatus(store: Pick<MirrorStore, 'capability'>, resource: ResourceName) {
  const stored = storedProfile(store, resource);
  return stored === undefined ? null : describeProfile(stored.profile, stored.measuredAt);
}

export function describeProfile(profile: Profile, measuredAt: Timestamp) {
  const { pageSize, dates, dayBounds, ordered, notes } = profile;
  return {
    measured_at: measuredAt,
    page_size: pageSize,
    /** The format of a range's days; null if ranges do not work. */
    ranges: dates === 'none' ? null : dates === 'iso' ? ('YYYY-MM-DD' as const) : ('DD-MM-YYYY' as const),
    /** Which records a range shows: those of all its days, all but the last day's, or not known. */
    day_bounds: dayBounds,
    /** Whether lists come in the order of creation. */
    ordered,
    notes,
  };
}

/**
 * `pages of 500 (1000 were requested), in order, date ranges in …`.
 * @param requested the page size requested, if it is to be shown
 */
export function capabilityWords(status: CapabilityStatus, requested?: number): string {
  return [sizeWords(status, requested), status.ordered ? 'in order' : 'in no order', rangeWords(status)].join(', ');
}

export function sizeWords({ page_size: size }: CapabilityStatus, requested = size): string {
  return size < requested ? `pages of ${size} (${requested} were requested)` : `pages of ${size}`;
}

const boundsWords = {
  exact: 'with their last day',
  next_day: 'without their last day',
  wide: 'one day wider',
} as const;

function rangeWords({ ranges, day_bounds: bounds }: CapabilityStatus): string {
  return ranges === null ? 'no date ranges' : `date ranges in ${ranges}, ${boundsWords[bounds]}`;
}
