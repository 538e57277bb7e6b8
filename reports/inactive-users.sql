-- title: Users who stay away
-- subject: Customers
-- description: Users who have not been seen for so many days, those away longest first, with their balances and how
--   many of their orders are open, that is, active or suspended. Who was never seen counts from the last login, else
--   from the sign-up. Of the orders the key status is read.
-- parameter: days | integer | 180 | away for at least so many days
-- parameter: min_balance | number | none | only users with at least this balance
-- parameter: at | time | now | the time that the days are counted back from
-- column: id | integer | the user
-- column: username | text | user name
-- column: email | text | email address
-- column: status | text | status
-- column: last_seen_at | time | when the user was last seen, logged in or signed up
-- column: days_away | integer | whole days since then
-- column: balance | money | balance
-- column: open_orders | integer | orders that are active or suspended
-- needs: users, users.orders (status)
WITH
  away AS (
    SELECT id, username, email, status, balance, coalesce(last_seen_at, last_login_at, created_at) AS last_seen_at
    FROM users
    WHERE coalesce(last_seen_at, last_login_at, created_at)
      < strftime('%Y-%m-%dT%H:%M:%S', :at, '-' || :days || ' days')
    AND (:min_balance IS NULL OR balance >= :min_balance)
  )
SELECT
  id, username, email, status, last_seen_at,
  (unixepoch(:at) - unixepoch(last_seen_at)) / 86400 AS days_away,
  balance,
  (
    SELECT count(*) FROM user_orders
    WHERE user_id = away.id AND lower(record ->> 'status') IN ('active', 'suspended')
  ) AS open_orders
FROM away
ORDER BY last_seen_at, id
