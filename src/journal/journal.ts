/**
 * The journal over an SQLite file of its own. WAL with synchronous = FULL: what a method has done is on the disk when it
 * returns, since nothing here can be read again from anywhere. Section "The journal" of docs/architecture.md.
 */
import { randomUUID } from 'node:crypto';
import { statSync } from 'node:fs';
import type { Database } from 'better-sqlite3';
import { FileError, UsageError } from '../model/errors.ts';
import { explainFileError } from '../model/file-error.ts';
import { type Clock, systemClock, type Timestamp, timestampOf } from '../model/time.ts';
import type { ClaimedRow, ClaimTerms, ClaimView, Journal, NewBatch } from './port.ts';
import { openForReading, openForWriting } from '../store/file-kind.ts';
import { batchTable } from './batches.ts';
import { takeOutPerson } from './forget.ts';
import { intentTable } from './intents.ts';
import { batchLocks } from './lock.ts';
import { repeatTable } from './repeats.ts';
import { journalKind } from './schema.ts';
import { writeTable } from './writes.ts';

const pragmas = [
  // Each commit reaches the disk before anything is sent that relies on it.
  'synchronous = FULL',
  // On macOS, fsync alone leaves it in the drive's own memory.
  'fullfsync = ON',
  'foreign_keys = ON',
  // What is taken out of it is overwritten.
  'secure_delete = ON',
];

/** Opens the journal, and makes it with mode 0600 where there is none. Throws `FileError`. The caller closes it. */
export async function openJournal(file: string, clock: Clock = systemClock): Promise<Journal> {
  return journalOver(openForWriting(journalKind, file, clock, pragmas), file, clock);
}

/** Opens an existing journal to be looked at. Throws `FileError` where there is none. The caller closes it. */
export async function openJournalForReading(file: string, clock: Clock = systemClock): Promise<Journal> {
  const absent = new FileError(`there is no journal at ${file}`, {
    advice: `Nothing was planned yet; or name the file with ${journalKind.places}.`,
  });
  return journalOver(openForReading(journalKind, file, absent, absent), file, clock);
}

/** Whether the name still leads to the file that it led to when it was opened, and to some of it. */
function sameFile(file: string): () => boolean {
  const opened = statSync(file, { bigint: true });
  return () => {
    const now = statSync(file, { bigint: true, throwIfNoEntry: false });
    return now !== undefined && now.ino === opened.ino && now.dev === opened.dev && now.size > 0n;
  };
}

function replaced(file: string): FileError {
  return new FileError(`the journal ${file} was removed, emptied or replaced while it was in use`, {
    advice:
      'Put the file back as it was. Do not plan or send anything before: nothing else knows what was sent, and what ' +
      'was under way may have been made.',
  });
}

function takenBack(batch: string): UsageError {
  return new UsageError(`rows of batch ${batch} are being taken back by another batch at this moment`, {
    advice: 'See which one with `admin-mirror bulk status`.',
  });
}

/** What bounds the text of one answer: enough for any that the API gives, and not for a page of a proxy's. */
const longestAnswer = 16_384;

function journalOver(database: Database, file: string, clock: Clock): Journal {
  const batches = batchTable(database);
  const intents = intentTable(database);
  const locks = batchLocks(database, clock);
  // Tells what this connection has locked from what another one has.
  const owner = randomUUID().slice(0, 8);
  const writes = writeTable(database);
  const repeats = repeatTable(database);
  const identity = database.prepare<[], string>('SELECT id FROM journal_identity').pluck();
  const id = identity.get() ?? '';
  const isInPlace = sameFile(file);
  const now = (): Timestamp => timestampOf(clock.now());

  function told<T>(doing: () => T): T {
    try {
      return doing();
    } catch (error) {
      throw explainFileError(error, 'write to the journal', file) ?? error;
    }
  }

  const whole = <T>(doing: () => T): T =>
    told(() => {
      // A file that was removed goes on taking steps, which nobody will ever read.
      if (!isInPlace() || identity.get() !== id) throw replaced(file);
      return database.transaction(doing).immediate();
    });

  /** One durable step: all of it, or none; and none where the lock of the batch was lost. */
  const step = <T>(doing: () => T): T =>
    whole(() => {
      locks.guard();
      return doing();
    });

  const viewOf = (
    { batch, fileHash, rowsDigest }: Pick<NewBatch, 'batch' | 'fileHash' | 'rowsDigest'>,
    rows: readonly ClaimedRow[],
    { repeatsSince, daySince }: ClaimTerms,
  ): ClaimView => {
    const prints = rows.flatMap(({ fingerprint }) => fingerprint ?? []);
    return {
      rows,
      like: batches.sentLike(fileHash, rowsDigest, batch),
      repeats: repeats(prints, repeatsSince, batch),
      claimedToday: intents.claimedSince(daySince, batch),
      behind: batches.behind(),
      overApplied: intents.overApplied(),
    };
  };

  return {
    id,
    addBatch: async (batch, rows) =>
      step(() => {
        batches.insert(batch, now());
        if (!intents.insert(batch.batch, batch.undoOf, rows)) throw takenBack(batch.undoOf ?? '');
        if (batch.againReason !== null) batches.addStep(now(), batch.batch, null, 'again', batch.againReason);
      }),
    batch: async (id) => batches.one(id),
    batches: async () => batches.all(),
    steps: async (batch) => batches.steps(batch),
    lastStep: async () => batches.lastStep(),
    setBatchState: async (batch, state) => step(() => batches.setState(batch, state, now())),

    async *intents(batch, states) {
      yield* intents.walk(batch, states);
      return undefined;
    },
    async *changes(batch) {
      yield* intents.changes(batch);
    },
    async *parameters(batch) {
      yield* intents.parameters(batch);
    },
    intent: async (batch, row) => intents.one(batch, row),
    counts: async (batch) => intents.counts(batch),
    openRow: async (subject) => intents.openRow(subject),

    move: async (move) =>
      step(() => {
        const { answer } = move.fields ?? {};
        const fields = {
          ...move.fields,
          ...(typeof answer === 'string' && { answer: answer.slice(0, longestAnswer) }),
        };
        if (!intents.move({ ...move, fields })) return false;
        const at = now();
        batches.addStep(at, move.batch, move.row, move.to, move.note ?? null);
        return true;
      }),
    takeUp: async (batch) =>
      step(() => {
        const at = now();
        const rows = intents.interrupt(batch);
        for (const row of rows) batches.addStep(at, batch, row, 'unknown', 'the process that sent it died');
        return { interrupted: rows.length, freed: intents.free(batch) };
      }),

    claimView: async (...given) => viewOf(...given),
    claimable: async (batch) => intents.claimable(batch),
    claim: async (batch, terms, decide) =>
      step(() => {
        const found = batches.one(batch);
        if (found === undefined) throw new Error(`there is no batch ${batch} to claim`);
        const at = now();
        for (const { kind, note } of decide(viewOf(found, intents.claimable(batch), terms), found)) {
          if (kind === 'again') batches.setAgain(batch, note);
          batches.addStep(at, batch, null, kind, note);
        }
        intents.claim(batch, at);
        batches.setState(batch, 'applying', at);
      }),
    knowsToken: async (fingerprint, token) => intents.knowsToken(fingerprint, token),
    setBehind: async (batch, why) =>
      step(() => {
        batches.setBehind(batch, why);
        batches.addStep(now(), batch, null, why === null ? 'reconciled' : 'behind', why);
      }),
    undoneRows: async (batch) => intents.undone(batch),

    beginWrite: async (write) => step(() => writes.begin(write, now())),
    endWrite: async (write, end) =>
      step(() => writes.end(write, { ...end, answer: end.answer?.slice(0, longestAnswer) ?? null }, now())),
    writes: async (limit) => writes.last(limit),

    acquireLock: async (batch) => whole(() => locks.acquire(batch, owner, 'bulk')),
    releaseLock: async (batch) => whole(() => locks.release(batch, owner)),
    lockOwner: async (batch) => locks.owner(batch),

    forget: async (person) =>
      told(() => {
        const counts = database.transaction(() => takeOutPerson(database, person)).immediate();
        // Rows that changed length may have left bytes in pages; the log holds older states until it is folded in.
        database.exec('VACUUM');
        database.pragma('wal_checkpoint(TRUNCATE)');
        return counts;
      }),
    close: async () => {
      locks.close();
      database.close();
    },
  };
}
