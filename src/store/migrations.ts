/** The mirror file's versions. */
import type { FileKind } from './file-kind.ts';
import { kernelLocks } from './lock.ts';
import { firstSchema } from './schema.ts';
import { typeColumns } from './typed-columns.ts';

/** Whoever ran it, as JSON; null of runs of before. */
const actors: readonly string[] = ['ALTER TABLE mirror_runs ADD COLUMN actor TEXT'];

/** What a mirror file is. */
export const mirrorKind: FileKind = {
  name: 'mirror',
  // "amir"
  applicationId: 0x61_6d_69_72,
  migrations: [firstSchema, kernelLocks('mirror_locks'), typeColumns, actors],
  migrationTable: 'mirror_migrations',
  lockTable: 'mirror_locks',
  places: '--db, ADMIN_MIRROR_DB or store.mirror',
  damaged: 'Move it away and run `admin-mirror sync` to build the mirror anew.',
};

/** The version that this program writes, kept in the file's `PRAGMA user_version`. */
export const mirrorVersion = mirrorKind.migrations.length;
