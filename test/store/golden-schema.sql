CREATE TABLE "users" (
  "id" INTEGER PRIMARY KEY,
  "username" TEXT,
  "email" TEXT,
  "first_name" TEXT,
  "last_name" TEXT,
  "status" TEXT,
  "balance" REAL,
  "avatar" TEXT,
  "is_subscribed" INTEGER,
  "visibility" TEXT,
  "language" TEXT,
  "data" TEXT,
  "email_verified_at" TEXT,
  "last_seen_at" TEXT,
  "last_login_at" TEXT,
  "created_at" TEXT,
  "updated_at" TEXT,
  "_extra" TEXT,
  "_first_seen_at" TEXT NOT NULL,
  "_changed_at" TEXT NOT NULL,
  "_seq" INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX "users_created_at" ON "users" ("created_at");

CREATE TABLE "packages" (
  "id" INTEGER PRIMARY KEY,
  "order" INTEGER,
  "category_id" INTEGER,
  "name" TEXT,
  "description" TEXT,
  "icon" TEXT,
  "service" TEXT,
  "status" TEXT,
  "global_quantity" INTEGER,
  "client_quantity" INTEGER,
  "require_domain" INTEGER,
  "allow_coupons" INTEGER,
  "allow_notes" INTEGER,
  "data" TEXT,
  "setup_on" TEXT,
  "created_at" TEXT,
  "updated_at" TEXT,
  "_extra" TEXT,
  "_first_seen_at" TEXT NOT NULL,
  "_changed_at" TEXT NOT NULL,
  "_seq" INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX "packages_created_at" ON "packages" ("created_at");

CREATE TABLE "emails" (
  "id" INTEGER PRIMARY KEY,
  "user_id" INTEGER,
  "sender" TEXT,
  "receiver" TEXT,
  "subject" TEXT,
  "content" TEXT,
  "button" TEXT,
  "attachment" TEXT,
  "is_sent" INTEGER,
  "resent" INTEGER,
  "scheduled_at" TEXT,
  "created_at" TEXT,
  "updated_at" TEXT,
  "_extra" TEXT,
  "_first_seen_at" TEXT NOT NULL,
  "_changed_at" TEXT NOT NULL,
  "_seq" INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX "emails_created_at" ON "emails" ("created_at");

CREATE TABLE "coupons" (
  "id" INTEGER PRIMARY KEY,
  "code" TEXT,
  "discount_type" TEXT,
  "discount_amount" REAL,
  "currency" TEXT,
  "allowed_uses" INTEGER,
  "coupon_type" TEXT,
  "applicable_products" TEXT,
  "notes" TEXT,
  "expires_at" TEXT,
  "created_at" TEXT,
  "updated_at" TEXT,
  "_extra" TEXT,
  "_first_seen_at" TEXT NOT NULL,
  "_changed_at" TEXT NOT NULL,
  "_seq" INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX "coupons_created_at" ON "coupons" ("created_at");

CREATE TABLE users_history (
  id INTEGER NOT NULL,
  change TEXT NOT NULL CHECK (change IN ('updated', 'deleted')),
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  record TEXT NOT NULL,
  "_seq" INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX users_history_id ON users_history (id);

CREATE INDEX users_history_valid_to ON users_history (valid_to);

CREATE TABLE packages_history (
  id INTEGER NOT NULL,
  change TEXT NOT NULL CHECK (change IN ('updated', 'deleted')),
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  record TEXT NOT NULL,
  "_seq" INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX packages_history_id ON packages_history (id);

CREATE INDEX packages_history_valid_to ON packages_history (valid_to);

CREATE TABLE emails_history (
  id INTEGER NOT NULL,
  change TEXT NOT NULL CHECK (change IN ('updated', 'deleted')),
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  record TEXT NOT NULL,
  "_seq" INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX emails_history_id ON emails_history (id);

CREATE INDEX emails_history_valid_to ON emails_history (valid_to);

CREATE TABLE coupons_history (
  id INTEGER NOT NULL,
  change TEXT NOT NULL CHECK (change IN ('updated', 'deleted')),
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  record TEXT NOT NULL,
  "_seq" INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX coupons_history_id ON coupons_history (id);

CREATE INDEX coupons_history_valid_to ON coupons_history (valid_to);

CREATE TABLE mirror_runs (
  run TEXT PRIMARY KEY,
  command TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'partial', 'failed', 'interrupted', 'killed')),
  started_at TEXT NOT NULL,
  finished_at TEXT,
  requests INTEGER NOT NULL DEFAULT 0,
  retries INTEGER NOT NULL DEFAULT 0,
  answers TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(answers)),
  problem TEXT,
  actor TEXT CHECK (json_valid(actor))
) STRICT;

CREATE TABLE mirror_run_resources (
  run TEXT NOT NULL REFERENCES mirror_runs (run) ON DELETE CASCADE,
  resource TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'partial', 'failed')),
  requests INTEGER NOT NULL DEFAULT 0,
  received INTEGER NOT NULL DEFAULT 0,
  inserted INTEGER NOT NULL DEFAULT 0,
  updated INTEGER NOT NULL DEFAULT 0,
  deleted INTEGER NOT NULL DEFAULT 0,
  unchanged INTEGER NOT NULL DEFAULT 0,
  live INTEGER,
  server_total INTEGER,
  fresh_as_of TEXT,
  problem TEXT,
  expected INTEGER,
  PRIMARY KEY (run, resource)
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_windows (
  resource TEXT NOT NULL,
  from_day TEXT NOT NULL,
  to_day TEXT NOT NULL CHECK (to_day > from_day),
  state TEXT NOT NULL CHECK (state IN ('pending', 'walking', 'settled', 'unsettled')),
  server_total INTEGER,
  pages_read INTEGER NOT NULL DEFAULT 0,
  fresh_as_of TEXT,
  run TEXT,
  cause TEXT,
  problem TEXT,
  surplus INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (resource, from_day)
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_history (
  resource TEXT PRIMARY KEY,
  begins_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_pages (
  resource TEXT NOT NULL,
  from_day TEXT NOT NULL,
  page TEXT NOT NULL,
  hash TEXT NOT NULL,
  total INTEGER NOT NULL,
  last_page INTEGER NOT NULL,
  per_page INTEGER NOT NULL,
  ids TEXT NOT NULL,
  owned INTEGER NOT NULL,
  last_created_at TEXT,
  records TEXT,
  seal TEXT NOT NULL,
  PRIMARY KEY (resource, from_day, page),
  FOREIGN KEY (resource, from_day) REFERENCES mirror_windows (resource, from_day) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_touched (
  resource TEXT NOT NULL,
  day TEXT NOT NULL,
  PRIMARY KEY (resource, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_events (
  event INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  run TEXT,
  resource TEXT,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail TEXT,
  UNIQUE (resource, kind, subject)
) STRICT;

CREATE TABLE mirror_capabilities (
  resource TEXT PRIMARY KEY,
  value TEXT NOT NULL CHECK (json_type(value, '$.pageSize') IS 'integer'),
  measured_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_unproven (
  resource TEXT PRIMARY KEY,
  fresh_as_of TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_surpluses (
  resource TEXT PRIMARY KEY,
  records INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_server (one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), address TEXT NOT NULL) STRICT;

CREATE TABLE mirror_journal (
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  value TEXT NOT NULL CHECK (json_type(value, '$.at') IS 'text')
) STRICT;

CREATE TABLE mirror_relations (
  resource TEXT NOT NULL CHECK (resource IN ('users', 'packages', 'emails', 'coupons')),
  relation TEXT NOT NULL,
  table_name TEXT NOT NULL,
  included INTEGER NOT NULL CHECK (included IN (0, 1)),
  keys TEXT NOT NULL CHECK (json_valid(keys)),
  since TEXT NOT NULL,
  PRIMARY KEY (resource, relation)
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_suppressions (
  resource TEXT NOT NULL,
  id INTEGER NOT NULL,
  user_id INTEGER NOT NULL,
  since TEXT NOT NULL,
  seen_day TEXT,
  PRIMARY KEY (resource, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_locks (
  name TEXT PRIMARY KEY,
  run TEXT NOT NULL,
  command TEXT NOT NULL,
  pid INTEGER NOT NULL,
  host TEXT NOT NULL,
  acquired_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE VIEW mirror_freshness AS
SELECT
  mirror_windows.resource AS resource,
  count(*) AS windows,
  sum(state <> 'settled') AS unsettled,
  CASE
    WHEN sum(mirror_windows.fresh_as_of IS NULL) > 0 THEN NULL
    WHEN mirror_windows.resource IN (SELECT resource FROM (SELECT resource, day FROM mirror_touched UNION ALL SELECT 'users', iif(typeof(created_at) = 'text' AND created_at >= '1000-01-01' AND created_at < '3000-01-01', substr(created_at, 1, 10), '0000-01-01') FROM users WHERE "_seq" = 0 UNION ALL SELECT 'packages', iif(typeof(created_at) = 'text' AND created_at >= '1000-01-01' AND created_at < '3000-01-01', substr(created_at, 1, 10), '0000-01-01') FROM packages WHERE "_seq" = 0 UNION ALL SELECT 'emails', iif(typeof(created_at) = 'text' AND created_at >= '1000-01-01' AND created_at < '3000-01-01', substr(created_at, 1, 10), '0000-01-01') FROM emails WHERE "_seq" = 0 UNION ALL SELECT 'coupons', iif(typeof(created_at) = 'text' AND created_at >= '1000-01-01' AND created_at < '3000-01-01', substr(created_at, 1, 10), '0000-01-01') FROM coupons WHERE "_seq" = 0)) THEN NULL
    WHEN unproven.resource IS NOT NULL THEN min(min(mirror_windows.fresh_as_of), unproven.fresh_as_of)
    ELSE min(mirror_windows.fresh_as_of)
  END AS fresh_as_of
FROM mirror_windows
LEFT JOIN mirror_unproven AS unproven ON unproven.resource = mirror_windows.resource
GROUP BY mirror_windows.resource;

CREATE INDEX emails_unsent ON emails ("created_at") WHERE "is_sent" = 0;

CREATE VIEW users_live_age AS
SELECT
  id,
  username,
  email,
  status,
  balance,
  email_verified_at IS NOT NULL AS verified,
  CAST(julianday('now') - julianday(created_at) AS INTEGER) AS days_old,
  CAST(julianday('now') - julianday(last_seen_at) AS INTEGER) AS days_since_seen,
  CAST(julianday('now') - julianday(last_login_at) AS INTEGER) AS days_since_login,
  CAST(julianday('now') - julianday("_changed_at") AS INTEGER) AS days_since_change
FROM users;

CREATE VIEW users_by_day AS
SELECT substr(created_at, 1, 10) AS day, count(*) AS users, count(email_verified_at) AS verified
FROM users
GROUP BY 1;

CREATE VIEW emails_by_day AS
SELECT substr(created_at, 1, 10) AS day, count(*) AS emails, sum(is_sent = 1) AS sent, sum(is_sent = 0) AS unsent
FROM emails
GROUP BY 1;

CREATE VIEW emails_by_user AS
SELECT
  users.id AS user_id,
  users.email,
  count(emails.id) AS emails,
  count(CASE WHEN emails.is_sent = 0 THEN 1 END) AS unsent,
  max(emails.created_at) AS last_created_at
FROM users LEFT JOIN emails ON emails.user_id = users.id
GROUP BY users.id;

CREATE VIEW emails_by_domain AS
SELECT
  CASE WHEN instr(receiver, '@') > 0 THEN lower(substr(receiver, instr(receiver, '@') + 1)) END AS domain,
  count(*) AS emails,
  sum(is_sent = 0) AS unsent,
  count(DISTINCT user_id) AS users
FROM emails
GROUP BY 1;

CREATE TABLE mirror_cursor (
  mirror TEXT NOT NULL,
  seq INTEGER NOT NULL,
  deletions_from INTEGER NOT NULL
) STRICT;

CREATE TABLE mirror_epochs (
  from_seq INTEGER PRIMARY KEY,
  epoch TEXT NOT NULL,
  began_at TEXT NOT NULL
) STRICT;

CREATE TABLE mirror_deletions (
  table_name TEXT NOT NULL,
  id INTEGER NOT NULL,
  key TEXT NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (table_name, id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX mirror_deletions_seq ON mirror_deletions (table_name, seq);

CREATE INDEX "users_seq" ON "users" ("_seq");

CREATE TRIGGER "users_renumbered" AFTER UPDATE ON "users" WHEN NEW."_seq" = OLD."_seq"
BEGIN UPDATE mirror_cursor SET seq = seq + 1; UPDATE "users" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; INSERT INTO mirror_touched (resource, day)
    SELECT 'users', noted.day FROM (SELECT iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS day FROM (SELECT OLD."created_at" AS at)) AS noted
    WHERE NOT EXISTS (SELECT 1 FROM mirror_touched AS known WHERE known.resource = 'users' AND known.day = noted.day); INSERT INTO mirror_touched (resource, day)
    SELECT 'users', noted.day FROM (SELECT iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS day FROM (SELECT NEW."created_at" AS at)) AS noted
    WHERE NOT EXISTS (SELECT 1 FROM mirror_touched AS known WHERE known.resource = 'users' AND known.day = noted.day); END;

CREATE TRIGGER "users_buried" BEFORE DELETE ON "users" 
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('users', OLD."id", '', (SELECT seq FROM mirror_cursor)); INSERT INTO mirror_touched (resource, day)
    SELECT 'users', noted.day FROM (SELECT iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS day FROM (SELECT OLD."created_at" AS at)) AS noted
    WHERE NOT EXISTS (SELECT 1 FROM mirror_touched AS known WHERE known.resource = 'users' AND known.day = noted.day); END;

CREATE INDEX "packages_seq" ON "packages" ("_seq");

CREATE TRIGGER "packages_renumbered" AFTER UPDATE ON "packages" WHEN NEW."_seq" = OLD."_seq"
BEGIN UPDATE mirror_cursor SET seq = seq + 1; UPDATE "packages" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; INSERT INTO mirror_touched (resource, day)
    SELECT 'packages', noted.day FROM (SELECT iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS day FROM (SELECT OLD."created_at" AS at)) AS noted
    WHERE NOT EXISTS (SELECT 1 FROM mirror_touched AS known WHERE known.resource = 'packages' AND known.day = noted.day); INSERT INTO mirror_touched (resource, day)
    SELECT 'packages', noted.day FROM (SELECT iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS day FROM (SELECT NEW."created_at" AS at)) AS noted
    WHERE NOT EXISTS (SELECT 1 FROM mirror_touched AS known WHERE known.resource = 'packages' AND known.day = noted.day); END;

CREATE TRIGGER "packages_buried" BEFORE DELETE ON "packages" 
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('packages', OLD."id", '', (SELECT seq FROM mirror_cursor)); INSERT INTO mirror_touched (resource, day)
    SELECT 'packages', noted.day FROM (SELECT iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS day FROM (SELECT OLD."created_at" AS at)) AS noted
    WHERE NOT EXISTS (SELECT 1 FROM mirror_touched AS known WHERE known.resource = 'packages' AND known.day = noted.day); END;

CREATE INDEX "emails_seq" ON "emails" ("_seq");

CREATE TRIGGER "emails_renumbered" AFTER UPDATE ON "emails" WHEN NEW."_seq" = OLD."_seq"
BEGIN UPDATE mirror_cursor SET seq = seq + 1; UPDATE "emails" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; INSERT INTO mirror_touched (resource, day)
    SELECT 'emails', noted.day FROM (SELECT iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS day FROM (SELECT OLD."created_at" AS at)) AS noted
    WHERE NOT EXISTS (SELECT 1 FROM mirror_touched AS known WHERE known.resource = 'emails' AND known.day = noted.day); INSERT INTO mirror_touched (resource, day)
    SELECT 'emails', noted.day FROM (SELECT iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS day FROM (SELECT NEW."created_at" AS at)) AS noted
    WHERE NOT EXISTS (SELECT 1 FROM mirror_touched AS known WHERE known.resource = 'emails' AND known.day = noted.day); END;

CREATE TRIGGER "emails_buried" BEFORE DELETE ON "emails" 
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('emails', OLD."id", '', (SELECT seq FROM mirror_cursor)); INSERT INTO mirror_touched (resource, day)
    SELECT 'emails', noted.day FROM (SELECT iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS day FROM (SELECT OLD."created_at" AS at)) AS noted
    WHERE NOT EXISTS (SELECT 1 FROM mirror_touched AS known WHERE known.resource = 'emails' AND known.day = noted.day); END;

CREATE INDEX "coupons_seq" ON "coupons" ("_seq");

CREATE TRIGGER "coupons_renumbered" AFTER UPDATE ON "coupons" WHEN NEW."_seq" = OLD."_seq"
BEGIN UPDATE mirror_cursor SET seq = seq + 1; UPDATE "coupons" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; INSERT INTO mirror_touched (resource, day)
    SELECT 'coupons', noted.day FROM (SELECT iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS day FROM (SELECT OLD."created_at" AS at)) AS noted
    WHERE NOT EXISTS (SELECT 1 FROM mirror_touched AS known WHERE known.resource = 'coupons' AND known.day = noted.day); INSERT INTO mirror_touched (resource, day)
    SELECT 'coupons', noted.day FROM (SELECT iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS day FROM (SELECT NEW."created_at" AS at)) AS noted
    WHERE NOT EXISTS (SELECT 1 FROM mirror_touched AS known WHERE known.resource = 'coupons' AND known.day = noted.day); END;

CREATE TRIGGER "coupons_buried" BEFORE DELETE ON "coupons" 
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('coupons', OLD."id", '', (SELECT seq FROM mirror_cursor)); INSERT INTO mirror_touched (resource, day)
    SELECT 'coupons', noted.day FROM (SELECT iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS day FROM (SELECT OLD."created_at" AS at)) AS noted
    WHERE NOT EXISTS (SELECT 1 FROM mirror_touched AS known WHERE known.resource = 'coupons' AND known.day = noted.day); END;

CREATE INDEX "users_history_seq" ON "users_history" ("_seq");

CREATE TRIGGER "users_history_numbered" AFTER INSERT ON "users_history" WHEN NEW."_seq" = 0
BEGIN UPDATE mirror_cursor SET seq = seq + 1; UPDATE "users_history" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; END;

CREATE TRIGGER "users_history_renumbered" AFTER UPDATE ON "users_history" WHEN NEW."_seq" = OLD."_seq"
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('users_history', OLD."_seq", '', (SELECT seq FROM mirror_cursor)); UPDATE mirror_cursor SET seq = seq + 1; UPDATE "users_history" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; END;

CREATE TRIGGER "users_history_buried" BEFORE DELETE ON "users_history" WHEN OLD.valid_to >= coalesce((SELECT begins_at FROM mirror_history WHERE resource = 'users'), '') 
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('users_history', OLD."_seq", '', (SELECT seq FROM mirror_cursor)); END;

CREATE INDEX "packages_history_seq" ON "packages_history" ("_seq");

CREATE TRIGGER "packages_history_numbered" AFTER INSERT ON "packages_history" WHEN NEW."_seq" = 0
BEGIN UPDATE mirror_cursor SET seq = seq + 1; UPDATE "packages_history" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; END;

CREATE TRIGGER "packages_history_renumbered" AFTER UPDATE ON "packages_history" WHEN NEW."_seq" = OLD."_seq"
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('packages_history', OLD."_seq", '', (SELECT seq FROM mirror_cursor)); UPDATE mirror_cursor SET seq = seq + 1; UPDATE "packages_history" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; END;

CREATE TRIGGER "packages_history_buried" BEFORE DELETE ON "packages_history" WHEN OLD.valid_to >= coalesce((SELECT begins_at FROM mirror_history WHERE resource = 'packages'), '') 
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('packages_history', OLD."_seq", '', (SELECT seq FROM mirror_cursor)); END;

CREATE INDEX "emails_history_seq" ON "emails_history" ("_seq");

CREATE TRIGGER "emails_history_numbered" AFTER INSERT ON "emails_history" WHEN NEW."_seq" = 0
BEGIN UPDATE mirror_cursor SET seq = seq + 1; UPDATE "emails_history" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; END;

CREATE TRIGGER "emails_history_renumbered" AFTER UPDATE ON "emails_history" WHEN NEW."_seq" = OLD."_seq"
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('emails_history', OLD."_seq", '', (SELECT seq FROM mirror_cursor)); UPDATE mirror_cursor SET seq = seq + 1; UPDATE "emails_history" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; END;

CREATE TRIGGER "emails_history_buried" BEFORE DELETE ON "emails_history" WHEN OLD.valid_to >= coalesce((SELECT begins_at FROM mirror_history WHERE resource = 'emails'), '') 
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('emails_history', OLD."_seq", '', (SELECT seq FROM mirror_cursor)); END;

CREATE INDEX "coupons_history_seq" ON "coupons_history" ("_seq");

CREATE TRIGGER "coupons_history_numbered" AFTER INSERT ON "coupons_history" WHEN NEW."_seq" = 0
BEGIN UPDATE mirror_cursor SET seq = seq + 1; UPDATE "coupons_history" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; END;

CREATE TRIGGER "coupons_history_renumbered" AFTER UPDATE ON "coupons_history" WHEN NEW."_seq" = OLD."_seq"
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('coupons_history', OLD."_seq", '', (SELECT seq FROM mirror_cursor)); UPDATE mirror_cursor SET seq = seq + 1; UPDATE "coupons_history" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; END;

CREATE TRIGGER "coupons_history_buried" BEFORE DELETE ON "coupons_history" WHEN OLD.valid_to >= coalesce((SELECT begins_at FROM mirror_history WHERE resource = 'coupons'), '') 
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('coupons_history', OLD."_seq", '', (SELECT seq FROM mirror_cursor)); END;
