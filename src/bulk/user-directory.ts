/** Users of an SQLite mirror by id, email or user name, many at once. */
import type { ServedRecord } from '../model/records.ts';
import { relationTable, resourceOf } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import { openMirrorForReading } from '../store/open.ts';
import { quoteName } from '../store/schema.ts';

const batch = 5_000;

export type UserDirectory = ReturnType<typeof openUserDirectory>;

/** Opens an existing mirror to find users in it. Throws `FileError` where there is none. The caller closes it. */
export function openUserDirectory(file: string) {
  const database = openMirrorForReading(file);
  // KiB; users are read once, in the order in which they lie there.
  database.pragma('cache_size = -2000');
  const freshAsOf = database
    .prepare<[], string | null>("SELECT fresh_as_of FROM mirror_freshness WHERE resource = 'users'")
    .pluck()
    .get();
  const table = relationTable('users', 'balance_transactions').table;
  const transactions = database.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table)
    ? database.prepare<[number], string>(`SELECT record FROM ${quoteName(table)} WHERE user_id = ?`).pluck()
    : undefined;
  const known = resourceOf('users').fields.map(({ name }) => name);
  const columnsOf = (fields: readonly string[]): string => {
    const wanted = ['id', 'username', 'email', 'balance', ...fields.filter((name) => known.includes(name))];
    return [...new Set(wanted)].map(quoteName).join(', ');
  };
  return {
    /** Every row was seen on the server at or after this time; null where that is not known. */
    freshAsOf: (freshAsOf ?? null) as Timestamp | null,
    /** Gives users one by one, by their ids: rows with `id`, `username`, `email`, `balance` and the fields given. */
    reader: (fields: readonly string[]): ((id: number) => ServedRecord | undefined) => {
      const statement = database.prepare<[number], ServedRecord>(`SELECT ${columnsOf(fields)} FROM users WHERE id = ?`);
      return (id) => statement.get(id);
    },
    /** The users with one of these values in the column, addresses and names without regard to case. */
    *find(
      column: 'id' | 'email' | 'username',
      values: readonly string[],
      fields: readonly string[],
    ): Generator<ServedRecord> {
      const columns = columnsOf(fields);
      // There is no index on addresses and names: one pass over the table finds any number of them.
      const sql =
        column === 'id'
          ? `SELECT ${columns} FROM users WHERE id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))`
          : `SELECT ${columns} FROM users WHERE lower(${column}) IN (SELECT value FROM json_each(?))`;
      const statement = database.prepare<[string], ServedRecord>(sql);
      if (column !== 'id') return yield* statement.iterate(JSON.stringify(values.map((value) => value.toLowerCase())));
      for (let at = 0; at < values.length; at += batch) {
        yield* statement.all(JSON.stringify(values.slice(at, at + batch)));
      }
    },
    ids: (): number[] => database.prepare<[], number>('SELECT id FROM users').pluck().all(),
    /** The user's balance transactions; undefined where the mirror has none of anybody. */
    transactions: (user: number) => transactions?.all(user).map((record) => JSON.parse(record) as ServedRecord),
    close: (): void => void database.close(),
  };
}
