/** Rows and writes by hand that do the same as others: what was paid is known by user, kind and amount, not by its file. */
import type { Database } from 'better-sqlite3';
import type { Timestamp } from '../model/time.ts';
import type { SentRow } from './port.ts';
import { outward } from './intents.ts';

/**
 * Of a write by hand, after which nobody looks: whatever the answer said, it may have been made. Not where there was none,
 * or none of the server's own business: a key that was refused, a user who is not there.
 */
const maybeMade =
  "(state IN ('sending', 'done', 'unknown') OR (http_status IS NOT NULL AND http_status NOT IN (401, 403, 404)))";

/** The statements; each belongs into a transaction of the caller. */
export function repeatTable(database: Database) {
  // Without it, a plan of many rows would be looked up row by row in an index that has nothing.
  const any = database.prepare(
    `SELECT 1 FROM journal_intents WHERE fingerprint IS NOT NULL AND ${outward}
     UNION ALL SELECT 1 FROM journal_writes WHERE fingerprint IS NOT NULL LIMIT 1`,
  );
  const repeats = database.prepare<{ prints: string; since: string; apart: string }, SentRow>(
    `WITH prints (fingerprint) AS (SELECT DISTINCT value FROM json_each(@prints))
     SELECT fingerprint, batch, row, coalesce(sent_at, claimed_at) AS at, claimed_at AS "claimedAt", state
     FROM prints JOIN journal_intents USING (fingerprint)
     WHERE ${outward} AND batch <> @apart AND coalesce(sent_at, claimed_at) >= @since
     UNION ALL
     SELECT fingerprint, NULL, NULL, at, at, state FROM prints JOIN journal_writes USING (fingerprint)
     WHERE at >= @since AND ${maybeMade}
     ORDER BY at`,
  );
  return (fingerprints: readonly string[], since: Timestamp, apartFrom: string): SentRow[] =>
    any.get() === undefined ? [] : repeats.all({ prints: JSON.stringify(fingerprints), since, apart: apartFrom });
}
