/** What an SQLite mirror remembers of the journal, beside what was measured of the server. */
import { accessSync, constants } from 'node:fs';
import { type Clock, timestampOf } from '../../model/time.ts';
import type { JournalMemory } from '../ports/journal-memory.ts';
import { openMirrorFile, openMirrorForReading } from './open.ts';

const name = 'journal';

/** Of an existing mirror. A mirror that this user may only read remembers nothing new. */
export function openJournalMemory(file: string, clock: Clock): JournalMemory {
  const reading = openMirrorForReading(file);
  const recall = reading
    .prepare<[string], string>("SELECT value FROM mirror_capabilities WHERE name = ? AND resource = ''")
    .pluck();
  return {
    recall: () => {
      const value = recall.get(name);
      return value === undefined ? null : (JSON.parse(value) as ReturnType<JournalMemory['recall']>);
    },
    remember: (journal, batch) => {
      if (!isWritable(file)) return;
      const database = openMirrorFile(file, clock);
      try {
        database
          .prepare(
            "INSERT OR REPLACE INTO mirror_capabilities (name, resource, value, measured_at) VALUES (?, '', ?, ?)",
          )
          .run(name, JSON.stringify({ journal, batch }), timestampOf(clock.now()));
      } finally {
        database.close();
      }
    },
    close: () => void reading.close(),
  };
}

function isWritable(file: string): boolean {
  try {
    accessSync(file, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
