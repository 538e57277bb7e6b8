/** What the mirror says of itself: how fresh, how far, what went wrong. Asks no server. */
import { resourceNames, type ResourceName } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import type { LockOwner, MirrorEvent, MirrorStore, RunReport } from '../store/ports/mirror-store.ts';
import { syncLock } from './run.ts';

export interface ResourceStatusLine {
  readonly live: number;
  readonly fresh_as_of: Timestamp | null;
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
  readonly resources: Record<ResourceName, ResourceStatusLine>;
  readonly runs: readonly RunReport[];
  readonly events: readonly MirrorEvent[];
}

const shownRuns = 5;
const shownEvents = 20;

/** Reads the status; `fresh_as_of` is that of the stalest resource, null where one was never read whole. */
export function mirrorStatus(store: MirrorStore): MirrorStatus {
  const resources = Object.fromEntries(resourceNames.map((name) => [name, resourceStatus(store, name)])) as Record<
    ResourceName,
    ResourceStatusLine
  >;
  const fresh = Object.values(resources).map(({ fresh_as_of }) => fresh_as_of);
  return {
    fresh_as_of: fresh.reduce((oldest, each) => (oldest !== null && (each === null || each < oldest) ? each : oldest)),
    running: store.lockOwner(syncLock) ?? null,
    resources,
    runs: store.runs(shownRuns),
    events: store.events(shownEvents),
  };
}

function resourceStatus(store: MirrorStore, resource: ResourceName): ResourceStatusLine {
  const windows = store.windows(resource);
  return {
    live: store.liveCount(resource),
    fresh_as_of: store.freshAsOf(resource),
    windows: windows.length,
    open_problems: windows
      .filter(({ state }) => state !== 'settled')
      .map(({ from, to, state, problem }) => ({ from, to, state, problem })),
  };
}
