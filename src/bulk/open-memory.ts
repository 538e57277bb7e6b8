/** Opens what the mirror remembers of the journal. Loads no client, since `status` must start fast. */
import { existsSync, statSync } from 'node:fs';
import { openJournalForReading } from '../journal/open.ts';
import { OperatorError } from '../model/errors.ts';
import { type Releases, withReleases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { MirrorsJournalMemory } from '../store/journal-memory.ts';
import { journalDoubt } from './journal-memory.ts';

export function openJournalMemory(settings: Settings, releases: Releases): MirrorsJournalMemory | null {
  const { mirror } = settings.store;
  if (!existsSync(mirror)) return null;
  return releases.add(new MirrorsJournalMemory(mirror));
}

/**
 * Says why the journal of the settings is not the one that knows what was sent: it is gone, or lacks what the mirror remembers. Null if
 * nothing speaks against it, or if one of the two cannot be read, which others report.
 */
export function openJournalDoubt(settings: Settings, clock: Clock): Promise<string | null> {
  return withReleases(async (releases) => {
    try {
      const memory = openJournalMemory(settings, releases);
      if (memory === null || memory.recall() === null) return null;
      const { journal, shared } = settings.store;
      const isEmpty = shared === undefined && (statSync(journal, { throwIfNoEntry: false })?.size ?? 0) === 0;
      const opened = isEmpty ? undefined : await openJournalForReading(settings, clock, releases);
      return await journalDoubt(memory, journal, opened);
    } catch (error) {
      if (error instanceof OperatorError) return null;
      throw error;
    }
  });
}
