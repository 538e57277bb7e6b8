/**
 * What the mirror's file remembers of the journal that money was sent from: one row. `bulk/journal-memory.ts` decides by it. Section
 * "Consent" of docs/architecture.md.
 */
import { accessSync, constants } from 'node:fs';
import type { Database, Statement } from 'better-sqlite3';
import { explainFileError } from '../model/files.ts';
import type { Timestamp } from '../model/time.ts';
import { openMirrorFile, openMirrorForReading } from './open.ts';

/** The newest step of the journal that money was sent from, and this. */
export interface RememberedJournal {
  /** The id of the journal. */
  readonly journal: string;
  readonly step: number;
  readonly hash: string;
  /** The batch of the newest request; null for a write by hand. */
  readonly batch: string | null;
  /** When that request was about to be sent. */
  readonly at: Timestamp;
  /** This machine has sent nothing itself: `at` is when it saw the step. */
  readonly seen?: true;
}

/** The memory in an existing mirror. A mirror that this user may only read remembers nothing new. */
export class MirrorsJournalMemory {
  readonly #file: string;
  readonly #reading: Database;
  readonly #recall: Statement<[], string>;
  #writing: { readonly database: Database; readonly remember: Statement } | undefined;

  constructor(file: string) {
    this.#file = file;
    this.#reading = openMirrorForReading(file);
    this.#recall = this.#reading.prepare<[], string>('SELECT value FROM mirror_journal').pluck();
  }

  /** Returns null if nothing was ever sent. Throws a FileError if the mirror cannot be read. */
  recall(): RememberedJournal | null {
    return this.#explained('read', () => {
      const value = this.#recall.get();
      return value === undefined ? null : (JSON.parse(value) as RememberedJournal);
    });
  }

  /**
   * Replaces what was recalled. Returns false if another process has replaced it meanwhile. Throws a FileError if the mirror cannot
   * be written.
   */
  remember(newest: RememberedJournal, recalled: RememberedJournal | null): boolean {
    return this.#explained('write to', () => {
      if (this.#writing === undefined && !isWritable(this.#file)) return true;
      this.#writing ??= openForRemembering(this.#file);
      const hash = recalled?.hash ?? null;
      return this.#writing.remember.run({ value: JSON.stringify(newest), hash }).changes > 0;
    });
  }

  /** Whether the mirror is a copy that nothing has written to. */
  isCopy(): boolean {
    return this.#reading.pragma('journal_mode', { simple: true }) !== 'wal';
  }

  close(): void {
    this.#writing?.database.close();
    this.#reading.close();
  }

  #explained<T>(doing: string, work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw explainFileError(error, `${doing} the mirror`, this.#file) ?? error;
    }
  }
}

function openForRemembering(file: string) {
  const database = openMirrorFile(file);
  const remember = database.prepare(
    `INSERT INTO mirror_journal (one, value) VALUES (1, @value)
    ON CONFLICT (one) DO UPDATE SET value = excluded.value WHERE value ->> 'hash' IS @hash`,
  );
  return { database, remember };
}

function isWritable(file: string): boolean {
  try {
    accessSync(file, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
