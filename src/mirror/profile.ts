/** What a server does where the API's reference is silent, as measured and stored. Section "The profile" of docs/architecture.md. */
import * as z from 'zod/mini';
import type { ResourceName } from '../model/resources.ts';
import { dayMs, type Timestamp } from '../model/time.ts';
import type { MirrorStore } from './store/mirror-store.ts';

/** A clock that is further off than a thousand years would lead to days that no range can have. */
const furthestMs = 365_000 * dayMs;

const profileType = z.readonly(
  z.object({
    /** The most records on a page. */
    pageSize: z.int().check(z.gte(1)),
    /** The format in which `date` takes a range; `none` if ranges do not work or nothing shows that they do. */
    dates: z.enum(['iso', 'dmy', 'none']),
    /**
     * Which records a range of days shows: those of all its days; all but the last day's; or not known, as where the server's days
     * begin at another time than those of its creation times.
     */
    dayBounds: z.enum(['exact', 'next_day', 'wide']),
    /** Whether lists come in the order of creation. A list too short to show it counts as ordered. */
    ordered: z.boolean(),
    /** Set if the host could not make larger pages when it was measured. */
    isNarrowed: z.exactOptional(z.boolean()),
    /** By how much the server's clock was ahead of this machine's, ms; negative if behind, 0 if it sends no time. */
    clockAheadMs: z.number().check(z.gte(-furthestMs), z.lte(furthestMs)),
    /** What could not be measured, and why, for `doctor`. */
    notes: z.readonly(z.array(z.string())),
  }),
);

export type Profile = z.infer<typeof profileType>;
export type DayBounds = Profile['dayBounds'];

/** Reads the profile of the resource's list; undefined if it was never measured, or if another program wrote what none can be. */
export function storedProfile(
  store: Pick<MirrorStore, 'capability'>,
  resource: ResourceName,
): { readonly profile: Profile; readonly measuredAt: Timestamp } | undefined {
  const stored = store.capability(resource);
  const checked = profileType.safeParse(stored?.value);
  return stored && checked.data && { profile: checked.data, measuredAt: stored.measuredAt };
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
  const mayLack = isOther && !(before?.dates === measured.dates && before.dayBounds === 'wide');
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
