-- title: Emails by day
-- subject: Emails
-- description: How many emails were made on each day (UTC), and how many of them are sent by now. A day without
--   emails stands with 0.
-- parameter: from | date | 30d ago | the first day that counts
-- parameter: to | date | today | the last day that counts
-- column: day | date | the day
-- column: emails | integer | emails made on it
-- column: sent | integer | how many of them are sent
-- column: unsent | integer | how many of them are not
-- column: sent_percent | number | the share that is sent, to one place
-- column: resent | integer | how often emails of the day were sent again
-- needs: emails
-- chart: line day emails,unsent
WITH RECURSIVE
  days (day) AS (
    SELECT :from WHERE :from <= :to
    UNION ALL
    SELECT date(day, '+1 day') FROM days WHERE day < :to
  ),
  counts AS MATERIALIZED (
    SELECT
      substr(created_at, 1, 10) AS day,
      count(*) AS emails,
      count(*) FILTER (WHERE is_sent = 1) AS sent,
      sum(resent) AS resent
    FROM emails
    WHERE created_at >= :from AND created_at < date(:to, '+1 day')
    GROUP BY 1
  )
SELECT
  day,
  coalesce(emails, 0) AS emails,
  coalesce(sent, 0) AS sent,
  coalesce(emails - sent, 0) AS unsent,
  round(100.0 * sent / emails, 1) AS sent_percent,
  coalesce(resent, 0) AS resent
FROM days LEFT JOIN counts USING (day)
ORDER BY day
