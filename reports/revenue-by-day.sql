-- title: Revenue by day
-- subject: Money
-- description: Payments that were made, by the day on which they were created (UTC) and by currency. What was paid
--   with a balance stands apart and is no revenue - it came in when the balance was topped up - so that nothing
--   counts twice. A day without payments stands with 0 for each currency that the range has. Of the payments the keys
--   status, amount, currency, created_at and gateway are read: a gateway is its name, or an object with driver or
--   name.
-- parameter: from | date | 30d ago | the first day that counts
-- parameter: to | date | today | the last day that counts
-- parameter: paid | text | paid | the status of a payment that was made
-- parameter: balance_gateway | text | balance | the gateway that takes a payment from the balance
-- column: day | date | the day
-- column: currency | text | currency code
-- column: payments | integer | payments made, without those from a balance
-- column: revenue | money | their sum
-- column: balance_payments | integer | payments from a balance
-- column: paid_with_balance | money | their sum, which is not in the revenue
-- needs: users.payments (status, amount, currency, created_at, gateway)
-- chart: line day revenue
WITH RECURSIVE
  days (day) AS (
    SELECT :from WHERE :from <= :to
    UNION ALL
    SELECT date(day, '+1 day') FROM days WHERE day < :to
  ),
  made AS (
    SELECT
      substr(record ->> 'created_at', 1, 10) AS day,
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
    AND record ->> 'created_at' >= :from AND record ->> 'created_at' < date(:to, '+1 day')
  ),
  sums AS MATERIALIZED (
    SELECT
      day,
      currency,
      count(*) FILTER (WHERE NOT from_balance) AS payments,
      sum(amount) FILTER (WHERE NOT from_balance) AS revenue,
      count(*) FILTER (WHERE from_balance) AS balance_payments,
      sum(amount) FILTER (WHERE from_balance) AS paid_with_balance
    FROM made
    GROUP BY 1, 2
  )
SELECT
  days.day,
  currencies.currency,
  coalesce(payments, 0) AS payments,
  coalesce(revenue, 0) / 10000.0 AS revenue,
  coalesce(balance_payments, 0) AS balance_payments,
  coalesce(paid_with_balance, 0) / 10000.0 AS paid_with_balance
FROM days
CROSS JOIN (SELECT DISTINCT currency FROM sums) AS currencies
LEFT JOIN sums ON sums.day = days.day AND sums.currency IS currencies.currency
ORDER BY days.day, currencies.currency
