-- title: Subscribers
-- subject: Customers
-- description: The users who are subscribed, for a mailing, by id. Choose from them with --where "verified AND status
--   = 'active'".
-- parameter: subscribed | flag | 1 | the value of is_subscribed that means subscribed
-- column: id | integer | the user
-- column: email | text | email address
-- column: first_name | text | first name
-- column: last_name | text | last name
-- column: language | text | language code
-- column: status | text | status
-- column: verified | flag | whether the address is verified
-- column: created_at | time | when the user signed up
-- needs: users
-- assumes: is_subscribed = {subscribed} means subscribed; the API's reference does not say, and its sample filter
--   uses 0 for subscribed users. Look at a user whom you know, and give --param subscribed=0 if it is the other way
--   round
SELECT
  id, email, first_name, last_name, language, status, email_verified_at IS NOT NULL AS verified, created_at
FROM users
WHERE is_subscribed = :subscribed
ORDER BY id
