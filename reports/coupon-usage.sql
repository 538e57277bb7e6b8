-- title: Use of coupons
-- subject: Coupons
-- description: How often payments name each coupon, the most used first. A payment is expected to name its coupon
--   under options.coupon, by code, by id, or as an object with either; its keys status and created_at are read as
--   well. A coupon that is not in the table of coupons any more has no id.
-- parameter: paid | text | paid | the status of a payment that was made
-- column: id | integer | the coupon; null where there is none of that code
-- column: code | text | what users type, or what the payments say where there is no such coupon
-- column: allowed_uses | integer | how often it may be used
-- column: payments | integer | payments that name it
-- column: paid | integer | how many of them were made
-- column: users | integer | users whose payments they are
-- column: first_used_at | time | the first of them
-- column: last_used_at | time | the last of them
-- needs: coupons, users.payments (options.coupon, status, created_at)
WITH
  uses AS MATERIALIZED (
    SELECT
      user_id,
      lower(record ->> 'status') AS status,
      record ->> 'created_at' AS created_at,
      CASE json_type(record, '$.options.coupon')
        WHEN 'object' THEN
          CAST(coalesce(record ->> '$.options.coupon.code', record ->> '$.options.coupon.id') AS TEXT)
        ELSE CAST(record ->> '$.options.coupon' AS TEXT)
      END AS named
    FROM user_payments
  ),
  resolved AS (
    -- A number that is somebody's code is that code, and no id.
    SELECT
      uses.*,
      coalesce(
        (SELECT min(id) FROM coupons WHERE lower(code) = lower(named)),
        (SELECT id FROM coupons WHERE CAST(id AS TEXT) = named)
      ) AS coupon
    FROM uses
    WHERE named IS NOT NULL
  )
SELECT
  coupons.id,
  coalesce(coupons.code, min(named)) AS code,
  coupons.allowed_uses,
  count(*) AS payments,
  count(*) FILTER (WHERE resolved.status = lower(:paid)) AS paid,
  count(DISTINCT user_id) AS users,
  min(resolved.created_at) AS first_used_at,
  max(resolved.created_at) AS last_used_at
FROM resolved LEFT JOIN coupons ON coupons.id = coupon
GROUP BY coupon, CASE WHEN coupon IS NULL THEN lower(named) END
ORDER BY payments DESC, code
