/** How old the mirror is, and whether that is too old: pure functions of what was read of it and of the time. */
import type { ResourceName } from '../../model/resources.ts';
import { parseInstant, secondMs, type Timestamp } from '../../model/time.ts';
import type { Look, MirrorHealth } from '../store/health-types.ts';

export interface ResourceFreshness {
  readonly fresh_as_of: Timestamp | null;
  /** Since its `fresh_as_of`; where it has none, since the last that a run had proven, or since it was first asked for. */
  readonly staleness_seconds: number;
  readonly is_fresh: boolean;
}

export interface Freshness {
  readonly is_fresh: boolean;
  /** Of the stalest resource. */
  readonly staleness_seconds: number;
  readonly max_staleness_seconds: number;
  readonly resources: Readonly<Partial<Record<ResourceName, ResourceFreshness>>>;
  /** Why the mirror could not be looked at; null where it could. */
  readonly problem: string | null;
}

/**
 * A mirror that was never complete has its time, too: from when it was first asked for, so that a first sync of hours is
 * no alarm, and starting the worker again and again does not put it off. Resources that no sync was asked for don't count.
 * @param startedAt of the worker: from then on counts what there is no mirror of at all
 */
export function freshnessOf(
  mirror: Look<MirrorHealth>,
  {
    startedAt,
    now,
    maxStalenessMs,
  }: { readonly startedAt: number; readonly now: number; readonly maxStalenessMs: number },
): Freshness {
  const max_staleness_seconds = maxStalenessMs / secondMs;
  if ('problem' in mirror) {
    return { is_fresh: false, staleness_seconds: 0, max_staleness_seconds, resources: {}, problem: mirror.problem };
  }
  const lines = 'found' in mirror ? mirror.found.resources : [];
  const resources: Partial<Record<ResourceName, ResourceFreshness>> = {};
  let oldest = lines.length === 0 ? now - startedAt : 0;
  for (const { resource, freshAsOf, knownAt } of lines) {
    // A clock that was set back makes nothing fresher than now.
    const age = Math.max(0, now - (parseInstant(freshAsOf ?? knownAt) ?? 0));
    oldest = Math.max(oldest, age);
    resources[resource] = {
      fresh_as_of: freshAsOf,
      staleness_seconds: age / secondMs,
      is_fresh: age <= maxStalenessMs,
    };
  }
  return {
    is_fresh: oldest <= maxStalenessMs,
    staleness_seconds: oldest / secondMs,
    max_staleness_seconds,
    resources,
    problem: null,
  };
}
