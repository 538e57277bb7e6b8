/** The rows of batches in an SQLite journal, and the steps from state to state. */
import SqliteDatabase, { type Database, type Statement } from 'better-sqlite3';
import type { Timestamp } from '../model/time.ts';
import type { ClaimedRow, Intent, IntentFields, IntentState, Move, NewIntent, RowChange } from './port.ts';

interface IntentRow {
  readonly batch: string;
  readonly row: number;
  readonly state: IntentState;
  readonly subject: string | null;
  readonly user: number | null;
  readonly key: string | null;
  readonly token: string | null;
  readonly fingerprint: string | null;
  readonly parameters: string | null;
  readonly cells: string;
  readonly planned_before: string | null;
  readonly planned_after: string | null;
  readonly problem: string | null;
  readonly undo_of_row: number | null;
  readonly attempts: number;
  readonly sent_at: string | null;
  readonly body: string | null;
  readonly seen_before: string | null;
  readonly before: string | null;
  readonly after: string | null;
  readonly answer_kind: Intent['answerKind'];
  readonly http_status: number | null;
  readonly answer: string | null;
  readonly evidence: Intent['evidence'];
  readonly planned_email: string | null;
  readonly planned_username: string | null;
  readonly claimed_at: string | null;
  readonly record_id: string | null;
  readonly discrepancy: Intent['discrepancy'];
  readonly notes: string | null;
}

function intentOf(row: IntentRow): Intent {
  return {
    batch: row.batch,
    row: row.row,
    state: row.state,
    subject: row.subject,
    user: row.user,
    key: row.key,
    token: row.token,
    fingerprint: row.fingerprint,
    parameters: row.parameters === null ? null : (JSON.parse(row.parameters) as Intent['parameters']),
    cells: JSON.parse(row.cells) as Intent['cells'],
    plannedBefore: row.planned_before,
    plannedAfter: row.planned_after,
    problem: row.problem,
    undoOfRow: row.undo_of_row,
    attempts: row.attempts,
    sentAt: row.sent_at as Timestamp | null,
    body: row.body,
    seenBefore: row.seen_before === null ? null : (JSON.parse(row.seen_before) as unknown),
    before: row.before,
    after: row.after,
    answerKind: row.answer_kind,
    httpStatus: row.http_status,
    answer: row.answer,
    evidence: row.evidence,
    plannedEmail: row.planned_email,
    plannedUsername: row.planned_username,
    claimedAt: row.claimed_at as Timestamp | null,
    recordId: row.record_id,
    discrepancy: row.discrepancy,
    notes: row.notes === null ? [] : (JSON.parse(row.notes) as Intent['notes']),
  };
}

const columnOf: Readonly<Record<keyof IntentFields, string>> = {
  sentAt: 'sent_at',
  body: 'body',
  seenBefore: 'seen_before',
  before: 'before',
  after: 'after',
  answerKind: 'answer_kind',
  httpStatus: 'http_status',
  answer: 'answer',
  evidence: 'evidence',
  problem: 'problem',
  recordId: 'record_id',
  discrepancy: 'discrepancy',
};

/** Rows that are read at once: the connection can do nothing else while a statement is stepped through. */
const chunk = 1_000;
const openList = "('sending', 'acknowledged', 'unknown', 'needs_human')";

/** Of a row: claimed, and neither refused nor left out since, so that it was sent, or may be at any moment. */
export const outward = "claimed_at IS NOT NULL AND state NOT IN ('rejected', 'skipped', 'invalid')";

/** In the order of `ClaimedRow`. */
const claimColumns = `row, user, fingerprint, planned_before AS "plannedBefore", planned_after AS "plannedAfter",
  claimed_at AS "claimedAt"`;

/** What a plan knows of a row. */
const planned =
  'batch row state subject user key token fingerprint parameters cells planned_email planned_username planned_before planned_after problem notes undo_of undo_of_row'.split(
    ' ',
  );

/** In the order of `planned`. */
function plannedCells(batch: string, undoOf: string | null, each: NewIntent): (string | number | null)[] {
  const known = [each.subject, each.user, each.key, each.token, each.fingerprint];
  const parameters = each.parameters === null ? null : JSON.stringify(each.parameters);
  const preview = [each.plannedEmail, each.plannedUsername, each.plannedBefore, each.plannedAfter];
  const words = [each.problem, each.notes.length === 0 ? null : JSON.stringify(each.notes)];
  const undo = each.undoOfRow === null ? [null, null] : [undoOf, each.undoOfRow];
  return [batch, each.row, each.state, ...known, parameters, JSON.stringify(each.cells), ...preview, ...words, ...undo];
}

function isTaken(error: unknown): boolean {
  return error instanceof SqliteDatabase.SqliteError && error.code === 'SQLITE_CONSTRAINT_UNIQUE';
}

/** The statements about intents; each belongs into a transaction of the caller. */
export function intentTable(database: Database) {
  // Rows come as JSON, a thousand at once: binding each of their values takes longer than storing them.
  const insert = database.prepare<[string]>(
    `INSERT INTO journal_intents (${planned.join(', ')})
     SELECT ${planned.map((_, index) => `value ->> ${index}`).join(', ')} FROM jsonb_each(?)`,
  );
  const one = database.prepare<[string, number], IntentRow>(
    'SELECT * FROM journal_intents WHERE batch = ? AND row = ?',
  );
  const some = database.prepare<[string, number, string], IntentRow>(
    `SELECT * FROM journal_intents WHERE batch = ? AND row > ? AND state IN (SELECT value FROM json_each(?))
     ORDER BY row LIMIT ${chunk}`,
  );
  const every = database.prepare<[string, number], IntentRow>(
    `SELECT * FROM journal_intents WHERE batch = ? AND row > ? ORDER BY row LIMIT ${chunk}`,
  );
  const changes = database.prepare<[string], RowChange>(
    `SELECT state, subject, planned_before AS "plannedBefore", planned_after AS "plannedAfter", before, after, discrepancy
     FROM journal_intents WHERE batch = ? AND state <> 'invalid'`,
  );
  const parameters = database
    .prepare<[string], string | null>('SELECT parameters FROM journal_intents WHERE batch = ? ORDER BY row')
    .pluck();
  const counts = database.prepare<[string], { state: IntentState; count: number }>(
    'SELECT state, count(*) AS count FROM journal_intents WHERE batch = ? GROUP BY state',
  );
  const open = database.prepare<[string], { batch: string; row: number; state: IntentState }>(
    `SELECT batch, row, state FROM journal_intents WHERE subject = ? AND state IN ${openList}`,
  );
  const interrupted = database.prepare<[string], number>(
    "UPDATE journal_intents SET state = 'unknown' WHERE batch = ? AND state = 'sending' RETURNING row",
  );
  const free = database.prepare<[string]>(
    `UPDATE journal_intents SET state = 'planned', problem = NULL WHERE batch = ? AND state = 'blocked'
     AND subject NOT IN (SELECT subject FROM journal_intents WHERE state IN ${openList} AND subject IS NOT NULL)`,
  );
  const claimable = database.prepare<[string], ClaimedRow>(
    `SELECT ${claimColumns} FROM journal_intents WHERE batch = ? AND state IN ('planned', 'blocked') ORDER BY row`,
  );
  // Also what was claimed before: whoever goes on has looked at what others have claimed since.
  const claim = database.prepare<[string, string]>(
    "UPDATE journal_intents SET claimed_at = ? WHERE batch = ? AND state IN ('planned', 'blocked')",
  );
  const claimedSince = database.prepare<[string, string], Pick<ClaimedRow, 'plannedBefore' | 'plannedAfter'>>(
    `SELECT planned_before AS "plannedBefore", planned_after AS "plannedAfter" FROM journal_intents
     WHERE claimed_at >= ? AND ${outward} AND NOT (batch = ? AND state IN ('planned', 'blocked'))`,
  );
  const overApplied = database.prepare<[], { batch: string; row: number }>(
    "SELECT batch, row FROM journal_intents WHERE state = 'needs_human' AND discrepancy = 'over_applied' LIMIT 1",
  );
  // By the index on fingerprints: a token of its own would make every plan dearer.
  const token = database
    .prepare<[string, string], number>(
      'SELECT 1 FROM journal_intents WHERE fingerprint = ? AND token = ? AND claimed_at IS NOT NULL',
    )
    .pluck();
  const undone = database.prepare<[string], { row: number; batch: string }>(
    `SELECT undo_of_row AS row, batch FROM journal_intents
     WHERE undo_of = ? AND state NOT IN ('rejected', 'not_applied', 'skipped', 'invalid')`,
  );
  const updates = new Map<string, Statement>();

  /** Prepared once for each set of columns; there are a handful. */
  function update(fields: readonly (keyof IntentFields)[]): Statement {
    const key = fields.join(' ');
    let statement = updates.get(key);
    if (statement === undefined) {
      const sets = fields.map((field) => `, ${columnOf[field]} = ?`).join('');
      statement = database.prepare(
        `UPDATE journal_intents SET state = ?, attempts = attempts + ?${sets} WHERE batch = ? AND row = ? AND state = ?`,
      );
      updates.set(key, statement);
    }
    return statement;
  }

  return {
    /** False where a row is taken back by another batch already. */
    insert: (batch: string, undoOf: string | null, intents: Iterable<NewIntent>): boolean => {
      let rows: unknown[][] = [];
      try {
        for (const each of intents) {
          rows.push(plannedCells(batch, undoOf, each));
          if (rows.length < chunk) continue;
          insert.run(JSON.stringify(rows));
          rows = [];
        }
        insert.run(JSON.stringify(rows));
        return true;
      } catch (error) {
        if (isTaken(error)) return false;
        throw error;
      }
    },
    one: (batch: string, row: number): Intent | undefined => {
      const found = one.get(batch, row);
      return found === undefined ? undefined : intentOf(found);
    },
    *walk(batch: string, states?: readonly IntentState[]): Generator<Intent, undefined> {
      let after = -1;
      for (;;) {
        const rows = states === undefined ? every.all(batch, after) : some.all(batch, after, JSON.stringify(states));
        for (const row of rows) yield intentOf(row);
        const last = rows.at(-1);
        if (last === undefined || rows.length < chunk) return undefined;
        after = last.row;
      }
    },
    parameters: (batch: string): Iterable<Pick<Intent, 'parameters'>> =>
      parameters
        .all(batch)
        .values()
        .map((text) => ({ parameters: text === null ? null : (JSON.parse(text) as Intent['parameters']) })),
    changes: (batch: string): RowChange[] => changes.all(batch),
    counts: (batch: string) =>
      Object.fromEntries(counts.all(batch).map(({ state, count }) => [state, count])) as Partial<
        Record<IntentState, number>
      >,
    openRow: (subject: string) => open.get(subject),
    /** False where an index keeps the row from being open, or planned again. Throws where it is not in the state. */
    move: ({ batch, row, from, to, fields = {} }: Move): boolean => {
      const names = (Object.keys(fields) as (keyof IntentFields)[]).filter((name) => fields[name] !== undefined);
      const values = names.map((name) =>
        name === 'seenBefore' ? JSON.stringify(fields[name]) : (fields[name] as string | number | null),
      );
      try {
        const { changes } = update(names).run(to, to === 'sending' ? 1 : 0, ...values, batch, row, from);
        if (changes === 1) return true;
      } catch (error) {
        if (isTaken(error)) return false;
        throw error;
      }
      throw new Error(`row ${row} of batch ${batch} is not ${from}, so it cannot become ${to}`);
    },
    interrupt: (batch: string): number[] => interrupted.pluck().all(batch),
    free: (batch: string): number => free.run(batch).changes,
    claimable: (batch: string): ClaimedRow[] => claimable.all(batch),
    claim: (batch: string, at: Timestamp): void => void claim.run(at, batch),
    claimedSince: (since: Timestamp, apartFrom: string) => claimedSince.all(since, apartFrom),
    overApplied: () => overApplied.get(),
    knowsToken: (fingerprint: string, text: string): boolean => token.get(fingerprint, text) !== undefined,
    undone: (batch: string): ReadonlyMap<number, string> =>
      new Map(undone.all(batch).map(({ row, batch: by }) => [row, by])),
  };
}
