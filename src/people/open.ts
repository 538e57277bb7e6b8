/** Opens the accounts, which are in the journal that the settings name. */
import { openBackendOf, openBackendToLook } from '../journal/open.ts';
import type { Actor } from '../model/actor.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { openPeopleOver, type People } from './people.ts';

/** Opens the accounts to be changed by the actor. Throws a FileError. */
export async function openPeople(settings: Settings, actor: Actor, clock: Clock, releases: Releases): Promise<People> {
  return releases.add(await openPeopleOver(await openBackendOf(settings, clock), actor));
}

/** Opens the accounts for reading; undefined if there is no journal, and so no account. Throws a FileError. */
export async function openPeopleForReading(
  settings: Settings,
  clock: Clock,
  releases: Releases,
): Promise<People | undefined> {
  const backend = await openBackendToLook(settings, clock);
  return backend === undefined ? undefined : releases.add(await openPeopleOver(backend, null));
}
