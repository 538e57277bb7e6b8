/** Who a user of the mirror is: found by email or user name, and every text that tells who it is. */
import type { Database } from 'better-sqlite3';
import type { Person } from '../../store/forget-types.ts';
import { historyTableOf } from '../../store/schema.ts';

const nameFields = ['username', 'email', 'first_name', 'last_name'] as const;

type Names = Readonly<Record<(typeof nameFields)[number], unknown>>;

interface PersonSearch {
  idsOf(name: string): number[];
  knows(id: number): boolean;
  person(id: number): Person;
}

export function personSearch(database: Database): PersonSearch {
  const history = historyTableOf('users');
  const old = (field: string): string => `json_extract(record, '$.${field}')`;
  const ids = (sql: string) => database.prepare<[string, string], number>(sql).pluck();
  const live = ids('SELECT id FROM users WHERE email = ? COLLATE NOCASE OR username = ? COLLATE NOCASE');
  const former = ids(
    `SELECT DISTINCT id FROM ${history} WHERE ${old('email')} = ? COLLATE NOCASE OR ${old('username')} = ? COLLATE NOCASE`,
  );
  const known = database
    .prepare<{ id: bigint }, number>(
      `SELECT EXISTS (SELECT 1 FROM users WHERE id = @id) OR EXISTS (SELECT 1 FROM ${history} WHERE id = @id)
       OR EXISTS (SELECT 1 FROM mirror_suppressions WHERE user_id = @id)
       OR EXISTS (SELECT 1 FROM emails WHERE user_id = @id)`,
    )
    .pluck();
  const names = database.prepare<{ id: bigint }, Names>(
    `SELECT ${nameFields.join(', ')} FROM users WHERE id = @id
     UNION SELECT ${nameFields.map(old).join(', ')} FROM ${history} WHERE id = @id`,
  );
  return {
    idsOf: (name) => {
      const now = live.all(name, name);
      return now.length > 0 ? now : former.all(name, name);
    },
    knows: (id) => known.get({ id: BigInt(id) }) === 1,
    person: (id) => {
      const versions = names.all({ id: BigInt(id) });
      const texts = (fields: readonly (keyof Names)[]): string[] => [
        ...new Set(versions.flatMap((version) => fields.map((field) => version[field])).filter(isText)),
      ];
      return { id, addresses: texts(['email']), texts: texts(nameFields) };
    },
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '';
}
