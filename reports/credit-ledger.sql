-- title: Every change of a balance
-- subject: Balances
-- description: What was credited to balances and taken from them, in the order of time. Of the balance transactions
--   the keys result (+, - or =), amount, balance_before_transaction, description and created_at are read. Under = the
--   amount is the balance that was set.
-- parameter: from | date | 30d ago | the first day that counts (UTC)
-- parameter: to | date | today | the last day that counts
-- parameter: user | integer | none | only this user
-- column: created_at | time | when
-- column: transaction_id | integer | the transaction
-- column: user_id | integer | the user
-- column: email | text | their email address
-- column: change | money | what was added; below 0 what was taken
-- column: balance_before | money | the balance before
-- column: balance_after | money | the balance after
-- column: description | text | what the user sees
-- needs: users, users.balance_transactions (result, amount, balance_before_transaction, description, created_at)
WITH
  entries AS (
    SELECT
      record ->> 'id' AS id,
      user_id,
      record,
      record ->> 'result' AS result,
      CAST(round((record ->> 'amount') * 10000) AS INTEGER) AS amount,
      CAST(round((record ->> 'balance_before_transaction') * 10000) AS INTEGER) AS before
    FROM user_balance_transactions
    WHERE record ->> 'created_at' >= :from AND record ->> 'created_at' < date(:to, '+1 day')
    AND (:user IS NULL OR user_id = :user)
  ),
  changes AS (
    SELECT *, CASE result WHEN '+' THEN amount WHEN '-' THEN -amount WHEN '=' THEN amount - before END AS change
    FROM entries
  )
SELECT
  changes.record ->> 'created_at' AS created_at,
  changes.id AS transaction_id,
  changes.user_id,
  users.email,
  change / 10000.0 AS change,
  before / 10000.0 AS balance_before,
  (before + change) / 10000.0 AS balance_after,
  changes.record ->> 'description' AS description
FROM changes JOIN users ON users.id = changes.user_id
ORDER BY 1, changes.id
