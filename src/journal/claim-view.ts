/**
 * What a claim looks at, in the transaction that claims: which rows are to be claimed, what was claimed or sent before that is
 * like them, and what stands in the way. Section "The journal" of docs/architecture.md.
 */
import { sql, type SqlBool } from 'kysely';
import { changeByHand } from '../model/approval.ts';
import type { PlannedChange } from '../model/money.ts';
import { parseInstant, type Timestamp, timestampOf } from '../model/time.ts';
import type { JournalBackend } from './database.ts';
import type { ClaimedRow, ClaimTerms, ClaimView, Intent, NewBatch, SentRow } from './port.ts';
import { batchOf, type Connection } from './tables.ts';

// As text rather than as bound values: by it SQLite finds the index that is of these states alone.
export const isOpen = sql<SqlBool>`state in ('sending', 'acknowledged', 'unknown', 'needs_human')`;
export const isNotMade = sql<SqlBool>`state in ('rejected', 'not_applied')`;
export const notMadeStates = ['rejected', 'not_applied'] as const;
export const canBeClaimed = sql<SqlBool>`state in ('planned', 'blocked')`;
/** Claimed, and neither refused nor left out since, so that it was sent, or may be at any moment. */
export const isOutward = sql<SqlBool>`(claimed_at is not null and state not in ('rejected', 'skipped', 'invalid'))`;
/**
 * Of a write by hand, after which nobody looks: whatever the response said, it may have been made. Not where there was
 * none, or none of the server's own business: a key that was refused, a user who is not there.
 */
export const maybeMade = sql<SqlBool>`(state in ('sending', 'done', 'unknown')
  or (http_status is not null and http_status not in (401, 403, 404)))`;

/**
 * Of a row that must not go out. What a person wanted sent again, or a server put off by its word alone, was sent before, and may still
 * be made: it was not never sent.
 */
export function unsentState({
  attempts,
  evidence,
  httpStatus,
}: Pick<Intent, 'attempts' | 'evidence' | 'httpStatus'>): 'not_applied' | 'skipped' {
  return attempts > 0 && (evidence === 'person' || httpStatus !== null) ? 'not_applied' : 'skipped';
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
          .where(isOutward),
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

/** The changes that went out since then, or may at any moment, but for what is still to be claimed of that batch, if any. */
export async function sentSince(
  connection: Connection,
  since: Timestamp,
  apartFrom: string | null,
): Promise<PlannedChange[]> {
  const rows = connection
    .selectFrom('journal_intents')
    .select(['plannedBefore', 'plannedAfter'])
    // What was adopted was made when it was, not when the journal got to know of it.
    .where(sql<SqlBool>`case when attempts = 0 then coalesce(sent_at, claimed_at) else claimed_at end >= ${since}`)
    .where('claimedAt', '>=', since)
    .where(isOutward);
  // Of no batch nothing is left out: in SQL, nothing is known of what is compared with null, and such a row would not count.
  const others =
    apartFrom === null ? rows : rows.where((eb) => eb.not(eb.and([eb('batch', '=', apartFrom), canBeClaimed])));
  const writes = connection.selectFrom('journal_writes').select(['operation', 'body']).where('at', '>=', since);
  const byHand = (await writes.where(maybeMade).execute()).flatMap(
    ({ operation, body }) => changeByHand(operation, body) ?? [],
  );
  return [...(await others.execute()), ...byHand];
}

/** Now, or just behind the last of what does the same: a clock that was set back must not make it look older than that. */
export function laterThan(same: readonly Pick<SentRow, 'claimedAt'>[], now: Timestamp): Timestamp {
  const last = Math.max(...same.map(({ claimedAt }) => parseInstant(claimedAt) ?? 0));
  return last < (parseInstant(now) ?? 0) ? now : timestampOf(last + 1);
}

/** As databases without truth values have it. */
type FoundRow = Omit<SentRow, 'found'> & { readonly found: number };

/** Rows and writes by hand that do the same as others: what was paid is known by user, kind and amount, not by its file. */
export async function repeatsOf(
  connection: Connection,
  { texts }: Pick<JournalBackend, 'texts'>,
  fingerprints: readonly string[],
  since: Timestamp,
  apartFrom: string,
): Promise<SentRow[]> {
  const rows = connection.selectFrom('journal_intents').where(isOutward);
  const writes = connection.selectFrom('journal_writes').where('journal_writes.fingerprint', 'is not', null);
  // Without it, a plan of many rows would be looked up row by row in an index that has nothing.
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
    .where(isOutward)
    .where('batch', '<>', apartFrom)
    .where((eb) => eb(eb.fn.coalesce('sentAt', 'claimedAt'), '>=', since))
    .$castTo<FoundRow>();
  const byHand = connection
    .selectFrom(distinct)
    .innerJoin('journal_writes', 'journal_writes.fingerprint', 'prints.fingerprint')
    .select(['prints.fingerprint', sql<null>`null`.as('batch'), sql<null>`null`.as('row')])
    .select(['at', 'at as claimedAt', 'state', sql<number>`0`.as('found')])
    .where('at', '>=', since)
    .where(maybeMade)
    .$castTo<FoundRow>();
  const found = await claimed.unionAll(byHand).orderBy('at').execute();
  return found.map((each) => ({ ...each, found: each.found === 1 }));
}
