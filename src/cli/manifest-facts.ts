/** What manifests say of the mirror and the journal, whether they can be read or not: a copy is made all the same. */
import { freshAsOf } from '../data/export-set.ts';
import { openReading } from '../data/open.ts';
import { OperatorError } from '../model/errors.ts';
import { systemClock, type Timestamp } from '../model/time.ts';
import { openJournalForReading } from '../journal/open.ts';
import type { Snapshot } from '../data/reading.ts';
import type { CliContext } from './context.ts';

/** Returns null for `fresh_as_of` if a resource was never read whole. @param table the only table that is written */
export function freshnessFacts({ settings, releases }: CliContext, table?: string) {
  const fresh = freshness(() => openReading(settings(), releases).snapshot(), table);
  return { fresh_as_of: fresh, complete: fresh !== null };
}

/** Returns the head of the journal's chain; null if there is no journal. */
export async function journalHead({ settings, releases }: CliContext) {
  try {
    const journal = await openJournalForReading(settings(), systemClock, releases);
    return (await journal?.head()) ?? null;
  } catch (error) {
    if (error instanceof OperatorError) return null;
    throw error;
  }
}

function freshness(open: () => Snapshot, table: string | undefined): Timestamp | null {
  try {
    const snapshot = open();
    try {
      return freshAsOf(snapshot, table);
    } finally {
      snapshot.release();
    }
  } catch (error) {
    if (error instanceof OperatorError) return null;
    throw error;
  }
}
