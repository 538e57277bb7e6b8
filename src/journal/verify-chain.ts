/**
 * Checks the journal against its chain: every step follows the one before it and matches its hash, and every batch, row, write
 * and account matches its newest seal. Everything is read in pieces, so the journal can have any size. Section "The chain" of
 * docs/architecture.md.
 */
import { type Selectable, sql } from 'kysely';
import { genesisOf, type Head, hashOf, identityOf, saltedDigest, sealOf, RowsSeal } from './chain.ts';
import type { IntentState } from './port.ts';
import { type Connection, type JournalTables, rowsOf } from './tables.ts';

interface ChainReport {
  readonly status: 'whole' | 'broken';
  readonly steps: number;
  /** The newest step; null if there is none. */
  readonly head: Head | null;
  /** Number of the first altered step; null if the steps are sound. */
  readonly step: number | null;
  /** The first altered step, or the records that differ from their steps, up to `mostProblems`. */
  readonly problems: readonly string[];
}

type Step = JournalTables['journal_steps'];
type IntentRow = Selectable<JournalTables['journal_intents']>;
type WriteRow = Selectable<JournalTables['journal_writes']>;
type BatchRow = JournalTables['journal_batches'];
type AccountRow = JournalTables['people_accounts'];

const mostProblems = 100;

interface BatchChain {
  /** Newest seal of the batch's own record. */
  digest: string;
  /** Digest over its rows as they were added. */
  seal: string;
  rows: number;
  /** Number and time of each claim. */
  readonly claimed: (readonly [step: number, at: string])[];
}

interface Records {
  readonly batches: Map<string, BatchChain>;
  readonly writes: Map<number, string>;
  readonly accounts: Map<string, string>;
}

/**
 * Compares within the current transaction, which must see one moment.
 * @param wantedHash the hash that must be found
 */
export async function verifyChain(connection: Connection, wantedHash?: string): Promise<ChainReport> {
  const records: Records = { batches: new Map(), writes: new Map(), accounts: new Map() };
  const genesis = genesisOf(await identityOf(connection));
  const forgotten = await forgottenNotes(connection);
  let head: Head | null = null;
  let count = 0;
  let isFound = wantedHash === undefined;
  const broken = (step: number | null, problems: readonly string[]): ChainReport => ({
    status: 'broken',
    steps: count,
    head,
    step,
    problems,
  });
  for await (const step of rowsOf<Step>(connection, 'journal_steps', ['step'])) {
    const problem = stepProblem(step, head?.hash ?? genesis, forgotten.get(step.step));
    if (problem !== null) {
      const before = head === null ? 'It is the first one that is there' : `The last sound one is step ${head.step}`;
      return broken(step.step, [`step ${step.step} ${problem}. ${before}.`]);
    }
    count += 1;
    head = { step: step.step, hash: step.hash };
    if (step.hash === wantedHash) isFound = true;
    collect(records, step);
  }
  if (!isFound) {
    const newest = head === null ? 'there is no step at all' : `the newest step is ${head.step}`;
    return broken(head === null ? null : head.step + 1, [
      `no step has the hash ${wantedHash}: steps were removed, or this is an older journal; ${newest}`,
    ]);
  }
  const problems: string[] = [];
  for await (const problem of differences(connection, records)) {
    problems.push(problem);
    if (problems.length === mostProblems) break;
  }
  return problems.length > 0
    ? broken(null, problems)
    : { status: 'whole', steps: count, head, step: null, problems: [] };
}

function stepProblem(step: Step, previous: string, forgotten: string | undefined): string | null {
  if (hashOf(step) !== step.hash) return 'was altered: it does not have the hash that stands in it';
  if (step.previous !== previous) return 'does not follow the one before it: a step was removed, inserted or moved';
  const { note: words, salt, noteDigest: digest } = step;
  if (digest === null) return words === null && salt === null ? null : 'was altered: it has a note that was not hashed';
  const expected = forgotten ?? digest;
  return words !== null && salt !== null && saltedDigest(salt, words) === expected
    ? null
    : 'was altered: its note was changed';
}

/** The newest digest of each note from which a person was removed. The walk checks whether the steps that say so are sound. */
async function forgottenNotes(connection: Connection): Promise<ReadonlyMap<number, string>> {
  const rows = connection.selectFrom('journal_steps').select(['data', 'digest']).where('kind', '=', 'forgotten');
  const notes = new Map<number, string>();
  for (const { data, digest } of await rows.where('batch', 'is', null).orderBy('step').execute()) {
    const { step } = membersOf(data);
    if (typeof step === 'number' && digest !== null) notes.set(step, digest);
  }
  return notes;
}

/** Parses the data of a step. The walk reports data that is not JSON. */
function membersOf(data: string): Readonly<Record<string, unknown>> {
  try {
    return (JSON.parse(data) as Readonly<Record<string, unknown>> | null) ?? {};
  } catch {
    return {};
  }
}

function collect({ batches, writes, accounts }: Records, { step, at, batch, row, kind, data, digest }: Step): void {
  if (batch === null) {
    const { write, account } = membersOf(data);
    if (typeof write === 'number' && digest !== null) writes.set(write, digest);
    if (typeof account === 'string' && digest !== null) accounts.set(account, digest);
    return;
  }
  if (row !== null) return;
  let known = batches.get(batch);
  if (known === undefined) batches.set(batch, (known = { digest: '', seal: '', rows: 0, claimed: [] }));
  if (digest !== null) known.digest = digest;
  if (kind === 'claimed') known.claimed.push([step, at]);
  if (kind !== 'added' && kind !== 'adopted') return;
  const { rows, seal } = JSON.parse(data) as Pick<BatchChain, 'rows' | 'seal'>;
  Object.assign(known, { rows, seal });
}

async function* differences(connection: Connection, { batches, writes, accounts }: Records): AsyncGenerator<string> {
  const batchSeals = new Map([...batches].map(([batch, { digest }]) => [batch, digest]));
  const batchRows = rowsOf<BatchRow>(connection, 'journal_batches', ['batch']);
  yield* sealDifferences(batchRows, batchSeals, ({ batch }) => batch, 'batch ?');
  const writeRows = rowsOf<WriteRow>(connection, 'journal_writes', ['write']);
  yield* sealDifferences(writeRows, writes, ({ write }) => write, 'write ? by hand');
  const accountRows = rowsOf<AccountRow>(connection, 'people_accounts', ['name']);
  yield* sealDifferences(accountRows, accounts, ({ name }) => name, 'account ?');
  for (const [batch, known] of batches) yield* rowDifferences(connection, batch, known);
  const stray = connection
    .selectFrom('journal_intents')
    .select('batch')
    .distinct()
    .where('batch', 'not in', (eb) => eb.selectFrom('journal_batches').select('batch'));
  for (const { batch } of await stray.execute()) {
    if (!batches.has(batch)) yield `rows of batch ${batch} were inserted: no step tells of them`;
  }
}

/** Yields which records differ from their newest seals. @param words for a record, with `?` for its key */
async function* sealDifferences<K, R extends { readonly salt: string }>(
  rows: AsyncIterable<R>,
  seals: ReadonlyMap<K, string>,
  keyOf: (row: R) => K,
  words: string,
): AsyncGenerator<string> {
  const nameOf = (key: K): string => words.replace('?', () => String(key));
  const left = new Set(seals.keys());
  for await (const row of rows) {
    const key = keyOf(row);
    left.delete(key);
    const seal = seals.get(key);
    if (seal === undefined) yield `${nameOf(key)} was inserted: no step tells of it`;
    else if (seal !== sealOf(row.salt, row)) yield `${nameOf(key)} was altered`;
  }
  for (const key of left) yield `${nameOf(key)} was removed`;
}

type RowStep = Pick<Step, 'step' | 'kind' | 'data' | 'digest'> & { readonly row: number };

async function* rowDifferences(connection: Connection, batch: string, known: BatchChain): AsyncGenerator<string> {
  const seal = new RowsSeal();
  const own = sql`batch = ${batch}`;
  const columns = sql.join(['step', 'row', 'kind', 'data', 'digest'].map((name) => sql.ref(name)));
  const ofRows = { columns, where: sql`${own} and ${sql.ref('row')} is not null` };
  const steps = rowsOf<RowStep>(connection, 'journal_steps', ['row', 'step'], ofRows);
  let next = await steps.next();
  for await (const row of rowsOf<IntentRow>(connection, 'journal_intents', ['row'], { where: own })) {
    const about: RowStep[] = [];
    for (; next.done !== true && next.value.row <= row.row; next = await steps.next()) {
      if (next.value.row === row.row) about.push(next.value);
    }
    seal.add(row.row, row.digest);
    const digest = about.findLast((each) => each.digest !== null)?.digest ?? row.digest;
    if (digest !== sealOf(row.salt, row)) yield `row ${row.row} of batch ${batch} was altered`;
    else if (row.claimedAt !== claimedAt(row, about, known))
      yield `the consent to row ${row.row} of batch ${batch} was altered`;
  }
  const whole = seal.end();
  if (whole.seal === known.seal) return;
  const count = whole.rows === known.rows ? '' : `: there are ${whole.rows} of ${known.rows}`;
  yield `the rows of batch ${batch} are not those that were added${count}`;
}

/**
 * Works out when the row was claimed. A claim takes rows that are planned or blocked at that moment. A row that was found on
 * the server has its time in its own step.
 */
function claimedAt(
  { state }: { readonly state: IntentState },
  own: readonly RowStep[],
  known: BatchChain,
): string | null {
  const isClaimable = (each: string): boolean => each === 'planned' || each === 'blocked';
  const moves = own.flatMap(({ step, kind, data }) => {
    const { from, claimed_at: at } = membersOf(data);
    return typeof from === 'string' ? [{ step, from, to: kind, at }] : [];
  });
  const claim = known.claimed.findLast(([step]) => {
    const after = moves.find((each) => each.step > step);
    return isClaimable(after === undefined ? state : after.from);
  });
  const found = moves.findLast(({ at }) => typeof at === 'string');
  if (found !== undefined && found.step > (claim?.[0] ?? 0)) return String(found.at);
  return claim?.[1] ?? null;
}
