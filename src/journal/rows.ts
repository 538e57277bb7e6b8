/**
 * What is written: the rows of a batch, which move from state to state with a step of the chain each, and writes outside any
 * batch, which have a step before their first byte and one after their response.
 */
import type { Selectable } from 'kysely';
import { NotSentError } from '../model/errors.ts';
import type { RecordKey } from '../model/records.ts';
import { storable } from '../model/text.ts';
import { timestampOf } from '../model/time.ts';
import { checkSending, checkWrite, recordPolicy, recordResend } from './approval.ts';
import { append, canonical, isAsSealed, newSalt, newSalts, RowsSeal, sealedMembersOf, sealOf } from './chain.ts';
import {
  canBeClaimed,
  claimTimeAfter,
  heldBackWords,
  isOpen,
  isUndecided,
  repeatsOf,
  unsentState,
} from './claim-view.ts';
import type { Acting } from './database.ts';
import { withoutForgottenUser, withoutPersonalText } from './forget.ts';
import type { IntentFields, Move, NewBatch, NewIntent, NewWrite, WriteEnd } from './port.ts';
import { chunk, type Connection, cutAnswer, type JournalTables, runOften } from './tables.ts';

const text = (value: string | null): string | null => (value === null ? null : storable(value));

/** Each member is named, since one statement stores the values of all rows in this order. */
function plannedRow(batch: string, undoOf: string | null, each: NewIntent) {
  return {
    batch,
    row: each.row,
    state: each.state,
    attempts: 0,
    subject: text(each.subject),
    user: each.user,
    key: text(each.key),
    token: each.token,
    fingerprint: text(each.fingerprint),
    parameters: each.parameters === null ? null : JSON.stringify(each.parameters),
    cells: JSON.stringify(each.cells),
    plannedEmail: text(each.plannedEmail),
    plannedUsername: text(each.plannedUsername),
    plannedBefore: text(each.plannedBefore),
    plannedAfter: text(each.plannedAfter),
    problem: text(each.problem),
    notes: each.notes.length === 0 ? null : JSON.stringify(each.notes),
    undoOf: each.undoOfRow === null ? null : undoOf,
    undoOfRow: each.undoOfRow,
  };
}

/** How many rows one statement stores: SQLite takes longer for each of fewer, and of many more. */
const rowsAtOnce = 50;

/**
 * Stores the rows. Returns their count and their seal for the chain.
 * @param onRow is called with each row before it is stored
 */
export async function insertIntents(
  { connection }: Acting,
  { batch, undoOf }: NewBatch,
  intents: Iterable<NewIntent>,
  onRow: (intent: NewIntent) => void,
): Promise<{ readonly rows: number; readonly seal: string }> {
  const seal = new RowsSeal();
  const store = async (some: readonly NewIntent[]): Promise<void> => {
    const salts = newSalts(some.length);
    const rows = some.map((each, at) => {
      const row = plannedRow(batch, undoOf, each);
      const salt = salts[at] ?? newSalt();
      // All rows of a plan have the same members.
      members ??= sealedMembersOf(row);
      const digest = sealOf(salt, row, members);
      seal.add(row.row, digest);
      return { ...row, salt, digest };
    });
    const insert = () => connection.insertInto('journal_intents').values(rows);
    await runOften(connection, `add ${rows.length} rows`, insert, rows.flatMap(Object.values));
  };
  let members: ReturnType<typeof sealedMembersOf> | undefined;
  let waiting: NewIntent[] = [];
  for (const each of intents) {
    onRow(each);
    if (waiting.push(each) < rowsAtOnce) continue;
    await store(waiting);
    waiting = [];
  }
  // One by one, so that there are two statements to prepare and not fifty.
  for (const each of waiting) await store([each]);
  return seal.end();
}

/** Selects rows with their newest seal as `sealed`: null if no step has one. */
function sealedRows(connection: Connection) {
  return connection
    .selectFrom('journal_intents')
    .selectAll()
    .select((eb) =>
      eb
        .selectFrom('journal_steps')
        .select('journal_steps.digest')
        .where('journal_steps.digest', 'is not', null)
        .whereRef('journal_steps.batch', '=', 'journal_intents.batch')
        .whereRef('journal_steps.row', '=', 'journal_intents.row')
        .orderBy('journal_steps.step', 'desc')
        .limit(1)
        .as('sealed'),
    );
}

/** Whether the row matches its newest seal, or the one it was added with. */
function isSealedRow({
  sealed,
  ...row
}: Selectable<JournalTables['journal_intents']> & { readonly sealed: string | null }): boolean {
  return (sealed ?? row.digest) === sealOf(row.salt, row);
}

/** One step of one row. Throws if the row is not in the state `from`, and a UsageError if it must not be sent. */
export async function takeStep(acting: Acting, move: Move): Promise<void> {
  const { batch, from, to } = move;
  if (to === 'sending') await checkSending(acting, batch);
  const { moved, step } = await moveRow(acting.connection, move);
  await append(acting, { ...step, kind: to, note: move.note ?? null });
  // After `sending`, the server said that it had done nothing. A `blocked` row was never sent.
  if (to === 'planned' && from !== 'sending' && from !== 'blocked') await recordResend(acting, moved);
}

export async function moveRow(connection: Connection, { batch, row, from, to, fields = {} }: Move) {
  const find = () => sealedRows(connection).where('batch', '=', batch).where('row', '=', row);
  const before = await runOften(connection, 'sealed row', find, [1, batch, row]);
  const isSound = before === undefined || isSealedRow(before);
  if (!isSound && to === 'sending') throw altered(`row ${row} of batch ${batch}`);
  const stored = before === undefined ? {} : withoutForgottenUser(before, storedFields(fields));
  const more = to === 'sending' ? 1 : 0;
  const update = () =>
    connection
      .updateTable('journal_intents')
      .set((eb) => ({ ...stored, state: to, attempts: eb('attempts', '+', more) }))
      .where('batch', '=', batch)
      .where('row', '=', row)
      .where('state', '=', from)
      .returningAll();
  const values = [...Object.values(stored), to, more, batch, row, from];
  const moved = await runOften(connection, `move ${Object.keys(stored).join(' ')}`, update, values);
  if (moved === undefined) throw new Error(`row ${row} of batch ${batch} is not ${from}, so it cannot become ${to}`);
  const step = {
    batch,
    row,
    data: { from, ...plainFields(fields) },
    digest: isSound ? sealOf(moved.salt, moved) : null,
  };
  return { moved, step };
}

/** After a crash: rows in `sending` become `unknown`, and blocked rows that no other row holds back become `planned`. */
export async function takeUpRows(acting: Acting, batch: string): Promise<void> {
  const { connection } = acting;
  const rows = connection
    .selectFrom('journal_intents')
    .select(['row', 'subject', 'problem'])
    .where('batch', '=', batch);
  for (const { row } of await rows.where('state', '=', 'sending').execute()) {
    await takeStep(acting, { batch, row, from: 'sending', to: 'unknown', note: 'the process that sent it died' });
  }
  const free = rows
    .where('state', '=', 'blocked')
    .where('subject', 'not in', (eb) =>
      eb.selectFrom('journal_intents').select('subject').where(isOpen).where('subject', 'is not', null),
    );
  const undecided = await rows.where(isUndecided).orderBy('row', 'desc').execute();
  const first = new Map(undecided.map(({ row, subject }) => [subject, row]));
  for (const { row, subject, problem } of await free.orderBy('row').execute()) {
    const earlier = first.get(subject) ?? row;
    const why = earlier < row ? heldBackWords(earlier) : null;
    if (why !== null && why === problem) continue;
    const to = why === null ? 'planned' : 'blocked';
    await takeStep(acting, { batch, row, from: 'blocked', to, fields: { problem: why } });
  }
}

/** Takes the rows of a batch or user that were not sent to their final state. A thousand at once: a batch may have a hundred thousand. */
export async function skipWaiting(
  acting: Acting,
  of: { readonly batch: string } | { readonly user: number },
  problem: string,
): Promise<void> {
  const { connection } = acting;
  const waiting = sealedRows(connection).where(canBeClaimed).orderBy('batch').orderBy('row').limit(chunk);
  const own = 'batch' in of ? waiting.where('batch', '=', of.batch) : waiting.where('user', '=', of.user);
  for (let count: number = chunk; count === chunk;) {
    const found = await own.execute();
    count = found.length;
    for (const [batch, rows] of Map.groupBy(found, (each) => each.batch)) {
      for (const [state, alike] of Map.groupBy(rows, unsentState)) {
        const numbers = alike.map(({ row }) => row);
        const update = connection.updateTable('journal_intents').set({ state, problem }).where('batch', '=', batch);
        await update.where('row', 'in', numbers).execute();
      }
    }
    const steps = found.map(({ sealed, ...row }) => {
      const state = unsentState(row);
      const digest = isSealedRow({ sealed, ...row }) ? sealOf(row.salt, { ...row, state, problem }) : null;
      return { batch: row.batch, row: row.row, kind: state, data: { from: row.state }, digest };
    });
    await append(acting, ...steps);
  }
}

export function altered(what: string): NotSentError {
  return new NotSentError(`${what} was altered outside this program`, {
    advice: '`admin-mirror audit --verify` shows what else was. Find out by whom, then plan it again.',
  });
}

const amount = /^-?\d+(?:\.\d+)?$/;

/** The fields of a step that identify nobody: the chain has them in plain. The others are only in the seal of the row. */
function plainFields(fields: IntentFields): Readonly<Record<string, string | number | null>> {
  const amountOf = (value: string | null | undefined) =>
    typeof value === 'string' && !amount.test(value) ? undefined : value;
  const named = {
    http_status: fields.httpStatus,
    answer_kind: fields.answerKind,
    evidence: fields.evidence,
    record_id: fields.recordId,
    discrepancy: fields.discrepancy,
    sent_at: fields.sentAt,
    claimed_at: fields.claimedAt,
    before: amountOf(fields.before),
    after: amountOf(fields.after),
  };
  return Object.fromEntries(
    Object.entries(named).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

function storedFields({ seenBefore, answer, ...fields }: IntentFields) {
  return {
    ...fields,
    ...(seenBefore !== undefined && { seenBefore: JSON.stringify(seenBefore) }),
    ...(answer !== undefined && { answer: cutAnswer(answer) }),
  };
}

/** Records a write outside any batch, before its first byte. Returns its number. Throws a UsageError if it needs approval. */
export async function beginWrite(acting: Acting, write: NewWrite): Promise<number> {
  const { connection, backend, actor, now } = acting;
  await recordPolicy(acting);
  await checkWrite(acting, write);
  const prints = write.fingerprint === null ? [] : [write.fingerprint];
  const at = claimTimeAfter(await repeatsOf(connection, backend, prints, timestampOf(0), ''), now);
  const by = actor === null ? null : canonical({ ...actor });
  const begun = { ...write, at, state: 'sending' as const, actor: by, salt: newSalt() };
  const row = await connection.insertInto('journal_writes').values(begun).returningAll().executeTakeFirstOrThrow();
  const data = { write: row.write, operation: row.operation, user: row.user };
  await append(acting, { at, kind: 'write', data, digest: sealOf(row.salt, row) });
  return row.write;
}

export async function endWrite(
  acting: Acting,
  write: number,
  { state, httpStatus, answer, problem }: WriteEnd,
): Promise<void> {
  const { connection, now } = acting;
  const writes = connection.selectFrom('journal_writes').selectAll().where('write', '=', write);
  const before = await writes.executeTakeFirstOrThrow();
  const isSound = await isAsSealed(connection, { write }, { ...before });
  const said = { answer: cutAnswer(answer), problem };
  const kept = (await isForgottenSince(connection, before)) ? withoutPersonalText(said, ['answer', 'problem']) : said;
  const row = await connection
    .updateTable('journal_writes')
    .set({ state, endedAt: now, httpStatus, ...kept })
    .where('write', '=', write)
    .returningAll()
    .executeTakeFirstOrThrow();
  const digest = isSound ? sealOf(row.salt, row) : null;
  await append(acting, { kind: 'write_ended', data: { write, state, http_status: httpStatus }, digest });
}

/** Records that the actor looked at what is stored about the user. */
export async function viewed(acting: Acting, user: RecordKey, what: 'record' | 'emails' | 'live'): Promise<void> {
  // Above 2^53 a JSON number would not be exact.
  await append(acting, { kind: 'viewed', data: { user: typeof user === 'bigint' ? String(user) : user, what } });
}

/** Records that the actor has saved or removed a report. */
export async function reportChanged(
  acting: Acting,
  what: 'report_saved' | 'report_removed',
  name: string,
): Promise<void> {
  await append(acting, { kind: what, data: {}, note: name });
}

/** Whether the user was forgotten while the write was under way. */
async function isForgottenSince(
  connection: Connection,
  { write, operation, user }: Pick<JournalTables['journal_writes'], 'operation' | 'user'> & { readonly write: number },
): Promise<boolean> {
  const steps = connection.selectFrom('journal_steps').select('step').where('batch', 'is', null);
  const begun = steps.where('kind', '=', 'write').where('data', '=', canonical({ write, operation, user }));
  const forgotten = steps.where('kind', '=', 'forget').where('data', '=', canonical({ user }));
  return (await forgotten.where('step', '>', begun).executeTakeFirst()) !== undefined;
}
