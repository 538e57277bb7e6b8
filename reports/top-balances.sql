-- title: Largest balances
-- subject: Balances
-- description: The users with the largest balances above 0. Users with the balance of the last one are listed as
--   well, so there may be a few more than asked for; users with one balance share a rank.
-- parameter: limit | integer | 20 | how many users
-- column: rank | integer | 1 has the largest balance
-- column: id | integer | the user
-- column: username | text | user name
-- column: email | text | email address
-- column: status | text | status
-- column: balance | money | balance
-- column: last_seen_at | time | when the user was last there
-- needs: users
WITH
  holders AS (
    SELECT * FROM users WHERE balance > 0
  ),
  last (balance) AS (
    SELECT balance FROM holders ORDER BY balance DESC LIMIT 1 OFFSET max(:limit, 1) - 1
  )
SELECT rank() OVER (ORDER BY balance DESC) AS rank, id, username, email, status, balance, last_seen_at
FROM holders
WHERE balance >= coalesce((SELECT balance FROM last), 0)
ORDER BY balance DESC, id
