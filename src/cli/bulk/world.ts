/** What the parts of `bulk` are opened with. */
import { resolve } from 'node:path';
import type { Client } from '../../api/client.ts';
import type { JournalMemory } from '../../bulk/journal-memory.ts';
import type { PlanPorts } from '../../bulk/plan.ts';
import type { Batch, Journal } from '../../journal/port.ts';
import { systemClock } from '../../model/time.ts';
import type { CliContext } from '../context.ts';
import { openDirectory, openJournalMemory } from '../../bulk/open.ts';
import { openLog } from '../logger.ts';
import { openJournal, openJournalForReading } from '../../journal/open.ts';
import { openApi } from '../../api/open.ts';
import { type Releases, withReleases } from '../../model/releases.ts';
import type { Surroundings } from '../../settings/settings.ts';

export interface BulkPorts extends PlanPorts {
  readonly client: Client;
  /** Null where there is no mirror, and in a rehearsal. */
  readonly memory: JournalMemory | null;
  readonly surroundings: Surroundings;
  /** From now on, the lines of the log are about that batch. */
  readonly about: (batch: string) => void;
}

/**
 * The journal, the server and the mirror, ready to plan and to send.
 * @param rehearsal the journal is one for this run alone, of which the mirror must know nothing
 */
export async function openBulk(context: CliContext, releases: Releases, rehearsal = false): Promise<BulkPorts> {
  const settings = context.settings();
  let batch: string | undefined;
  const log = await openLog(context, () => ({ batch }));
  const surroundings = { settings, log, clock: systemClock, signal: context.signal };
  const client = openApi(surroundings, releases);
  const { maxRow, maxTotal, maxDay, maxRows, againWithinMs } = settings.bulk;
  return {
    surroundings,
    about: (name) => {
      batch = name;
    },
    journal: await openJournal(settings, context.actor(), systemClock, releases),
    client,
    directory: openDirectory(settings, releases),
    memory: rehearsal ? null : openJournalMemory(settings, systemClock, releases),
    clock: systemClock,
    signal: context.signal,
    concurrency: settings.api.concurrency,
    pageSize: settings.api.pageSize,
    rules: { caps: { maxRow, maxTotal, maxDay, maxRows }, againWithinMs },
  };
}

/** Runs the work with the journal as it is, and undefined where there is none. */
export async function withJournal<T>(
  context: CliContext,
  work: (journal: Journal | undefined) => Promise<T>,
): Promise<T> {
  return withReleases(async (releases) => work(await openJournalForReading(context.settings(), systemClock, releases)));
}

/** The batch's file as it is found from the working folder. */
export function fileOf(context: CliContext, { file }: Batch): string | null {
  return file === null ? null : resolve(context.folder, file);
}
