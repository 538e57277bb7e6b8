-- title: Addresses never verified
-- subject: Customers
-- description: Users who signed up so many days ago and have not verified their email address since, the oldest
--   first.
-- parameter: days | integer | 30 | signed up at least so many days ago
-- parameter: at | time | now | the time that the days are counted back from
-- column: id | integer | the user
-- column: username | text | user name
-- column: email | text | the address that is not verified
-- column: status | text | status
-- column: created_at | time | when the user signed up
-- column: days_old | integer | whole days since then
-- column: last_seen_at | time | when the user was last there
-- column: balance | money | balance
-- needs: users
SELECT
  id, username, email, status, created_at,
  (unixepoch(:at) - unixepoch(created_at)) / 86400 AS days_old,
  last_seen_at, balance
FROM users
WHERE email_verified_at IS NULL
AND created_at < strftime('%Y-%m-%dT%H:%M:%S', :at, '-' || :days || ' days')
ORDER BY created_at, id
