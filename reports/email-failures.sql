-- title: Emails that did not go out
-- subject: Emails
-- description: Emails that are not sent although their time has come, by the domain of the receiver, the worst first.
--   The time of one that is not scheduled is its creation.
-- parameter: hours | integer | 1 | overdue by at least so many hours
-- parameter: at | time | now | the time that the hours are counted back from
-- column: domain | text | what follows the @ of the receiver, in small letters; null where there is no @
-- column: unsent | integer | emails not sent
-- column: users | integer | users whose emails they are
-- column: resent | integer | how many of them were sent again before
-- column: oldest_due_at | time | the longest overdue
-- column: newest_due_at | time | the least overdue
-- needs: emails
-- chart: bar domain unsent
SELECT
  CASE WHEN instr(receiver, '@') > 0 THEN lower(substr(receiver, instr(receiver, '@') + 1)) END AS domain,
  count(*) AS unsent,
  count(DISTINCT user_id) AS users,
  count(*) FILTER (WHERE resent > 0) AS resent,
  min(coalesce(scheduled_at, created_at)) AS oldest_due_at,
  max(coalesce(scheduled_at, created_at)) AS newest_due_at
FROM emails
WHERE is_sent = 0
AND coalesce(scheduled_at, created_at) <= strftime('%Y-%m-%dT%H:%M:%S', :at, '-' || :hours || ' hours')
GROUP BY 1
ORDER BY unsent DESC, domain
