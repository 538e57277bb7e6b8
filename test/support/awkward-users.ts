/** A mirror whose users have values that are hard to write into a file. */
import SqliteDatabase from 'better-sqlite3';
import { insertRows, mirrorFile, type StoredValue } from './mirror-file.ts';

const text: readonly StoredValue[] = [
  null,
  '',
  'plain',
  'with "quotes", commas and\ttabs',
  "it's",
  'two\nlines',
  'a carriage\rreturn, and both\r\n',
  ' blanks  around ',
  '=1+1',
  '-5',
  '👩‍👩‍👧 Zoë 李',
  '<b>&amp;</b> ]]>',
  'controls \u0001\u001F\u007F end',
  '_x000D_ is no return',
  '\uFFFE\uFFFF',
  '007',
  '1e5',
  'NULL',
  '2026-03-11T10:00:00.000000Z',
];

const times: readonly StoredValue[] = [
  null,
  '2026-03-11T10:00:00.123456Z',
  '1970-01-01T00:00:00.000000Z',
  '1969-12-31T23:59:59.999999Z',
  '2024-02-29T23:59:59.000001Z',
  '9999-12-31T23:59:59.999999Z',
];

const whole = 9_007_199_254_740_993n;

/** One row for each text, and the other columns in turn. Each column has valid values, except for those in `stray`. */
export function awkwardUsers(stray: (id: bigint) => Readonly<Record<string, StoredValue>> = () => ({})): string {
  return mirrorFile((database) =>
    insertRows(
      database,
      'users',
      text.map((value, index) => {
        const id = BigInt(index + 1);
        return {
          id: index === 4 ? whole : id,
          username: value,
          email: `user.${index}@example.com`,
          balance: [12.5, 0n, -0.01, 99_999_999.99, null, 3n][index % 6] ?? null,
          is_subscribed: BigInt(index % 2),
          avatar: index % 2 === 0 ? null : '{"url":"https://cdn.example.com/a.png","n":9007199254740993}',
          data: index % 3 === 0 ? '["a",{"b":null}]' : null,
          created_at: times[index % times.length] ?? null,
          ...stray(id),
        };
      }),
    ),
  );
}

/** The rows of the query as SQLite itself returns them. */
export function storedRows(file: string, sql: string): readonly (readonly StoredValue[])[] {
  const database = new SqliteDatabase(file, { readonly: true });
  try {
    return database.prepare<[], StoredValue[]>(sql).raw(true).safeIntegers(true).all();
  } finally {
    database.close();
  }
}
