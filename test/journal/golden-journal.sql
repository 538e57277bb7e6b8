CREATE TABLE journal_batches (
  batch TEXT PRIMARY KEY,
  action TEXT NOT NULL,
  title TEXT NOT NULL,
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
  finished_at TEXT,
  behind TEXT,
  salt TEXT NOT NULL DEFAULT '',
  approval TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX journal_batches_hash ON journal_batches (hash);

CREATE TABLE journal_intents (
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
  claimed_at TEXT,
  planned_email TEXT,
  planned_username TEXT,
  record_id TEXT,
  discrepancy TEXT,
  notes TEXT,
  salt TEXT NOT NULL DEFAULT '',
  digest TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (batch, row)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX journal_open_subject ON journal_intents (subject)
  WHERE state IN ('sending', 'acknowledged', 'unknown', 'needs_human');

CREATE UNIQUE INDEX journal_undone_row ON journal_intents (undo_of, undo_of_row)
  WHERE undo_of IS NOT NULL AND state NOT IN ('rejected', 'not_applied', 'skipped', 'invalid');

CREATE INDEX journal_claimed_fingerprint ON journal_intents (fingerprint) WHERE claimed_at IS NOT NULL;

CREATE INDEX journal_claimed_at ON journal_intents (claimed_at) WHERE claimed_at IS NOT NULL;

CREATE INDEX journal_not_made ON journal_intents (batch) WHERE state in ('rejected', 'not_applied');

CREATE INDEX journal_intents_user ON journal_intents (user) WHERE user IS NOT NULL;

CREATE TRIGGER journal_send_needs_claim BEFORE UPDATE OF state ON journal_intents
  WHEN NEW.state = 'sending' AND NEW.claimed_at IS NULL
  BEGIN SELECT RAISE(ABORT, 'a row that was not claimed cannot be sent'); END;

CREATE TABLE journal_steps (
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
) STRICT;

CREATE INDEX journal_steps_batch ON journal_steps (batch, row);

CREATE INDEX journal_policy_steps ON journal_steps (step) WHERE kind = 'policy';

CREATE INDEX journal_account_steps ON journal_steps (step) WHERE kind LIKE 'account-%';

CREATE TABLE journal_writes (
  write INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  operation TEXT NOT NULL,
  user INTEGER,
  body TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('sending', 'done', 'refused', 'not_made', 'nothing_done', 'unknown')),
  ended_at TEXT,
  http_status INTEGER,
  answer TEXT,
  problem TEXT,
  fingerprint TEXT,
  balance TEXT,
  salt TEXT NOT NULL DEFAULT '',
  actor TEXT
) STRICT;

CREATE INDEX journal_write_fingerprint ON journal_writes (fingerprint) WHERE fingerprint IS NOT NULL;

CREATE TABLE journal_identity (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

CREATE TABLE journal_locks (
  batch TEXT PRIMARY KEY,
  run TEXT NOT NULL, -- the run that owns it
  command TEXT NOT NULL, -- what it is doing
  pid INTEGER NOT NULL, -- the process
  host TEXT NOT NULL, -- the machine
  acquired_at TEXT NOT NULL -- when it was taken
) STRICT, WITHOUT ROWID;

CREATE TABLE people_accounts (
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
) STRICT, WITHOUT ROWID;

CREATE TABLE people_tries (
  name TEXT PRIMARY KEY,
  failed INTEGER NOT NULL,
  blocked_until TEXT,
  last_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE people_sessions (
  token TEXT PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  account TEXT NOT NULL REFERENCES people_accounts (name),
  method TEXT NOT NULL CHECK (method IN ('password', 'link', 'oidc')),
  address TEXT NOT NULL,
  created_at TEXT NOT NULL,
  seen_at TEXT NOT NULL,
  ends_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
