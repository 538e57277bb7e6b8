-- title: Revenue by package
-- subject: Money
-- description: Payments that were made, by package and currency, those that brought most first. What was paid with a
--   balance stands apart and is no revenue, so that nothing counts twice. Payments for no package, such as top-ups of
--   a balance, stand under none. Of the payments the keys status, amount, currency, created_at, package_id and
--   gateway are read: a gateway is its name, or an object with driver or name.
-- parameter: from | date | none | the first day that counts (UTC)
-- parameter: to | date | none | the last day that counts
-- parameter: paid | text | paid | the status of a payment that was made
-- parameter: balance_gateway | text | balance | the gateway that takes a payment from the balance
-- column: package_id | integer | the package; null of payments for none
-- column: name | text | its name; null where it is not in the table of packages any more
-- column: currency | text | currency code
-- column: payments | integer | payments made, without those from a balance
-- column: revenue | money | their sum
-- column: balance_payments | integer | payments from a balance
-- column: paid_with_balance | money | their sum, which is not in the revenue
-- needs: packages, users.payments (status, amount, currency, created_at, package_id, gateway)
-- chart: bar name revenue
WITH
  -- What is grouped is a few short columns, and no JSON.
  made AS MATERIALIZED (
    SELECT
      record ->> 'package_id' AS package_id,
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
      ) AS from_balance
    FROM user_payments
    WHERE lower(record ->> 'status') = lower(:paid)
    -- Without bounds, a payment without a time counts too.
    AND (:from IS NULL OR record ->> 'created_at' >= :from)
    AND (:to IS NULL OR record ->> 'created_at' < date(:to, '+1 day'))
  )
SELECT
  made.package_id,
  packages.name,
  made.currency,
  count(*) FILTER (WHERE NOT from_balance) AS payments,
  coalesce(sum(amount) FILTER (WHERE NOT from_balance), 0) / 10000.0 AS revenue,
  count(*) FILTER (WHERE from_balance) AS balance_payments,
  coalesce(sum(amount) FILTER (WHERE from_balance), 0) / 10000.0 AS paid_with_balance
FROM made LEFT JOIN packages ON packages.id = made.package_id
GROUP BY made.package_id, made.currency
ORDER BY made.currency, revenue DESC, made.package_id
