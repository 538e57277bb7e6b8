-- title: Largest customers
-- subject: Customers
-- description: Users by what they paid, by currency, those who paid most first. Payments from a balance are left out, as the
--   money came in when the balance was topped up. Of the payments the keys status, amount, currency, created_at and gateway
--   are read.
-- parameter: from | date | none | the first day that counts (UTC)
-- parameter: to | date | none | the last day that counts
-- parameter: limit | integer | 50 | how many customers
-- parameter: paid | text | paid | the status of a payment that was made
-- parameter: balance_gateway | text | balance | the gateway that takes a payment from the balance
-- column: user_id | integer | the user
-- column: username | text | user name
-- column: email | text | email address
-- column: currency | text | currency code
-- column: payments | integer | payments made
-- column: revenue | money | their sum
-- column: last_paid_at | time | the last of them
-- needs: users, users.payments (status, amount, currency, created_at, gateway)
WITH
  sums AS MATERIALIZED (
    SELECT
      user_id,
      record ->> 'currency' AS currency,
      count(*) AS payments,
      sum(CAST(round((record ->> 'amount') * 10000) AS INTEGER)) AS amount,
      max(record ->> 'created_at') AS last_paid_at
    FROM user_payments
    WHERE lower(record ->> 'status') = lower(:paid)
    AND (:from IS NULL OR record ->> 'created_at' >= :from)
    AND (:to IS NULL OR record ->> 'created_at' < date(:to, '+1 day'))
    AND lower(
        CASE json_type(record, '$.gateway')
          WHEN 'object' THEN coalesce(record ->> '$.gateway.driver', record ->> '$.gateway.name')
          ELSE record ->> 'gateway'
        END
      ) IS NOT lower(:balance_gateway)
    GROUP BY 1, 2
    ORDER BY amount DESC, user_id
    LIMIT :limit
  )
SELECT user_id, username, email, currency, payments, amount / 10000.0 AS revenue, last_paid_at
FROM sums LEFT JOIN users ON users.id = user_id
ORDER BY currency, amount DESC, user_id
