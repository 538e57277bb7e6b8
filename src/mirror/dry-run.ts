/** What the next sync would do and what it would cost, from the mirror alone: no request is sent. */
import type { ResourceName } from '../model/resources.ts';
import type { Clock } from '../model/time.ts';
import type { MirrorStore } from '../store/mirror-types.ts';
import { storedCapabilities } from './capability-record.ts';
import { coverageOf } from '../model/era.ts';
import { pagesOf, type Reason } from './plan.ts';
import { plannedSteps, sealOf, type SyncOptions } from './resource-run.ts';
import { Surplus } from './surplus.ts';

interface PlannedStep {
  readonly reason: Reason | 'first contact: everything is read' | 'count, and the windows that differ if it does';
  /** Windows of creation time; null where they are not known yet. */
  readonly windows: number | null;
  /** Requests, at least; null where they depend on what the server holds. */
  readonly requests: number | null;
}

export interface RunPlan {
  readonly resources: Partial<Record<ResourceName, readonly PlannedStep[]>>;
  /** The sum of what is known. */
  readonly requests: number;
}

/** The plan of a run with these options. */
export function planRun(
  store: MirrorStore,
  clock: Clock,
  resources: readonly ResourceName[],
  options: SyncOptions,
): RunPlan {
  const plans = resources.map((resource) => [resource, planResource(store, clock, resource, options)] as const);
  const steps = plans.flatMap(([, planned]) => planned);
  return {
    resources: Object.fromEntries(plans),
    requests: steps.reduce((sum, { requests }) => sum + (requests ?? 0), 0),
  };
}

function planResource(
  store: MirrorStore,
  clock: Clock,
  resource: ResourceName,
  options: SyncOptions,
): readonly PlannedStep[] {
  const capabilities = storedCapabilities(store, resource)?.capabilities;
  if (capabilities === undefined || store.windows(resource).length === 0) {
    return [{ reason: 'first contact: everything is read', windows: null, requests: null }];
  }
  const seal = sealOf(clock, capabilities, options);
  const byReason = new Map<Reason, { windows: number; requests: number }>();
  const surplus = new Surplus(store, resource);
  for (const { window, reason } of plannedSteps(store, resource, options, capabilities, seal, surplus)) {
    const sum = byReason.get(reason) ?? { windows: 0, requests: 0 };
    sum.windows += 1;
    sum.requests += pagesOf(surplus.shownIn(window), capabilities.pageSize);
    byReason.set(reason, sum);
  }
  return [
    ...[...byReason].map(([reason, sum]) => ({ reason, ...sum })),
    { reason: 'count, and the windows that differ if it does', windows: null, requests: 1 },
  ];
}

/**
 * Requests that a comparison of each resource takes, where nothing differs: a count for each window and for the list, or with
 * `deep` the pages of every record. Null where the resource was never read, so that there is nothing to compare.
 */
export function planVerify(
  store: MirrorStore,
  resources: readonly ResourceName[],
  deep: boolean,
): Readonly<Partial<Record<ResourceName, number | null>>> {
  return Object.fromEntries(
    resources.map((resource) => {
      const pageSize = storedCapabilities(store, resource)?.capabilities.pageSize;
      const windows = store.windows(resource);
      if (pageSize === undefined || windows.length === 0) return [resource, null];
      if (!deep) return [resource, 1 + windows.filter((window) => coverageOf(window) === 'days').length];
      const pages = windows.map((window) => pagesOf(store.accountedCount(resource, window), pageSize));
      return [resource, pages.reduce((sum, each) => sum + each, 2)];
    }),
  );
}
