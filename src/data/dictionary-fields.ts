/**
 * What the fields mean of which the API's reference gives the name alone. It is what that name says, and no more: the
 * reference stays the judge, and what it says itself stands in src/model/resources.ts.
 */
import type { ResourceName } from '../model/resources.ts';

const ofAll: Readonly<Record<string, string>> = {
  created_at: 'when the record was made on the server',
  updated_at: 'when the server last changed the record',
};

const ofOne: Readonly<Record<ResourceName, Readonly<Record<string, string>>>> = {
  users: {
    username: 'name of the account',
    email: "the person's address",
    first_name: 'given name',
    last_name: 'family name',
    visibility: 'whether the person is shown as present',
    email_verified_at: 'when the address was confirmed; null where it never was',
    last_seen_at: 'when the person was last there',
    last_login_at: 'when the person last logged in',
  },
  packages: {
    category_id: 'the category that it stands in; the API does not show categories',
    name: 'what it is called',
    icon: 'its picture',
    service: 'the service that it is of',
    global_quantity: 'how many there are for all',
    client_quantity: 'how many one customer may have',
    require_domain: 'whether an order has to name a domain',
    allow_coupons: 'whether coupons can be used on it',
    allow_notes: 'whether an order can have notes',
  },
  emails: {
    subject: 'its subject',
    content: 'its body',
    is_sent: 'whether it went out',
    resent: 'how often it was sent again',
    scheduled_at: 'when it is to go out, or was',
  },
  coupons: {
    code: 'what is typed in to use it',
    discount_type: 'how the discount is counted',
    discount_amount: 'how much is taken off, in what discount_type says',
    allowed_uses: 'how often it can be used',
    coupon_type: 'what kind of coupon it is',
    notes: 'notes on it',
    expires_at: 'from when on it is no longer valid',
  },
};

/** Empty where nothing is known of the field. */
export function meaningByName(resource: ResourceName, field: string): string {
  return ofOne[resource][field] ?? ofAll[field] ?? '';
}
