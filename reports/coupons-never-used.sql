-- title: Coupons never used
-- subject: Coupons
-- description: Coupons that no payment names, the oldest first. A payment is expected to name its coupon under
--   options.coupon, by code, by id, or as an object with either. Where the server does not, every coupon is listed,
--   and a warning says so.
-- parameter: at | time | now | the time at which a coupon counts as expired or not
-- column: id | integer | the coupon
-- column: code | text | what users type
-- column: allowed_uses | integer | how often it may be used
-- column: created_at | time | when it was made
-- column: expires_at | time | when it expires; null where it never does
-- column: expired | flag | whether it has expired
-- needs: coupons, users.payments (options.coupon)
WITH
  named AS MATERIALIZED (
    SELECT DISTINCT lower(
      CASE json_type(record, '$.options.coupon')
        WHEN 'object' THEN
          CAST(coalesce(record ->> '$.options.coupon.code', record ->> '$.options.coupon.id') AS TEXT)
        ELSE CAST(record ->> '$.options.coupon' AS TEXT)
      END
    ) AS coupon
    FROM user_payments
  )
SELECT id, code, allowed_uses, created_at, expires_at, coalesce(expires_at < :at, 0) AS expired
FROM coupons
WHERE lower(code) NOT IN (SELECT coupon FROM named WHERE coupon IS NOT NULL)
-- A number that is somebody's code is that code, and no id.
AND CAST(id AS TEXT) NOT IN (
  SELECT coupon FROM named WHERE coupon IS NOT NULL AND coupon NOT IN (SELECT lower(code) FROM coupons)
)
ORDER BY created_at, id
