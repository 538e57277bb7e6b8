-- title: Balances that do not follow from their ledger
-- subject: Balances
-- description: Users whose balance is not what their newest balance transaction left, the largest difference first.
--   Of the transactions the keys result (+, - or =), amount, balance_before_transaction and created_at are read; the
--   newest is the last by created_at, then by id. Without any transaction the balance should be 0. A transaction that
--   cannot be read leaves ledger_balance and drift null.
-- column: id | integer | the user
-- column: username | text | user name
-- column: email | text | email address
-- column: balance | money | the balance of the user
-- column: ledger_balance | money | the balance that the newest transaction left
-- column: drift | money | the balance less that of the ledger
-- column: transactions | integer | the transactions of the user
-- column: newest_at | time | when the newest of them was made
-- needs: users, users.balance_transactions (result, amount, balance_before_transaction, created_at)
WITH
  -- The transactions of one user are few: a look into each user's own is quicker than to sort all of them.
  newest AS MATERIALIZED (
    SELECT
      id, username, email, balance,
      (
        SELECT record FROM user_balance_transactions
        WHERE user_id = users.id ORDER BY record ->> 'created_at' DESC, record ->> 'id' DESC LIMIT 1
      ) AS record
    FROM users
  ),
  amounts AS MATERIALIZED (
    SELECT
      id, username, email, balance,
      record IS NOT NULL AS has_ledger,
      record ->> 'created_at' AS newest_at,
      record ->> 'result' AS result,
      CAST(round((record ->> 'amount') * 10000) AS INTEGER) AS amount,
      CAST(round((record ->> 'balance_before_transaction') * 10000) AS INTEGER) AS before,
      CAST(round(balance * 10000) AS INTEGER) AS has
    FROM newest
  ),
  compared AS (
    SELECT
      *,
      CASE
        WHEN NOT has_ledger THEN 0
        ELSE CASE result WHEN '+' THEN before + amount WHEN '-' THEN before - amount WHEN '=' THEN amount END
      END AS should
    FROM amounts
  )
SELECT
  id, username, email, balance,
  should / 10000.0 AS ledger_balance,
  (has - should) / 10000.0 AS drift,
  (SELECT count(*) FROM user_balance_transactions WHERE user_id = compared.id) AS transactions,
  newest_at
FROM compared
WHERE has IS NOT should
ORDER BY abs(has - should) DESC NULLS FIRST, id
