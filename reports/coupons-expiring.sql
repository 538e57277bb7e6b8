-- title: Coupons about to expire
-- subject: Coupons
-- description: Coupons that expire within so many days, the first to go first. Expired ones, and those that never
--   expire, are left out.
-- parameter: days | integer | 30 | within so many days
-- parameter: at | time | now | the time that the days are counted from
-- column: id | integer | the coupon
-- column: code | text | what users type
-- column: discount_type | text | what discount_amount is
-- column: discount_amount | number | an amount of the currency, or a percentage
-- column: currency | text | currency code
-- column: allowed_uses | integer | how often it may be used
-- column: expires_at | time | when it expires
-- column: days_left | integer | whole days until then
-- needs: coupons
SELECT
  id, code, discount_type, discount_amount, currency, allowed_uses, expires_at,
  (unixepoch(expires_at) - unixepoch(:at)) / 86400 AS days_left
FROM coupons
WHERE expires_at >= :at AND expires_at < strftime('%Y-%m-%dT%H:%M:%S', :at, '+' || :days || ' days')
ORDER BY expires_at, id
