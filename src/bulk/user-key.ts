/** How a row names its user: exactly one of three columns. */
import { tooLargeToWrite, writtenId } from '../model/records.ts';
import type { ColumnRule } from './sheet/columns.ts';
import type { RowReader } from './row-reader.ts';
import { shown } from './sheet/shown.ts';

export const keyColumns = ['user_id', 'email', 'username'] as const;
export type KeyColumn = (typeof keyColumns)[number];

/** The columns that name a user, as the header is checked for them. */
export const keyRules: readonly ColumnRule[] = keyColumns.map((name) => ({ name, required: true, oneOf: 'key' }));

export interface UserKey {
  readonly column: KeyColumn;
  readonly value: string;
}

/** The same text for two keys that name the same user: addresses and names are compared without regard to case. */
export function keyText({ column, value }: UserKey): string {
  return `${column}:${value.toLowerCase()}`;
}

/** The key in the row's cells; undefined where there is none that could be one, which is a problem of the row. */
export function readKey(row: RowReader, column: KeyColumn): UserKey | undefined {
  const value = row.required(column);
  if (value === '') return undefined;
  if (column !== 'user_id') return { column, value };
  const id = writtenId(value);
  if (typeof id === 'number') return { column, value: String(id) };
  const problem = `${shown(value)} is no user id; an id is a whole number above 0`;
  row.problem(column, id === undefined ? problem : tooLargeToWrite(id));
  return undefined;
}

/** Whether the user is still known by the key under which it stands in the journal; null always fits. */
export function keyFits(
  key: string | null,
  user: { readonly email: string | null; readonly username: string | null },
): boolean {
  if (key === null) return true;
  const [column = ''] = key.split(':', 1);
  const value = column === 'email' ? user.email : user.username;
  return value === null || `${column}:${value.toLowerCase()}` === key;
}
