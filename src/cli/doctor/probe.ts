/** What the mirror has on record of the server, and how the doctor renews it. */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { Capabilities } from '../../api/capabilities.ts';
import type { CapabilityStatus } from '../../mirror/status.ts';
import { FileError, LockHeldError } from '../../model/errors.ts';
import type { ResourceName } from '../../model/resources.ts';
import { systemClock } from '../../model/time.ts';
import type { Settings } from '../../settings/settings.ts';
import { type Check, failed, ok, skipped, warn } from './check.ts';
import { openCapabilities, openProbeRecord } from '../../mirror/open-status.ts';
import { type Releases, withReleases } from '../../model/releases.ts';

/** What is on record of each list; nothing where there is no mirror that can be read. */
export async function capabilitiesOnRecord(
  settings: Settings,
  releases: Releases,
): Promise<(resource: ResourceName) => CapabilityStatus | null> {
  try {
    return openCapabilities(settings, releases);
  } catch (error) {
    // What is wrong with the file has a check of its own.
    if (error instanceof FileError) return () => null;
    throw error;
  }
}

/** Puts on record what was measured, where there is a mirror to keep it, and says so. */
export async function recordMeasured(
  settings: Settings,
  measured: ReadonlyMap<ResourceName, Capabilities>,
): Promise<Check[]> {
  const name = 'capabilities';
  if (!existsSync(settings.store.mirror)) {
    return [ok(name, 'measured, and kept nowhere: there is no mirror yet; the first sync measures them itself')];
  }
  return withReleases(async (releases) => {
    try {
      const record = openProbeRecord({ settings, clock: systemClock }, releases);
      const again = record(`doctor-${randomUUID().slice(0, 8)}`, measured);
      const note =
        again.length === 0
          ? ''
          : `; date ranges work otherwise than before, so the next sync reads all ${again.join(', ')}`;
      return [ok(name, `measured, and put on record for ${[...measured.keys()].join(', ')}${note}`)];
    } catch (error) {
      // What is wrong with the file has a check of its own.
      if (error instanceof FileError)
        return [skipped(name, 'measured, and not put on record: the mirror must be right first')];
      if (error instanceof LockHeldError) return [warn(name, `not put on record: ${error.message}`, error.advice)];
      return [failed(name, error)];
    }
  });
}
