/** The journal that the settings name. */
import { existsSync } from 'node:fs';
import type { Actor } from '../model/actor.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { openJournal as openFile, openJournalForReading as openFileForReading } from './sqlite.ts';
import type { Journal, JournalRules } from './port.ts';

/** The journal, in which the actor acts, made where there is none. Throws a FileError. */
export async function openJournal(
  settings: Settings,
  actor: Actor,
  clock: Clock,
  releases: Releases,
): Promise<Journal> {
  return releases.add(await openFile(settings.store.journal, actor, clock, rulesOf(settings)));
}

/** The journal to be looked at; undefined where nothing was ever recorded. Throws a FileError. */
export async function openJournalForReading(
  settings: Settings,
  clock: Clock,
  releases: Releases,
): Promise<Journal | undefined> {
  const { journal } = settings.store;
  if (!existsSync(journal)) return undefined;
  return releases.add(await openFileForReading(journal, clock, rulesOf(settings)));
}

function rulesOf({ bulk: { approval, maxRow, maxTotal, maxDay, maxRows } }: Settings): JournalRules {
  return { approval, caps: { maxRow, maxTotal, maxDay, maxRows } };
}
