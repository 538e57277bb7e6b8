-- title: Unpaid payments
-- subject: Money
-- description: Payments that wait to be made, the oldest first. Of the payments the keys status, amount, currency,
--   description, order_id, due_date and created_at are read.
-- parameter: status | text | unpaid | the status of a payment that waits
-- parameter: at | time | now | the time that the days are counted back from
-- column: payment_id | text | the payment
-- column: user_id | integer | the user who is to pay
-- column: email | text | their email address
-- column: description | text | what it is for
-- column: order_id | integer | the order that it belongs to; null where there is none
-- column: amount | money | how much
-- column: currency | text | currency code
-- column: due_date | time | when it is due; null where nothing is said
-- column: created_at | time | when it was made out
-- column: days_open | integer | whole days since then
-- needs: users, users.payments (status, amount, currency, description, order_id, due_date, created_at)
SELECT
  payments.id AS payment_id,
  payments.user_id,
  users.email,
  payments.record ->> 'description' AS description,
  payments.record ->> 'order_id' AS order_id,
  CAST(round((payments.record ->> 'amount') * 10000) AS INTEGER) / 10000.0 AS amount,
  payments.record ->> 'currency' AS currency,
  payments.record ->> 'due_date' AS due_date,
  payments.record ->> 'created_at' AS created_at,
  (unixepoch(:at) - unixepoch(payments.record ->> 'created_at')) / 86400 AS days_open
FROM user_payments AS payments JOIN users ON users.id = payments.user_id
WHERE lower(payments.record ->> 'status') = lower(:status)
ORDER BY payments.record ->> 'created_at', payment_id
