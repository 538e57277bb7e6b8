/**
 * The change number `_seq` of every mirrored row, and the tombstones of deleted rows. Each change gets a higher number in its own
 * transaction; triggers number what the writer did not number itself. Section "The change cursor" of docs/architecture.md.
 */
import type { Database, Statement } from 'better-sqlite3';
import { type RelationTable, type ResourceName, resourceNames } from '../model/resources.ts';
import { dayMs, later, type Timestamp } from '../model/time.ts';
import { historyTableOf, owningDaySql, quoteName } from './schema.ts';
import { UsageError } from '../model/errors.ts';

export interface NumberedTable {
  readonly name: string;
  /** The columns that identify a row before and after a change. A tombstone holds the same. */
  readonly key: readonly [string] | readonly [string, string];
  /** The resource whose windows bring its rows; the first column of the key is a record's id. */
  readonly resource?: ResourceName;
}

const resourceTables: readonly NumberedTable[] = resourceNames.map((name) => ({ name, key: ['id'], resource: name }));

// A version has no id of its own, so its number is its key. A changed version is gone under its old number.
const historyTables: readonly NumberedTable[] = resourceNames.map((name) => ({
  name: historyTableOf(name),
  key: ['_seq'],
}));

/** The tables of every mirror whose rows are numbered. */
export const numberedFromBirth: readonly NumberedTable[] = [...resourceTables, ...historyTables];

export function numberedRelation({ table, parentColumn, resource }: RelationTable): NumberedTable {
  return { name: table, key: [parentColumn, '_key'], resource };
}

/** Whether, in a trigger, the row is written by something else than a step of ours, which `ourStep` marks. */
const isForeign = '(SELECT writing FROM mirror_cursor) IS NOT 1';

/**
 * Returns the triggers that note the days of records that another program adds, changes or removes, or some of whose related records:
 * their windows are compared row by row. All fire before the change: a row that `OR REPLACE` removes fires none of its own.
 */
function noteSql({ name, key, resource }: NumberedTable): string[] {
  if (resource === undefined) return [];
  const [id] = key.map(quoteName);
  const createdAt = (row: 'OLD' | 'NEW'): string =>
    name === resource
      ? `SELECT ${row}."created_at" AS at`
      : `SELECT (SELECT "created_at" FROM ${resource} WHERE "id" = ${row}.${id}) AS at`;
  const replaced = name === resource ? [`SELECT "created_at" FROM ${name} WHERE "id" = NEW."id"`] : [];
  const trigger = (what: string, when: string, times: readonly string[]): string =>
    // Not OR IGNORE: the conflict clause of the statement that fires the trigger would count instead.
    `CREATE TRIGGER ${quoteName(`${name}_${what}`)} BEFORE ${when} ON ${quoteName(name)} WHEN ${isForeign}
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT '${resource}', ${owningDaySql('at')} AS noted FROM (${times.join(' UNION ')})
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = '${resource}'); END`;
  return [
    trigger('added', 'INSERT', [createdAt('NEW'), ...replaced]),
    trigger('changed', 'UPDATE', [createdAt('OLD'), createdAt('NEW'), ...replaced]),
    trigger('removed', 'DELETE', [createdAt('OLD')]),
  ];
}

/** Returns a function that runs a change as a step of ours, within the transaction that is open. */
export function ourStep(database: Database): <T>(doing: () => T) => T {
  // Prepared on first use: whoever only reads needs neither.
  let marks: { readonly isOurs: Statement<[], number>; readonly set: Statement<[number]> } | undefined;
  return (doing) => {
    marks ??= {
      isOurs: database.prepare<[], number>('SELECT writing FROM mirror_cursor').pluck(),
      set: database.prepare<[number]>('UPDATE mirror_cursor SET writing = ?'),
    };
    // A step within another one.
    if (marks.isOurs.get() === 1) return doing();
    marks.set.run(1);
    const done = doing();
    // No other program ever sees the mark: it is not committed.
    marks.set.run(0);
    return done;
  };
}

const bump = 'UPDATE mirror_cursor SET seq = seq + 1';
const bumped = '(SELECT seq FROM mirror_cursor)';

/** Returns the statements that make the index and the triggers for the numbers of a table, which must be empty. */
export function numberingSql(numbered: NumberedTable): string[] {
  const { name, key, resource } = numbered;
  const table = quoteName(name);
  const [id, second] = key.map((column) => `OLD.${quoteName(column)}`);
  const bury = `INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('${name}', ${id}, ${second ?? "''"}, ${bumped})`;
  const isHistory = key[0] === '_seq';
  const number = `UPDATE ${table} SET "_seq" = ${bumped} WHERE rowid = NEW.rowid`;
  // Versions from before the beginning of the history were already invisible to every reader, so they leave no tombstones.
  const kept = isHistory
    ? `WHEN OLD.valid_to >= coalesce((SELECT begins_at FROM mirror_history WHERE resource = '${name.replace(/_history$/, '')}'), '') `
    : '';
  const inserted = `CREATE TRIGGER ${quoteName(`${name}_numbered`)} AFTER INSERT ON ${table} WHEN NEW."_seq" = 0
BEGIN ${bump}; ${number}; END`;
  return [
    `CREATE INDEX ${quoteName(`${name}_seq`)} ON ${table} ("_seq")`,
    // A trigger in the file would cost a first sync 3 % of its processor time for nothing: the sync numbers its rows itself.
    ...(name === resource ? [] : [inserted]),
    `CREATE TRIGGER ${quoteName(`${name}_renumbered`)} AFTER UPDATE ON ${table} WHEN NEW."_seq" = OLD."_seq"
BEGIN ${bump}; ${isHistory ? `${bury}; ${bump}; ` : ''}${number}; END`,
    `CREATE TRIGGER ${quoteName(`${name}_buried`)} BEFORE DELETE ON ${table} ${kept}
BEGIN ${bump}; ${bury}; END`,
    ...noteSql(numbered),
  ];
}

/** Makes this connection number what it inserts into resources, unless the statement itself did. */
export function numberInserts(database: Database): void {
  for (const name of resourceNames) {
    database.exec(`CREATE TEMP TRIGGER ${name}_numbered AFTER INSERT ON main.${name} WHEN NEW."_seq" = 0
      BEGIN ${bump}; UPDATE ${name} SET "_seq" = ${bumped} WHERE rowid = NEW.rowid; END`);
  }
}

/** The statements that set up the numbers of a new mirror, in order. Its tables must be there. */
export const mirrorNumbering: readonly string[] = [
  `CREATE TABLE mirror_cursor ( -- The last change number; one row. \`export --changed-since\` and \`changes --follow\` use it.
  mirror TEXT NOT NULL, -- identifies the mirror; one that is built anew gets another value
  seq INTEGER NOT NULL, -- the number of the last change in any table
  deletions_from INTEGER NOT NULL, -- deletions up to this number may no longer be known
  writing INTEGER NOT NULL DEFAULT 0 -- 1 while this program writes, which nobody else sees; else 0
) STRICT`,
  `CREATE TABLE mirror_epochs ( -- Which run gave which numbers: a row for each run that changed something. An older copy continues in another epoch.
  from_seq INTEGER PRIMARY KEY, -- primary key; the last number before the epoch
  epoch TEXT NOT NULL, -- its name, which no other has
  began_at TEXT NOT NULL -- when it began
) STRICT`,
  `CREATE TABLE mirror_deletions ( -- Tombstones of deleted rows: their ids, and nothing else. They are kept for history.keep.
  table_name TEXT NOT NULL, -- the table that the row was in
  id INTEGER NOT NULL, -- its id; for related records the parent’s, for a history the _seq
  key TEXT NOT NULL, -- for related records their _key; otherwise empty
  seq INTEGER NOT NULL, -- the number of the deletion
  PRIMARY KEY (table_name, id, key)
) STRICT, WITHOUT ROWID`,
  'CREATE INDEX mirror_deletions_seq ON mirror_deletions (table_name, seq)',
  'INSERT INTO mirror_cursor (mirror, seq, deletions_from) VALUES (lower(hex(randomblob(6))), 0, 0)',
  // Nobody knows when something came that is numbered before a lock is first taken.
  "INSERT INTO mirror_epochs (from_seq, epoch, began_at) VALUES (0, lower(hex(randomblob(6))), '1970-01-01T00:00:00.000000Z')",
  ...numberedFromBirth.flatMap(numberingSql),
];

/** Reads and sets the last number given, for statements that number their rows themselves: faster than a trigger for each row. */
export function numbersIn(database: Database) {
  const last = database.prepare<[], number>('SELECT seq FROM mirror_cursor').pluck();
  const set = database.prepare<[number]>('UPDATE mirror_cursor SET seq = ?');
  return {
    last: () => last.get() ?? 0,
    /** Makes this the last number, within the current transaction: to take numbers, or to give unused ones back. */
    setLast: (seq: number) => void set.run(seq),
  };
}

/** A time in the mirror that is further ahead than this came from a wrong clock. It must not move the times of other records. */
const believedAheadMs = dayMs;

/**
 * Returns the time at which a new epoch begins: now, or after the last time in the mirror, if the clock was set back or a machine
 * whose clock is ahead wrote to the mirror.
 */
function beginningAt(database: Database, now: Timestamp): Timestamp {
  const tables = (sql: (name: ResourceName) => string) => resourceNames.map(sql);
  const latest = (times: readonly string[]): Timestamp => {
    const sql = times.map((each) => `SELECT max(at) AS at FROM (${each}) WHERE at <= @limit`).join(' UNION ALL ');
    const limit = later(now, believedAheadMs);
    return database.prepare<[object], Timestamp | null>(`SELECT max(at) FROM (${sql})`).pluck().get({ limit }) ?? now;
  };
  const indexed = [
    // An epoch without numbers wrote nothing.
    'SELECT began_at AS at FROM mirror_epochs WHERE from_seq < (SELECT seq FROM mirror_cursor)',
    ...tables((name) => `SELECT valid_to AS at FROM ${historyTableOf(name)}`),
  ];
  if (latest([...indexed, 'SELECT finished_at AS at FROM mirror_runs']) <= now) return now;
  // Rows have no index by time, so they are read only if one of them may be later than now.
  const last = latest([...indexed, ...tables((name) => `SELECT "_changed_at" AS at FROM ${name}`)]);
  return last <= now ? now : later(last, 1);
}

/**
 * Begins an epoch; called when the lock is taken. An older copy in the mirror's place continues in an epoch of its own, so cursors of
 * the replaced mirror are told from those of the copy. Returns the time from which the mirror's times continue.
 */
export function beginEpoch(database: Database, now: Timestamp): Timestamp {
  const at = beginningAt(database, now);
  // No cursor names an epoch without numbers, so that one is renamed instead of adding another.
  database
    .prepare(
      `INSERT INTO mirror_epochs (from_seq, epoch, began_at)
       SELECT seq, lower(hex(randomblob(6))), ? FROM mirror_cursor WHERE true
       ON CONFLICT (from_seq) DO UPDATE SET epoch = excluded.epoch, began_at = min(began_at, excluded.began_at)`,
    )
    .run(at);
  // Number what another program has inserted meanwhile: the trigger gives a number to each row that is written without a new one.
  for (const name of resourceNames) database.exec(`UPDATE ${name} SET "_seq" = 0 WHERE "_seq" = 0`);
  return at;
}

/** Returns a function that removes up to `tombstones` tombstones from before the time and returns how many it removed. */
export function deletionPruner(database: Database): (before: Timestamp, tombstones: number) => number {
  // The last epoch before the first one that began at or after the time. A later one may have begun by a clock that was behind.
  const oldest = database
    .prepare<[string], number | null>(
      `SELECT max(from_seq) FROM mirror_epochs
       WHERE from_seq < coalesce((SELECT min(from_seq) FROM mirror_epochs WHERE began_at >= ?), 9e18)`,
    )
    .pluck();
  const raise = database.prepare<[number, number]>(
    'UPDATE mirror_cursor SET deletions_from = ? WHERE deletions_from < ?',
  );
  // The last epoch before the number stays: a cursor at just this number names it.
  const forget = database.prepare<[number]>(
    'DELETE FROM mirror_epochs WHERE from_seq < (SELECT max(from_seq) FROM mirror_epochs WHERE from_seq < ?)',
  );
  const remove = database.prepare<[number, number]>(
    `DELETE FROM mirror_deletions WHERE (table_name, id, key) IN
       (SELECT table_name, id, key FROM mirror_deletions WHERE seq <= ? LIMIT ?)`,
  );
  return (before, tombstones) => {
    const seq = oldest.get(before) ?? 0;
    raise.run(seq, seq);
    forget.run(seq);
    return seq === 0 ? 0 : remove.run(seq, tombstones).changes;
  };
}

/** The mirror cannot continue from this cursor. The reader must start again and read everything. */
export class CursorError extends UsageError {
  override readonly name = 'CursorError';
  readonly reason: 'malformed' | 'other mirror' | 'other copy' | 'too old';

  constructor(reason: CursorError['reason'], message: string) {
    super(message, {
      advice: 'Start anew: read everything without a cursor, and go on from the cursor that comes with it.',
    });
    this.reason = reason;
  }
}

/** The cursor before every change, of any mirror. */
export const startCursor = '0';

/** Whether another program has left numbers with which no change can be numbered. */
export function areNumbersLost(database: Database): boolean {
  const sound = database.prepare<[number], number>(
    `SELECT (SELECT count(*) FROM mirror_cursor) = 1 AND (SELECT seq FROM mirror_cursor) BETWEEN 0 AND ?
       AND EXISTS (SELECT 1 FROM mirror_epochs)`,
  );
  return sound.pluck().get(Number.MAX_SAFE_INTEGER) !== 1;
}

interface Head {
  readonly mirror: string;
  readonly seq: number;
  readonly deletionsFrom: number;
}

function headOf(database: Database): Head {
  const head = database.prepare<[], Head>('SELECT mirror, seq, deletions_from AS deletionsFrom FROM mirror_cursor');
  const found = head.get();
  if (found === undefined) throw new Error('the mirror has lost its cursor');
  return found;
}

export function lastSeq(database: Database): number {
  return headOf(database).seq;
}

/** Returns the cursor of a reader who has read all changes up to the number: the mirror, the number's epoch, the number. */
export function cursorAt(database: Database, seq: number): string {
  const epoch = database.prepare<[number], string>(
    'SELECT epoch FROM mirror_epochs WHERE from_seq < ? ORDER BY from_seq DESC LIMIT 1',
  );
  const { mirror } = headOf(database);
  const first = 'SELECT epoch FROM mirror_epochs ORDER BY from_seq LIMIT 1';
  return `${mirror}.${epoch.pluck().get(seq) ?? database.prepare<[], string>(first).pluck().get() ?? ''}.${seq}`;
}

/** Returns the number up to which the cursor's reader has read. Throws a CursorError if the mirror cannot tell what changed since. */
export function seqOf(database: Database, file: string, cursor: string): number {
  if (cursor === startCursor) return 0;
  const [, mirror, epoch, digits] = /^([0-9a-f]{12})\.([0-9a-f]{12})\.(\d{1,15})$/.exec(cursor) ?? [];
  if (mirror === undefined || epoch === undefined || digits === undefined) {
    throw new CursorError('malformed', `"${cursor}" is not a cursor: one looks like 5b1f0c9e7a42.c07d1e55b3f8.1204`);
  }
  const seq = Number(digits);
  const head = headOf(database);
  if (mirror !== head.mirror) {
    throw new CursorError(
      'other mirror',
      `the cursor is from another mirror than ${file}, or from before that mirror was built anew`,
    );
  }
  if (seq === 0) return 0;
  if (seq < head.deletionsFrom) {
    throw new CursorError(
      'too old',
      `the cursor is older than the deletions that ${file} still knows of, which are kept for history.keep`,
    );
  }
  // The numbers given in the epoch; `from` is the one before the first.
  const range = database
    .prepare<[string], { from: number; to: number }>(
      `SELECT from_seq AS "from", coalesce((SELECT min(from_seq) FROM mirror_epochs AS next WHERE next.from_seq > epoch.from_seq),
         (SELECT seq FROM mirror_cursor)) AS "to"
       FROM mirror_epochs AS epoch WHERE epoch = ?`,
    )
    .get(epoch);
  if (range === undefined || seq < range.from || seq > range.to) {
    throw new CursorError(
      'other copy',
      `the cursor is from after the state that ${file} was put back to: an older copy took its place`,
    );
  }
  return seq;
}

/** The same as `seqOf`, but undefined if the mirror cannot tell. */
export function knownSeqOf(database: Database, file: string, cursor: string): number | undefined {
  try {
    return seqOf(database, file, cursor);
  } catch (error) {
    if (error instanceof CursorError) return undefined;
    throw error;
  }
}

/** Which changed rows of a table, and keys of deleted rows, to read. */
export interface ChangedSelection {
  readonly table: NumberedTable;
  /** Columns of the table. A deleted row has NULL in all but the key. */
  readonly columns: readonly string[];
  /** Only rows with a higher number. */
  readonly after: number;
  readonly limit?: number;
}

/** The SELECT for it, ordered by number, each key once. After the columns come `_seq` and `_deleted`, which is 1 for a deleted row. */
export function changedSql({ table, columns, after, limit }: ChangedSelection): string {
  const name = quoteName(table.name);
  const [id, key] = table.key;
  const buried = (column: string): string => (column === id ? 'gone.id' : column === key ? 'gone.key' : 'NULL');
  const same = key === undefined ? '' : ` AND live.${quoteName(key)} = gone.key`;
  return `SELECT ${[...columns, '_seq'].map(quoteName).join(', ')}, 0 AS "_deleted" FROM ${name} WHERE "_seq" > ${after}
UNION ALL
SELECT ${columns.map(buried).join(', ')}, gone.seq, 1 FROM mirror_deletions AS gone
WHERE gone.table_name = '${table.name}' AND gone.seq > ${after}
AND NOT EXISTS (SELECT 1 FROM ${name} AS live WHERE live.${quoteName(id)} = gone.id${same})
ORDER BY ${columns.length + 1}${limit === undefined ? '' : ` LIMIT ${limit}`}`;
}
