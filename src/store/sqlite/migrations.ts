/** Numbered, recorded changes of the mirror file's schema. A file of a newer version is refused, never changed. */
import type { Database } from 'better-sqlite3';
import { FileError } from '../../model/errors.ts';
import { timestampOf, type Clock } from '../../model/time.ts';
import { firstSchema } from './schema.ts';

/** Statement lists by version, from 1 on. Released ones are never edited: a change is a new one at the end. */
const migrations: readonly (readonly string[])[] = [firstSchema];

/** The version that this program writes, kept in the file's `PRAGMA user_version`. */
export const mirrorVersion = migrations.length;

/** Tells mirror files from other SQLite files ("amir"); kept in `PRAGMA application_id`. */
export const mirrorApplicationId = 0x61_6d_69_72;

/** The file's version, 0 where nothing was ever made in it. Throws `FileError` for a newer file or one of another program. */
export function checkVersion(database: Database, file: string): number {
  const version = Number(database.pragma('user_version', { simple: true }));
  const application = Number(database.pragma('application_id', { simple: true }));
  const objects = Number(database.prepare('SELECT count(*) FROM sqlite_schema').pluck().get());
  if (objects > 0 && application !== mirrorApplicationId) {
    throw new FileError(`${file} is an SQLite database, but not a mirror made by this program; it was left as it is`, {
      advice: 'Name another file with --db, ADMIN_MIRROR_DB or store.mirror.',
    });
  }
  if (version > mirrorVersion) {
    throw new FileError(
      `the mirror ${file} has version ${version}; this program knows up to ${mirrorVersion} and left it as it is`,
      { advice: 'Use the newer admin-mirror that made it, or name another file with --db.' },
    );
  }
  return version;
}

/** Brings the file to this program's version, one transaction a step. */
export function migrate(database: Database, file: string, clock: Clock): void {
  for (let version = checkVersion(database, file); version < mirrorVersion; version += 1) {
    const step = database.transaction(() => {
      // Another process may have taken this step while we waited for the write lock.
      if (checkVersion(database, file) !== version) return;
      for (const statement of migrations[version] ?? []) database.exec(statement);
      database
        .prepare('INSERT INTO mirror_migrations (version, applied_at) VALUES (?, ?)')
        .run(version + 1, timestampOf(clock.now()));
      database.pragma(`application_id = ${mirrorApplicationId}`);
      database.pragma(`user_version = ${version + 1}`);
    });
    step.immediate();
  }
}
