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
  "_extra" TEXT, -- as a JSON object: fields that the reference does not name, and values that their columns cannot hold
  "_first_seen_at" TEXT NOT NULL, -- when the record first came into the mirror
  "_changed_at" TEXT NOT NULL, -- when a value of the row last changed in the mirror, except for fields of history.ignore
  "_seq" INTEGER NOT NULL DEFAULT 0 -- the number of the last change; grows with each change (mirror_cursor)
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
  "_extra" TEXT, -- as a JSON object: fields that the reference does not name, and values that their columns cannot hold
  "_first_seen_at" TEXT NOT NULL, -- when the record first came into the mirror
  "_changed_at" TEXT NOT NULL, -- when a value of the row last changed in the mirror, except for fields of history.ignore
  "_seq" INTEGER NOT NULL DEFAULT 0 -- the number of the last change; grows with each change (mirror_cursor)
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
  "_extra" TEXT, -- as a JSON object: fields that the reference does not name, and values that their columns cannot hold
  "_first_seen_at" TEXT NOT NULL, -- when the record first came into the mirror
  "_changed_at" TEXT NOT NULL, -- when a value of the row last changed in the mirror, except for fields of history.ignore
  "_seq" INTEGER NOT NULL DEFAULT 0 -- the number of the last change; grows with each change (mirror_cursor)
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
  "_extra" TEXT, -- as a JSON object: fields that the reference does not name, and values that their columns cannot hold
  "_first_seen_at" TEXT NOT NULL, -- when the record first came into the mirror
  "_changed_at" TEXT NOT NULL, -- when a value of the row last changed in the mirror, except for fields of history.ignore
  "_seq" INTEGER NOT NULL DEFAULT 0 -- the number of the last change; grows with each change (mirror_cursor)
) STRICT;

CREATE INDEX "coupons_created_at" ON "coupons" ("created_at");

CREATE TABLE users_history ( -- Every earlier version of a row of users, in the order in which they ended. `export users --as-of` combines them to an earlier state.
  id INTEGER NOT NULL, -- the record; one may have many versions
  change TEXT NOT NULL CHECK (change IN ('updated', 'deleted')), -- what ended the version: updated, another version replaced it; deleted, the record left the table
  valid_from TEXT NOT NULL, -- since when the mirror held it: the _changed_at of the row
  valid_to TEXT NOT NULL, -- when the mirror saw the change; from then on it no longer held the version
  record TEXT NOT NULL, -- the row as it was, as JSON: every column of the table except _changed_at
  "_seq" INTEGER NOT NULL DEFAULT 0 -- the number of the last change; grows with each change (mirror_cursor)
) STRICT;

CREATE INDEX users_history_id ON users_history (id);

CREATE INDEX users_history_valid_to ON users_history (valid_to);

CREATE TABLE packages_history ( -- Every earlier version of a row of packages, in the order in which they ended. `export packages --as-of` combines them to an earlier state.
  id INTEGER NOT NULL, -- the record; one may have many versions
  change TEXT NOT NULL CHECK (change IN ('updated', 'deleted')), -- what ended the version: updated, another version replaced it; deleted, the record left the table
  valid_from TEXT NOT NULL, -- since when the mirror held it: the _changed_at of the row
  valid_to TEXT NOT NULL, -- when the mirror saw the change; from then on it no longer held the version
  record TEXT NOT NULL, -- the row as it was, as JSON: every column of the table except _changed_at
  "_seq" INTEGER NOT NULL DEFAULT 0 -- the number of the last change; grows with each change (mirror_cursor)
) STRICT;

CREATE INDEX packages_history_id ON packages_history (id);

CREATE INDEX packages_history_valid_to ON packages_history (valid_to);

CREATE TABLE emails_history ( -- Every earlier version of a row of emails, in the order in which they ended. `export emails --as-of` combines them to an earlier state.
  id INTEGER NOT NULL, -- the record; one may have many versions
  change TEXT NOT NULL CHECK (change IN ('updated', 'deleted')), -- what ended the version: updated, another version replaced it; deleted, the record left the table
  valid_from TEXT NOT NULL, -- since when the mirror held it: the _changed_at of the row
  valid_to TEXT NOT NULL, -- when the mirror saw the change; from then on it no longer held the version
  record TEXT NOT NULL, -- the row as it was, as JSON: every column of the table except _changed_at
  "_seq" INTEGER NOT NULL DEFAULT 0 -- the number of the last change; grows with each change (mirror_cursor)
) STRICT;

CREATE INDEX emails_history_id ON emails_history (id);

CREATE INDEX emails_history_valid_to ON emails_history (valid_to);

CREATE TABLE coupons_history ( -- Every earlier version of a row of coupons, in the order in which they ended. `export coupons --as-of` combines them to an earlier state.
  id INTEGER NOT NULL, -- the record; one may have many versions
  change TEXT NOT NULL CHECK (change IN ('updated', 'deleted')), -- what ended the version: updated, another version replaced it; deleted, the record left the table
  valid_from TEXT NOT NULL, -- since when the mirror held it: the _changed_at of the row
  valid_to TEXT NOT NULL, -- when the mirror saw the change; from then on it no longer held the version
  record TEXT NOT NULL, -- the row as it was, as JSON: every column of the table except _changed_at
  "_seq" INTEGER NOT NULL DEFAULT 0 -- the number of the last change; grows with each change (mirror_cursor)
) STRICT;

CREATE INDEX coupons_history_id ON coupons_history (id);

CREATE INDEX coupons_history_valid_to ON coupons_history (valid_to);

CREATE TABLE mirror_runs ( -- Every run of `sync`, one row each.
  run TEXT PRIMARY KEY, -- the id of the run
  command TEXT NOT NULL, -- what was run
  status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'partial', 'failed', 'interrupted', 'killed')), -- running, complete, partial, failed, interrupted or killed
  started_at TEXT NOT NULL, -- when it began
  finished_at TEXT, -- when it ended; null while it runs, and if it was killed
  requests INTEGER NOT NULL DEFAULT 0, -- requests sent, including retries
  retries INTEGER NOT NULL DEFAULT 0, -- how many of them were retries after a failure
  answers TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(answers)), -- how many responses had each HTTP status, as JSON; the other requests had no complete response
  problem TEXT, -- why it is not complete
  actor TEXT CHECK (json_valid(actor)) -- who ran it, as JSON: the account on the machine, its host, and the job; null for older runs
) STRICT;

CREATE TABLE mirror_run_resources ( -- What a run did for each resource.
  run TEXT NOT NULL REFERENCES mirror_runs (run) ON DELETE CASCADE, -- the run, as in mirror_runs
  resource TEXT NOT NULL, -- users, packages, emails or coupons
  status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'partial', 'failed')), -- running, complete, partial or failed
  requests INTEGER NOT NULL DEFAULT 0, -- requests sent, including retries
  received INTEGER NOT NULL DEFAULT 0, -- records received
  inserted INTEGER NOT NULL DEFAULT 0, -- records that were new
  updated INTEGER NOT NULL DEFAULT 0, -- records whose row changed
  deleted INTEGER NOT NULL DEFAULT 0, -- rows removed because the server no longer had the record
  unchanged INTEGER NOT NULL DEFAULT 0, -- records whose row stayed as it was
  live INTEGER, -- rows in the table at the end
  server_total INTEGER, -- records that the server had; null if they could not be counted
  fresh_as_of TEXT, -- every row was seen on the server at or after this time
  problem TEXT, -- why it is not complete
  expected INTEGER, -- records that the run expected to read; null until that is known
  PRIMARY KEY (run, resource)
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_windows ( -- The windows of creation time that the records are read in, and what is known about each.
  resource TEXT NOT NULL, -- users, packages, emails or coupons
  from_day TEXT NOT NULL, -- first day of the window
  to_day TEXT NOT NULL CHECK (to_day > from_day), -- the day after its last
  state TEXT NOT NULL CHECK (state IN ('pending', 'walking', 'settled', 'unsettled')), -- pending, walking, settled or unsettled
  server_total INTEGER, -- records that the server had in it when they were last counted
  pages_read INTEGER NOT NULL DEFAULT 0, -- pages of the current walk that are in the mirror
  fresh_as_of TEXT, -- every row of the window was seen on the server at or after this time
  run TEXT, -- the run that touched it last
  cause TEXT, -- why it is not settled, as a code: one outage is one cause
  problem TEXT, -- the same in words
  surplus INTEGER NOT NULL DEFAULT 0, -- records that its total counts and no page shows, such as those that are only marked as deleted
  PRIMARY KEY (resource, from_day)
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_history ( -- How far back the history of each resource reaches.
  resource TEXT PRIMARY KEY, -- users, packages, emails or coupons
  begins_at TEXT NOT NULL -- every state since then is known: since the first sync, or as far back as history.keep reaches
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_pages ( -- The pages of each window as they were last read: a page that comes again unchanged is not written again.
  resource TEXT NOT NULL, -- users, packages, emails or coupons
  from_day TEXT NOT NULL, -- first day of the window
  page TEXT NOT NULL, -- what was requested: range, page size and number
  hash TEXT NOT NULL, -- hash of the bytes of the response
  total INTEGER NOT NULL, -- records that the server counted in the range
  last_page INTEGER NOT NULL, -- last page of the range
  per_page INTEGER NOT NULL, -- records on a full page
  ids TEXT NOT NULL, -- ids on the page, as JSON
  owned INTEGER NOT NULL, -- how many of them are the window's own
  last_created_at TEXT, -- creation time of the last record on the page
  records TEXT, -- a hash of each record, so that only those that changed are read; null: they could not be told apart
  seal TEXT NOT NULL, -- a hash of this row and the program's version: if it is another one, the page is read again
  PRIMARY KEY (resource, from_day, page),
  FOREIGN KEY (resource, from_day) REFERENCES mirror_windows (resource, from_day) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_touched ( -- Days whose rows, or their related records, another program has added, changed or removed: the next sync compares their windows row by row.
  resource TEXT NOT NULL, -- users, packages, emails or coupons
  day TEXT NOT NULL, -- the day of creation of a row that was changed; 0000-01-01: of one without a usable time
  PRIMARY KEY (resource, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_events ( -- Events, each recorded once: unknown or missing fields, changed types, refused deletions, wrong totals, a log that cannot shrink.
  event INTEGER PRIMARY KEY, -- primary key
  at TEXT NOT NULL, -- when it was first seen
  run TEXT, -- the run that saw it first
  resource TEXT, -- the resource that it concerns
  kind TEXT NOT NULL, -- what happened, in one word
  subject TEXT NOT NULL, -- the field, window or record that it happened to
  detail TEXT, -- the details
  UNIQUE (resource, kind, subject)
) STRICT;

CREATE TABLE mirror_capabilities ( -- What was measured about each list: page size, date ranges, sorting.
  resource TEXT PRIMARY KEY, -- users, packages, emails or coupons
  value TEXT NOT NULL CHECK (json_type(value, '$.pageSize') IS 'integer'), -- the result, as JSON
  measured_at TEXT NOT NULL -- when
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_unproven ( -- Lists whose total did not prove their rows yet: they are no fresher than this.
  resource TEXT PRIMARY KEY, -- users, packages, emails or coupons
  fresh_as_of TEXT -- how fresh the resource was before; null: nobody knows
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_surpluses ( -- Records that the total of a whole list counts and no page shows.
  resource TEXT PRIMARY KEY, -- users, packages, emails or coupons
  records INTEGER NOT NULL -- how many
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_server ( -- The server that the mirror was read from.
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), -- primary key: there is one row
  address TEXT NOT NULL -- its address
) STRICT;

CREATE TABLE mirror_journal ( -- The journal that money was sent from, so that an older one is noticed.
  one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), -- primary key: there is one row
  value TEXT NOT NULL CHECK (json_type(value, '$.at') IS 'text') -- its newest step, as JSON
) STRICT;

CREATE TABLE mirror_relations ( -- Which related records are or were mirrored, and where.
  resource TEXT NOT NULL CHECK (resource IN ('users', 'packages', 'emails', 'coupons')), -- users, packages, emails or coupons
  relation TEXT NOT NULL, -- the name by which they are requested
  table_name TEXT NOT NULL, -- where they are; the view of that name with _flat has a column for each of their keys
  included INTEGER NOT NULL CHECK (included IN (0, 1)), -- 1: pages are read with them; 0: they are no longer read, and the rows are from the last time
  keys TEXT NOT NULL CHECK (json_valid(keys)), -- keys seen so far; null for records that are no objects
  since TEXT NOT NULL, -- when they were first requested
  PRIMARY KEY (resource, relation)
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_suppressions ( -- What `forget` keeps out of the mirror: ids, and nothing else about the person.
  resource TEXT NOT NULL, -- users or emails
  id INTEGER NOT NULL, -- the record that is kept out
  user_id INTEGER NOT NULL, -- the person who was forgotten
  since TEXT NOT NULL, -- since when
  seen_day TEXT, -- the day of creation under which the server still has it; null if it does not
  PRIMARY KEY (resource, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE mirror_locks ( -- Who is writing the mirror now.
  name TEXT PRIMARY KEY, -- what is locked
  run TEXT NOT NULL, -- the run that owns it
  command TEXT NOT NULL, -- what it is doing
  pid INTEGER NOT NULL, -- the process
  host TEXT NOT NULL, -- the machine
  acquired_at TEXT NOT NULL -- when it was taken
) STRICT, WITHOUT ROWID;

CREATE VIEW mirror_freshness AS -- How fresh each resource is.
SELECT
  mirror_windows.resource AS resource, -- TEXT: users, packages, emails or coupons
  count(*) AS windows, -- INTEGER: windows that it is read in
  sum(state <> 'settled') AS unsettled, -- INTEGER: how many of them are not settled
  CASE
    WHEN sum(mirror_windows.fresh_as_of IS NULL) > 0 THEN NULL
    WHEN mirror_windows.resource IN (SELECT resource FROM mirror_touched) THEN NULL
    WHEN unproven.resource IS NOT NULL THEN min(min(mirror_windows.fresh_as_of), unproven.fresh_as_of)
    ELSE min(mirror_windows.fresh_as_of)
  END AS fresh_as_of -- TEXT?: every row was seen on the server at or after this time; null if one never was
FROM mirror_windows
LEFT JOIN mirror_unproven AS unproven ON unproven.resource = mirror_windows.resource
GROUP BY mirror_windows.resource;

CREATE INDEX emails_unsent ON emails ("created_at") WHERE "is_sent" = 0;

CREATE VIEW users_live_age AS -- The users that the server has, and how many whole days ago they signed up, were seen, logged in and changed.
SELECT
  id, -- INTEGER: the user
  username, -- TEXT: user name
  email, -- TEXT: email address
  status, -- TEXT: status
  balance, -- REAL: balance
  email_verified_at IS NOT NULL AS verified, -- INTEGER: 1 if the email address is verified
  CAST(julianday('now') - julianday(created_at) AS INTEGER) AS days_old, -- INTEGER?: since the sign-up
  CAST(julianday('now') - julianday(last_seen_at) AS INTEGER) AS days_since_seen, -- INTEGER?: since the user was last seen
  CAST(julianday('now') - julianday(last_login_at) AS INTEGER) AS days_since_login, -- INTEGER?: since the last login
  CAST(julianday('now') - julianday("_changed_at") AS INTEGER) AS days_since_change -- INTEGER: since a value of the row last changed in the mirror
FROM users;

CREATE VIEW users_by_day AS -- How many users signed up on each day.
SELECT
  substr(created_at, 1, 10) AS day, -- TEXT?: the day, as 2026-03-11; null for users without a creation time
  count(*) AS users, -- INTEGER: users created on it
  count(email_verified_at) AS verified -- INTEGER: how many of them have a verified email address now
FROM users
GROUP BY 1;

CREATE VIEW emails_by_day AS -- How many emails were created on each day.
SELECT
  substr(created_at, 1, 10) AS day, -- TEXT?: the day, as 2026-03-11; null for emails without a creation time
  count(*) AS emails, -- INTEGER: emails created on it
  sum(is_sent = 1) AS sent, -- INTEGER?: how many of them were sent
  sum(is_sent = 0) AS unsent -- INTEGER?: how many of them were not
FROM emails
GROUP BY 1;

CREATE VIEW emails_by_user AS -- How many emails each user was sent or will be sent; users without any have 0.
SELECT
  users.id AS user_id, -- INTEGER: the user
  users.email, -- TEXT: the user's current address
  count(emails.id) AS emails, -- INTEGER: emails of the user
  count(CASE WHEN emails.is_sent = 0 THEN 1 END) AS unsent, -- INTEGER: how many of them were not sent
  max(emails.created_at) AS last_created_at -- TEXT?: when the newest of them was created
FROM users LEFT JOIN emails ON emails.user_id = users.id
GROUP BY users.id;

CREATE VIEW emails_by_domain AS -- How many emails go to each domain, in lower case.
SELECT
  CASE WHEN instr(receiver, '@') > 0 THEN lower(substr(receiver, instr(receiver, '@') + 1)) END AS domain, -- TEXT?: what follows the @ of the receiver; null if there is no @
  count(*) AS emails, -- INTEGER: emails to it
  sum(is_sent = 0) AS unsent, -- INTEGER?: how many of them were not sent
  count(DISTINCT user_id) AS users -- INTEGER: users whose emails they are
FROM emails
GROUP BY 1;

CREATE TABLE mirror_cursor ( -- The last change number; one row. `export --changed-since` and `changes --follow` use it.
  mirror TEXT NOT NULL, -- identifies the mirror; one that is built anew gets another value
  seq INTEGER NOT NULL, -- the number of the last change in any table
  deletions_from INTEGER NOT NULL, -- deletions up to this number may no longer be known
  writing INTEGER NOT NULL DEFAULT 0 -- 1 while this program writes, which nobody else sees; else 0
) STRICT;

CREATE TABLE mirror_epochs ( -- Which run gave which numbers: a row for each run that changed something. An older copy continues in another epoch.
  from_seq INTEGER PRIMARY KEY, -- primary key; the last number before the epoch
  epoch TEXT NOT NULL, -- its name, which no other has
  began_at TEXT NOT NULL -- when it began
) STRICT;

CREATE TABLE mirror_deletions ( -- Tombstones of deleted rows: their ids, and nothing else. They are kept for history.keep.
  table_name TEXT NOT NULL, -- the table that the row was in
  id INTEGER NOT NULL, -- its id; for related records the parent’s, for a history the _seq
  key TEXT NOT NULL, -- for related records their _key; otherwise empty
  seq INTEGER NOT NULL, -- the number of the deletion
  PRIMARY KEY (table_name, id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX mirror_deletions_seq ON mirror_deletions (table_name, seq);

CREATE INDEX "users_seq" ON "users" ("_seq");

CREATE TRIGGER "users_renumbered" AFTER UPDATE ON "users" WHEN NEW."_seq" = OLD."_seq"
BEGIN UPDATE mirror_cursor SET seq = seq + 1; UPDATE "users" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; END;

CREATE TRIGGER "users_buried" BEFORE DELETE ON "users" 
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('users', OLD."id", '', (SELECT seq FROM mirror_cursor)); END;

CREATE TRIGGER "users_added" BEFORE INSERT ON "users" WHEN (SELECT writing FROM mirror_cursor) IS NOT 1
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT 'users', iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS noted FROM (SELECT NEW."created_at" AS at UNION SELECT "created_at" FROM users WHERE "id" = NEW."id")
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = 'users'); END;

CREATE TRIGGER "users_changed" BEFORE UPDATE ON "users" WHEN (SELECT writing FROM mirror_cursor) IS NOT 1
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT 'users', iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS noted FROM (SELECT OLD."created_at" AS at UNION SELECT NEW."created_at" AS at UNION SELECT "created_at" FROM users WHERE "id" = NEW."id")
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = 'users'); END;

CREATE TRIGGER "users_removed" BEFORE DELETE ON "users" WHEN (SELECT writing FROM mirror_cursor) IS NOT 1
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT 'users', iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS noted FROM (SELECT OLD."created_at" AS at)
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = 'users'); END;

CREATE INDEX "packages_seq" ON "packages" ("_seq");

CREATE TRIGGER "packages_renumbered" AFTER UPDATE ON "packages" WHEN NEW."_seq" = OLD."_seq"
BEGIN UPDATE mirror_cursor SET seq = seq + 1; UPDATE "packages" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; END;

CREATE TRIGGER "packages_buried" BEFORE DELETE ON "packages" 
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('packages', OLD."id", '', (SELECT seq FROM mirror_cursor)); END;

CREATE TRIGGER "packages_added" BEFORE INSERT ON "packages" WHEN (SELECT writing FROM mirror_cursor) IS NOT 1
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT 'packages', iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS noted FROM (SELECT NEW."created_at" AS at UNION SELECT "created_at" FROM packages WHERE "id" = NEW."id")
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = 'packages'); END;

CREATE TRIGGER "packages_changed" BEFORE UPDATE ON "packages" WHEN (SELECT writing FROM mirror_cursor) IS NOT 1
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT 'packages', iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS noted FROM (SELECT OLD."created_at" AS at UNION SELECT NEW."created_at" AS at UNION SELECT "created_at" FROM packages WHERE "id" = NEW."id")
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = 'packages'); END;

CREATE TRIGGER "packages_removed" BEFORE DELETE ON "packages" WHEN (SELECT writing FROM mirror_cursor) IS NOT 1
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT 'packages', iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS noted FROM (SELECT OLD."created_at" AS at)
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = 'packages'); END;

CREATE INDEX "emails_seq" ON "emails" ("_seq");

CREATE TRIGGER "emails_renumbered" AFTER UPDATE ON "emails" WHEN NEW."_seq" = OLD."_seq"
BEGIN UPDATE mirror_cursor SET seq = seq + 1; UPDATE "emails" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; END;

CREATE TRIGGER "emails_buried" BEFORE DELETE ON "emails" 
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('emails', OLD."id", '', (SELECT seq FROM mirror_cursor)); END;

CREATE TRIGGER "emails_added" BEFORE INSERT ON "emails" WHEN (SELECT writing FROM mirror_cursor) IS NOT 1
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT 'emails', iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS noted FROM (SELECT NEW."created_at" AS at UNION SELECT "created_at" FROM emails WHERE "id" = NEW."id")
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = 'emails'); END;

CREATE TRIGGER "emails_changed" BEFORE UPDATE ON "emails" WHEN (SELECT writing FROM mirror_cursor) IS NOT 1
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT 'emails', iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS noted FROM (SELECT OLD."created_at" AS at UNION SELECT NEW."created_at" AS at UNION SELECT "created_at" FROM emails WHERE "id" = NEW."id")
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = 'emails'); END;

CREATE TRIGGER "emails_removed" BEFORE DELETE ON "emails" WHEN (SELECT writing FROM mirror_cursor) IS NOT 1
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT 'emails', iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS noted FROM (SELECT OLD."created_at" AS at)
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = 'emails'); END;

CREATE INDEX "coupons_seq" ON "coupons" ("_seq");

CREATE TRIGGER "coupons_renumbered" AFTER UPDATE ON "coupons" WHEN NEW."_seq" = OLD."_seq"
BEGIN UPDATE mirror_cursor SET seq = seq + 1; UPDATE "coupons" SET "_seq" = (SELECT seq FROM mirror_cursor) WHERE rowid = NEW.rowid; END;

CREATE TRIGGER "coupons_buried" BEFORE DELETE ON "coupons" 
BEGIN UPDATE mirror_cursor SET seq = seq + 1; INSERT OR REPLACE INTO mirror_deletions (table_name, id, key, seq) VALUES ('coupons', OLD."id", '', (SELECT seq FROM mirror_cursor)); END;

CREATE TRIGGER "coupons_added" BEFORE INSERT ON "coupons" WHEN (SELECT writing FROM mirror_cursor) IS NOT 1
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT 'coupons', iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS noted FROM (SELECT NEW."created_at" AS at UNION SELECT "created_at" FROM coupons WHERE "id" = NEW."id")
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = 'coupons'); END;

CREATE TRIGGER "coupons_changed" BEFORE UPDATE ON "coupons" WHEN (SELECT writing FROM mirror_cursor) IS NOT 1
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT 'coupons', iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS noted FROM (SELECT OLD."created_at" AS at UNION SELECT NEW."created_at" AS at UNION SELECT "created_at" FROM coupons WHERE "id" = NEW."id")
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = 'coupons'); END;

CREATE TRIGGER "coupons_removed" BEFORE DELETE ON "coupons" WHEN (SELECT writing FROM mirror_cursor) IS NOT 1
BEGIN INSERT INTO mirror_touched (resource, day)
  SELECT DISTINCT 'coupons', iif(typeof(at) = 'text' AND at >= '1000-01-01' AND at < '3000-01-01', substr(at, 1, 10), '0000-01-01') AS noted FROM (SELECT OLD."created_at" AS at)
  WHERE noted NOT IN (SELECT day FROM mirror_touched WHERE resource = 'coupons'); END;

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
