/** Stores the measured capabilities of lists, and which server they are of. Section "Capabilities" of docs/architecture.md. */
import type { Capabilities } from '../api/capabilities.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import type { Owner, ServerContact } from './server-contact.ts';
import type { MirrorStore } from './store/mirror-store.ts';

const name = 'lists';

/** Reads the capabilities of the resource; undefined if its list was never measured. */
export function storedCapabilities(
  store: Pick<MirrorStore, 'capability'>,
  resource: ResourceName,
): { readonly capabilities: Capabilities; readonly measuredAt: Timestamp } | undefined {
  const stored = store.capability(name, resource);
  return stored && { capabilities: stored.value as Capabilities, measuredAt: stored.measuredAt };
}

/** Records capabilities. Returns whether every window must be read again, since the old rules may have left out records. */
export function recordCapabilities(
  store: Pick<MirrorStore, 'capability' | 'recordCapability' | 'windows' | 'resetWindows'>,
  resource: ResourceName,
  measured: Capabilities,
): boolean {
  const before = storedCapabilities(store, resource)?.capabilities;
  // In this order, a stop in between costs time but loses nothing.
  const again = before !== undefined && mayLack(before, measured);
  if (again) forgetReading(store, resource);
  store.recordCapability(name, resource, measured);
  return again;
}

/** Has the list measured anew, as on the first contact. */
export function forgetCapabilities(store: Pick<MirrorStore, 'forgetCapability'>, resource: ResourceName): void {
  store.forgetCapability(name, resource);
}

/** Marks all of the resource as never read. Its rows stay. */
export function forgetReading(store: Pick<MirrorStore, 'windows' | 'resetWindows'>, resource: ResourceName): void {
  const days = store.windows(resource).map(({ from, to }) => ({ from, to }));
  store.resetWindows(resource, days);
}

/** Whether ranges requested by the old rules may have left out records that belong to them by the new rules. */
function mayLack(old: Capabilities, now: Capabilities): boolean {
  if (old.ranges !== now.ranges) return true;
  // Under any other old rule, ranges were requested with an extra day at the end or on both sides, which is always enough.
  const lastDay = old.rangeEnd === 'inclusive' && now.rangeEnd !== 'inclusive';
  return lastDay || (old.dayShiftMinutes === 0 && now.dayShiftMinutes !== 0);
}

/** The stored identity of the server, without any credential. */
export interface KnownServer {
  readonly address: string;
  readonly key_mark: string;
  /** Null if the server did not say whose key it is. */
  readonly owner: Pick<Owner, 'id' | 'marks'> | null;
}

const serverName = 'server';

/** Reads the server that the mirror was read from; null before the first contact. */
export function knownServer(store: Pick<MirrorStore, 'capability'>): KnownServer | null {
  return (store.capability(serverName, '')?.value as KnownServer | undefined) ?? null;
}

export function recordServer(
  store: Pick<MirrorStore, 'recordCapability'>,
  { address, keyMark }: Pick<ServerContact, 'address' | 'keyMark'>,
  owner: KnownServer['owner'],
): void {
  const kept = owner === null ? null : { id: owner.id, marks: owner.marks };
  store.recordCapability(serverName, '', { address, key_mark: keyMark, owner: kept } satisfies KnownServer);
}
