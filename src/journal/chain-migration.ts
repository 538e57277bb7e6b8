/**
 * Chains a journal of before: the steps that it has get their hashes in their order, by nobody known, and a step `migrated`
 * for each batch and each write by hand seals what the tables hold. What was altered before that, nobody can tell.
 */
import type { Database } from 'better-sqlite3';
import type { Actor } from '../model/actor.ts';
import { systemClock, type Timestamp, timestampOf } from '../model/time.ts';
import { genesisOf, type Head, newSalt, type NewStep, sealOf, stepRow, type ClaimRun, RowsSeal } from './chain.ts';

const unknown: Actor = { name: 'unknown', uid: null, host: '', sudoUser: null, job: null, account: null };
const migrator: Actor = { ...unknown, name: 'admin-mirror', job: 'migration' };

const statements: readonly string[] = [
  "ALTER TABLE journal_batches ADD COLUMN salt TEXT NOT NULL DEFAULT ''",
  "ALTER TABLE journal_writes ADD COLUMN salt TEXT NOT NULL DEFAULT ''",
  "ALTER TABLE journal_intents ADD COLUMN salt TEXT NOT NULL DEFAULT ''",
  // As it was planned; each later change stands with its step.
  "ALTER TABLE journal_intents ADD COLUMN digest TEXT NOT NULL DEFAULT ''",
  'ALTER TABLE journal_steps RENAME TO journal_steps_before',
  'DROP INDEX journal_steps_batch',
  `CREATE TABLE journal_steps (
  step INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  actor TEXT NOT NULL,
  batch TEXT REFERENCES journal_batches (batch),
  row INTEGER,
  kind TEXT NOT NULL,
  data TEXT NOT NULL,
  digest TEXT,
  note TEXT,
  salt TEXT,
  note_digest TEXT,
  previous TEXT NOT NULL,
  hash TEXT NOT NULL
) STRICT`,
  'CREATE INDEX journal_steps_batch ON journal_steps (batch, row)',
];

type Row = Readonly<Record<string, string | number | null>>;

export function chainSteps(database: Database): void {
  for (const statement of statements) database.exec(statement);
  const id = database.prepare<[], string>('SELECT id FROM journal_identity').pluck().get() ?? '';
  const insert = database.prepare(
    `INSERT INTO journal_steps VALUES (@step, @at, @actor, @batch, @row, @kind, @data, @digest, @note, @salt, @note_digest,
      @previous, @hash)`,
  );
  let head: Head = { step: 0, hash: genesisOf(id) };
  const append = (step: NewStep): void => {
    const row = stepRow(step, head);
    insert.run(row);
    head = { step: row.step, hash: row.hash };
  };
  const before = database.prepare<
    [number],
    { step: number; at: Timestamp; batch: string; row: number; kind: string; note: string }
  >('SELECT * FROM journal_steps_before WHERE step > ? ORDER BY step LIMIT 1000');
  // The numbers stay: the mirror remembers how far a journal had come.
  for (let last = 0, steps = before.all(last); steps.length > 0; steps = before.all(last)) {
    for (const { step, ...each } of steps) {
      head = { ...head, step: step - 1 };
      append({ ...each, actor: unknown, data: {} });
      last = step;
    }
  }
  database.exec('DROP TABLE journal_steps_before');
  const at = timestampOf(systemClock.now());
  const migrated = { at, actor: migrator, row: null, kind: 'migrated', note: null } as const;
  const batches = database.prepare<[], Row>('SELECT * FROM journal_batches ORDER BY created_at, batch').all();
  const setSalt = database.prepare('UPDATE journal_batches SET salt = ? WHERE batch = ?');
  for (const row of batches) {
    const batch = String(row['batch']);
    const salt = newSalt();
    setSalt.run(salt, batch);
    const { rows, seal, claims } = sealRows(database, batch);
    append({ ...migrated, batch, data: { rows, seal, claims }, digest: sealOf(salt, row) });
  }
  const setWriteSalt = database.prepare('UPDATE journal_writes SET salt = ? WHERE write = ?');
  for (const row of database.prepare<[], Row>('SELECT * FROM journal_writes ORDER BY write').all()) {
    const salt = newSalt();
    setWriteSalt.run(salt, row['write']);
    append({ ...migrated, batch: null, data: { write: Number(row['write']) }, digest: sealOf(salt, row) });
  }
}

function sealRows(database: Database, batch: string) {
  const read = database.prepare<[string, number], Row>(
    'SELECT * FROM journal_intents WHERE batch = ? AND row > ? ORDER BY row LIMIT 1000',
  );
  const set = database.prepare('UPDATE journal_intents SET salt = ?, digest = ? WHERE batch = ? AND row = ?');
  const whole = new RowsSeal();
  const claims: ClaimRun[] = [];
  let before: Row[string] = null;
  for (let last = -1, rows = read.all(batch, last); rows.length > 0; rows = read.all(batch, last)) {
    for (const each of rows) {
      last = Number(each['row']);
      const salt = newSalt();
      const digest = sealOf(salt, each);
      set.run(salt, digest, batch, last);
      whole.add(last, digest);
      const at = each['claimed_at'] ?? null;
      const run = claims.at(-1);
      if (typeof at === 'string') {
        if (run !== undefined && before === at) claims[claims.length - 1] = [run[0], last, at];
        else claims.push([last, last, at]);
      }
      before = at;
    }
  }
  return { ...whole.end(), claims };
}
