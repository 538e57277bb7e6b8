/** The status of the mirror: how fresh, how far, what went wrong. Sends no request. */
import type { Capabilities } from '../api/capabilities.ts';
import { resourceNames, type ResourceName } from '../model/resources.ts';
import { earliest, type Timestamp } from '../model/time.ts';
import type { LockOwner } from '../store/lock.ts';
import type { MirrorEvent, RunReport } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { storedCapabilities } from './capability-record.ts';
import type { Rhythm } from './freshness-price.ts';
import { syncLock } from './store/run-table.ts';
import { knownServer } from './server-check.ts';

/** What was measured of a list. */
export interface CapabilityStatus {
  readonly measured_at: Timestamp;
  readonly page_size: number;
  /** The format of a range's days; null where ranges do not work. */
  readonly ranges: 'YYYY-MM-DD' | 'DD-MM-YYYY' | null;
  readonly range_end: Capabilities['rangeEnd'];
  readonly day_shift_minutes: Capabilities['dayShiftMinutes'];
  readonly sorts: Capabilities['sorts'];
  readonly clock_difference_ms: number | null;
  /** Null where the server announces none. It never says how long a window is. */
  readonly rate_limit: { readonly requests: number; readonly seconds: null } | null;
  readonly notes: readonly string[];
}

interface ServerStatus {
  readonly address: string;
  /** The id of the user that the key belongs to; null where the server does not say. */
  readonly key_owner: string | null;
}

interface ResourceStatusLine {
  readonly live: number;
  /** Records that the server may have and the mirror must not: they belong to people who were forgotten. */
  readonly kept_out: number;
  readonly fresh_as_of: Timestamp | null;
  /** Null where the list was never measured. */
  readonly capabilities: CapabilityStatus | null;
  readonly windows: number;
  /** Windows that are not settled, with the days and the reason of each. */
  readonly open_problems: readonly {
    readonly from: string;
    readonly to: string;
    readonly state: string;
    readonly problem: string | null;
  }[];
}

export interface MirrorStatus {
  readonly fresh_as_of: Timestamp | null;
  readonly running: LockOwner | null;
  /** How often every row is read with one run a night and the budget of the settings; null where no list was measured. */
  readonly rhythm: Rhythm | null;
  /** The server that the mirror was read from; null before the first contact. */
  readonly server: ServerStatus | null;
  readonly resources: Record<ResourceName, ResourceStatusLine>;
  readonly runs: readonly RunReport[];
  /** How records departed from the reference: fields too many or too few, values of another type. */
  readonly drift: readonly MirrorEvent[];
  readonly events: readonly MirrorEvent[];
}

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
export function mirrorStatus(store: MirrorStore): Omit<MirrorStatus, 'rhythm'> {
  const resources = Object.fromEntries(resourceNames.map((name) => [name, resourceStatus(store, name)])) as Record<
    ResourceName,
    ResourceStatusLine
  >;
  return {
    fresh_as_of: earliest(Object.values(resources).map(({ fresh_as_of }) => fresh_as_of)),
    running: store.lockOwner(syncLock) ?? null,
    server: serverStatus(store),
    resources,
    drift: store.events(shownDrift, driftKinds),
    runs: store.runs(shownRuns),
    events: store.events(shownEvents),
  };
}

function resourceStatus(store: MirrorStore, resource: ResourceName): ResourceStatusLine {
  const windows = store.windows(resource);
  return {
    live: store.liveCount(resource),
    kept_out: store.suppressedIds(resource).size,
    fresh_as_of: store.freshAsOf(resource),
    capabilities: capabilityStatus(store, resource),
    windows: windows.length,
    open_problems: windows
      .filter(({ state }) => state !== 'settled')
      .map(({ from, to, state, problem }) => ({ from, to, state, problem })),
  };
}

/** What is on record of the resource's list; null where it was never measured. */
export function capabilityStatus(
  store: Pick<MirrorStore, 'capability'>,
  resource: ResourceName,
): CapabilityStatus | null {
  const stored = storedCapabilities(store, resource);
  return stored === undefined ? null : describeCapabilities(stored.capabilities, stored.measuredAt);
}

/** Capabilities as `status` and `doctor` show them. */
export function describeCapabilities(capabilities: Capabilities, measuredAt: Timestamp): CapabilityStatus {
  const { pageSize, ranges, rangeEnd, dayShiftMinutes, sorts, clockDifferenceMs, rateLimit, notes } = capabilities;
  return {
    measured_at: measuredAt,
    page_size: pageSize,
    ranges: ranges === 'none' ? null : ranges === 'iso' ? 'YYYY-MM-DD' : 'DD-MM-YYYY',
    range_end: rangeEnd,
    day_shift_minutes: dayShiftMinutes,
    sorts,
    clock_difference_ms: clockDifferenceMs ?? null,
    rate_limit: rateLimit === undefined ? null : { requests: rateLimit.limit, seconds: null },
    notes,
  };
}

function serverStatus(store: MirrorStore): ServerStatus | null {
  const known = knownServer(store);
  return known === null ? null : { address: known.address, key_owner: known.owner?.id ?? null };
}
