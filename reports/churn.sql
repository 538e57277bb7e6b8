-- title: Churn by month
-- subject: Customers
-- description: How many orders ran at the beginning of each month (UTC), and how many began and ended in it. Of the orders the
--   keys status, created_at and cancelled_at are read. An order that is over by its status, but does not say when it ended, is
--   left out.
-- parameter: from | date | 365d ago | a day of the first month
-- parameter: to | date | today | a day of the last month
-- parameter: over | text | cancelled terminated | the statuses of orders that are over
-- column: month | text | the month
-- column: at_start | integer | orders that ran at its beginning
-- column: began | integer | orders that began in it
-- column: ended | integer | of those that ran at its beginning, how many ended in it
-- column: churn_percent | number | their part, in percent; null where none ran
-- needs: users.orders (status, created_at, cancelled_at)
-- chart: line month churn_percent
WITH RECURSIVE
  months (month) AS (
    SELECT date(:from, 'start of month') WHERE :from <= :to
    UNION ALL
    SELECT date(month, '+1 month') FROM months WHERE date(month, '+1 month') <= :to
  ),
  spans AS MATERIALIZED (
    SELECT record ->> 'created_at' AS began_at, record ->> 'cancelled_at' AS ended_at
    FROM user_orders
    WHERE record ->> 'cancelled_at' IS NOT NULL
    OR instr(' ' || lower(:over) || ' ', ' ' || coalesce(lower(record ->> 'status'), '') || ' ') = 0
  ),
  counts AS (
    SELECT
      month,
      count(*) FILTER (WHERE began_at < month AND (ended_at IS NULL OR ended_at >= month)) AS at_start,
      count(*) FILTER (WHERE began_at >= month AND began_at < date(month, '+1 month')) AS began,
      count(*) FILTER (WHERE began_at < month AND ended_at >= month AND ended_at < date(month, '+1 month')) AS ended
    FROM months LEFT JOIN spans
    GROUP BY month
  )
SELECT
  substr(month, 1, 7) AS month,
  at_start,
  began,
  ended,
  CASE WHEN at_start > 0 THEN round(100.0 * ended / at_start, 1) END AS churn_percent
FROM counts
ORDER BY month
