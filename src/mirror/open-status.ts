/** What is known of the mirror that the settings name, without asking the server; and what is put on record in it. */
import { existsSync, statSync } from 'node:fs';
import type { Capabilities } from '../api/capabilities.ts';
import { openJournal } from '../journal/open.ts';
import type { Actor } from '../model/actor.ts';
import type { Releases } from '../model/releases.ts';
import type { ResourceName } from '../model/resources.ts';
import { type Clock, dayMs, hourMs, systemClock } from '../model/time.ts';
import type { Settings, Surroundings } from '../settings/settings.ts';
import { planRun, type RunPlan } from './dry-run.ts';
import type { ForgetPorts } from './forget.ts';
import { recordProbe } from './probe-record.ts';
import type { SyncRequest } from './run.ts';
import { capabilityStatus, type CapabilityStatus, mirrorStatus, type MirrorStatus } from './status.ts';
import { openForgetStore } from './store/forget-store.ts';
import { openMirrorStore, openMirrorStoreForReading } from './store/mirror-store.ts';

export const syncBounds = {
  /** How long after its end a window is still expected to gain records. */
  graceMs: 48 * hourMs,
  runsKeepMs: 400 * dayMs,
  eventsKeepMs: 400 * dayMs,
  /** A log that readers hold open ends the run in order before it fills the disk. */
  maxLogBytes: 4e9,
} as const;

/** What the next sync would do. Throws a FileError where there is no mirror. */
export function openPlan(
  settings: Settings,
  request: Omit<SyncRequest, 'graceMs' | 'windowPages' | 'concurrency'>,
  releases: Releases,
): RunPlan {
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  return planRun(store, systemClock, request.resources, {
    ...request,
    ...syncBounds,
    ...settings.sync,
    requestsPerRun: request.requestsPerRun,
  });
}

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

/** Puts what was measured on record in the mirror; gives the resources that are to be read whole again for it. */
export function openProbeRecord(
  { settings, clock }: Pick<Surroundings, 'settings' | 'clock'>,
  releases: Releases,
): (run: string, measured: ReadonlyMap<ResourceName, Capabilities>) => ResourceName[] {
  const store = releases.add(openMirrorStore(settings.store.mirror, clock));
  return (run, measured) => recordProbe(store, run, measured);
}

/** What forgetting a person works on. Throws a FileError where there is no mirror. */
export async function openForget(
  settings: Settings,
  actor: Actor,
  clock: Clock,
  releases: Releases,
): Promise<ForgetPorts> {
  const store = releases.add(openForgetStore(settings.store.mirror, clock));
  const { journal } = settings.store;
  const hasJournal = existsSync(journal) && statSync(journal).size > 0;
  return { store, journal: hasJournal ? await openJournal(settings, actor, clock, releases) : 'none', clock };
}
