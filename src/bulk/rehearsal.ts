/** Whom a rehearsal needs: the users of the mirror that the rows are about, or that stand in the way of new ones. */
import { recordId, type ServedRecord } from '../model/records.ts';
import { resourceOf } from '../model/resources.ts';
import type { UserDirectory } from './user-directory-types.ts';
import type { Action } from './action.ts';
import type { ReadRows } from './read-rows.ts';
import { keyColumns } from './user-key.ts';

/** Their whole records as the mirror has them, each once. */
export function usersOfRows(directory: UserDirectory, action: Action, { rows, problems }: ReadRows): ServedRecord[] {
  const readable = problems.length > 0 ? [] : rows.filter((row) => row.problems.length === 0);
  const keys = readable.flatMap(({ key, parameters }) => key ?? action.newKeys?.(parameters) ?? []);
  const fields = resourceOf('users').fields.map(({ name }) => name);
  const found = new Map<number, ServedRecord>();
  for (const column of keyColumns) {
    const values = new Set(keys.filter((key) => key.column === column).map(({ value }) => value));
    if (values.size === 0) continue;
    for (const record of directory.find(column === 'user_id' ? 'id' : column, [...values], fields)) {
      const id = recordId(record);
      if (id !== undefined) found.set(id, record);
    }
  }
  return [...found.values()];
}
