/** Reading by the change cursor. Section "The change cursor" of docs/architecture.md. */
import type { Database } from 'better-sqlite3';
import { UsageError } from '../model/errors.ts';
import type { NumberedTable } from './numbering.ts';
import { quoteName } from './schema.ts';

/** A cursor that the mirror cannot go on from. Whoever gets it starts anew, with everything. */
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

/** Stands before every change, of any mirror. */
export const startCursor = '0';

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

/** The last number that was given. */
export function lastSeq(database: Database): number {
  return headOf(database).seq;
}

/** The cursor of whoever has read all changes up to the number: the mirror, the number's epoch, the number. */
export function cursorAt(database: Database, seq: number): string {
  const epoch = database.prepare<[number], string>(
    'SELECT epoch FROM mirror_epochs WHERE from_seq < ? ORDER BY from_seq DESC LIMIT 1',
  );
  const { mirror } = headOf(database);
  const first = 'SELECT epoch FROM mirror_epochs ORDER BY from_seq LIMIT 1';
  return `${mirror}.${epoch.pluck().get(seq) ?? database.prepare<[], string>(first).pluck().get() ?? ''}.${seq}`;
}

/** The number up to which the cursor has read. Throws a CursorError where the mirror cannot tell what changed since. */
export function seqOf(database: Database, file: string, cursor: string): number {
  if (cursor === startCursor) return 0;
  const [, mirror, epoch, digits] = /^([0-9a-f]{12})\.([0-9a-f]{12})\.(\d{1,15})$/.exec(cursor) ?? [];
  if (mirror === undefined || epoch === undefined || digits === undefined) {
    throw new CursorError('malformed', `"${cursor}" is no cursor: one looks like 5b1f0c9e7a42.c07d1e55b3f8.1204`);
  }
  const seq = Number(digits);
  const head = headOf(database);
  if (mirror !== head.mirror) {
    throw new CursorError(
      'other mirror',
      `the cursor is of another mirror than ${file}, or of one that was built anew since`,
    );
  }
  if (seq === 0) return 0;
  if (seq < head.deletionsFrom) {
    throw new CursorError(
      'too old',
      `the cursor is older than the deletions that ${file} still knows of, which are kept for history.keep`,
    );
  }
  // The numbers that were given in the epoch, the one before the first included.
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

/** The same; undefined where the mirror cannot tell. */
export function knownSeqOf(database: Database, file: string, cursor: string): number | undefined {
  try {
    return seqOf(database, file, cursor);
  } catch (error) {
    if (error instanceof CursorError) return undefined;
    throw error;
  }
}

/** Rows of a table that changed, and the keys of those that went. */
export interface ChangedSelection {
  readonly table: NumberedTable;
  /** Of the table; the key's are NULL of no row, all others are NULL of a row that is gone. */
  readonly columns: readonly string[];
  /** Only what has a higher number. */
  readonly after: number;
  readonly limit?: number;
}

/** By number, each key once; behind the columns come `_seq`, and `_deleted`, which is 1 of a row that is gone. */
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
