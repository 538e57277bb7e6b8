/**
 * Upgrades journals from before the first release to the version in which new journals are made. A mirror of that age is read
 * again instead; a journal cannot be. New journals use the exported statements, too.
 */
import type { Database } from 'better-sqlite3';
import type { Migration } from '../store/file-kind.ts';
import type { Actor } from '../model/actor.ts';
import { systemClock, type Timestamp, timestampOf } from '../model/time.ts';
import { genesisOf, type Head, newSalt, type NewStep, sealOf, stepRow, type ClaimRun, RowsSeal } from './chain.ts';

/** Since the kernel tells which lock owners live. */
const kernelLocks: readonly string[] = [
  'DELETE FROM journal_locks',
  ...['process_started', 'boot', 'pid_namespace', 'beat_at'].map(
    (gone) => `ALTER TABLE journal_locks DROP COLUMN ${gone}`,
  ),
];

/** Consent claims rows; the plan's user is kept; the server's record is named; the journal has an id. */
const claims: readonly string[] = [
  'ALTER TABLE journal_batches ADD COLUMN behind TEXT',
  'ALTER TABLE journal_intents ADD COLUMN claimed_at TEXT',
  // The user that the plan found: the id may be given to somebody else before the row goes out.
  'ALTER TABLE journal_intents ADD COLUMN planned_email TEXT',
  'ALTER TABLE journal_intents ADD COLUMN planned_username TEXT',
  'ALTER TABLE journal_intents ADD COLUMN record_id TEXT',
  'ALTER TABLE journal_intents ADD COLUMN discrepancy TEXT',
  'ALTER TABLE journal_writes ADD COLUMN fingerprint TEXT',
  'CREATE TABLE journal_identity (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID',
  'INSERT INTO journal_identity (id) VALUES (lower(hex(randomblob(16))))',
  // A payment is its user, kind and amount. With the description in the fingerprint, the same payment looked like another.
  `UPDATE journal_intents SET fingerprint = 'balance ' || subject || ' ' || (parameters ->> 'type') || ' ' ||
    (parameters ->> 'amount') WHERE fingerprint IS NOT NULL AND parameters ->> 'amount' IS NOT NULL
  AND batch IN (SELECT batch FROM journal_batches WHERE action = 'balance')`,
  `UPDATE journal_writes SET fingerprint = 'balance user:' || user || ' ' || (body ->> 'type') || ' ' ||
    printf('%.2f', body ->> 'amount') WHERE operation = 'users.update-balance' AND json_valid(body)`,
  `UPDATE journal_intents SET claimed_at = (
    SELECT applied_at FROM journal_batches WHERE journal_batches.batch = journal_intents.batch)
  WHERE state <> 'invalid'`,
  'DROP INDEX journal_sent_fingerprint',
  'CREATE INDEX journal_claimed_fingerprint ON journal_intents (fingerprint) WHERE claimed_at IS NOT NULL',
  'CREATE INDEX journal_claimed_at ON journal_intents (claimed_at) WHERE claimed_at IS NOT NULL',
  'CREATE INDEX journal_write_fingerprint ON journal_writes (fingerprint) WHERE fingerprint IS NOT NULL',
  // The database refuses to send a row that nobody has claimed, even if the program is wrong.
  `CREATE TRIGGER journal_send_needs_claim BEFORE UPDATE OF state ON journal_intents
  WHEN NEW.state = 'sending' AND NEW.claimed_at IS NULL
  BEGIN SELECT RAISE(ABORT, 'a row that was not claimed cannot be sent'); END`,
];

/** What deserved a look when the row was planned. */
const notes: readonly string[] = ['ALTER TABLE journal_intents ADD COLUMN notes TEXT'];

export const people: readonly string[] = [
  `CREATE TABLE people_accounts (
  name TEXT PRIMARY KEY,
  roles TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'disabled')),
  os_users TEXT,
  password TEXT,
  password_at TEXT,
  created_at TEXT NOT NULL,
  created_by TEXT NOT NULL,
  changed_at TEXT NOT NULL,
  changed_by TEXT NOT NULL,
  salt TEXT NOT NULL
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE people_tries (
  name TEXT PRIMARY KEY,
  failed INTEGER NOT NULL,
  blocked_until TEXT,
  last_at TEXT NOT NULL
) STRICT, WITHOUT ROWID`,
];

/** Who is signed in to the console. */
export const sessions: readonly string[] = [
  `CREATE TABLE people_sessions (
  token TEXT PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  account TEXT NOT NULL REFERENCES people_accounts (name),
  method TEXT NOT NULL CHECK (method IN ('password', 'link', 'oidc')),
  address TEXT NOT NULL,
  created_at TEXT NOT NULL,
  seen_at TEXT NOT NULL,
  ends_at TEXT NOT NULL
) STRICT, WITHOUT ROWID`,
];

/** The policy that was in force for a batch, and the actor of a write by hand. */
const approval: readonly string[] = [
  'ALTER TABLE journal_batches ADD COLUMN approval TEXT',
  'ALTER TABLE journal_writes ADD COLUMN actor TEXT',
  // Batches with the same plan share approvals.
  'CREATE INDEX journal_batches_hash ON journal_batches (hash)',
  "CREATE INDEX journal_policy_steps ON journal_steps (step) WHERE kind = 'policy'",
];

/** All rows of a user, for the page of that user. */
export const rowsByUser: readonly string[] = [
  'CREATE INDEX journal_intents_user ON journal_intents (user) WHERE user IS NOT NULL',
];

/** The console checks accounts against their steps at each request, and sending does so before each row. */
export const stepsOfAccounts: readonly string[] = [
  "CREATE INDEX journal_account_steps ON journal_steps (step) WHERE kind LIKE 'account-%'",
];

const unknown: Actor = { name: 'unknown', uid: null, host: '', sudoUser: null, job: null, account: null };
const migrator: Actor = { ...unknown, name: 'admin-mirror', job: 'migration' };

export const steps: readonly string[] = [
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

const chain: readonly string[] = [
  "ALTER TABLE journal_batches ADD COLUMN salt TEXT NOT NULL DEFAULT ''",
  "ALTER TABLE journal_writes ADD COLUMN salt TEXT NOT NULL DEFAULT ''",
  "ALTER TABLE journal_intents ADD COLUMN salt TEXT NOT NULL DEFAULT ''",
  // The seal of the row as it was planned; each later change has its seal in its step.
  "ALTER TABLE journal_intents ADD COLUMN digest TEXT NOT NULL DEFAULT ''",
  'ALTER TABLE journal_steps RENAME TO journal_steps_before',
  'DROP INDEX journal_steps_batch',
  ...steps,
];

type Row = Readonly<Record<string, string | number | null>>;

/**
 * Gives the existing steps their hashes, in order, with an unknown actor. Then a step `migrated` for each batch and each write
 * by hand seals what the tables hold. Nobody can tell what was altered before.
 */
function chainSteps(database: Database): void {
  for (const statement of chain) database.exec(statement);
  const id = database.prepare<[], string>('SELECT id FROM journal_identity').pluck().get() ?? '';
  const insert = database.prepare(
    `INSERT INTO journal_steps VALUES (@step, @at, @actor, @batch, @row, @kind, @data, @digest, @note, @salt, @noteDigest,
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
  // The numbers stay, because mirrors remember the newest step by its number.
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
  let previousClaim: Row[string] = null;
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
        if (run !== undefined && previousClaim === at) claims[claims.length - 1] = [run[0], last, at];
        else claims.push([last, last, at]);
      }
      previousClaim = at;
    }
  }
  return { ...whole.end(), claims };
}

/** From the second version to the tenth, what makes each of the one before it. */
export const upgrades: readonly Migration[] = [
  claims,
  notes,
  kernelLocks,
  chainSteps,
  people,
  sessions,
  approval,
  rowsByUser,
  stepsOfAccounts,
];
