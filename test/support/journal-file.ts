/** The journal in a file and its accounts, opened as commands open them, without settings. */
import { noRules } from '../../src/journal/approval.ts';
import { openJournalOver } from '../../src/journal/journal.ts';
import type { Journal, JournalRules } from '../../src/journal/port.ts';
import { openPeopleOver, type People } from '../../src/people/people.ts';
import { openBackend, openBackendForReading } from '../../src/journal/open.ts';
import type { Actor } from '../../src/model/actor.ts';
import { type Clock, systemClock } from '../../src/model/time.ts';

/** The caller closes it. */
export async function openJournal(
  file: string,
  actor: Actor,
  clock: Clock = systemClock,
  rules: JournalRules = noRules,
): Promise<Journal> {
  return openJournalOver(openBackend(file, clock), actor, rules);
}

/** The same, opened for reading. */
export async function openJournalForReading(file: string): Promise<Journal> {
  return openJournalOver(openBackendForReading(file, systemClock), null);
}

/** The accounts in the journal file, which is created if it is missing. The caller closes them. */
export function openPeopleIn(file: string, actor: Actor, clock: Clock = systemClock): Promise<People> {
  return openPeopleOver(openBackend(file, clock), actor);
}
