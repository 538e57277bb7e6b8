-- title: Revenue with coupons
-- subject: Coupons
-- description: Payments that were made with each coupon, by currency, those that brought most first. What was paid with a
--   balance stands apart and is no revenue. A payment is expected to name its coupon under options.coupon, by code, by id, or
--   as an object with either; its keys status, amount, currency, created_at and gateway are read as well. A coupon that is
--   not in the table of coupons any more has no id.
-- parameter: from | date | none | the first day that counts (UTC)
-- parameter: to | date | none | the last day that counts
-- parameter: paid | text | paid | the status of a payment that was made
-- parameter: balance_gateway | text | balance | the gateway that takes a payment from the balance
-- column: id | integer | the coupon; null where there is none of that code
-- column: code | text | what users type, or what the payments say where there is no such coupon
-- column: currency | text | currency code
-- column: users | integer | users who paid with it
-- column: payments | integer | payments made, without those from a balance
-- column: revenue | money | their sum
-- column: paid_with_balance | money | the sum of the payments from a balance, which is not in the revenue
-- needs: coupons, users.payments (options.coupon, status, amount, currency, created_at, gateway)
-- chart: bar code revenue
WITH
  made AS MATERIALIZED (
    SELECT
      user_id,
      record ->> 'currency' AS currency,
      CAST(round((record ->> 'amount') * 10000) AS INTEGER) AS amount,
      coalesce(
        lower(
          CASE json_type(record, '$.gateway')
            WHEN 'object' THEN coalesce(record ->> '$.gateway.driver', record ->> '$.gateway.name')
            ELSE record ->> 'gateway'
          END
        ) = lower(:balance_gateway),
        0
      ) AS from_balance,
      CASE json_type(record, '$.options.coupon')
        WHEN 'object' THEN
          CAST(coalesce(record ->> '$.options.coupon.code', record ->> '$.options.coupon.id') AS TEXT)
        ELSE CAST(record ->> '$.options.coupon' AS TEXT)
      END AS named
    FROM user_payments
    WHERE lower(record ->> 'status') = lower(:paid)
    AND (:from IS NULL OR record ->> 'created_at' >= :from)
    AND (:to IS NULL OR record ->> 'created_at' < date(:to, '+1 day'))
  ),
  resolved AS (
    -- A number that is somebody's code is that code, and no id.
    SELECT
      made.*,
      coalesce(
        (SELECT min(id) FROM coupons WHERE lower(code) = lower(named)),
        (SELECT id FROM coupons WHERE CAST(id AS TEXT) = named)
      ) AS coupon
    FROM made
    WHERE named IS NOT NULL
  )
SELECT
  coupons.id,
  coalesce(coupons.code, min(named)) AS code,
  resolved.currency,
  count(DISTINCT user_id) AS users,
  count(*) FILTER (WHERE NOT from_balance) AS payments,
  coalesce(sum(amount) FILTER (WHERE NOT from_balance), 0) / 10000.0 AS revenue,
  coalesce(sum(amount) FILTER (WHERE from_balance), 0) / 10000.0 AS paid_with_balance
FROM resolved LEFT JOIN coupons ON coupons.id = coupon
GROUP BY coupon, CASE WHEN coupon IS NULL THEN lower(named) END, resolved.currency
ORDER BY resolved.currency, revenue DESC, code
