/** Writes outside any batch: each has a step before its first byte and one after its response. */
import { checkWrite, type Acting, recordPolicy } from './approval.ts';
import { appendSteps, canonical, isAsSealed, newSalt, sealOf } from './chain.ts';
import { claimTimeAfter, repeatsOf } from './claim-view.ts';
import type { JournalBackend } from './database.ts';
import { withoutPersonalText } from './forget.ts';
import type { NewWrite, WriteEnd } from './port.ts';
import { type Connection, cutAnswer, type JournalTables } from './tables.ts';
import { timestampOf } from '../model/time.ts';

/** Returns the number of the write. Throws a UsageError if it needs approval. */
export async function beginWrite(
  connection: Connection,
  backend: JournalBackend,
  write: NewWrite,
  acting: Acting,
): Promise<number> {
  const { now, actor, stepOf } = acting;
  await recordPolicy(connection, acting);
  await checkWrite(connection, write, acting);
  const prints = write.fingerprint === null ? [] : [write.fingerprint];
  const at = claimTimeAfter(await repeatsOf(connection, backend, prints, timestampOf(0), ''), now);
  const by = actor === null ? null : canonical({ ...actor });
  const begun = { ...write, at, state: 'sending' as const, actor: by, salt: newSalt() };
  const row = await connection.insertInto('journal_writes').values(begun).returningAll().executeTakeFirstOrThrow();
  const data = { write: row.write, operation: row.operation, user: row.user };
  const digest = sealOf(row.salt, row);
  await appendSteps(connection, [stepOf(at, { batch: null, kind: 'write', data, digest })]);
  return row.write;
}

export async function endWrite(
  connection: Connection,
  write: number,
  { state, httpStatus, answer, problem }: WriteEnd,
  { now: at, stepOf }: Acting,
): Promise<void> {
  const writes = connection.selectFrom('journal_writes').selectAll().where('write', '=', write);
  const before = await writes.executeTakeFirstOrThrow();
  const isSound = await isAsSealed(connection, { write }, { ...before });
  const said = { answer: cutAnswer(answer), problem };
  const kept = (await isForgottenSince(connection, before)) ? withoutPersonalText(said, ['answer', 'problem']) : said;
  const row = await connection
    .updateTable('journal_writes')
    .set({ state, endedAt: at, httpStatus, ...kept })
    .where('write', '=', write)
    .returningAll()
    .executeTakeFirstOrThrow();
  const data = { write, state, http_status: httpStatus };
  const digest = isSound ? sealOf(row.salt, row) : null;
  await appendSteps(connection, [stepOf(at, { batch: null, kind: 'write_ended', data, digest })]);
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
