/** Writes outside of any batch in an SQLite journal. */
import type { Database } from 'better-sqlite3';
import type { Timestamp } from '../model/time.ts';
import type { NewWrite, SentWrite, WriteEnd } from './port.ts';

export function writeTable(database: Database) {
  const insert = database.prepare(
    "INSERT INTO journal_writes (at, operation, user, body, fingerprint, state) VALUES (?, ?, ?, ?, ?, 'sending')",
  );
  const end = database.prepare(
    'UPDATE journal_writes SET state = ?, ended_at = ?, http_status = ?, answer = ?, problem = ? WHERE write = ?',
  );
  const last = database.prepare<[number], SentWrite>(
    `SELECT write, at, operation, user, body, state, http_status AS "httpStatus", problem
     FROM journal_writes ORDER BY write DESC LIMIT ?`,
  );
  return {
    begin: ({ operation, user, body, fingerprint }: NewWrite, at: Timestamp): number =>
      Number(insert.run(at, operation, user, body, fingerprint).lastInsertRowid),
    end: (write: number, { state, httpStatus, answer, problem }: WriteEnd, at: Timestamp): void => {
      end.run(state, at, httpStatus, answer, problem, write);
    },
    last: (limit: number): SentWrite[] => last.all(limit),
  };
}
