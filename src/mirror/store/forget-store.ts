/** Forgetting a person in an SQLite mirror: rows, versions and texts go, ids stay, and no byte is left in the files. */
import type { Database } from 'better-sqlite3';
import { explainFileError } from '../../model/file-error.ts';
import type { RelationTable } from '../../model/relations.ts';
import type { ResourceName } from '../../model/resources.ts';
import { systemClock, type Clock, type Day } from '../../model/time.ts';
import type { ForgetStore } from '../../store/forget-types.ts';
import { mirrorLocks } from '../../store/lock.ts';
import { openMirrorFile, openMirrorForReading } from '../../store/open.ts';
import { personRemoval } from './person-removal.ts';
import { personSearch } from './person.ts';
import { relationsRead } from '../../store/relations.ts';
import { build, Runner } from '../../store/tables.ts';
import { resetWalks } from './window-table.ts';

/** How long the last step waits for processes that read an older state: queries are short, an export may take minutes. */
const readersMs = 10_000;

/**
 * Opens an existing mirror to forget people in it. Throws `FileError`. The caller closes it.
 * @param waitMs how long to wait for readers of an older state
 */
export function openForgetStore(file: string, clock: Clock = systemClock, waitMs = readersMs): ForgetStore {
  // A mirror that is not there must not be made.
  openMirrorForReading(file).close();
  const database = openMirrorFile(file, clock);
  // What is deleted is overwritten with zeros.
  database.pragma('secure_delete = ON');
  const runner = new Runner(database);
  const locks = mirrorLocks(database, clock);

  function guarded<T>(doing: () => T): T {
    try {
      return doing();
    } catch (error) {
      throw explainFileError(error, 'remove a person from the mirror', file) ?? error;
    }
  }
  const whole = <T>(doing: () => T): T => guarded(() => database.transaction(doing).immediate());
  const step = <T>(doing: () => T): T =>
    whole(() => {
      locks.guard();
      return doing();
    });

  return {
    ...personSearch(database),
    acquireLock: (name, run, command = name) => whole(() => locks.acquire(name, run, command)),
    releaseLock: (name, run) => whole(() => locks.release(name, run)),
    forget: (person, at) => step(() => personRemoval(database, runner, person, at)),
    undo: (id) => step(() => undo(runner, id)),
    scrub: () => guarded(() => scrub(database, waitMs)),
    close: () => {
      locks.close();
      database.close();
    },
  };
}

/** The records come back when their windows are read again. */
function undo(runner: Runner, id: number): Record<string, number> {
  const kept = runner.all(
    build.selectFrom('mirror_suppressions').select(['resource', 'seen_day']).where('user_id', '=', id),
  );
  runner.run(build.deleteFrom('mirror_suppressions').where('user_id', '=', id));
  const counts: Record<string, number> = {};
  for (const { resource, seen_day: day } of kept) {
    counts[resource] = (counts[resource] ?? 0) + 1;
    if (day !== null) resetWalks(runner, resource, day as Day);
  }
  if (kept.length > 0) for (const resource of othersWithRelations(relationsRead(runner))) resetWalks(runner, resource);
  return counts;
}

/** Resources whose pages may hold related records of the person, which are not found under any window of the person's. */
function othersWithRelations(relations: readonly RelationTable[]): Set<ResourceName> {
  return new Set(relations.map(({ resource }) => resource).filter((name) => name !== 'users' && name !== 'emails'));
}

/**
 * Rows that were changed before, without overwriting, may have left bytes in pages: only rewriting the file takes those
 * out. The rewritten pages stand in the log, behind what it held before, until all of it is folded into the file.
 */
function scrub(database: Database, waitMs: number): boolean {
  database.pragma(`busy_timeout = ${waitMs}`);
  database.exec('VACUUM');
  const [result] = database.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
  return result?.busy === 0;
}
