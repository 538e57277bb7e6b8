/** What the parts of `bulk` are opened with. */
import { resolve } from 'node:path';
import { type BulkPorts as Ports, openBulkPorts } from '../../bulk/open.ts';
import type { Batch, Journal } from '../../journal/port.ts';
import { openJournalForReading } from '../../journal/open.ts';
import { type Releases, withReleases } from '../../model/releases.ts';
import { systemClock } from '../../model/time.ts';
import type { Surroundings } from '../../settings/settings.ts';
import type { CliContext } from '../context.ts';
import { openLog } from '../logger.ts';

export interface BulkPorts extends Ports {
  readonly surroundings: Surroundings;
  /** From now on, the lines of the log are about that batch. */
  readonly about: (batch: string) => void;
}

/** @param rehearsal the journal is one for this run alone, of which the mirror must know nothing */
export async function openBulk(context: CliContext, releases: Releases, rehearsal = false): Promise<BulkPorts> {
  let batch: string | undefined;
  const log = await openLog(context, () => ({ batch }));
  const surroundings = { settings: context.settings(), log, clock: systemClock, signal: context.signal };
  return {
    ...(await openBulkPorts(surroundings, context.actor(), releases, rehearsal)),
    surroundings,
    about: (name) => {
      batch = name;
    },
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
