-- title: Users by balance
-- subject: Balances
-- description: How many users have a balance in each range, and how much they have together. Users whose balance is
--   not a number are in no range.
-- column: range | text | the range of balances, its lower end in it
-- column: users | integer | users with such a balance
-- column: balance | money | the sum of their balances
-- needs: users
-- chart: bar range users
WITH
  amounts AS (
    SELECT CAST(round(balance * 10000) AS INTEGER) AS amount
    FROM users
    WHERE balance IS NOT NULL
  ),
  counted AS (
    SELECT
      CASE
        WHEN amount < 0 THEN 1
        WHEN amount = 0 THEN 2
        WHEN amount < 100000 THEN 3
        WHEN amount < 250000 THEN 4
        WHEN amount < 500000 THEN 5
        WHEN amount < 1000000 THEN 6
        WHEN amount < 2500000 THEN 7
        WHEN amount < 5000000 THEN 8
        WHEN amount < 10000000 THEN 9
        ELSE 10
      END AS place,
      count(*) AS users,
      sum(amount) AS amount
    FROM amounts
    GROUP BY place
  ),
  ranges (place, range) AS (
    VALUES
      (1, 'below 0'),
      (2, '0'),
      (3, '0 to 10'),
      (4, '10 to 25'),
      (5, '25 to 50'),
      (6, '50 to 100'),
      (7, '100 to 250'),
      (8, '250 to 500'),
      (9, '500 to 1000'),
      (10, '1000 and up')
  )
SELECT range, coalesce(users, 0) AS users, coalesce(amount, 0) / 10000.0 AS balance
FROM ranges
LEFT JOIN counted USING (place)
ORDER BY place
