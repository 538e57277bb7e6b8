/**
 * Taking a person out of the journal: every text that tells who it is goes, amounts and outcomes stay. Section
 * "Forgetting a person" of docs/architecture.md.
 */
import { sql } from 'kysely';
import { type Person, type TableCounts, mentionsOf, takenOut } from '../store/mentions.ts';
import { unsentState } from './claim-view.ts';
import { newestSeal, newSalt, type NewStep, saltedDigest, sealOf } from './chain.ts';
import { type Connection, type JournalTables, rowsOf } from './tables.ts';

/** Words of the API that tell nobody's name; numbers and tokens do not either. */
const plainValue = /^(?:-?\d+(?:\.\d+)?|true|false|add|remove|set|success|warning|danger|am:[a-z2-7]{12})$/;

/** The JSON with every text in it passed through; what is no JSON is one text. Keys stay. */
function rewritten(json: string, text: (value: string) => string): string {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return text(json);
  }
  // An amount is a text of its own: 12.50 must not become 12.5.
  if (typeof value !== 'object') return text(json);
  return JSON.stringify(value, (_, each: unknown) => (typeof each === 'string' ? text(each) : each));
}

/** The token at the end of a text is what a write is settled by. */
function withoutWords(value: string): string {
  if (plainValue.test(value)) return value;
  const token = / am:[a-z2-7]{12}$/.exec(value)?.[0] ?? '';
  return `${takenOut}${token}`;
}

/** All that may tell who somebody is, with the key of each table. */
const tables = [
  {
    table: 'journal_intents',
    key: ['batch', 'row'],
    texts: (
      'cells parameters body seenBefore answer problem notes subject key plannedEmail plannedUsername plannedBefore ' +
      'plannedAfter before after'
    ).split(' '),
  },
  { table: 'journal_steps', key: ['step'], texts: ['note'] },
  { table: 'journal_batches', key: ['batch'], texts: ['problems', 'warnings', 'file', 'againReason'] },
  { table: 'journal_writes', key: ['write'], texts: ['body', 'answer', 'problem'] },
] as const;

/** Of the person's own rows, words of ours, and what others of the same user wait for. */
const notWords: ReadonlySet<string> = new Set(['problem', 'subject']);

/** What is still to be recorded of a person who was forgotten meanwhile, without what would bring the person back. */
export function ofForgotten<T extends object>(fields: T, texts: readonly string[]): T {
  const kept = Object.entries(fields).map(([name, value]: [string, unknown]) => {
    const tells = typeof value === 'string' && texts.includes(name);
    return [name, tells ? rewritten(value, withoutWords) : value];
  });
  return Object.fromEntries(kept) as T;
}

/** Of a row that is moved on after its user was forgotten. */
export function asForgotten<T extends object>(
  { plannedEmail, plannedUsername }: Pick<JournalTables['journal_intents'], 'plannedEmail' | 'plannedUsername'>,
  fields: T,
): T {
  if (plannedEmail !== takenOut && plannedUsername !== takenOut) return fields;
  return ofForgotten(
    fields,
    tables[0].texts.filter((name) => !notWords.has(name)),
  );
}

/** A hash of what a row says confirms a guess of it. That of a balance says it, in an id and an amount, which stay. */
function isHashed(fingerprint: Value | undefined): boolean {
  return typeof fingerprint === 'string' && !fingerprint.includes(' ');
}

type Value = string | number | null;
type Row = Readonly<Record<string, Value>>;

type ForgetStep = Pick<NewStep, 'batch' | 'row' | 'kind' | 'data' | 'note' | 'digest'>;

/**
 * Takes the person out, within the transaction at hand; gives the rows that were changed, by table. What was changed is sealed
 * anew by a salt of its own, and the salt of before is gone: no digest of the chain confirms a guess of what stood there.
 */
export async function takeOutPerson(
  connection: Connection,
  person: Person,
  append: (steps: readonly ForgetStep[]) => Promise<unknown>,
): Promise<TableCounts> {
  const mentions = mentionsOf(person.texts);
  const withoutPerson = (text: string): string => (mentions(text) ? takenOut : text);
  const about = { batch: null, row: null, note: null };
  await append([{ ...about, kind: 'forget', data: { user: person.id } }]);
  await skipRows(connection, person.id, append);
  const counts: Record<string, number> = {};
  for (const { table, key, texts } of tables) {
    const hasUser = table === 'journal_intents' || table === 'journal_writes';
    const columns = sql.join(
      [...key, ...texts, ...(hasUser ? ['user', 'fingerprint'] : [])].map((name) => sql.ref(name)),
    );
    for await (const row of rowsOf<Row>(connection, table, key, { columns })) {
      const isOwn = hasUser && row['user'] === person.id;
      const changed = texts.flatMap((name) => {
        const old = row[name];
        if (typeof old !== 'string') return [];
        const known = isOwn && !notWords.has(name) ? rewritten(old, withoutWords) : old;
        const value = mentions(known) ? rewritten(known, withoutPerson) : known;
        return value === old ? [] : [{ name, value }];
      });
      if (changed.length === 0) continue;
      const salt = newSalt();
      const confirming = isHashed(row['fingerprint']) ? [{ name: 'fingerprint', value: null }] : [];
      const sets = sql.join(
        [...changed, ...confirming, { name: 'salt', value: salt }].map(
          ({ name, value }) => sql`${sql.ref(name)} = ${value}`,
        ),
      );
      const where = sql`(${sql.join(key.map((name) => sql.ref(name)))}) = (${sql.join(key.map((name) => row[name]))})`;
      const [before = {}] = (await sql<Row>`select * from ${sql.table(table)} where ${where}`.execute(connection)).rows;
      const isSound = await isAsLeft(connection, table, before);
      const update = sql<Row>`update ${sql.table(table)} set ${sets} where ${where} returning *`;
      const [after = {}] = (await update.execute(connection)).rows;
      const digest = isSound ? digestOf(table, salt, after) : null;
      await append([{ ...about, kind: 'forgotten', ...placeOf(table, after), digest }]);
      counts[table] = (counts[table] ?? 0) + 1;
    }
  }
  return counts;
}

/** Nothing that was approved of the person can go out as it was approved. */
async function skipRows(
  connection: Connection,
  user: number,
  append: (steps: readonly ForgetStep[]) => Promise<unknown>,
): Promise<void> {
  const waiting = connection.selectFrom('journal_intents').selectAll().where('user', '=', user);
  for (const before of await waiting.where('state', 'in', ['planned', 'blocked']).orderBy('state').execute()) {
    const { batch, row, state, salt } = before;
    const isSound = await isAsLeft(connection, 'journal_intents', { ...before });
    const skipped = { state: unsentState(before), problem: 'the user was forgotten' } as const;
    const update = connection
      .updateTable('journal_intents')
      .set(skipped)
      .where('batch', '=', batch)
      .where('row', '=', row);
    await update.execute();
    const digest = isSound ? sealOf(salt, { ...before, ...skipped }) : null;
    await append([{ batch, row, kind: skipped.state, data: { from: state }, note: null, digest }]);
  }
}

type Table = (typeof tables)[number]['table'];

/** Where the step about a record says which one it is. */
function placeOf(table: Table, row: Row): Partial<ForgetStep> & Pick<ForgetStep, 'data'> {
  const number = (name: string): number => Number(row[name]);
  switch (table) {
    case 'journal_intents':
      return { batch: String(row['batch']), row: number('row'), data: {} };
    case 'journal_batches':
      return { batch: String(row['batch']), data: {} };
    case 'journal_writes':
      return { data: { write: number('write') } };
    case 'journal_steps':
      return { data: { step: number('step') } };
  }
}

function digestOf(table: Table, salt: string, row: Row): string {
  return table === 'journal_steps' ? saltedDigest(salt, String(row['note'])) : sealOf(salt, row);
}

/** Whether the record is what the newest step about it left: what was altered is not sealed anew. */
async function isAsLeft(connection: Connection, table: Table, row: Row): Promise<boolean> {
  const { batch = null, row: number = null, data } = placeOf(table, row);
  const subject =
    batch === null ? (data as { readonly write: number } | { readonly step: number }) : { batch, row: number };
  const first = table === 'journal_steps' ? row['noteDigest'] : row['digest'];
  return ((await newestSeal(connection, subject)) ?? first) === digestOf(table, String(row['salt']), row);
}
