/** What a server does where the API's reference is silent, as measured and stored. Section "The profile" of docs/architecture.md. */
import type { DateFormat } from '../api/lists.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import type { MirrorStore } from './store/mirror-store.ts';

/**
 * Which records a range of days shows: those of all its days; all but the last day's; or not known, as where the server's days
 * begin at another time than those of its creation times.
 */
export type DayBounds = 'exact' | 'next_day' | 'wide';

export interface Profile {
  /** The most records on a page. */
  readonly pageSize: number;
  /** The format in which `date` takes a range; `none` if ranges do not work or nothing shows that they do. */
  readonly dates: DateFormat | 'none';
  readonly dayBounds: DayBounds;
  /** Whether lists come in the order of creation. A list too short to show it counts as ordered. */
  readonly ordered: boolean;
  /** Set if the host could not make larger pages when it was measured. */
  readonly isNarrowed?: boolean;
  /** By how much the server's clock was ahead of this machine's, ms; negative if behind, 0 if it sends no time. */
  readonly clockAheadMs: number;
  /** What could not be measured, and why, for `doctor`. */
  readonly notes: readonly string[];
}

/** Reads the profile of the resource's list; undefined if it was never measured. */
export function storedProfile(
  store: Pick<MirrorStore, 'capability'>,
  resource: ResourceName,
): { readonly profile: Profile; readonly measuredAt: Timestamp } | undefined {
  const stored = store.capability(resource);
  return stored && { profile: stored.value as Profile, measuredAt: stored.measuredAt };
}

/** Records a profile. Returns whether every window must be read again, since ranges by the old one may have left out records. */
export function recordProfile(
  store: Pick<MirrorStore, 'capability' | 'recordCapability' | 'windows' | 'resetWindows'>,
  resource: ResourceName,
  measured: Profile,
): boolean {
  const before = storedProfile(store, resource)?.profile;
  const isOther = before?.dates !== measured.dates || before.dayBounds !== measured.dayBounds;
  // Ranges that are wider than need be leave nothing out.
  const mayLack = before !== undefined && isOther && !(before.dates === measured.dates && before.dayBounds === 'wide');
  // In this order, a stop in between costs time but loses nothing.
  if (mayLack) forgetReading(store, resource);
  store.recordCapability(resource, measured);
  return mayLack;
}

/** Has the list measured anew, as on the first contact. */
export function forgetProfile(store: Pick<MirrorStore, 'forgetCapability'>, resource: ResourceName): void {
  store.forgetCapability(resource);
}

/** Marks all of the resource as never read. Its rows stay. */
export function forgetReading(store: Pick<MirrorStore, 'windows' | 'resetWindows'>, resource: ResourceName): void {
  const days = store.windows(resource).map(({ from, to }) => ({ from, to }));
  store.resetWindows(resource, days);
}
