/** Maintenance of the mirror file: its log, what it knows of its tables, and the records of runs that are old. */
import { statSync } from 'node:fs';
import type { Database } from 'better-sqlite3';
import type { Timestamp } from '../../model/time.ts';
import type { MirrorStore } from '../../store/mirror-types.ts';
import { busyMs } from '../../store/file-kind.ts';

/** Schema drift is reported once for each field and is true for as long as the field is there, so it does not age. */
const lasting = [
  'unknown_field',
  'missing_field',
  'changed_type',
  'unreadable_text',
  'relation_absent',
  'relation_keys',
];

export function pruneRuns(database: Database, before: Timestamp, runs: number): number {
  const old = "SELECT run FROM mirror_runs WHERE started_at < ? AND status <> 'running' ORDER BY started_at LIMIT ?";
  return database.prepare(`DELETE FROM mirror_runs WHERE run IN (${old})`).run(before, runs).changes;
}

export function pruneEvents(database: Database, before: Timestamp, events: number): number {
  const kinds = lasting.map((kind) => `'${kind}'`).join(', ');
  const old = `SELECT event FROM mirror_events WHERE at < ? AND kind NOT IN (${kinds}) ORDER BY event LIMIT ?`;
  return database.prepare(`DELETE FROM mirror_events WHERE event IN (${old})`).run(before, events).changes;
}

/** @param reported runs what touches the file, and reports its failure to the operator */
export function maintenanceOf(
  database: Database,
  file: string,
  reported: <T>(doing: () => T) => T,
): Pick<MirrorStore, 'optimize' | 'logBytes' | 'checkpoint'> {
  return {
    optimize: () =>
      reported(() => {
        // With a limit SQLite looks at some hundred rows of an index, and keeps counts alone: without one it would keep
        // samples, and with them bytes of people who are forgotten later.
        database.pragma('analysis_limit = 400');
        database.pragma('optimize');
      }),
    logBytes: () => statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0,
    checkpoint: (wait) =>
      reported(() => {
        if (!wait) database.pragma('busy_timeout = 0');
        try {
          const [result] = database.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
          return result?.busy === 0 ? 'folded' : 'held';
        } finally {
          if (!wait) database.pragma(`busy_timeout = ${busyMs}`);
        }
      }),
  };
}
