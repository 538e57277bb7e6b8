/**
 * Removes a person from the journal: every text that identifies the person goes; amounts and outcomes stay. Section "Forgetting
 * a person" of docs/architecture.md.
 */
import { sql } from 'kysely';
import { type Person, type TableCounts, mentionsOf, takenOut } from '../model/identity.ts';
import { append, newestSeal, newSalt, saltedDigest, sealOf, type Subject } from './chain.ts';
import type { Acting } from './database.ts';
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
    name: 'journal_intents',
    key: ['batch', 'row'],
    texts: (
      'cells parameters body seenBefore answer problem notes subject key plannedEmail plannedUsername plannedBefore ' +
      'plannedAfter before after'
    ).split(' '),
  },
  { name: 'journal_steps', key: ['step'], texts: ['note'] },
  { name: 'journal_batches', key: ['batch'], texts: ['problems', 'warnings', 'title', 'file', 'againReason'] },
  { name: 'journal_writes', key: ['write'], texts: ['body', 'answer', 'problem'] },
] as const;

/** In the person's own rows: our own words, and the subject that other rows of the same user wait for. */
const notPersonal: ReadonlySet<string> = new Set(['problem', 'subject']);

/** Returns the fields without personal text, to record what happens after the person was forgotten. */
export function withoutPersonalText<T extends object>(fields: T, texts: readonly string[]): T {
  const kept = Object.entries(fields).map(([name, value]: [string, unknown]) => {
    const tells = typeof value === 'string' && texts.includes(name);
    return [name, tells ? rewritten(value, withoutWords) : value];
  });
  return Object.fromEntries(kept) as T;
}

/** Returns the fields without personal text if the row's user was forgotten. */
export function withoutForgottenUser<T extends object>(
  { plannedEmail, plannedUsername }: Pick<JournalTables['journal_intents'], 'plannedEmail' | 'plannedUsername'>,
  fields: T,
): T {
  if (plannedEmail !== takenOut && plannedUsername !== takenOut) return fields;
  return withoutPersonalText(
    fields,
    tables[0].texts.filter((name) => !notPersonal.has(name)),
  );
}

/** A hash of what a row says would confirm a guess. A balance has no hash but an id and an amount, which stay. */
function isHashed(fingerprint: Value | undefined): boolean {
  return typeof fingerprint === 'string' && !fingerprint.includes(' ');
}

type Value = string | number | null;
type Row = Readonly<Record<string, Value>>;
type Table = (typeof tables)[number];

/**
 * Removes the person within the current transaction, in which no row of theirs waits to be sent any more. Returns how many rows changed, by table. Each changed record gets a new
 * salt and seal. The old salt is gone, so no digest of the chain confirms a guess of the old text.
 */
export async function removePerson(acting: Acting, person: Person): Promise<TableCounts> {
  const { connection } = acting;
  const mentions = mentionsOf(person.texts);
  await append(acting, { kind: 'forget', data: { user: person.id } });
  const counts: Record<string, number> = {};
  for (const table of tables) {
    const hasUser = table.name === 'journal_intents' || table.name === 'journal_writes';
    const names = [...table.key, ...table.texts, ...(hasUser ? ['user', 'fingerprint'] : [])];
    const columns = sql.join(names.map((name) => sql.ref(name)));
    for await (const row of rowsOf<Row>(connection, table.name, table.key, { columns })) {
      const texts = textsWithout(row, table, hasUser && row['user'] === person.id, mentions);
      if (Object.keys(texts).length === 0) continue;
      const fields = isHashed(row['fingerprint']) ? { ...texts, fingerprint: null } : texts;
      await rewriteRecord(acting, table, row, fields);
      counts[table.name] = (counts[table.name] ?? 0) + 1;
    }
  }
  return counts;
}

/** Returns the texts of the record that change, as they become. */
function textsWithout(row: Row, { texts }: Table, isOwn: boolean, mentions: (text: string) => boolean) {
  const changed: Record<string, string> = {};
  for (const name of texts) {
    const old = row[name];
    if (typeof old !== 'string') continue;
    const known = isOwn && !notPersonal.has(name) ? rewritten(old, withoutWords) : old;
    const value = mentions(known) ? rewritten(known, (text) => (mentions(text) ? takenOut : text)) : known;
    if (value !== old) changed[name] = value;
  }
  return changed;
}

async function rewriteRecord(acting: Acting, table: Table, row: Row, fields: Row): Promise<void> {
  const { connection } = acting;
  const { name, key } = table;
  const salt = newSalt();
  const sets = sql.join(
    Object.entries({ ...fields, salt }).map(([column, value]) => sql`${sql.ref(column)} = ${value}`),
  );
  const where = sql`(${sql.join(key.map((column) => sql.ref(column)))}) = (${sql.join(key.map((column) => row[column]))})`;
  const [before = {}] = (await sql<Row>`select * from ${sql.table(name)} where ${where}`.execute(connection)).rows;
  const isSound = await matchesSeal(connection, name, before);
  const update = sql<Row>`update ${sql.table(name)} set ${sets} where ${where} returning *`;
  const [after = {}] = (await update.execute(connection)).rows;
  const subject = subjectOf(name, after);
  const place = 'batch' in subject ? subject : { data: subject };
  await append(acting, { kind: 'forgotten', ...place, digest: isSound ? digestOf(name, salt, after) : null });
}

function subjectOf(table: Table['name'], row: Row): Subject {
  switch (table) {
    case 'journal_intents':
      return { batch: String(row['batch']), row: Number(row['row']) };
    case 'journal_batches':
      return { batch: String(row['batch']), row: null };
    case 'journal_writes':
      return { write: Number(row['write']) };
    case 'journal_steps':
      return { step: Number(row['step']) };
  }
}

function digestOf(table: Table['name'], salt: string, row: Row): string {
  return table === 'journal_steps' ? saltedDigest(salt, String(row['note'])) : sealOf(salt, row);
}

/** Whether the record matches its newest seal. An altered record gets no new seal. */
async function matchesSeal(connection: Connection, table: Table['name'], record: Row): Promise<boolean> {
  const first = table === 'journal_steps' ? record['noteDigest'] : record['digest'];
  const newest = await newestSeal(connection, subjectOf(table, record));
  return (newest ?? first) === digestOf(table, String(record['salt']), record);
}
