-- title: Cohorts by month
-- subject: Customers
-- description: Of the users who signed up in a month (UTC), how many paid in that month, in the next one, and so on. Users who were
--   deleted are in no cohort. Of the payments the keys status and created_at are read.
-- parameter: from | date | 365d ago | a day of the first month of sign-ups
-- parameter: to | date | today | a day of the last month
-- parameter: paid | text | paid | the status of a payment that was made
-- column: cohort | text | the month of the sign-up
-- column: months_later | integer | 0 is the month of the sign-up
-- column: users | integer | users of the cohort
-- column: paying | integer | how many of them paid in that month
-- column: percent | number | their part, in percent
-- needs: users, users.payments (status, created_at)
WITH RECURSIVE
  months (month, place) AS (
    SELECT date(:from, 'start of month'), 0 WHERE :from <= :to
    UNION ALL
    SELECT date(month, '+1 month'), place + 1 FROM months WHERE date(month, '+1 month') <= :to
  ),
  cohorts AS MATERIALIZED (
    SELECT months.month, place, count(*) AS users
    FROM users JOIN months ON months.month = substr(created_at, 1, 7) || '-01'
    GROUP BY place
  ),
  payers AS MATERIALIZED (
    SELECT DISTINCT user_id, substr(record ->> 'created_at', 1, 7) || '-01' AS month
    FROM user_payments
    WHERE lower(record ->> 'status') = lower(:paid)
  ),
  paid AS MATERIALIZED (
    SELECT born.place AS born, later.place AS later, count(*) AS paying
    FROM payers
    JOIN users ON users.id = user_id
    JOIN months AS born ON born.month = substr(created_at, 1, 7) || '-01'
    JOIN months AS later ON later.month = payers.month
    GROUP BY 1, 2
  )
SELECT
  substr(cohorts.month, 1, 7) AS cohort,
  months.place - cohorts.place AS months_later,
  users,
  coalesce(paying, 0) AS paying,
  round(100.0 * coalesce(paying, 0) / users, 1) AS percent
FROM cohorts
JOIN months ON months.place >= cohorts.place
LEFT JOIN paid ON born = cohorts.place AND later = months.place
ORDER BY cohort, months_later
