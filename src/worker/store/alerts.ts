/** The worker's alerts, in its own file. There are never many: they are written whole. */
import type { Database } from 'better-sqlite3';
import { FileError } from '../../model/errors.ts';
import { explainFileError } from '../../model/file-error.ts';
import { type Clock, systemClock, type Timestamp } from '../../model/time.ts';
import { openForReading, openForWriting } from '../../store/file-kind.ts';
import { workerKind } from './schema.ts';

/**
 * `job_failed`: a job ended otherwise than complete or partial, or did not run at its time. `job_partial`: a part of it
 * failed. `stale`: the mirror is older than it may be. `deletions_refused`: too many rows would go at once.
 * `batch_unknown`: nobody knows the outcome of a row. `worker_file`: the worker cannot write its own file. `test`: none.
 */
export type ProblemKind =
  | 'job_failed'
  | 'job_partial'
  | 'stale'
  | 'deletions_refused'
  | 'batch_unknown'
  | 'worker_file'
  | 'test';

/** Something that is wrong. Holds nothing of any person and nothing secret: it is sent to others. */
export interface Problem {
  /** The same as long as it is the same one: `job_failed:sync`. */
  readonly problem: string;
  readonly kind: ProblemKind;
  /** One line for a person: what is wrong, and the reason. */
  readonly text: string;
  /** What to do next, a command in backquotes in it; null where nothing is to be done. */
  readonly next: string | null;
  readonly job: string | null;
  /** The run that showed it. */
  readonly run: string | null;
  readonly outcome: string | null;
  readonly exitCode: number | null;
}

/** A problem that is open and was sent. */
export interface Alert extends Problem {
  readonly since: Timestamp;
  /** When it was sent last. */
  readonly sentAt: Timestamp;
}

export type Channel = 'webhook' | 'command';

/** One thing to be delivered by one channel. */
export interface Message {
  /** The receiver sees it: two deliveries of the same message have the same. */
  readonly id: string;
  readonly channel: Channel;
  /** JSON text. */
  readonly payload: string;
  readonly at: Timestamp;
  /** Tries that failed. */
  readonly attempts: number;
  /** Not to be tried before. */
  readonly notBefore: Timestamp;
}

export interface AlertBook {
  readonly alerts: readonly Alert[];
  /** Undelivered ones, the oldest first. */
  readonly messages: readonly Message[];
}

export interface AlertStore {
  load(): AlertBook;
  /** Puts the book in the place of what is on record, in one durable step. Throws a FileError. */
  save(book: AlertBook): void;
  close(): void;
}

/** Opens the alerts of the worker's file, and makes it where there is none. Throws `FileError`. The caller closes it. */
export function openAlertStore(file: string, clock: Clock = systemClock): AlertStore {
  // As durable as the runs: what was sent must not be forgotten with the power, or it would be sent again.
  return alertsOf(openForWriting(workerKind, file, clock, ['synchronous = FULL']), file);
}

/** Opens those of an existing file to be looked at. Throws `FileError`. The caller closes it. */
export function openAlertStoreForReading(file: string): AlertStore {
  const absent = new FileError(`there is no ${file}: no worker has run for this mirror`);
  return alertsOf(openForReading(workerKind, file, absent, absent), file);
}

interface AlertRow {
  readonly problem: string;
  readonly kind: ProblemKind;
  readonly text: string;
  readonly job: string | null;
  readonly run: string | null;
  readonly outcome: string | null;
  readonly exit_code: number | null;
  readonly since: string;
  readonly next: string | null;
  /** Null where it was sent by a version that did not note when. */
  readonly told_at: string | null;
}

interface MessageRow {
  readonly id: string;
  readonly channel: Channel;
  readonly payload: string;
  readonly at: string;
  readonly attempts: number;
  readonly not_before: string;
}

function alertOf({ problem, kind, text, job, run, outcome, exit_code, since, told_at, next }: AlertRow): Alert {
  const facts = { problem, kind, text, next, job, run, outcome, exitCode: exit_code };
  return { ...facts, since: since as Timestamp, sentAt: (told_at ?? since) as Timestamp };
}

function messageOf({ id, channel, payload, at, attempts, not_before }: MessageRow): Message {
  return { id, channel, payload, at: at as Timestamp, attempts, notBefore: not_before as Timestamp };
}

function alertsOf(database: Database, file: string): AlertStore {
  const alerts = database.prepare<[], AlertRow>('SELECT * FROM worker_alerts ORDER BY since, problem');
  const messages = database.prepare<[], MessageRow>('SELECT * FROM worker_messages ORDER BY number');
  const addAlert = database.prepare(
    `INSERT INTO worker_alerts (problem, kind, text, job, run, outcome, exit_code, since, next, told_at)
     VALUES (@problem, @kind, @text, @job, @run, @outcome, @exitCode, @since, @next, @sentAt)`,
  );
  const addMessage = database.prepare(
    `INSERT INTO worker_messages (id, channel, payload, at, attempts, not_before)
     VALUES (@id, @channel, @payload, @at, @attempts, @notBefore)`,
  );
  return {
    load: () => ({
      alerts: alerts.all().map(alertOf),
      messages: messages.all().map(messageOf),
    }),
    save: (book) => {
      const save = database.transaction(() => {
        database.exec('DELETE FROM worker_alerts; DELETE FROM worker_messages');
        for (const alert of book.alerts) addAlert.run(alert);
        for (const message of book.messages) addMessage.run(message);
      });
      try {
        save.immediate();
      } catch (error) {
        throw explainFileError(error, "write to the worker's file", file) ?? error;
      }
    },
    close: () => void database.close(),
  };
}
