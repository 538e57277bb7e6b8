/**
 * What a claim decides on, read in the transaction that claims: the rows to claim, earlier rows and writes that do the same,
 * and what stands in the way. Section "The journal" of docs/architecture.md.
 */
import { sql, type SqlBool } from 'kysely';
import { changeByHand } from '../model/approval.ts';
import type { PlannedChange } from '../model/money.ts';
import { parseInstant, type Timestamp, timestampOf } from '../model/time.ts';
import type { JournalBackend } from './database.ts';
import type { ClaimedRow, ClaimTerms, ClaimView, Intent, NewBatch, SentRow } from './port.ts';
import { batchOf, type Connection } from './tables.ts';

// Literal text, not bound values: only then does SQLite use the partial indexes on these states.
export const isOpen = sql<SqlBool>`state in ('sending', 'acknowledged', 'unknown', 'needs_human')`;
export const isNotMade = sql<SqlBool>`state in ('rejected', 'not_applied')`;
export const notMadeStates = ['rejected', 'not_applied'] as const;
/** Sent and not made, and nobody has decided whether it is sent again: it holds back the later rows of its user in the batch. */
export const isUndecided = sql<SqlBool>`(state in ('rejected', 'not_applied') and coalesce(evidence, '') <> 'person')`;
export const canBeClaimed = sql<SqlBool>`state in ('planned', 'blocked')`;
/** Claimed and not refused or skipped since: the row was sent, or may be sent at any moment. */
export const countsAsSent = sql<SqlBool>`(claimed_at is not null and state not in ('rejected', 'skipped', 'invalid'))`;
/** A write by hand that may have been made. So may one that any response refused, until the user was read. */
export const mayBeMade = sql<SqlBool>`(state in ('sending', 'done', 'unknown')
  or (http_status is not null and state <> 'not_made'))`;

/**
 * Returns the new state of a row that must not go out. If a person wanted it sent again, or the server only said that it had
 * done nothing, an earlier request may still be made late: `skipped` would claim that none was ever sent.
 */
export function unsentState({
  attempts,
  evidence,
  httpStatus,
}: Pick<Intent, 'attempts' | 'evidence' | 'httpStatus'>): 'not_applied' | 'skipped' {
  return attempts > 0 && (evidence === 'person' || httpStatus !== null) ? 'not_applied' : 'skipped';
}

/** Why a row waits for this one, which `isUndecided`. */
export function heldBackWords(row: number): string {
  return `row ${row}, an earlier row of the same user, was sent and not made: send it again or close it, then this one follows`;
}

export function claimable(connection: Connection, batch: string): Promise<ClaimedRow[]> {
  return connection
    .selectFrom('journal_intents')
    .select(['row', 'user', 'fingerprint', 'plannedBefore', 'plannedAfter', 'claimedAt'])
    .where('batch', '=', batch)
    .where(canBeClaimed)
    .orderBy('row')
    .execute();
}

export async function viewOf(
  connection: Connection,
  backend: JournalBackend,
  { batch, fileHash, rowsDigest }: Pick<NewBatch, 'batch' | 'fileHash' | 'rowsDigest'>,
  rows: readonly ClaimedRow[],
  { repeatsSince, daySince }: ClaimTerms,
): Promise<ClaimView> {
  const batches = connection.selectFrom('journal_batches').selectAll();
  const like = batches
    .where((eb) => eb.or([eb('fileHash', '=', fileHash), eb('rowsDigest', '=', rowsDigest)]))
    .where('batch', '<>', batch)
    .where((eb) =>
      eb.exists(
        eb
          .selectFrom('journal_intents')
          .select('row')
          .whereRef('journal_intents.batch', '=', 'journal_batches.batch')
          .where(countsAsSent),
      ),
    )
    .orderBy('createdAt');
  const overApplied = connection
    .selectFrom('journal_intents')
    .select(['batch', 'row'])
    .where('state', '=', 'needs_human')
    .where('discrepancy', '=', 'over_applied')
    .limit(1);
  const behind = await batches.where('behind', 'is not', null).limit(1).executeTakeFirst();
  const prints = rows.flatMap(({ fingerprint }) => fingerprint ?? []);
  return {
    rows,
    like: (await like.execute()).map(batchOf),
    repeats: await repeatsOf(connection, backend, prints, repeatsSince, batch),
    claimedToday: await sentSince(connection, daySince, batch),
    behind: behind === undefined ? undefined : batchOf(behind),
    overApplied: await overApplied.executeTakeFirst(),
  };
}

/** Returns the changes that went out since then or still may, except rows of `exceptBatch` that are yet to be claimed. */
export async function sentSince(
  connection: Connection,
  since: Timestamp,
  exceptBatch: string | null,
): Promise<PlannedChange[]> {
  const rows = connection
    .selectFrom('journal_intents')
    .select(['plannedBefore', 'plannedAfter'])
    // An adopted row counts from when it was made, not from when the journal learned of it.
    .where(sql<SqlBool>`case when attempts = 0 then coalesce(sent_at, claimed_at) else claimed_at end >= ${since}`)
    .where('claimedAt', '>=', since)
    .where(countsAsSent);
  // No condition without a batch: in SQL, comparing with null gives null, and rows still to be claimed would not count.
  const others =
    exceptBatch === null ? rows : rows.where((eb) => eb.not(eb.and([eb('batch', '=', exceptBatch), canBeClaimed])));
  const writes = connection
    .selectFrom('journal_writes')
    .select(['operation', 'body', 'balance'])
    .where('at', '>=', since);
  const byHand = (await writes.where(mayBeMade).execute()).flatMap((each) => changeByHand(each) ?? []);
  return [...(await others.execute()), ...byHand];
}

/** Returns `now`, but at least 1 ms after the newest of these: a clock set back must not make a repeat look older. */
export function claimTimeAfter(same: readonly Pick<SentRow, 'claimedAt'>[], now: Timestamp): Timestamp {
  const last = Math.max(...same.map(({ claimedAt }) => parseInstant(claimedAt) ?? 0));
  return last < (parseInstant(now) ?? 0) ? now : timestampOf(last + 1);
}

/** As SQL gives it: not every database has booleans. */
type FoundRow = Omit<SentRow, 'found'> & { readonly found: number };

/** Returns the rows and writes by hand with one of these fingerprints. A payment is its user, kind and amount, not its file. */
export async function repeatsOf(
  connection: Connection,
  { texts }: Pick<JournalBackend, 'texts'>,
  fingerprints: readonly string[],
  since: Timestamp,
  exceptBatch: string,
): Promise<SentRow[]> {
  const rows = connection.selectFrom('journal_intents').where(countsAsSent);
  const writes = connection.selectFrom('journal_writes').where('journal_writes.fingerprint', 'is not', null);
  // A plan of many rows would otherwise look up each fingerprint in an empty index.
  const any =
    (await rows.select('row').where('fingerprint', 'is not', null).limit(1).executeTakeFirst()) ??
    (await writes.select('write').limit(1).executeTakeFirst());
  if (any === undefined) return [];
  const distinct = connection
    .selectFrom(texts(JSON.stringify(fingerprints)).as('each'))
    .select('each.value as fingerprint')
    .distinct()
    .as('prints');
  const claimed = connection
    .selectFrom(distinct)
    .innerJoin('journal_intents', 'journal_intents.fingerprint', 'prints.fingerprint')
    .select(['prints.fingerprint', 'batch', 'row'])
    .select((eb) => eb.fn.coalesce('sentAt', 'claimedAt').as('at'))
    .select([
      'claimedAt',
      'state',
      sql<number>`case when state = 'applied' and attempts = 0 then 1 else 0 end`.as('found'),
    ])
    .where(countsAsSent)
    .where('batch', '<>', exceptBatch)
    .where((eb) => eb(eb.fn.coalesce('sentAt', 'claimedAt'), '>=', since))
    .$castTo<FoundRow>();
  const byHand = connection
    .selectFrom(distinct)
    .innerJoin('journal_writes', 'journal_writes.fingerprint', 'prints.fingerprint')
    .select(['prints.fingerprint', sql<null>`null`.as('batch'), sql<null>`null`.as('row')])
    .select(['at', 'at as claimedAt', 'state', sql<number>`0`.as('found')])
    .where('at', '>=', since)
    .where(mayBeMade)
    .$castTo<FoundRow>();
  const found = await claimed.unionAll(byHand).orderBy('at').execute();
  return found.map((each) => ({ ...each, found: each.found === 1 }));
}
