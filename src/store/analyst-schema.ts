/** Views for queries typed by hand, and indices; what each gains and costs was measured: docs/reports.md. */
import type { ResourceName } from '../model/resources.ts';

const createdOn = 'substr(created_at, 1, 10)';

/** Whole days from a timestamp to now; in words that every SQLite knows which can read the file. */
function daysSince(column: string): string {
  return `CAST(julianday('now') - julianday(${column}) AS INTEGER)`;
}

const usersLiveAge = `CREATE VIEW users_live_age AS
SELECT
  id,
  username,
  email,
  status,
  balance,
  email_verified_at IS NOT NULL AS verified,
  ${daysSince('created_at')} AS days_old,
  ${daysSince('last_seen_at')} AS days_since_seen,
  ${daysSince('last_login_at')} AS days_since_login,
  ${daysSince('"_changed_at"')} AS days_since_change
FROM users`;

const usersByDay = `CREATE VIEW users_by_day AS
SELECT ${createdOn} AS day, count(*) AS users, count(email_verified_at) AS verified
FROM users
GROUP BY 1`;

const emailsByDay = `CREATE VIEW emails_by_day AS
SELECT ${createdOn} AS day, count(*) AS emails, sum(is_sent = 1) AS sent, sum(is_sent = 0) AS unsent
FROM emails
GROUP BY 1`;

// The user's row first, so that a condition on the user finds the emails by their index.
const emailsByUser = `CREATE VIEW emails_by_user AS
SELECT
  users.id AS user_id,
  users.email,
  count(emails.id) AS emails,
  count(CASE WHEN emails.is_sent = 0 THEN 1 END) AS unsent,
  max(emails.created_at) AS last_created_at
FROM users LEFT JOIN emails ON emails.user_id = users.id
GROUP BY users.id`;

const emailsByDomain = `CREATE VIEW emails_by_domain AS
SELECT
  CASE WHEN instr(receiver, '@') > 0 THEN lower(substr(receiver, instr(receiver, '@') + 1)) END AS domain,
  count(*) AS emails,
  sum(is_sent = 0) AS unsent,
  count(DISTINCT user_id) AS users
FROM emails
GROUP BY 1`;

// Emails make most of a file; those that wait are a few of every hundred.
const emailsUnsent = 'CREATE INDEX emails_unsent ON emails ("created_at") WHERE "is_sent" = 0';

/** The statements that make what is kept from the beginning, in order; the tables are there. */
export const analystSchema: readonly string[] = [
  emailsUnsent,
  usersLiveAge,
  usersByDay,
  emailsByDay,
  emailsByUser,
  emailsByDomain,
];

/** Made once all was read: sorting keys once costs far less than finding the place of each while rows come in. */
export const lateIndices: Readonly<Partial<Record<ResourceName, readonly string[]>>> = {
  // The largest balances, and their sums without reading the rest of each user.
  users: ['CREATE INDEX IF NOT EXISTS users_balance ON users ("balance")'],
  // The one way from a user to their emails.
  emails: ['CREATE INDEX IF NOT EXISTS emails_user_id ON emails ("user_id")'],
};
