-- title: Monthly recurring revenue
-- subject: Money
-- description: What the active orders bring each month, by package, those that bring most first. A price for a longer or shorter
--   period counts as its part of a month. Of the orders the keys status, package_id, price.type, price.period and
--   price.renewal_price (else price.price) are read; the amounts are in the currency of the prices. One-time and free prices
--   are left out.
-- parameter: active | text | active | the status of an order that runs
-- column: package_id | integer | the package
-- column: name | text | its name; null where it is not in the table of packages any more
-- column: orders | integer | active orders with a price that recurs
-- column: monthly | money | what they bring each month
-- column: unreadable | integer | how many of them have a period or a price that is not known, and are in no sum
-- needs: packages, users.orders (status, package_id, price.type, price.period, price.renewal_price)
-- chart: bar name monthly
WITH
  -- 365 days a year and a twelfth of a year a month.
  months (period, length) AS (
    VALUES ('daily', 12 / 365.0), ('weekly', 84 / 365.0), ('monthly', 1.0), ('quarterly', 3.0),
      ('semi_annually', 6.0), ('semi-annually', 6.0), ('yearly', 12.0), ('annually', 12.0), ('biennially', 24.0),
      ('triennially', 36.0)
  ),
  running AS MATERIALIZED (
    SELECT
      record ->> 'package_id' AS package_id,
      CAST(round(coalesce(record ->> '$.price.renewal_price', record ->> '$.price.price') * 10000 / length) AS INTEGER) AS amount
    FROM user_orders LEFT JOIN months ON period = lower(record ->> '$.price.period')
    WHERE lower(record ->> 'status') = lower(:active)
    AND coalesce(lower(record ->> '$.price.type'), '') NOT IN ('one_time', 'single', 'free')
  )
SELECT
  package_id,
  packages.name,
  count(*) AS orders,
  coalesce(sum(amount), 0) / 10000.0 AS monthly,
  count(*) - count(amount) AS unreadable
FROM running LEFT JOIN packages ON packages.id = package_id
GROUP BY package_id
ORDER BY monthly DESC, package_id
