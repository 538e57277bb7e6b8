CREATE TABLE "users" (
  "id" INTEGER PRIMARY KEY,
  "username" ANY,
  "email" ANY,
  "first_name" ANY,
  "last_name" ANY,
  "status" ANY,
  "balance" ANY,
  "avatar" ANY,
  "is_subscribed" ANY,
  "visibility" ANY,
  "language" ANY,
  "data" ANY,
  "email_verified_at" ANY,
  "last_seen_at" ANY,
  "last_login_at" ANY,
  "created_at" ANY,
  "updated_at" ANY,
  "_extra" TEXT,
  "_first_seen_at" TEXT NOT NULL,
  "_changed_at" TEXT NOT NULL
) STRICT;

CREATE INDEX "users_created_at" ON "users" ("created_at");

CREATE TABLE "packages" (
  "id" INTEGER PRIMARY KEY,
  "order" ANY,
  "category_id" ANY,
  "name" ANY,
  "description" ANY,
  "icon" ANY,
  "service" ANY,
  "status" ANY,
  "global_quantity" ANY,
  "client_quantity" ANY,
  "require_domain" ANY,
  "allow_coupons" ANY,
  "allow_notes" ANY,
  "data" ANY,
  "setup_on" ANY,
  "created_at" ANY,
  "updated_at" ANY,
  "_extra" TEXT,
  "_first_seen_at" TEXT NOT NULL,
  "_changed_at" TEXT NOT NULL
) STRICT;

CREATE INDEX "packages_created_at" ON "packages" ("created_at");

CREATE TABLE "emails" (
  "id" INTEGER PRIMARY KEY,
  "user_id" ANY,
  "sender" ANY,
  "receiver" ANY,
  "subject" ANY,
  "content" ANY,
  "button" ANY,
  "attachment" ANY,
  "is_sent" ANY,
  "resent" ANY,
  "scheduled_at" ANY,
  "created_at" ANY,
  "updated_at" ANY,
  "_extra" TEXT,
  "_first_seen_at" TEXT NOT NULL,
  "_changed_at" TEXT NOT NULL
) STRICT;

CREATE INDEX "emails_created_at" ON "emails" ("created_at");

CREATE TABLE "coupons" (
  "id" INTEGER PRIMARY KEY,
  "code" ANY,
  "discount_type" ANY,
  "discount_amount" ANY,
  "currency" ANY,
  "allowed_uses" ANY,
  "coupon_type" ANY,
  "applicable_products" ANY,
  "notes" ANY,
  "expires_at" ANY,
  "created_at" ANY,
  "updated_at" ANY,
  "_extra" TEXT,
  "_first_seen_at" TEXT NOT NULL,
  "_changed_at" TEXT NOT NULL
) STRICT;

CREATE INDEX "coupons_created_at" ON "coupons" ("created_at");

CREATE TABLE mirror_runs (
  run TEXT PRIMARY KEY,
  command TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'partial', 'failed', 'interrupted', 'killed')),
  started_at TEXT NOT NULL,
  finished_at TEXT,
  requests INTEGER NOT NULL DEFAULT 0,
  retries INTEGER NOT NULL DEFAULT 0,
  problem TEXT
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
  problem TEXT,
  PRIMARY KEY (resource, from_day)
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
  name TEXT NOT NULL,
  resource TEXT NOT NULL,
  value TEXT NOT NULL,
  measured_at TEXT NOT NULL,
  PRIMARY KEY (name, resource)
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_locks (
  name TEXT PRIMARY KEY,
  run TEXT NOT NULL,
  pid INTEGER NOT NULL,
  process_started TEXT,
  host TEXT NOT NULL,
  acquired_at TEXT NOT NULL,
  beat_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_migrations (
  version INTEGER PRIMARY KEY,
  applied_at TEXT NOT NULL
) STRICT;

CREATE VIEW mirror_freshness AS
SELECT
  resource,
  count(*) AS windows,
  sum(state <> 'settled') AS unsettled,
  CASE WHEN sum(fresh_as_of IS NULL) > 0 THEN NULL ELSE min(fresh_as_of) END AS fresh_as_of
FROM mirror_windows
GROUP BY resource;
