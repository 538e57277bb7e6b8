-- title: Balances by age
-- subject: Balances
-- description: How long the balances have lain unchanged, by the newest balance transaction of each user, whose key created_at is
--   read. Users with a balance of 0, or one that is not a number, are left out.
-- parameter: at | time | now | the time from which the age is counted
-- column: age | text | days since the newest transaction
-- column: users | integer | users with such a balance
-- column: balance | money | the sum of their balances
-- needs: users, users.balance_transactions (created_at)
-- chart: bar age balance
WITH
  newest AS MATERIALIZED (
    SELECT user_id, max(record ->> 'created_at') AS at FROM user_balance_transactions GROUP BY user_id
  ),
  aged AS (
    SELECT
      CAST(round(balance * 10000) AS INTEGER) AS amount,
      CASE
        WHEN newest.at IS NULL THEN 6
        WHEN newest.at > strftime('%Y-%m-%dT%H:%M:%S', :at, '-30 days') THEN 1
        WHEN newest.at > strftime('%Y-%m-%dT%H:%M:%S', :at, '-90 days') THEN 2
        WHEN newest.at > strftime('%Y-%m-%dT%H:%M:%S', :at, '-180 days') THEN 3
        WHEN newest.at > strftime('%Y-%m-%dT%H:%M:%S', :at, '-365 days') THEN 4
        ELSE 5
      END AS place
    FROM users LEFT JOIN newest ON newest.user_id = users.id
    WHERE balance IS NOT NULL AND balance <> 0
  ),
  ages (place, age) AS (
    VALUES (1, 'under 30'), (2, '30 to 89'), (3, '90 to 179'), (4, '180 to 364'), (5, '365 and more'), (6, 'no transaction')
  )
SELECT age, count(amount) AS users, coalesce(sum(amount), 0) / 10000.0 AS balance
FROM ages LEFT JOIN aged USING (place)
GROUP BY place
ORDER BY place
