/** Checks everything that a first run needs, and reports all problems at once. */
import { type CapabilityStatus, openCapabilities } from '../mirror/open-status.ts';
import { FileError } from '../model/errors.ts';
import type { Releases } from '../model/releases.ts';
import type { ResourceName } from '../model/resources.ts';
import { keyOf, networkOf } from '../settings/server.ts';
import type { Settings } from '../settings/settings.ts';
import { type Check, ok, type Place, runChecks, skipped } from './check.ts';
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

export async function examine(
  place: Omit<Place, 'server'>,
  releases: Releases,
): Promise<Pick<ServerFindings, 'findings' | 'capabilities'>> {
  let asked: Promise<ServerFindings> | undefined;
  const server = () => (asked ??= examineServer(place, releases));
  const findings = await runChecks(checks, { ...place, server });
  return { findings, capabilities: (await server()).capabilities };
}

async function examineServer(
  { settings, signal }: Pick<Place, 'settings' | 'signal'>,
  releases: Releases,
): Promise<ServerFindings> {
  const { baseUrl } = settings.api;
  const nothing = { usable: false, capabilities: {} };
  if (baseUrl === undefined) return { ...nothing, findings: [skipped('server', 'there is no base address')] };
  const key = orNone(() => keyOf(settings).key);
  const network = orNone(() => networkOf(settings)) ?? {};
  const stored = capabilitiesOnRecord(settings, releases);
  const tried = await tryServer({ settings, baseUrl, key, network, signal }, releases, stored);
  if (tried.usable) return tried;
  return { ...tried, findings: [...tried.findings, skipped('lists', 'the server and the key must be right first')] };
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
