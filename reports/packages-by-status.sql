-- title: Packages by status
-- subject: Packages
-- description: How many packages have each status, the most frequent first.
-- column: status | text | the status
-- column: packages | integer | packages that have it
-- column: services | integer | different services among them
-- column: allow_coupons | integer | how many of them take coupons
-- column: newest_at | time | when the newest of them was made
-- needs: packages
-- chart: bar status packages
SELECT
  status,
  count(*) AS packages,
  count(DISTINCT service) AS services,
  count(*) FILTER (WHERE allow_coupons = 1) AS allow_coupons,
  max(created_at) AS newest_at
FROM packages
GROUP BY status
ORDER BY packages DESC, status
