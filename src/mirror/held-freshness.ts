/**
 * Walks by rules that an earlier run has measured prove nothing if the server follows others by now; what gives that
 * away is the sum at the end. Until it has been proven the resource counts as no fresher than it was before, also
 * where the run is stopped on the way.
 */
import type { ResourceName } from '../model/resources.ts';
import type { MirrorStore } from '../store/mirror-types.ts';

/** The view `mirror_freshness` reads this record, too. */
const name = 'fresh_until_proven';

type HoldingStore = Pick<MirrorStore, 'freshAsOf' | 'capability' | 'recordCapability' | 'forgetCapability'>;

/** From now on the resource stays as fresh as it is. */
export function holdFreshness(store: HoldingStore, resource: ResourceName): void {
  // What an earlier run has left unproven still is.
  if (store.capability(name, resource) === undefined) store.recordCapability(name, resource, store.freshAsOf(resource));
}

/** The resource is not known to be fresh at all: records are missing that no window has shown. */
export function denyFreshness(store: HoldingStore, resource: ResourceName): void {
  store.recordCapability(name, resource, null);
}

/** The sum was proven: the resource is as fresh as its windows say. */
export function grantFreshness(store: HoldingStore, resource: ResourceName): void {
  if (store.capability(name, resource) !== undefined) store.forgetCapability(name, resource);
}
