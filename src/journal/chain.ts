/**
 * The chain of the journal. Each step has the SHA-256 of itself and of the step before it, so a step that was altered, removed,
 * inserted or moved is found. Text that may identify a person is in the chain only as a salted digest: once the salt is gone,
 * the chain still holds and nobody can confirm a guess. Section "The chain" of docs/architecture.md.
 */
import { createHash, hash, randomBytes } from 'node:crypto';
import { type NotNull, sql, type SqlBool, type UpdateObject } from 'kysely';
import type { Account, Actor } from '../model/actor.ts';
import { UsageError } from '../model/errors.ts';
import { storable } from '../model/text.ts';
import { type Clock, type Timestamp, timestampOf } from '../model/time.ts';
import type { Acting } from './database.ts';
import { accountOf, type Connection, type JournalTables, runOften } from './tables.ts';

export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };

/** The newest step, as other places remember it to recognise this journal. */
export interface Head {
  readonly step: number;
  readonly hash: string;
}

export interface NewStep {
  readonly at: Timestamp;
  readonly actor: Actor;
  readonly batch?: string | null;
  readonly row?: number | null;
  readonly kind: string;
  /** Must not identify a person: it stays when the person is forgotten. */
  readonly data?: { readonly [name: string]: Json };
  /** A person's words, such as a reason. */
  readonly note?: string | null;
  /** The seal (`sealOf`) of the record after the step; null if the step changes no record. */
  readonly digest?: string | null;
}

type StepRow = JournalTables['journal_steps'];
type Hashed = Omit<StepRow, 'note' | 'salt' | 'hash'>;

/** Returns the JSON of the value with sorted keys and no white space: equal values have equal text. */
export function canonical(value: Json): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${(value as readonly Json[]).map(canonical).join(',')}]`;
  const members = Object.entries(value as Readonly<Record<string, Json>>).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, each]) => `${JSON.stringify(name)}:${canonical(each)}`).join(',')}}`;
}

export const sha256 = (text: string): string => hash('sha256', text, 'hex');

/**
 * The time of a step, and of what it decides: never before the newest step, or a clock that is set back would make an expired
 * approval good again. To look back, use the clock itself: a step from a time when the clock was ahead must not make what was paid
 * look older.
 */
export async function timeIn(connection: Connection, clock: Clock): Promise<Timestamp> {
  return notBefore((await newestStep(connection))?.at, timestampOf(clock.now()));
}

function notBefore(newest: Timestamp | undefined, at: Timestamp): Timestamp {
  return newest !== undefined && newest > at ? newest : at;
}

function newestStep(connection: Connection): Promise<(Head & { readonly at: Timestamp }) | undefined> {
  const steps = () => connection.selectFrom('journal_steps').select(['step', 'hash', 'at']);
  return runOften(connection, 'newest step', () => steps().orderBy('step', 'desc').limit(1), [1]);
}

/** Returns what the first step has as its previous hash. It ties the chain to one journal. */
export function genesisOf(journal: string): string {
  return sha256(canonical({ journal }));
}

/**
 * SHA-256 of the step's canonical JSON, which includes the hash of the step before. `actor` and `data` are canonical JSON
 * already and go in unchanged, so that even an added blank changes the hash.
 */
export function hashOf(step: Hashed): string {
  const text = (value: string | null): string => JSON.stringify(value);
  return sha256(
    `{"actor":${step.actor},"at":${text(step.at)},"batch":${text(step.batch)},"data":${step.data},` +
      `"digest":${text(step.digest)},"kind":${text(step.kind)},"note":${text(step.noteDigest)},` +
      `"previous":${text(step.previous)},"row":${step.row},"step":${step.step}}`,
  );
}

const saltBytes = 16;

/** Makes many salts at once: one call for each would take longer than the digests. */
export function newSalts(count: number): string[] {
  const bytes = randomBytes(saltBytes * count).toString('hex');
  return Array.from({ length: count }, (_, at) => bytes.slice(at * 2 * saltBytes, (at + 1) * 2 * saltBytes));
}

export function newSalt(): string {
  return randomBytes(saltBytes).toString('hex');
}

export function saltedDigest(salt: string, text: string): string {
  return sha256(`${salt}\n${text}`);
}

/** Columns that no seal covers: the seal's own, and the one that a claim sets in many rows at once. */
const unsealed: ReadonlySet<string> = new Set(['salt', 'digest', 'claimed_at']);

/** The sealed members in order, with the column names of the database, by the names of all members: a plan seals many alike. */
const sealedMembers = new Map<string, readonly (readonly [name: string, column: string])[]>();

export function sealedMembersOf(row: Readonly<Record<string, unknown>>) {
  const all = Object.keys(row);
  const shape = all.join(' ');
  let members = sealedMembers.get(shape);
  if (members === undefined) {
    const columnOf = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    members = all
      .map((name) => [name, columnOf(name)] as const)
      .filter(([, column]) => !unsealed.has(column))
      .sort(([, a], [, b]) => (a < b ? -1 : 1));
    sealedMembers.set(shape, members);
  }
  return members;
}

/** Returns the salted digest of the record. Leaves out nulls, so that adding a column later changes no earlier seal. */
export function sealOf(salt: string, row: Readonly<Record<string, unknown>>, members = sealedMembersOf(row)): string {
  let text = '';
  for (const [name, column] of members) {
    const value = row[name];
    if (value === null || value === undefined) continue;
    text += `${text === '' ? '' : ','}"${column}":${JSON.stringify(value)}`;
  }
  return saltedDigest(salt, `{${text}}`);
}

/** What a step can be about: a batch, a row, a write by hand, another step. `accountRecords` handles accounts. */
export type Subject =
  | { readonly batch: string; readonly row: number | null }
  | { readonly write: number }
  | { readonly step: number };

/** Returns the newest seal of the subject; undefined if no step has one. */
export async function newestSeal(connection: Connection, subject: Subject): Promise<string | undefined> {
  const sealed = connection
    .selectFrom('journal_steps')
    .select(['data', 'digest'])
    .$narrowType<{ digest: NotNull }>()
    .where('digest', 'is not', null)
    .orderBy('step', 'desc');
  if ('batch' in subject) {
    const { batch, row } = subject;
    const own = sealed.where('batch', '=', batch).where('row', row === null ? 'is' : '=', row);
    return (await own.limit(1).executeTakeFirst())?.digest;
  }
  const [name, value] = 'write' in subject ? (['write', subject.write] as const) : (['step', subject.step] as const);
  // The data of a step is canonical JSON. LIKE also finds longer numbers that begin with this one, so each result is checked.
  const steps = await sealed.where('batch', 'is', null).where('data', 'like', `%"${name}":${value}%`).execute();
  return steps.find(({ data }) => (JSON.parse(data) as Readonly<Record<string, unknown>>)[name] === value)?.digest;
}

interface AccountRecord {
  readonly row: JournalTables['people_accounts'];
  /** Its state is `altered` if the row does not match its newest seal; then nobody can use it. */
  readonly account: Account;
}

/** Reads all accounts, or the named one, with their seals in one statement. Sorted by name. */
export async function accountRecords(connection: Connection, name?: string): Promise<AccountRecord[]> {
  const all = connection
    .selectFrom('people_accounts')
    .selectAll()
    .select((eb) =>
      eb
        .selectFrom('journal_steps')
        .select('digest')
        // Literal text, not a bound value: only then is the partial index on these steps used.
        .where(sql<SqlBool>`kind LIKE 'account-%'`)
        .where('digest', 'is not', null)
        // The data is canonical JSON, and `account` comes before every other key of such a step.
        .where(sql`substr(data, 1, length(name) + 13)`, '=', sql`'{"account":"' || name || '"'`)
        .orderBy('step', 'desc')
        .limit(1)
        .as('sealed'),
    )
    .orderBy('name');
  const rows = await (name === undefined ? all : all.where('name', '=', name)).execute();
  return rows.map(({ sealed, ...row }) => ({
    row,
    account:
      sealed === sealOf(row.salt, row) ? accountOf(row) : { ...accountOf({ ...row, ...unreadable }), state: 'altered' },
  }));
}

const byUnknown = canonical({ name: 'unknown', uid: null, host: '', sudoUser: null, job: null, account: null });

/** Replaces the fields of an altered record: none of them counts, and they may not even parse. */
const unreadable = { roles: '[]', osUsers: null, createdBy: byUnknown, changedBy: byUnknown };

/**
 * Returns whether the record matches its newest seal. A record that was altered outside the program gets no new seal: the step
 * that changes it has no digest, so that the chain keeps showing the alteration.
 */
export async function isAsSealed(
  connection: Connection,
  subject: Subject,
  record: Readonly<Record<string, unknown>> & { readonly salt: string },
): Promise<boolean> {
  return (await newestSeal(connection, subject)) === sealOf(record.salt, record);
}

/** An altered account stays altered: in the database, a repair looks like another alteration. */
export function accountAltered(name: string): UsageError {
  return new UsageError(`account ${name} was altered outside this program; it can no longer be used`, {
    advice: 'Find out who did it (`admin-mirror audit --verify`), and make another account: `admin-mirror people add`.',
  });
}

/** Returns the newest step; undefined if there is none. */
export async function headOf(connection: Connection): Promise<Head | undefined> {
  const newest = await newestStep(connection);
  return newest && { step: newest.step, hash: newest.hash };
}

/**
 * Appends the steps in order. Call it in the transaction of the change, which must keep others from writing: two steps after
 * one head would break the chain.
 */
export async function appendSteps(connection: Connection, steps: readonly NewStep[]): Promise<void> {
  let newest = await newestStep(connection);
  const genesis: Head = newest ?? { step: 0, hash: genesisOf(await identityOf(connection)) };
  for (const each of steps) {
    const row = stepRow({ ...each, at: notBefore(newest?.at, each.at) }, newest ?? genesis);
    const insert = () => connection.insertInto('journal_steps').values(row);
    await runOften(connection, 'add step', insert, Object.values(row));
    newest = row;
  }
}

type OwnStep = Pick<NewStep, 'kind'> & Partial<Omit<NewStep, 'actor'>>;

/** Appends steps of whoever acts, at the time of acting if they have none of their own. */
export async function append({ connection, actor, now }: Acting, ...steps: readonly OwnStep[]): Promise<void> {
  if (actor === null) throw new Error('a journal that was opened to be looked at takes no step');
  await appendSteps(
    connection,
    steps.map((each) => ({ at: now, actor, ...each })),
  );
}

/**
 * Changes the record of the batch, and appends a step about that. Returns whether the record was as this program left it. Each change
 * has a salt of its own. So two copies of one journal that take the same step in the same millisecond have different hashes, and
 * neither passes for the other.
 */
export async function changeBatch(
  acting: Acting,
  batch: string,
  fields: UpdateObject<JournalTables, 'journal_batches'>,
  step: OwnStep,
): Promise<boolean> {
  const { connection } = acting;
  const found = connection.selectFrom('journal_batches').selectAll().where('batch', '=', batch);
  const before = await found.executeTakeFirstOrThrow();
  const isSound = await isAsSealed(connection, { batch, row: null }, { ...before });
  const salted = { ...fields, salt: newSalt() };
  const changed = connection.updateTable('journal_batches').set(salted).where('batch', '=', batch).returningAll();
  const row = await changed.executeTakeFirstOrThrow();
  await append(acting, { ...step, batch, digest: isSound ? sealOf(row.salt, row) : null });
  return isSound;
}

/** Returns the stored row of a step that follows the head. */
export function stepRow(
  { at, actor, batch = null, row = null, kind, data = {}, note = null, digest = null }: NewStep,
  head: Head,
) {
  const said = note === null ? null : { note: storable(note), salt: newSalt() };
  const hashed = {
    step: head.step + 1,
    at,
    actor: canonical({ ...actor }),
    batch,
    row,
    kind,
    data: canonical(data),
    digest,
    noteDigest: said && saltedDigest(said.salt, said.note),
    previous: head.hash,
  };
  return { ...hashed, ...(said ?? { note: null, salt: null }), hash: hashOf(hashed) };
}

/** Returns the id that the journal got when it was made; an empty text if there is none. */
export async function identityOf(connection: Connection): Promise<string> {
  return (await runOften(connection, 'id', () => connection.selectFrom('journal_identity').select('id'), []))?.id ?? '';
}

/** One digest over all rows of a batch, for the step that adds it. A step for each row would make large plans far slower. */
export class RowsSeal {
  readonly #hash = createHash('sha256');
  #rows = 0;
  #last = -1;

  /** Call it in the order of row numbers. */
  add(row: number, digest: string): void {
    if (row <= this.#last) throw new Error(`row ${row} is sealed behind row ${this.#last}`);
    this.#last = row;
    this.#hash.update(`${row} ${digest}\n`);
    this.#rows += 1;
  }

  end(): { readonly rows: number; readonly seal: string } {
    return { rows: this.#rows, seal: this.#hash.digest('hex') };
  }
}
