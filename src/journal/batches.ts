/** Batches and the record of steps in an SQLite journal. */
import type { Database } from 'better-sqlite3';
import type { Timestamp } from '../model/time.ts';
import type { Batch, BatchState, JournalStep, NewBatch } from './port.ts';
import { outward } from './intents.ts';

interface BatchRow {
  readonly batch: string;
  readonly action: string;
  readonly state: BatchState;
  readonly file: string | null;
  readonly file_bytes: number | null;
  readonly file_hash: string | null;
  readonly hash: string;
  readonly rows_digest: string;
  readonly rows: number;
  readonly net: string;
  readonly columns: string;
  readonly problems: string;
  readonly warnings: string;
  readonly server: string;
  readonly undo_of: string | null;
  readonly again_reason: string | null;
  readonly created_at: string;
  readonly applied_at: string | null;
  readonly finished_at: string | null;
  readonly behind: string | null;
}

function batchOf(row: BatchRow): Batch {
  return {
    batch: row.batch,
    action: row.action,
    state: row.state,
    file: row.file,
    fileBytes: row.file_bytes,
    fileHash: row.file_hash,
    hash: row.hash,
    rowsDigest: row.rows_digest,
    rows: row.rows,
    net: row.net,
    columns: JSON.parse(row.columns) as Batch['columns'],
    problems: JSON.parse(row.problems) as Batch['problems'],
    warnings: JSON.parse(row.warnings) as Batch['warnings'],
    server: JSON.parse(row.server) as Batch['server'],
    undoOf: row.undo_of,
    againReason: row.again_reason,
    createdAt: row.created_at as Timestamp,
    appliedAt: row.applied_at as Timestamp | null,
    finishedAt: row.finished_at as Timestamp | null,
    behind: row.behind,
  };
}

/** The statements about batches; each belongs into a transaction of the caller. */
export function batchTable(database: Database) {
  const insert = database.prepare(
    `INSERT INTO journal_batches (batch, action, state, file, file_bytes, file_hash, hash, rows_digest, rows, net,
       columns, problems, warnings, server, undo_of, again_reason, created_at)
     VALUES (?, ?, 'planned', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const one = database.prepare<[string], BatchRow>('SELECT * FROM journal_batches WHERE batch = ?');
  const all = database.prepare<[], BatchRow>('SELECT * FROM journal_batches ORDER BY created_at DESC, batch DESC');
  const like = database.prepare<[string | null, string, string], BatchRow>(
    `SELECT * FROM journal_batches
     WHERE (file_hash = ? OR rows_digest = ?) AND batch <> ? AND EXISTS (
       SELECT 1 FROM journal_intents WHERE journal_intents.batch = journal_batches.batch AND ${outward})
     ORDER BY created_at`,
  );
  const behind = database.prepare<[], BatchRow>('SELECT * FROM journal_batches WHERE behind IS NOT NULL LIMIT 1');
  const setBehind = database.prepare('UPDATE journal_batches SET behind = ? WHERE batch = ?');
  const setAgain = database.prepare('UPDATE journal_batches SET again_reason = ? WHERE batch = ?');
  const setState = database.prepare(
    `UPDATE journal_batches SET state = @state, applied_at = coalesce(applied_at, iif(@state = 'applying', @at, NULL)),
       finished_at = iif(@state = 'done', coalesce(finished_at, @at), NULL)
     WHERE batch = @batch`,
  );
  const addStep = database.prepare('INSERT INTO journal_steps (at, batch, row, kind, note) VALUES (?, ?, ?, ?, ?)');
  const steps = database.prepare<[string], JournalStep>(
    'SELECT at, row, kind, note FROM journal_steps WHERE batch = ? ORDER BY step',
  );
  const lastStep = database.prepare<[], number | null>('SELECT max(step) FROM journal_steps').pluck();
  return {
    insert: (each: NewBatch, at: Timestamp): void => {
      const lists = [each.columns, each.problems, each.warnings, each.server].map((list) => JSON.stringify(list));
      const file = [each.file, each.fileBytes, each.fileHash];
      const plan = [each.hash, each.rowsDigest, each.rows, each.net];
      insert.run(each.batch, each.action, ...file, ...plan, ...lists, each.undoOf, each.againReason, at);
    },
    one: (id: string): Batch | undefined => {
      const row = one.get(id);
      return row === undefined ? undefined : batchOf(row);
    },
    all: (): Batch[] => all.all().map(batchOf),
    sentLike: (fileHash: string | null, rowsDigest: string, apartFrom: string): Batch[] =>
      like.all(fileHash, rowsDigest, apartFrom).map(batchOf),
    behind: (): Batch | undefined => behind.all().map(batchOf)[0],
    setBehind: (batch: string, why: string | null): void => {
      setBehind.run(why, batch);
    },
    setAgain: (batch: string, reason: string): void => {
      setAgain.run(reason, batch);
    },
    setState: (batch: string, state: BatchState, at: Timestamp): void => {
      setState.run({ batch, state, at });
    },
    addStep: (at: Timestamp, batch: string, row: number | null, kind: string, note: string | null): void => {
      addStep.run(at, batch, row, kind, note);
    },
    steps: (batch: string): JournalStep[] => steps.all(batch),
    lastStep: (): number => lastStep.get() ?? 0,
  };
}
