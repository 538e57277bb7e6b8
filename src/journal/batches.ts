/** Whole batches: adding, adopting, claiming and discarding them. */
import { sql, type UpdateObject } from 'kysely';
import { noTotals, withRow } from '../model/approval.ts';
import { UsageError } from '../model/errors.ts';
import { changeOf } from '../model/money.ts';
import { storable } from '../model/text.ts';
import type { Timestamp } from '../model/time.ts';
import { approvalIn, lastAccepted, newApproval, recordPolicy } from './approval.ts';
import { append, changeBatch, newSalt, sealOf } from './chain.ts';
import { canBeClaimed, claimable, isOpen, claimTimeAfter, viewOf } from './claim-view.ts';
import type { Acting } from './database.ts';
import type { AdoptedRow, Batch, BatchState, ClaimNote, ClaimTerms, ClaimView, NewBatch, NewIntent } from './port.ts';
import { altered, insertIntents, moveRow, skipWaiting } from './rows.ts';
import { approvalMissing, countingSteps } from './standing.ts';
import { batchNamed, type Connection, type JournalTables } from './tables.ts';

/** Stores the whole plan or nothing, so nothing if reading the rows fails. */
export async function addBatch(acting: Acting, batch: NewBatch, rows: Iterable<NewIntent>): Promise<void> {
  await recordPolicy(acting);
  try {
    await storeBatch(acting, batch, rows);
  } catch (error) {
    if (batch.undoOf === null || !acting.backend.isTaken(error)) throw error;
    throw new UsageError(`rows of batch ${batch.undoOf} are being taken back by another batch at this moment`, {
      advice: '`admin-mirror bulk status` shows which one.',
    });
  }
}

/** Stores the batch, its rows, and the policy in force. */
async function storeBatch(acting: Acting, batch: NewBatch, rows: Iterable<NewIntent>): Promise<void> {
  const { connection, rules } = acting;
  const row = batchRow(batch, acting.now);
  // The problems follow at the end. For each row, its foreign key makes SQLite read the whole record of the batch, which has
  // megabytes of problems if every row of a sheet is wrong.
  const begun = { ...row, problems: '[]' };
  await connection.insertInto('journal_batches').values(begun).execute();
  const isCounted = newApproval(rules, batch, noTotals) !== null;
  let totals = noTotals;
  const onRow = (each: NewIntent): void => {
    if (isCounted && each.state === 'planned') totals = withRow(totals, changeOf(each));
  };
  const rowsSeal = await insertIntents(acting, batch, rows, onRow);
  const approval = newApproval(rules, batch, totals, isCounted ? await lastAccepted(connection) : undefined);
  const whole = approval === null ? row : { ...row, approval: JSON.stringify(approval) };
  await connection.updateTable('journal_batches').set(whole).where('batch', '=', batch.batch).execute();
  await append(acting, { batch: batch.batch, kind: 'added', ...sealedBatch(batch, whole, rowsSeal) });
  const { againReason: note } = batch;
  if (note !== null) await append(acting, { batch: batch.batch, kind: 'again', note });
}

function batchRow(batch: NewBatch, at: Timestamp) {
  const { file, columns, problems, warnings, server, againReason } = batch;
  return {
    ...batch,
    state: 'planned' as BatchState,
    // A name that a browser or this program has cut may end within a character. Sealed in another form than it is stored, the
    // batch would look altered.
    file: file === null ? null : storable(file),
    columns: JSON.stringify(columns),
    problems: JSON.stringify(problems),
    warnings: JSON.stringify(warnings),
    server: JSON.stringify(server),
    againReason: againReason === null ? null : storable(againReason),
    createdAt: at,
    salt: newSalt(),
  };
}

/** What the step that adds the batch has of it and its rows. */
function sealedBatch(
  { action, hash, net, undoOf }: NewBatch,
  row: Readonly<Record<string, unknown>> & { readonly salt: string },
  rowsSeal: { readonly rows: number; readonly seal: string },
) {
  return { data: { action, hash, net, undo_of: undoOf, ...rowsSeal }, digest: sealOf(row.salt, row) };
}

/** Stores a batch of rows that were made without this journal. The batch is done, or stopped if a row needs a person. */
export async function adoptBatch(acting: Acting, batch: NewBatch, rows: readonly AdoptedRow[]): Promise<void> {
  const { connection, now } = acting;
  const states = await adoptedStates(connection, rows);
  const isDone = states.every((state) => state === 'applied');
  const end = { state: isDone ? ('done' as const) : ('stopped' as const), finishedAt: isDone ? now : null };
  const row = { ...batchRow(batch, now), ...end, appliedAt: now };
  await connection.insertInto('journal_batches').values(row).execute();
  const intents = rows.map(({ intent }) => intent);
  const rowsSeal = await insertIntents(acting, batch, intents, () => {});
  await append(acting, { batch: batch.batch, kind: 'adopted', ...sealedBatch(batch, row, rowsSeal) });
  for (const [index, { intent, fields }] of rows.entries()) {
    const to = states[index] ?? 'applied';
    const move = { batch: batch.batch, row: intent.row, from: 'planned', to, fields } as const;
    await append(acting, { ...(await moveRow(connection, move)).step, kind: 'adopted' });
  }
}

/** The states in which the rows can be stored: only one row of a user can be open. */
async function adoptedStates(connection: Connection, rows: readonly AdoptedRow[]): Promise<AdoptedRow['state'][]> {
  const open = await connection.selectFrom('journal_intents').select('subject').where(isOpen).execute();
  const busy = new Set(open.map(({ subject }) => subject));
  return rows.map(({ intent: { subject }, state }) => {
    if (state === 'applied' || busy.has(subject)) return 'applied';
    busy.add(subject);
    return state;
  });
}

/**
 * The only way to send: in one transaction over the whole journal, `decide` looks at everything, and the planned and blocked rows
 * of the batch are claimed. If `decide` throws, nothing changes. Throws a UsageError if an approval is missing.
 */
export async function claimBatch(
  acting: Acting,
  batch: string,
  terms: ClaimTerms,
  decide: (view: ClaimView, batch: Batch) => readonly ClaimNote[],
): Promise<void> {
  const { connection, backend, now } = acting;
  const found = await batchNamed(connection, batch);
  if (found === undefined) throw new Error(`there is no batch ${batch} to claim`);
  const view = await viewOf(connection, backend, found, await claimable(connection, batch), terms);
  const at = claimTimeAfter(view.repeats, now);
  const notes = decide(view, found);
  const reason = notes.findLast(({ kind }) => kind === 'again')?.note;
  const toSend: Batch = reason === undefined ? found : { ...found, againReason: reason };
  // Resuming a batch only to check it again sends nothing and needs no approval.
  const claim = view.rows.length > 0 ? await claimApproved(acting, toSend) : { columns: {}, data: {} };
  // This includes rows that were claimed before, because `decide` has also looked at what others have claimed since.
  const claimed = await connection
    .updateTable('journal_intents')
    .set({ claimedAt: at })
    .where('batch', '=', batch)
    .where(canBeClaimed)
    .executeTakeFirst();
  const data = { hash: found.hash, rows: Number(claimed.numUpdatedRows), ...claim.data };
  for (const { kind, note } of notes) await append(acting, { at, batch, kind, note });
  const columns = { ...claim.columns, ...stateColumns('applying', at) };
  const changed = reason === undefined ? columns : { ...columns, againReason: reason };
  if (!(await changeBatch(acting, batch, changed, { at, kind: 'claimed', data }))) throw altered(`batch ${batch}`);
}

/** Returns what a claim records of its approvals. Throws a UsageError if one is missing. */
async function claimApproved(acting: Acting, batch: Batch) {
  const found = await approvalIn(acting, batch, acting.actor);
  if (found === null) return { columns: {}, data: {} };
  if (found.missing > 0) throw approvalMissing(batch, found);
  const { hash, needed } = found;
  const approval = JSON.stringify({ ...batch.approval, claimed: { hash, needed } });
  return { columns: { approval }, data: { needed, approvals: countingSteps(found) } };
}

/** Skips every row that was not sent. The batch is then done, or stopped if the outcome of a row is open. */
export async function discardBatch(acting: Acting, batch: string, reason: string): Promise<void> {
  await skipWaiting(acting, { batch }, storable(`a person discarded it: ${reason}`));
  const open = acting.connection.selectFrom('journal_intents').select('row').where('batch', '=', batch).where(isOpen);
  const state = (await open.limit(1).executeTakeFirst()) === undefined ? 'done' : 'stopped';
  await changeBatch(acting, batch, stateColumns(state, acting.now), { kind: 'discarded', note: reason });
}

export async function setBatchState(acting: Acting, batch: string, state: BatchState): Promise<void> {
  await changeBatch(acting, batch, stateColumns(state, acting.now), { kind: state });
}

/** Marks the batch because its rows are on the server although nobody sent them from here; null removes the mark. */
export async function setBehind(acting: Acting, batch: string, why: string | null): Promise<void> {
  const kind = why === null ? 'reconciled' : 'behind';
  await changeBatch(acting, batch, { behind: why }, { kind, note: why });
}

function stateColumns(state: BatchState, at: Timestamp): UpdateObject<JournalTables, 'journal_batches'> {
  return {
    state,
    ...(state === 'applying' && { appliedAt: sql<Timestamp>`coalesce(applied_at, ${at})` }),
    finishedAt: state === 'done' ? sql<Timestamp>`coalesce(finished_at, ${at})` : null,
  };
}
