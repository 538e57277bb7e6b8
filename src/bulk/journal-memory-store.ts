/** What an SQLite mirror remembers of the journal, beside what was measured of the server. */
import { constants } from 'node:fs';
import type { Database } from 'better-sqlite3';
import { mayAccess } from '../model/access.ts';
import { explainFileError } from '../model/file-error.ts';
import { type Clock, timestampOf } from '../model/time.ts';
import type { JournalMemory, RememberedJournal } from './journal-memory-types.ts';
import { openMirrorFile, openMirrorForReading } from '../store/open.ts';

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
