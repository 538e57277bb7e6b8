/** Checks everything that a first run needs, and reports all problems at once. */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { openProbeRecord } from '../mirror/open.ts';
import { type CapabilityStatus, openCapabilities } from '../mirror/open-status.ts';
import type { Profile } from '../mirror/profile.ts';
import { FileError, LockHeldError } from '../model/errors.ts';
import { type Releases, withReleases } from '../model/releases.ts';
import type { ResourceName } from '../model/resources.ts';
import { systemClock } from '../model/time.ts';
import { keyOf, networkOf } from '../settings/server.ts';
import type { Settings } from '../settings/settings.ts';
import { type Check, failed, type Finding, ok, type Place, runChecks, skipped, warn } from './check.ts';
import * as local from './local-checks.ts';
import * as nights from './night-checks.ts';
import { orNone, serverCheck, type ServerFindings, tryServer } from './server-checks.ts';

/** In the order of the report. */
const checks: readonly Check[] = [
  { name: 'node', run: () => [ok('node', process.versions.node)] },
  local.settingsCheck,
  local.addressCheck,
  local.keyCheck,
  local.proxyCheck,
  local.certificatesCheck,
  serverCheck,
  local.mirrorCheck,
  local.journalCheck,
  local.sharedStoreCheck,
  local.approvalCheck,
  local.reportsCheck,
  nights.jobsCheck,
  nights.backupsCheck,
  nights.publishCheck,
  nights.alertsCheck,
];

/** @param probe measure again what the lists can do, and record it */
export async function examine(
  place: Omit<Place, 'server'>,
  probe: boolean,
  releases: Releases,
): Promise<Pick<ServerFindings, 'findings' | 'capabilities'>> {
  let asked: Promise<ServerFindings> | undefined;
  const server = () => (asked ??= examineServer(place, probe, releases));
  const findings = await runChecks(checks, { ...place, server });
  return { findings, capabilities: (await server()).capabilities };
}

async function examineServer(
  { settings, signal }: Pick<Place, 'settings' | 'signal'>,
  probe: boolean,
  releases: Releases,
): Promise<ServerFindings> {
  const { baseUrl } = settings.api;
  const nothing = { usable: false, capabilities: {}, measured: new Map() };
  if (baseUrl === undefined) return { ...nothing, findings: [skipped('server', 'there is no base address')] };
  const key = orNone(() => keyOf(settings).key);
  const network = orNone(() => networkOf(settings)) ?? {};
  const stored = probe ? undefined : capabilitiesOnRecord(settings, releases);
  const tried = await tryServer({ settings, baseUrl, key, network, signal }, releases, stored);
  const more = tried.usable
    ? probe
      ? await recordMeasured(settings, tried.measured)
      : []
    : [skipped('lists', 'the server and the key must be right first')];
  return { ...tried, findings: [...tried.findings, ...more] };
}

/** Returns what the mirror has on record about each list; null for each if there is no readable mirror. */
function capabilitiesOnRecord(
  settings: Settings,
  releases: Releases,
): (resource: ResourceName) => CapabilityStatus | null {
  try {
    return openCapabilities(settings, releases);
  } catch (error) {
    // Another check reports what is wrong with the file.
    if (error instanceof FileError) return () => null;
    throw error;
  }
}

/** Records the measurements in the mirror, if there is one, and reports that. */
async function recordMeasured(settings: Settings, measured: ReadonlyMap<ResourceName, Profile>): Promise<Finding[]> {
  const name = 'capabilities';
  if (!existsSync(settings.store.mirror)) {
    return [ok(name, 'measured, but not recorded: there is no mirror yet; the first sync measures them itself')];
  }
  return withReleases(async (releases) => {
    try {
      const record = openProbeRecord({ settings, clock: systemClock }, releases);
      const again = record(`doctor-${randomUUID().slice(0, 8)}`, measured);
      const note =
        again.length === 0
          ? ''
          : `; date ranges work differently than before, so the next sync reads all ${again.join(', ')}`;
      return [ok(name, `measured, and recorded for ${[...measured.keys()].join(', ')}${note}`)];
    } catch (error) {
      // Another check reports what is wrong with the file.
      if (error instanceof FileError)
        return [skipped(name, 'measured, but not recorded: the mirror must be right first')];
      if (error instanceof LockHeldError) return [warn(name, `not recorded: ${error.message}`, error.advice)];
      return [failed(name, error)];
    }
  });
}
