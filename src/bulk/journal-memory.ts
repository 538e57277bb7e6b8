/** Whether the journal is the one that knows what was sent. Section "Consent" of docs/architecture.md. */
import { UsageError } from '../model/errors.ts';
import type { RememberedJournal } from './journal-memory-types.ts';
import type { Sending, SendingPorts } from './sending.ts';

/** The journal as it is, to be remembered before a request goes out. */
export async function memoryOf({ journal, batch }: Pick<Sending, 'journal' | 'batch'>): Promise<RememberedJournal> {
  return { journal: journal.id, batch: batch.batch, steps: await journal.lastStep() };
}

/** Throws a UsageError where the mirror remembers more than this journal holds; nothing was sent then. */
export async function checkMemory(
  { journal, memory }: Pick<SendingPorts, 'journal' | 'memory'>,
  accepted: boolean,
): Promise<void> {
  const known = memory?.recall() ?? null;
  if (known === null || accepted) return;
  if (known.journal !== journal.id) {
    throw refused(`batches of this mirror were sent from another journal, the newest of them ${known.batch}`);
  }
  if ((await journal.lastStep()) < known.steps) {
    throw refused(`this journal is older than the mirror: it does not know all that was sent of batch ${known.batch}`);
  }
}

function refused(why: string): UsageError {
  return new UsageError(`${why}; nothing was sent`, {
    advice:
      'A journal that was lost or put back from a copy does not know what was paid since. Put the newest one back. ' +
      'Where it is gone for good, look at the transactions of these users first; then go on with --accept-journal.',
  });
}
