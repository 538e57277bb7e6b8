/** What bulk reads of the mirror that the settings name. */
import { existsSync } from 'node:fs';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { type JournalMemory, openJournalMemory as openMemory } from './journal-memory.ts';
import { openUserDirectory, type UserDirectory } from './user-directory.ts';

/** The mirror, to find users in; null where there is none. */
export function openDirectory(settings: Settings, releases: Releases): UserDirectory | null {
  const { mirror } = settings.store;
  if (!existsSync(mirror)) return null;
  return releases.add(openUserDirectory(mirror));
}

/** What the mirror remembers of the journal; null where there is no mirror. */
export function openJournalMemory(settings: Settings, clock: Clock, releases: Releases): JournalMemory | null {
  const { mirror } = settings.store;
  if (!existsSync(mirror)) return null;
  return releases.add(openMemory(mirror, clock));
}
