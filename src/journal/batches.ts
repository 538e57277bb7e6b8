/** Whole batches: adding, adopting, claiming and discarding them, and requests to remove rows from the mirror. */
import { sql, type UpdateObject } from 'kysely';
import { noTotals, withRow } from '../model/approval.ts';
import { changeOf } from '../model/money.ts';
import { storable } from '../model/text.ts';
import type { Timestamp } from '../model/time.ts';
import { type Acting, approvalIn, lastAccepted, newApproval, submit } from './approval.ts';
import { appendSteps, newSalt, sealOf, updateBatch } from './chain.ts';
import { canBeClaimed, claimable, isOpen, claimTimeAfter, viewOf } from './claim-view.ts';
import type { JournalBackend } from './database.ts';
import type {
  AdoptedRow,
  Batch,
  ClaimNote,
  ClaimTerms,
  ClaimView,
  DeletionRequest,
  NewBatch,
  NewIntent,
} from './port.ts';
import { altered, discardRows, insertIntents, moveRow } from './rows.ts';
import { approvalMissing, countingSteps } from './standing.ts';
import { batchNamed, type Connection, type JournalTables } from './tables.ts';

/**
 * Stores the batch, its rows, and the policy in force.
 * @param before totals to count in addition to the rows
 */
export async function storeBatch(
  connection: Connection,
  backend: JournalBackend,
  batch: NewBatch,
  rows: Iterable<NewIntent> | AsyncIterable<NewIntent>,
  { rules, now: at, stepOf }: Acting,
  before = noTotals,
): Promise<void> {
  const row = { ...batchRow(batch, at), salt: newSalt() };
  // The problems follow at the end. For each row, its foreign key makes SQLite read the whole record of the batch, which has
  // megabytes of problems if every row of a sheet is wrong.
  await connection
    .insertInto('journal_batches')
    .values({ ...row, problems: '[]' })
    .execute();
  const isCounted = newApproval(rules, batch, before) !== null;
  let totals = before;
  const onRow = (each: NewIntent): void => {
    if (isCounted && each.state === 'planned') totals = withRow(totals, changeOf(each));
  };
  const sealed = await insertIntents(connection, backend, batch, rows, onRow);
  const approval = newApproval(rules, batch, totals, isCounted ? await lastAccepted(connection) : undefined);
  const whole = approval === null ? row : { ...row, approval: JSON.stringify(approval) };
  await connection.updateTable('journal_batches').set(whole).where('batch', '=', batch.batch).execute();
  const digest = sealOf(row.salt, whole);
  const { action, hash, net, undoOf } = batch;
  const data = { action, hash, net, undo_of: undoOf, ...sealed };
  const steps = [stepOf(at, { batch: batch.batch, kind: 'added', data, digest })];
  if (batch.againReason !== null) {
    steps.push(stepOf(at, { batch: batch.batch, kind: 'again', note: batch.againReason }));
  }
  await appendSteps(connection, steps);
}

function batchRow(batch: NewBatch, at: Timestamp) {
  const { file, columns, problems, warnings, server, againReason } = batch;
  return {
    ...batch,
    state: 'planned' as const,
    // A name that a browser or this program has cut may end within a character. Sealed in another form than it is stored, the
    // batch would look altered.
    file: file === null ? null : storable(file),
    columns: JSON.stringify(columns),
    problems: JSON.stringify(problems),
    warnings: JSON.stringify(warnings),
    server: JSON.stringify(server),
    againReason: againReason === null ? null : storable(againReason),
    createdAt: at,
  };
}

/** Stores a batch of rows that were made without this journal. The batch is done, or stopped if a row needs a person. */
export async function adoptBatch(
  connection: Connection,
  backend: JournalBackend,
  batch: NewBatch,
  rows: readonly AdoptedRow[],
  { now: at, stepOf }: Acting,
): Promise<void> {
  const states = await adoptedStates(connection, rows);
  const isDone = states.every((state) => state === 'applied');
  const end = { state: isDone ? ('done' as const) : ('stopped' as const), finishedAt: isDone ? at : null };
  const row = { ...batchRow(batch, at), ...end, appliedAt: at, salt: newSalt() };
  await connection.insertInto('journal_batches').values(row).execute();
  const intents = rows.map(({ intent }) => intent);
  const { action, hash, net, undoOf } = batch;
  const sealed = await insertIntents(connection, backend, batch, intents, () => {});
  const steps = [
    stepOf(at, {
      batch: batch.batch,
      kind: 'adopted',
      data: { action, hash, net, undo_of: undoOf, ...sealed },
      digest: sealOf(row.salt, row),
    }),
  ];
  for (const [index, { intent, fields }] of rows.entries()) {
    const to = states[index] ?? 'applied';
    const move = { batch: batch.batch, row: intent.row, from: 'planned', to, fields } as const;
    steps.push(stepOf(at, { ...(await moveRow(connection, move)).step, kind: 'adopted' }));
  }
  await appendSteps(connection, steps);
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
 * Claims the planned and blocked rows of the batch if `decide` does not throw. Throws what `decide` throws, and a UsageError if
 * an approval is missing.
 */
export async function claimBatch(
  connection: Connection,
  backend: JournalBackend,
  batch: string,
  terms: ClaimTerms,
  decide: (view: ClaimView, batch: Batch) => readonly ClaimNote[],
  acting: Acting,
): Promise<void> {
  const { now, stepOf } = acting;
  const found = await batchNamed(connection, batch);
  if (found === undefined) throw new Error(`there is no batch ${batch} to claim`);
  const view = await viewOf(connection, backend, found, await claimable(connection, batch), terms);
  const at = claimTimeAfter(view.repeats, now);
  const notes = decide(view, found);
  const reason = notes.findLast(({ kind }) => kind === 'again')?.note;
  const toSend: Batch = reason === undefined ? found : { ...found, againReason: reason };
  // Resuming a batch only to check it again sends nothing and needs no approval.
  const isSending = view.rows.length > 0;
  const claim = isSending ? await claimApproved(connection, toSend, acting) : { columns: {}, data: {} };
  // This includes rows that were claimed before, because `decide` has also looked at what others have claimed since.
  const claimed = await connection
    .updateTable('journal_intents')
    .set({ claimedAt: at })
    .where('batch', '=', batch)
    .where(canBeClaimed)
    .executeTakeFirst();
  const digest = await updateBatch(connection, batch, {
    ...(reason !== undefined && { againReason: reason }),
    ...claim.columns,
    ...stateColumns('applying', at),
  });
  if (digest === null) throw altered(`batch ${batch}`);
  const data = { hash: found.hash, rows: Number(claimed.numUpdatedRows), ...claim.data };
  await appendSteps(connection, [
    ...notes.map(({ kind, note }) => stepOf(at, { batch, kind, note })),
    stepOf(at, { batch, kind: 'claimed', data, digest }),
  ]);
}

/** Returns what a claim records of its approvals. Throws a UsageError if one is missing. */
async function claimApproved(connection: Connection, batch: Batch, acting: Acting) {
  const found = await approvalIn(connection, batch, acting, acting.actor);
  if (found === null) return { columns: {}, data: {} };
  if (found.missing > 0) throw approvalMissing(batch, found);
  const { hash, needed } = found;
  const approval = JSON.stringify({ ...batch.approval, claimed: { hash, needed } });
  return { columns: { approval }, data: { needed, approvals: countingSteps(found) } };
}

/** Returns the open request for these rows. Makes and submits one if there is none. Null if no policy covers deletions. */
export async function deletionsRequested(
  connection: Connection,
  backend: JournalBackend,
  { server, resource, rows, hash }: DeletionRequest,
  acting: Acting,
) {
  const requests = connection
    .selectFrom('journal_batches')
    .select(['batch', 'state'])
    .where('action', '=', 'deletions');
  const same = await requests.where('hash', '=', hash).execute();
  let name = same.find(({ state }) => state === 'planned')?.batch;
  if (name === undefined) {
    name = `deletions-${resource}-${hash.slice(0, 8)}${same.length === 0 ? '' : `-${same.length + 1}`}`;
    const nothing = { file: null, fileBytes: null, fileHash: null, undoOf: null, againReason: null, columns: [] };
    const request = { ...nothing, batch: name, action: 'deletions', hash, rowsDigest: hash, rows, server };
    const totals = { ...noTotals, rows };
    await storeBatch(connection, backend, { ...request, net: '0.00', problems: [], warnings: [] }, [], acting, totals);
  }
  const found = async () => {
    const batch = await batchNamed(connection, name);
    return batch === undefined ? null : approvalIn(connection, batch, acting, acting.actor);
  };
  const before = await found();
  if (before === null) return null;
  if (before.missing === 0 || before.state === 'waiting') return { batch: name, approval: before };
  await submit(connection, name, { note: null, again: null }, acting);
  const after = await found();
  return after === null ? null : { batch: name, approval: after };
}

/** Uses up the approval of the request. Throws a UsageError if it does not hold. */
export async function claimDeletions(connection: Connection, batch: string, acting: Acting): Promise<void> {
  const { now: at, stepOf } = acting;
  const found = await batchNamed(connection, batch);
  if (found === undefined || found.state !== 'planned') throw new Error(`${batch} is no request that is open`);
  const { columns, data } = await claimApproved(connection, found, acting);
  const digest = await updateBatch(connection, batch, { ...columns, ...stateColumns('done', at), appliedAt: at });
  if (digest === null) throw altered(`request ${batch}`);
  const claimed = { hash: found.hash, rows: found.rows, ...data };
  await appendSteps(connection, [stepOf(at, { batch, kind: 'claimed', data: claimed, digest })]);
}

/** Skips every row that was not sent. The batch is then done, or stopped if the outcome of a row is open. */
export async function discardBatch(
  connection: Connection,
  batch: string,
  reason: string,
  acting: Acting,
): Promise<void> {
  const { now: at, stepOf } = acting;
  await discardRows(connection, batch, storable(`a person discarded it: ${reason}`), acting);
  const open = connection.selectFrom('journal_intents').select('row').where('batch', '=', batch).where(isOpen);
  const state = (await open.limit(1).executeTakeFirst()) === undefined ? 'done' : 'stopped';
  const digest = await updateBatch(connection, batch, stateColumns(state, at));
  await appendSteps(connection, [stepOf(at, { batch, kind: 'discarded', note: reason, digest })]);
}

export function stateColumns(
  state: JournalTables['journal_batches']['state'],
  at: Timestamp,
): UpdateObject<JournalTables, 'journal_batches'> {
  return {
    state,
    ...(state === 'applying' && { appliedAt: sql<Timestamp>`coalesce(applied_at, ${at})` }),
    finishedAt: state === 'done' ? sql<Timestamp>`coalesce(finished_at, ${at})` : null,
  };
}
