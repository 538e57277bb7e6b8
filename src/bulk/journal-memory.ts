/**
 * Whether the journal is the one that knows what was sent, by what the mirror remembers of it: one that was lost, emptied or
 * put back from a copy is noticed. Section "Consent" of docs/architecture.md.
 */
import { constants } from 'node:fs';
import type { Database } from 'better-sqlite3';
import { mayAccess } from '../model/access.ts';
import { UsageError } from '../model/errors.ts';
import { explainFileError } from '../model/file-error.ts';
import { type Clock, timestampOf } from '../model/time.ts';
import { openMirrorFile, openMirrorForReading } from '../store/open.ts';
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

interface RememberedJournal {
  /** The id of the journal. */
  readonly journal: string;
  /** The newest batch of which something was sent. */
  readonly batch: string;
  /** How many steps the journal had when the newest request was about to go out. */
  readonly steps: number;
}

export interface JournalMemory {
  /** Null where nothing was ever sent. Throws a FileError where the mirror cannot be read. */
  recall(): RememberedJournal | null;
  /** To be called before each request. Throws a FileError where the mirror cannot be written. */
  remember(newest: RememberedJournal): void;
  close(): void;
}

const name = 'journal';

/** Of an existing mirror. A mirror that this user may only read remembers nothing new. */
export function openJournalMemory(file: string, clock: Clock): JournalMemory {
  const reading = openMirrorForReading(file);
  const recall = reading
    .prepare<[string], string>("SELECT value FROM mirror_capabilities WHERE name = ? AND resource = ''")
    .pluck();
  let writing: Database | undefined;

  function explained<T>(doing: string, work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw explainFileError(error, `${doing} the mirror`, file) ?? error;
    }
  }

  return {
    recall: () =>
      explained('read', () => {
        const value = recall.get(name);
        return value === undefined ? null : (JSON.parse(value) as RememberedJournal);
      }),
    remember: (newest) =>
      explained('write to', () => {
        if (writing === undefined && !mayAccess(file, constants.W_OK)) return;
        writing ??= openMirrorFile(file, clock);
        writing
          .prepare(
            "INSERT OR REPLACE INTO mirror_capabilities (name, resource, value, measured_at) VALUES (?, '', ?, ?)",
          )
          .run(name, JSON.stringify(newest), timestampOf(clock.now()));
      }),
    close: () => {
      writing?.close();
      reading.close();
    },
  };
}
