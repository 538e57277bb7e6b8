/**
 * Removes a person from the journal: every text that identifies the person goes; amounts and outcomes stay. Section "Forgetting
 * a person" of docs/architecture.md.
 */
import { sql } from 'kysely';
import { type Person, type TableCounts, mentionsOf, takenOut } from '../store/mentions.ts';
import { unsentState } from './claim-view.ts';
import { newestSeal, newSalt, type NewStep, saltedDigest, sealOf } from './chain.ts';
import { type Connection, type JournalTables, rowsOf } from './tables.ts';

/** Words of the API, numbers and tokens: they identify nobody. */
const plainValue = /^(?:-?\d+(?:\.\d+)?|true|false|add|remove|set|success|warning|danger|am:[a-z2-7]{12})$/;

/** Returns the JSON with `text` applied to every string value. Keys stay. Text that is not JSON counts as one string. */
function rewritten(json: string, text: (value: string) => string): string {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return text(json);
  }
  // An amount is such a text: as JSON, 12.50 would become 12.5.
  if (typeof value !== 'object') return text(json);
  return JSON.stringify(value, (_, each: unknown) => (typeof each === 'string' ? text(each) : each));
}

/** Keeps the token at the end of a text: a write is settled by it. */
function withoutWords(value: string): string {
  if (plainValue.test(value)) return value;
  const token = / am:[a-z2-7]{12}$/.exec(value)?.[0] ?? '';
  return `${takenOut}${token}`;
}

/** Every column that may identify a person, with the key of each table. */
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

/** In the person's own rows: our own words, and the subject that other rows of the same user wait for. */
const notWords: ReadonlySet<string> = new Set(['problem', 'subject']);

/** Returns the fields without personal text, to record what happens after the person was forgotten. */
export function ofForgotten<T extends object>(fields: T, texts: readonly string[]): T {
  const kept = Object.entries(fields).map(([name, value]: [string, unknown]) => {
    const tells = typeof value === 'string' && texts.includes(name);
    return [name, tells ? rewritten(value, withoutWords) : value];
  });
  return Object.fromEntries(kept) as T;
}

/** Returns the fields without personal text if the row's user was forgotten. */
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

/**
 * A hash over what a row says would confirm a guess. The fingerprint of a balance is no hash but an id and an amount, which
 * stay.
 */
function isHashed(fingerprint: Value | undefined): boolean {
  return typeof fingerprint === 'string' && !fingerprint.includes(' ');
}

type Value = string | number | null;
type Row = Readonly<Record<string, Value>>;

type ForgetStep = Pick<NewStep, 'batch' | 'row' | 'kind' | 'data' | 'note' | 'digest'>;

/**
 * Removes the person within the current transaction. Returns how many rows changed, by table. Each changed record gets a new
 * salt and seal. The old salt is gone, so no digest of the chain confirms a guess of the old text.
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

/** What was approved for the person can no longer go out as approved. */
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

/** How a step names the record that it is about. */
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

/** Whether the record matches its newest seal. An altered record gets no new seal. */
async function isAsLeft(connection: Connection, table: Table, row: Row): Promise<boolean> {
  const { batch = null, row: number = null, data } = placeOf(table, row);
  const subject =
    batch === null ? (data as { readonly write: number } | { readonly step: number }) : { batch, row: number };
  const first = table === 'journal_steps' ? row['noteDigest'] : row['digest'];
  return ((await newestSeal(connection, subject)) ?? first) === digestOf(table, String(row['salt']), row);
}
