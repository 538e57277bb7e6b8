/** What is known of the mirror that the settings name, without a request. `status` must start fast: this loads no engine. */
import type { Releases } from '../model/releases.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Settings } from '../settings/settings.ts';
import { capabilityStatus, type CapabilityStatus, mirrorStatus, type MirrorStatus } from './status.ts';
import { openMirrorStoreForReading } from './store/mirror-store.ts';

/** What the mirror says of itself. Throws a FileError where there is none. */
export function openStatus(settings: Settings, releases: Releases): MirrorStatus {
  return mirrorStatus(releases.add(openMirrorStoreForReading(settings.store.mirror)));
}

/** What the mirror has on record of a list of the server. Throws a FileError where there is no mirror. */
export function openCapabilities(
  settings: Settings,
  releases: Releases,
): (resource: ResourceName) => CapabilityStatus | null {
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  return (resource) => capabilityStatus(store, resource);
}
