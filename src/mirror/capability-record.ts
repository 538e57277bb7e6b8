/** What was measured of the server's lists, and which server it was, as the mirror keeps it. Section "Capabilities" of docs/architecture.md. */
import type { Capabilities } from '../api/capabilities.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import type { Owner, ServerContact } from './server-contact.ts';
import type { MirrorStore } from './store/mirror-store.ts';

const name = 'lists';

/** What is on record for the resource; undefined where its list was never measured. */
export function storedCapabilities(
  store: Pick<MirrorStore, 'capability'>,
  resource: ResourceName,
): { readonly capabilities: Capabilities; readonly measuredAt: Timestamp } | undefined {
  const stored = store.capability(name, resource);
  return stored && { capabilities: stored.value as Capabilities, measuredAt: stored.measuredAt };
}

/** Returns whether every window is to be read again, since the rules of before may have left out records. */
export function recordCapabilities(
  store: Pick<MirrorStore, 'capability' | 'recordCapability' | 'windows' | 'resetWindows'>,
  resource: ResourceName,
  measured: Capabilities,
): boolean {
  const before = storedCapabilities(store, resource)?.capabilities;
  // What was read under a wrong rule may lack records. In this order a stop in between loses nothing but time.
  const again = before !== undefined && mayLack(before, measured);
  if (again) forgetReading(store, resource);
  store.recordCapability(name, resource, measured);
  return again;
}

/** The list is to be measured anew, as at first contact. */
export function forgetCapabilities(store: Pick<MirrorStore, 'forgetCapability'>, resource: ResourceName): void {
  store.forgetCapability(name, resource);
}

/** From now on nothing of the resource counts as read; its rows stay. */
export function forgetReading(store: Pick<MirrorStore, 'windows' | 'resetWindows'>, resource: ResourceName): void {
  const days = store.windows(resource).map(({ from, to }) => ({ from, to }));
  store.resetWindows(resource, days);
}

/** Whether ranges that were requested by the old rules can have left out records that by the new ones belong to them. */
function mayLack(old: Capabilities, now: Capabilities): boolean {
  if (old.ranges !== now.ranges) return true;
  // Any other rule was read with a day more at the end, or at either side, which is enough under every rule.
  const lastDay = old.rangeEnd === 'inclusive' && now.rangeEnd !== 'inclusive';
  return lastDay || (old.dayShiftMinutes === 0 && now.dayShiftMinutes !== 0);
}

/** What is kept of the server; no credential, and nothing of a person but an id. */
export interface KnownServer {
  readonly address: string;
  readonly key_mark: string;
  /** Null where the server did not say whose key it is. */
  readonly owner: Pick<Owner, 'id' | 'marks'> | null;
}

const serverName = 'server';

/** The server that the mirror was read from, as it is on record; null before the first contact. */
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
