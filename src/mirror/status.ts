/** The status of the mirror: how fresh, how far, what went wrong. Sends no request. */
import type { Capabilities } from '../api/capabilities.ts';
import { resourceNames, type ResourceName } from '../model/resources.ts';
import { earliest, type Timestamp } from '../model/time.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { storedCapabilities } from './capability-record.ts';
import type { rhythmOf } from './freshness-price.ts';
import { syncLock } from './store/bookkeeping.ts';
import { knownServer } from './server-check.ts';
import { counted } from '../model/text.ts';

export type CapabilityStatus = ReturnType<typeof describeCapabilities>;

/** The status, and how often every row is read with one run a night and the budget of the settings. */
export type MirrorStatus = ReturnType<typeof mirrorStatus> & {
  /** Null where no list was measured. */
  readonly rhythm: ReturnType<typeof rhythmOf>;
};

const shownRuns = 5;
const shownEvents = 20;
/** Each field drifts once in each way. */
const shownDrift = 1_000;
const driftKinds: readonly string[] = [
  'unknown_field',
  'missing_field',
  'changed_type',
  'unreadable_text',
  'relation_absent',
];

/** Reads the status; `fresh_as_of` is that of the stalest resource, null where one was never read whole. */
export function mirrorStatus(store: MirrorStore) {
  const lines = resourceNames.map((name) => [name, resourceStatus(store, name)] as const);
  const resources = Object.fromEntries(lines) as Record<ResourceName, ReturnType<typeof resourceStatus>>;
  const known = knownServer(store);
  return {
    fresh_as_of: earliest(Object.values(resources).map(({ fresh_as_of }) => fresh_as_of)),
    running: store.lockOwner(syncLock) ?? null,
    /** Null before the first contact; the owner of the key is null where the server does not say. */
    server: known === null ? null : { address: known.address, key_owner: known.owner?.id ?? null },
    resources,
    /** How records departed from the reference: fields too many or too few, values of another type. */
    drift: store.events(shownDrift, driftKinds),
    runs: store.runs(shownRuns),
    events: store.events(shownEvents),
  };
}

function resourceStatus(store: MirrorStore, resource: ResourceName) {
  const windows = store.windows(resource);
  const open = windows.filter(({ state }) => state !== 'settled');
  return {
    live: store.liveCount(resource),
    /** Records that the server may have and the mirror must not: they belong to people who were forgotten. */
    kept_out: store.suppressedIds(resource).size,
    fresh_as_of: store.freshAsOf(resource),
    capabilities: capabilityStatus(store, resource),
    windows: windows.length,
    /** Windows that are not settled, with the days and the reason of each. */
    open_problems: open.map(({ from, to, state, problem }) => ({ from, to, state, problem })),
  };
}

/** What is on record of the resource's list; null where it was never measured. */
export function capabilityStatus(store: Pick<MirrorStore, 'capability'>, resource: ResourceName) {
  const stored = storedCapabilities(store, resource);
  return stored === undefined ? null : describeCapabilities(stored.capabilities, stored.measuredAt);
}

/** Capabilities as `status` and `doctor` show them. */
export function describeCapabilities(capabilities: Capabilities, measuredAt: Timestamp) {
  const { pageSize, ranges, rangeEnd, dayShiftMinutes, sorts, clockDifferenceMs, rateLimit, notes } = capabilities;
  return {
    measured_at: measuredAt,
    page_size: pageSize,
    /** The format of a range's days; null where ranges do not work. */
    ranges: ranges === 'none' ? null : ranges === 'iso' ? ('YYYY-MM-DD' as const) : ('DD-MM-YYYY' as const),
    range_end: rangeEnd,
    day_shift_minutes: dayShiftMinutes,
    sorts,
    clock_difference_ms: clockDifferenceMs ?? null,
    /** Null where the server announces none. It never says how long a window is. */
    rate_limit: rateLimit === undefined ? null : { requests: rateLimit.limit, seconds: null },
    notes,
  };
}

/**
 * `pages of 500 (1000 were requested), sorts kept, date ranges in …`.
 * @param requested records on a page that were requested, where that is to be shown
 */
export function capabilityWords(status: CapabilityStatus, requested?: number): string {
  const { sorts, rate_limit: rate } = status;
  return [
    sizeWords(status, requested),
    `sorts ${sorts === 'unknown' ? 'not known' : sorts}`,
    rangeWords(status),
    ...(rate === null ? [] : [`${counted(rate.requests, 'request')} a window`]),
  ].join(', ');
}

export function sizeWords({ page_size: size }: CapabilityStatus, requested = size): string {
  return size < requested ? `pages of ${size} (${requested} were requested)` : `pages of ${size}`;
}

function rangeWords({ ranges, range_end: end, day_shift_minutes: shift }: CapabilityStatus): string {
  if (ranges === null) return 'no date ranges';
  const last = { inclusive: 'with', exclusive: 'without', unknown: 'perhaps with' }[end];
  const zone = shift === 'unknown' ? 'in an unknown zone' : `of ${zoneName(shift)}`;
  return `date ranges in ${ranges} ${last} their last day, days ${zone}`;
}

/** 330 → `UTC+5:30`. */
function zoneName(minutes: number): string {
  if (minutes === 0) return 'UTC';
  const hours = Math.floor(Math.abs(minutes) / 60);
  return `UTC${minutes < 0 ? '-' : '+'}${hours}:${String(Math.abs(minutes) % 60).padStart(2, '0')}`;
}
