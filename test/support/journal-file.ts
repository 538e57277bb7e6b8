/** The journal in a file, opened as commands open it, without settings. */
import { noRules } from '../../src/journal/approval.ts';
import { openJournalOver } from '../../src/journal/journal.ts';
import type { Journal, JournalRules } from '../../src/journal/port.ts';
import { openBackend, openBackendForReading } from '../../src/journal/sqlite.ts';
import type { Actor } from '../../src/model/actor.ts';
import { type Clock, systemClock } from '../../src/model/time.ts';

/** The caller closes it. */
export async function openJournal(
  file: string,
  actor: Actor,
  clock: Clock = systemClock,
  rules: JournalRules = noRules,
): Promise<Journal> {
  return openJournalOver(openBackend(file, clock), actor, clock, rules);
}

/** The same to be looked at. */
export async function openJournalForReading(file: string): Promise<Journal> {
  return openJournalOver(openBackendForReading(file, systemClock), null, systemClock);
}
