-- title: Sign-ups by month
-- subject: Customers
-- description: How many of the users that exist today signed up in each month (UTC), and how many of them have
--   verified their email address and are subscribed. A month without sign-ups between the first and the last stands
--   with 0. Users without a creation time are left out.
-- parameter: from | date | none | the first day that counts
-- parameter: to | date | none | the last day that counts
-- parameter: subscribed | flag | 1 | the value of is_subscribed that means subscribed
-- column: month | text | the month, as 2026-03
-- column: signups | integer | users created in it
-- column: verified | integer | how many of them have a verified email address
-- column: verified_percent | number | their share of the sign-ups, to one place
-- column: subscribed | integer | how many of them are subscribed
-- column: subscribed_percent | number | their share of the sign-ups, to one place
-- needs: users
-- assumes: is_subscribed = {subscribed} means subscribed; the API's reference does not say, and its sample filter
--   uses 0
-- chart: line month signups
WITH RECURSIVE
  counts AS MATERIALIZED (
    SELECT
      substr(created_at, 1, 7) AS month,
      count(*) AS signups,
      count(email_verified_at) AS verified,
      count(*) FILTER (WHERE is_subscribed = :subscribed) AS subscribed
    FROM users
    -- Timestamps compare as text: nothing lies before '' or after '~'.
    WHERE created_at >= coalesce(:from, '') AND created_at < coalesce(date(:to, '+1 day'), '~')
    GROUP BY 1
  ),
  months (month) AS (
    SELECT min(month) FROM counts
    UNION ALL
    SELECT strftime('%Y-%m', month || '-01', '+1 month') FROM months WHERE month < (SELECT max(month) FROM counts)
  )
SELECT
  month,
  coalesce(signups, 0) AS signups,
  coalesce(verified, 0) AS verified,
  round(100.0 * verified / signups, 1) AS verified_percent,
  coalesce(subscribed, 0) AS subscribed,
  round(100.0 * subscribed / signups, 1) AS subscribed_percent
FROM months LEFT JOIN counts USING (month)
WHERE month IS NOT NULL
ORDER BY month
