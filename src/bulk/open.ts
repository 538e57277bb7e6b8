/** Opens what planning and sending need, as the settings say, for the command line and the console. */
import { existsSync, statSync } from 'node:fs';
import type { Client } from '../api/operations.ts';
import { openApi } from '../api/open.ts';
import { openJournal, openJournalForReading } from '../journal/open.ts';
import type { Actor } from '../model/actor.ts';
import { OperatorError } from '../model/errors.ts';
import { type Releases, withReleases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings, Surroundings } from '../settings/settings.ts';
import { MirrorsJournalMemory } from '../store/journal-memory.ts';
import { journalDoubt, type JournalMemory } from './journal-memory.ts';
import type { PlanPorts } from './plan.ts';
import { UserDirectory } from './find-users.ts';

export interface BulkPorts extends PlanPorts {
  readonly client: Client;
  /** Null without a mirror, and in a rehearsal. */
  readonly memory: JournalMemory | null;
}

/** @param rehearsal the journal is for this run only, and the mirror must not remember it */
export async function openBulkPorts(
  { settings, log, clock, signal }: Surroundings,
  actor: Actor,
  releases: Releases,
  rehearsal = false,
): Promise<BulkPorts> {
  const journal = await openJournal(settings, actor, clock, releases);
  const { maxRow, maxTotal, maxDay, maxRows, againWithinMs } = settings.bulk;
  return {
    journal,
    client: openApi({ settings, log, clock: journal.clock }, releases),
    directory: openDirectory(settings, releases),
    memory: rehearsal ? null : openJournalMemory(settings, releases),
    clock: journal.clock,
    signal,
    concurrency: settings.api.concurrency,
    pageSize: settings.api.pageSize,
    rules: { caps: { maxRow, maxTotal, maxDay, maxRows }, againWithinMs, rivals: settings.rivals },
  };
}

export function openDirectory(settings: Settings, releases: Releases): UserDirectory | null {
  const { mirror } = settings.store;
  if (!existsSync(mirror)) return null;
  return releases.add(new UserDirectory(mirror));
}

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
