/** Whether the journal is the one that knows what was sent. Section "The journal" of docs/architecture.md. */
import { UsageError } from '../model/errors.ts';
import type { SendingPorts } from './sending.ts';

/** Throws a UsageError where the mirror remembers a batch that this journal does not have; nothing was sent then. */
export function checkMemory({ journal, memory }: Pick<SendingPorts, 'journal' | 'memory'>, accepted: boolean): void {
  const known = memory?.recall() ?? null;
  if (known === null || accepted) return;
  if (known.journal !== journal.id) {
    throw refused(`batches of this mirror were sent from another journal, the newest of them ${known.batch}`);
  }
  const batch = journal.batch(known.batch);
  if (batch === undefined || batch.appliedAt === null) {
    throw refused(`this journal is older than the mirror: it does not know that batch ${known.batch} was sent`);
  }
}

function refused(why: string): UsageError {
  return new UsageError(`${why}; nothing was sent`, {
    advice:
      'A journal that was lost or put back from a copy does not know what was paid since. Put the newest one back. ' +
      'Where it is gone for good, look at the transactions of these users first; then go on with --accept-journal.',
  });
}
