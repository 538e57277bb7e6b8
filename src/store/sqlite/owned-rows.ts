/** The rows of a resource that a window owns, by their creation time. */
import type { Database } from 'better-sqlite3';
import { coverageOf, eraEnd, eraStart, type DayRange } from '../../model/era.ts';
import type { ResourceName } from '../../model/resources.ts';
import { quoteName } from './schema.ts';

export interface OwnedRows {
  ids(window: DayRange): number[];
  count(window: DayRange): number;
}

// The same rule as owns() of the model, in SQL. Timestamps in ISO 8601 compare as text; other types sort apart from text.
const inDays = `typeof("created_at") = 'text' AND "created_at" >= ? AND "created_at" < ?`;
const outside = `"created_at" IS NULL OR NOT (${inDays})`;

/** Reads of one resource's rows by window. */
export function ownedRows(database: Database, resource: ResourceName): OwnedRows {
  const table = quoteName(resource);
  const select = (columns: string, where: string) =>
    database.prepare<string[], number>(`SELECT ${columns} FROM ${table} WHERE ${where}`).pluck();
  const statements = {
    days: { ids: select('"id"', inDays), count: select('count(*)', inDays) },
    outside: { ids: select('"id"', outside), count: select('count(*)', outside) },
    everything: { ids: select('"id"', 'true'), count: select('count(*)', 'true') },
  };
  function bounds(window: DayRange): string[] {
    switch (coverageOf(window)) {
      case 'days':
        return [window.from, window.to];
      case 'outside':
        return [eraStart, eraEnd];
      case 'everything':
        return [];
    }
  }
  return {
    ids: (window) => statements[coverageOf(window)].ids.all(...bounds(window)),
    count: (window) => statements[coverageOf(window)].count.get(...bounds(window)) ?? 0,
  };
}
