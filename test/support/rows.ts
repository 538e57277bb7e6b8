/** The rows of an SQLite file, read and changed as another program does it. */
import SqliteDatabase from 'better-sqlite3';

/** Reads rows of the file. */
export function rowsOf<Row = Record<string, unknown>>(file: string, sql: string, ...values: readonly unknown[]): Row[] {
  const database = new SqliteDatabase(file, { readonly: true });
  try {
    return database.prepare<unknown[], Row>(sql).all(...values);
  } finally {
    database.close();
  }
}

/** Reads the first column alone. */
export function valuesOf<Value>(file: string, sql: string, ...values: readonly unknown[]): Value[] {
  return rowsOf<Record<string, Value>>(file, sql, ...values).flatMap((row) => Object.values(row).slice(0, 1));
}

/** Runs statements over the file as the shell of SQLite does, which does not enforce foreign keys. */
export function alter(file: string, sql: string): void {
  const database = new SqliteDatabase(file);
  try {
    database.pragma('foreign_keys = OFF');
    database.exec(sql);
  } finally {
    database.close();
  }
}
