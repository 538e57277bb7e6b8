-- title: What is owed to users
-- subject: Balances
-- description: The sum of all positive balances, what is owed to users, and apart from it that of the negative ones,
--   what users owe. With --as-of, the same at an earlier time, from the history.
-- column: liability | money | sum of the balances above 0
-- column: holders | integer | users with a balance above 0
-- column: negative | money | sum of the balances below 0
-- column: debtors | integer | users with a balance below 0
-- column: net | money | both together
-- column: users | integer | all users
-- column: unreadable | integer | users whose balance is not a number; they are in none of the sums
-- needs: users
WITH
  amounts AS (
    SELECT CAST(round(balance * 10000) AS INTEGER) AS amount
    FROM users
  )
SELECT
  coalesce(sum(amount) FILTER (WHERE amount > 0), 0) / 10000.0 AS liability,
  count(*) FILTER (WHERE amount > 0) AS holders,
  coalesce(sum(amount) FILTER (WHERE amount < 0), 0) / 10000.0 AS negative,
  count(*) FILTER (WHERE amount < 0) AS debtors,
  coalesce(sum(amount), 0) / 10000.0 AS net,
  count(*) AS users,
  count(*) FILTER (WHERE amount IS NULL) AS unreadable
FROM amounts
