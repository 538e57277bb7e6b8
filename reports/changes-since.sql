-- title: What changed
-- subject: The mirror
-- description: How many records came, changed and went since a time, by resource. A time is when the mirror saw the
--   change, not when it happened on the server; what history.ignore names makes no change. At the first sync every
--   record came. `changes` tells the same field by field.
-- parameter: since | time | 7d ago | from this time on
-- column: resource | text | users, packages, emails or coupons
-- column: change | text | inserted, updated or deleted
-- column: changes | integer | how many changes
-- column: records | integer | how many different records
-- column: first_at | time | the first of them
-- column: last_at | time | the last of them
-- column: known_since | time | from when on the mirror knows all changes of the resource
-- needs: users, packages, emails, coupons, users_history, packages_history, emails_history, coupons_history,
--   mirror_history
WITH
  resources (resource, place) AS (VALUES ('users', 1), ('packages', 2), ('emails', 3), ('coupons', 4)),
  changes (change, step) AS (VALUES ('inserted', 1), ('updated', 2), ('deleted', 3)),
  kinds (resource, place, change, step) AS (
    SELECT resource, place, change, step FROM resources CROSS JOIN changes
  ),
  seen AS (
    SELECT 'users' AS resource, 'inserted' AS change, id, _first_seen_at AS at FROM users
    WHERE _first_seen_at >= :since
    UNION ALL
    SELECT 'users', 'inserted', id, record ->> '_first_seen_at' FROM users_history
    WHERE change = 'deleted' AND valid_to >= :since AND record ->> '_first_seen_at' >= :since
    UNION ALL
    SELECT 'users', change, id, valid_to FROM users_history WHERE valid_to >= :since
    UNION ALL
    SELECT 'packages' AS resource, 'inserted' AS change, id, _first_seen_at AS at FROM packages
    WHERE _first_seen_at >= :since
    UNION ALL
    SELECT 'packages', 'inserted', id, record ->> '_first_seen_at' FROM packages_history
    WHERE change = 'deleted' AND valid_to >= :since AND record ->> '_first_seen_at' >= :since
    UNION ALL
    SELECT 'packages', change, id, valid_to FROM packages_history WHERE valid_to >= :since
    UNION ALL
    SELECT 'emails' AS resource, 'inserted' AS change, id, _first_seen_at AS at FROM emails
    WHERE _first_seen_at >= :since
    UNION ALL
    SELECT 'emails', 'inserted', id, record ->> '_first_seen_at' FROM emails_history
    WHERE change = 'deleted' AND valid_to >= :since AND record ->> '_first_seen_at' >= :since
    UNION ALL
    SELECT 'emails', change, id, valid_to FROM emails_history WHERE valid_to >= :since
    UNION ALL
    SELECT 'coupons' AS resource, 'inserted' AS change, id, _first_seen_at AS at FROM coupons
    WHERE _first_seen_at >= :since
    UNION ALL
    SELECT 'coupons', 'inserted', id, record ->> '_first_seen_at' FROM coupons_history
    WHERE change = 'deleted' AND valid_to >= :since AND record ->> '_first_seen_at' >= :since
    UNION ALL
    SELECT 'coupons', change, id, valid_to FROM coupons_history WHERE valid_to >= :since
  ),
  sums AS MATERIALIZED (
    SELECT resource, change, count(*) AS changes, count(DISTINCT id) AS records, min(at) AS first_at, max(at) AS last_at
    FROM seen
    GROUP BY resource, change
  )
SELECT
  kinds.resource,
  kinds.change,
  coalesce(changes, 0) AS changes,
  coalesce(records, 0) AS records,
  first_at,
  last_at,
  begins_at AS known_since
FROM kinds
LEFT JOIN sums USING (resource, change)
LEFT JOIN mirror_history ON mirror_history.resource = kinds.resource
ORDER BY place, step
