-- title: State of the mirror
-- subject: The mirror
-- description: How much of each resource the mirror holds, how fresh it is and how its last run ended. Look at it
--   before you rely on a number.
-- parameter: at | time | now | the time that the age is counted to
-- column: resource | text | users, packages, emails or coupons
-- column: rows | integer | rows in the table
-- column: server_total | integer | records that the server counted in the last run that asked; null where none did
-- column: fresh_as_of | time | every row was seen on the server at or after this time; null where one never was
-- column: age_minutes | integer | whole minutes since then
-- column: windows | integer | windows that it is read in
-- column: unsettled | integer | how many of them are not settled
-- column: last_status | text | how the last run ended for it
-- column: last_finished_at | time | when that run ended; null while it goes on
-- column: last_complete_at | time | when a run was last complete for it
-- column: history_since | time | from when on its history can tell everything
-- column: surprises | integer | events on record; mirror_events has them
-- needs: users, packages, emails, coupons, mirror_freshness, mirror_runs, mirror_run_resources, mirror_events,
--   mirror_history
WITH
  resources (resource, place, rows) AS (
    SELECT 'users', 1, (SELECT count(*) FROM users)
    UNION ALL SELECT 'packages', 2, (SELECT count(*) FROM packages)
    UNION ALL SELECT 'emails', 3, (SELECT count(*) FROM emails)
    UNION ALL SELECT 'coupons', 4, (SELECT count(*) FROM coupons)
  ),
  parts AS MATERIALIZED (
    -- In the order in which they were begun, whatever the clock said.
    SELECT
      part.resource, part.status, part.server_total, run.started_at, run.finished_at,
      row_number() OVER (PARTITION BY part.resource ORDER BY run.rowid DESC) AS place
    FROM mirror_run_resources AS part JOIN mirror_runs AS run USING (run)
  )
SELECT
  resources.resource,
  resources.rows,
  (
    SELECT server_total FROM parts
    WHERE parts.resource = resources.resource AND server_total IS NOT NULL ORDER BY parts.place LIMIT 1
  ) AS server_total,
  fresh.fresh_as_of,
  (unixepoch(:at) - unixepoch(fresh.fresh_as_of)) / 60 AS age_minutes,
  coalesce(fresh.windows, 0) AS windows,
  coalesce(fresh.unsettled, 0) AS unsettled,
  last.status AS last_status,
  last.finished_at AS last_finished_at,
  (SELECT max(finished_at) FROM parts WHERE parts.resource = resources.resource AND status = 'complete')
    AS last_complete_at,
  history.begins_at AS history_since,
  (SELECT count(*) FROM mirror_events WHERE mirror_events.resource = resources.resource) AS surprises
FROM resources
LEFT JOIN mirror_freshness AS fresh ON fresh.resource = resources.resource
LEFT JOIN parts AS last ON last.resource = resources.resource AND last.place = 1
LEFT JOIN mirror_history AS history ON history.resource = resources.resource
ORDER BY resources.place
