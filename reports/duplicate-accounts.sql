-- title: Accounts of one address
-- subject: Customers
-- description: Email addresses that several users share, the most shared first. Capital letters, and what follows a +
--   before the @, make no difference; with dots=1 neither do dots before the @, as some providers have it. Only
--   letters of ASCII have their capitals ignored.
-- parameter: dots | flag | 0 | 1 ignores the dots before the @
-- column: address | text | the address without what makes no difference
-- column: accounts | integer | users who have it
-- column: user_ids | json | their ids, rising
-- column: emails | json | their addresses as they are, in the same order
-- column: balance | money | sum of their balances
-- column: first_created_at | time | when the first of them signed up
-- column: last_created_at | time | when the last of them signed up
-- needs: users
WITH
  split AS (
    SELECT
      id, email, balance, created_at,
      lower(substr(email, 1, instr(email, '@') - 1)) AS local,
      lower(substr(email, instr(email, '@'))) AS host
    FROM users
    WHERE instr(email, '@') > 1
  ),
  plain AS (
    SELECT
      id,
      replace(
        -- A + at the very beginning belongs to the name.
        CASE WHEN instr(local, '+') > 1 THEN substr(local, 1, instr(local, '+') - 1) ELSE local END,
        CASE WHEN :dots = 1 THEN '.' ELSE '' END,
        ''
      ) || host AS address
    FROM split
  ),
  shared AS MATERIALIZED (
    SELECT address FROM plain GROUP BY address HAVING count(*) > 1
  )
SELECT
  address,
  count(*) AS accounts,
  json_group_array(id ORDER BY id) AS user_ids,
  json_group_array(email ORDER BY id) AS emails,
  coalesce(sum(CAST(round(balance * 10000) AS INTEGER)), 0) / 10000.0 AS balance,
  min(created_at) AS first_created_at,
  max(created_at) AS last_created_at
FROM plain JOIN users USING (id)
WHERE address IN (SELECT address FROM shared)
GROUP BY address
ORDER BY accounts DESC, address
