/**
 * The chain of the journal: each step holds the SHA-256 of itself and of the step before it, so that a step that was altered,
 * removed, inserted or moved is found. Texts that may tell of a person stand in it as salted digests alone: once the salt is
 * gone, the chain still holds, and no guess of the text can be confirmed. Section "The chain" of docs/architecture.md.
 */
import { createHash, hash, randomBytes } from 'node:crypto';
import { type NotNull, sql, type SqlBool, type UpdateObject } from 'kysely';
import type { Account, Actor } from '../model/actor.ts';
import { UsageError } from '../model/errors.ts';
import { storable } from '../model/text.ts';
import type { Timestamp } from '../model/time.ts';
import { accountOf, type Connection, type JournalTables } from './tables.ts';

export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };

/** The newest step: what is known of the journal once it is known elsewhere. */
export interface Head {
  readonly step: number;
  readonly hash: string;
}

export interface NewStep {
  readonly at: Timestamp;
  readonly actor: Actor;
  readonly batch: string | null;
  readonly row: number | null;
  readonly kind: string;
  /** Nothing in it may tell who a person is: it stays as it is when the person is forgotten. */
  readonly data: { readonly [name: string]: Json };
  /** Words of a person, such as a reason. */
  readonly note: string | null;
  /** What the record that the step is about became, as `sealOf` tells it; null where nothing of it changed. */
  readonly digest?: string | null;
}

type StepRow = JournalTables['journal_steps'];
type Hashed = Pick<
  StepRow,
  'at' | 'actor' | 'batch' | 'row' | 'kind' | 'data' | 'digest' | 'noteDigest' | 'previous'
> & {
  readonly step: number;
};

/** The JSON of the value with its keys in order and no white space: one text for one value. */
export function canonical(value: Json): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return `[${(value as readonly Json[]).map(canonical).join(',')}]`;
  const members = Object.entries(value as Readonly<Record<string, Json>>).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, each]) => `${JSON.stringify(name)}:${canonical(each)}`).join(',')}}`;
}

export const sha256 = (text: string): string => hash('sha256', text, 'hex');

/** What stands before the first step: by it a chain belongs to one journal. */
export function genesisOf(journal: string): string {
  return sha256(canonical({ journal }));
}

/**
 * SHA-256 of the canonical JSON of the step, that of the step before it included. `actor` and `data` are canonical JSON
 * already, and go in as they stand: a blank more in one of them is another hash.
 */
export function hashOf({
  step,
  at,
  actor,
  batch,
  row,
  kind,
  data,
  digest,
  noteDigest: note,
  previous,
}: Hashed): string {
  const text = (value: string | null): string => JSON.stringify(value);
  return sha256(
    `{"actor":${actor},"at":${text(at)},"batch":${text(batch)},"data":${data},"digest":${text(digest)},` +
      `"kind":${text(kind)},"note":${text(note)},"previous":${text(previous)},"row":${row},"step":${step}}`,
  );
}

const saltBytes = 16;

/** Many at once: one call for each would take longer than the digests. */
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

/** Columns that a seal leaves out: those that hold it, and those that a step of the whole batch sets. */
const unsealed: ReadonlySet<string> = new Set(['salt', 'digest', 'claimed_at']);

type SealedColumn = readonly [column: string, name: string];

/** The columns of a seal, in order, by all names of a row: a plan seals many rows of one shape. */
const sealedColumns = new Map<string, readonly SealedColumn[]>();

function sealedOf(row: Readonly<Record<string, unknown>>): readonly SealedColumn[] {
  const all = Object.keys(row);
  const shape = all.join(' ');
  let columns = sealedColumns.get(shape);
  if (columns === undefined) {
    // A seal has the names of the database.
    const named = all.map((name): SealedColumn => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      name,
    ]);
    columns = named.filter(([column]) => !unsealed.has(column)).sort(([a], [b]) => (a < b ? -1 : 1));
    sealedColumns.set(shape, columns);
  }
  return columns;
}

/** Null is left out, so that a column that is added later changes no seal of before. */
export function sealOf(salt: string, row: Readonly<Record<string, unknown>>): string {
  let members = '';
  for (const [column, name] of sealedOf(row)) {
    const value = row[name];
    if (value === null || value === undefined) continue;
    members += `${members === '' ? '' : ','}"${column}":${JSON.stringify(value)}`;
  }
  return saltedDigest(salt, `{${members}}`);
}

/** What a step can be about: a batch, one row of it, a write by hand, another step. Of accounts, see `accountRecords`. */
type Subject =
  | { readonly batch: string; readonly row: number | null }
  | { readonly write: number }
  | { readonly step: number };

/** The seal in the newest step about it that has one; undefined where none has. */
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
  // The data of a step is canonical JSON. What is like it is looked at exactly: a number may begin with another.
  const steps = await sealed.where('batch', 'is', null).where('data', 'like', `%"${name}":${value}%`).execute();
  return steps.find(({ data }) => (JSON.parse(data) as Readonly<Record<string, unknown>>)[name] === value)?.digest;
}

interface AccountRecord {
  readonly row: JournalTables['people_accounts'];
  /** Its state is `altered` where the row is not what the newest step about it left; it can do nothing then. */
  readonly account: Account;
}

/** The accounts, or the one of that name, by their names: read with their seals, in one statement. */
export async function accountRecords(connection: Connection, name?: string): Promise<AccountRecord[]> {
  const all = connection
    .selectFrom('people_accounts')
    .selectAll()
    .select((eb) =>
      eb
        .selectFrom('journal_steps')
        .select('digest')
        // As text rather than as a bound value: by it the index of these steps is found.
        .where(sql<SqlBool>`kind LIKE 'account-%'`)
        .where('digest', 'is not', null)
        // Canonical JSON: no other member comes before the name.
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
      sealed === sealOf(row.salt, row) ? accountOf(row) : { ...accountOf({ ...row, ...noWord }), state: 'altered' },
  }));
}

const byUnknown = canonical({ name: 'unknown', uid: null, host: '', sudoUser: null, job: null, account: null });

/** In the place of what an altered record says: nothing of it counts, and it may not even be readable. */
const noWord = { roles: '[]', osUsers: null, createdBy: byUnknown, changedBy: byUnknown };

/**
 * Whether a record is what the newest step about it left. One that was altered past the program is not sealed anew: the step
 * that changes it then has no digest, and the chain goes on showing it.
 */
export async function isAsSealed(
  connection: Connection,
  subject: Subject,
  record: Readonly<Record<string, unknown>> & { readonly salt: string },
): Promise<boolean> {
  return (await newestSeal(connection, subject)) === sealOf(record.salt, record);
}

/** What is altered stays so: nothing in the database could tell a repair from another alteration. */
export function accountAltered(name: string): UsageError {
  return new UsageError(`account ${name} was altered past this program; nothing is done by it or with it any more`, {
    advice: 'Find out who did it (`admin-mirror audit --verify`), and make another account: `admin-mirror people add`.',
  });
}

/**
 * Changes the record of the batch; gives its seal as it is then, or null where it was altered past the program. Each change
 * is sealed by a salt of its own: a copy of the journal that takes the same step in the same millisecond comes to another
 * hash, so that no two journals pass for one.
 */
export async function setBatch(
  connection: Connection,
  batch: string,
  fields: UpdateObject<JournalTables, 'journal_batches'>,
): Promise<string | null> {
  const before = await connection
    .selectFrom('journal_batches')
    .selectAll()
    .where('batch', '=', batch)
    .executeTakeFirstOrThrow();
  const isSound = await isAsSealed(connection, { batch, row: null }, { ...before });
  const salted = { ...fields, salt: newSalt() };
  const changed = connection.updateTable('journal_batches').set(salted).where('batch', '=', batch).returningAll();
  const row = await changed.executeTakeFirstOrThrow();
  return isSound ? sealOf(row.salt, row) : null;
}

/** The newest step; undefined where there is none. */
export async function headOf(connection: Connection): Promise<Head | undefined> {
  const steps = connection.selectFrom('journal_steps').select(['step', 'hash']);
  return steps.orderBy('step', 'desc').limit(1).executeTakeFirst();
}

/**
 * Appends the steps in their order, in the transaction of the change, which must keep others from writing: two steps after one
 * head break the chain.
 */
export async function appendSteps(connection: Connection, steps: readonly NewStep[]): Promise<void> {
  let head = (await headOf(connection)) ?? { step: 0, hash: genesisOf(await identityOf(connection)) };
  for (const each of steps) {
    const row = stepRow(each, head);
    await connection.insertInto('journal_steps').values(row).execute();
    head = row;
  }
}

/** The step as it follows the head. */
export function stepRow({ at, actor, batch, row, kind, data, note, digest = null }: NewStep, head: Head) {
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

/** The id that was made with the journal; an empty text where there is none. */
export async function identityOf(connection: Connection): Promise<string> {
  return (await connection.selectFrom('journal_identity').select('id').executeTakeFirst())?.id ?? '';
}

/** First and last of rows in order that were claimed at one time, and the time. */
export type ClaimRun = readonly [first: number, last: number, at: string];

/** What one step of the chain says of all rows of a batch: a step a row would make a plan of many rows much dearer. */
export class RowsSeal {
  readonly #hash = createHash('sha256');
  #rows = 0;
  #last = -1;

  /** In the order of their numbers. */
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
