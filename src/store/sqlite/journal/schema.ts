/** The journal's tables. What stands in them cannot be read again from anywhere: see docs/architecture.md, "The journal". */
import type { FileKind } from '../file-kind.ts';
import { lockColumns } from '../lock.ts';

const firstSchema: readonly string[] = [
  `CREATE TABLE journal_batches (
  batch TEXT PRIMARY KEY,
  action TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('planned', 'applying', 'stopped', 'done')),
  file TEXT,
  file_bytes INTEGER,
  file_hash TEXT,
  hash TEXT NOT NULL,
  rows_digest TEXT NOT NULL,
  rows INTEGER NOT NULL,
  net TEXT NOT NULL,
  columns TEXT NOT NULL,
  problems TEXT NOT NULL,
  warnings TEXT NOT NULL,
  server TEXT NOT NULL,
  undo_of TEXT,
  again_reason TEXT,
  created_at TEXT NOT NULL,
  applied_at TEXT,
  finished_at TEXT
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE journal_intents (
  batch TEXT NOT NULL REFERENCES journal_batches (batch),
  row INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('planned', 'sending', 'acknowledged', 'rejected', 'unknown', 'applied',
    'not_applied', 'needs_human', 'blocked', 'skipped', 'invalid')),
  subject TEXT,
  user INTEGER,
  key TEXT,
  token TEXT,
  fingerprint TEXT,
  parameters TEXT,
  cells TEXT NOT NULL,
  planned_before TEXT,
  planned_after TEXT,
  problem TEXT,
  undo_of TEXT,
  undo_of_row INTEGER,
  attempts INTEGER NOT NULL DEFAULT 0,
  sent_at TEXT,
  body TEXT,
  seen_before TEXT,
  before TEXT,
  after TEXT,
  answer_kind TEXT CHECK (answer_kind IN ('accepted', 'refused', 'lost')),
  http_status INTEGER,
  answer TEXT,
  evidence TEXT,
  PRIMARY KEY (batch, row)
) STRICT, WITHOUT ROWID`,
  // One open write for each user, in whatever batch: the database refuses a second one, whatever the program thinks.
  `CREATE UNIQUE INDEX journal_open_subject ON journal_intents (subject)
  WHERE state IN ('sending', 'acknowledged', 'unknown', 'needs_human')`,
  // A row is taken back once.
  `CREATE UNIQUE INDEX journal_undone_row ON journal_intents (undo_of, undo_of_row)
  WHERE undo_of IS NOT NULL AND state NOT IN ('rejected', 'not_applied', 'skipped', 'invalid')`,
  // Rows that were sent, or may have been, by what they did.
  `CREATE INDEX journal_sent_fingerprint ON journal_intents (fingerprint)
  WHERE state IN ('sending', 'acknowledged', 'unknown', 'needs_human', 'applied')`,
  `CREATE TABLE journal_steps (
  step INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  batch TEXT NOT NULL REFERENCES journal_batches (batch),
  row INTEGER,
  kind TEXT NOT NULL,
  note TEXT
) STRICT`,
  'CREATE INDEX journal_steps_batch ON journal_steps (batch, row)',
  `CREATE TABLE journal_writes (
  write INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  operation TEXT NOT NULL,
  user INTEGER,
  body TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('sending', 'done', 'refused', 'nothing_done', 'unknown')),
  ended_at TEXT,
  http_status INTEGER,
  answer TEXT,
  problem TEXT
) STRICT`,
  `CREATE TABLE journal_locks (
  batch TEXT PRIMARY KEY,
  ${lockColumns}
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE journal_migrations (
  version INTEGER PRIMARY KEY,
  applied_at TEXT NOT NULL
) STRICT`,
];

/** What a journal file is. */
export const journalKind: FileKind = {
  name: 'journal',
  // "ajnl"
  applicationId: 0x61_6a_6e_6c,
  migrations: [firstSchema],
  migrationTable: 'journal_migrations',
  places: '--journal, ADMIN_MIRROR_JOURNAL or store.journal',
  damaged: 'Put back the last copy of it, and send nothing before you know what was sent since: nothing else knows.',
};

export const journalVersion = journalKind.migrations.length;
