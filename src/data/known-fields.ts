/**
 * What is kept of a field in a copy for others: a list of the fields that are known to tell of nobody. Whatever is not on
 * it is replaced, a field that nobody has heard of before included.
 */
import { resourceNames, resourceOf, type resources, userRelations, type ResourceName } from '../model/resources.ts';
import type { Place } from './copy-types.ts';

/**
 * What becomes of a value: `id`, `number`, `time` and `word` are kept where they are what the name says - whole numbers
 * and UUIDs, numbers, dates and times, single words of state - and replaced where not; `label` is kept in a catalogue;
 * `name` and `text` are always replaced.
 */
export type Treatment = 'id' | 'number' | 'time' | 'word' | 'label' | 'name' | 'text';

/** Fields of the reference, of every resource; the compiler asks for one that is missing. */
type ReferenceTreatments = {
  readonly [R in ResourceName]: Readonly<Record<(typeof resources)[R]['fields'][number]['name'], Treatment>>;
};

const times = { created_at: 'time', updated_at: 'time' } as const;

const reference: ReferenceTreatments = {
  users: {
    id: 'id',
    username: 'text',
    email: 'text',
    first_name: 'name',
    last_name: 'name',
    status: 'word',
    balance: 'number',
    avatar: 'text',
    is_subscribed: 'number',
    visibility: 'word',
    language: 'word',
    data: 'text',
    email_verified_at: 'time',
    last_seen_at: 'time',
    last_login_at: 'time',
    ...times,
  },
  packages: {
    id: 'id',
    order: 'number',
    category_id: 'id',
    name: 'label',
    description: 'label',
    icon: 'label',
    service: 'word',
    status: 'word',
    global_quantity: 'number',
    client_quantity: 'number',
    require_domain: 'number',
    allow_coupons: 'number',
    allow_notes: 'number',
    data: 'text',
    setup_on: 'word',
    ...times,
  },
  emails: {
    id: 'id',
    user_id: 'id',
    sender: 'text',
    receiver: 'text',
    subject: 'text',
    content: 'text',
    button: 'text',
    attachment: 'text',
    is_sent: 'number',
    resent: 'number',
    scheduled_at: 'time',
    ...times,
  },
  coupons: {
    id: 'id',
    // Worth money to whoever reads it.
    code: 'text',
    discount_type: 'word',
    discount_amount: 'number',
    currency: 'word',
    allowed_uses: 'number',
    coupon_type: 'word',
    applicable_products: 'word',
    notes: 'text',
    expires_at: 'time',
    ...times,
  },
};

/** Names that related records are known to have; their fields are not documented. */
const related: readonly (readonly [Treatment, string])[] = [
  ['id', 'order_id package_id price_id payment_id email_id staff_id parent_id group_id coupon_id role_id suborder_id'],
  ['id', 'transaction_id subscription_id affiliate_id'],
  [
    'number',
    'amount price renewal_price setup_fee cancellation_fee upgrade_fee fee total subtotal tax tax_rate discount',
  ],
  [
    'number',
    'balance_before_transaction balance_after_transaction commission quantity uses clicks count position read',
  ],
  ['number', 'is_online is_active is_revoked is_default is_sent verified sort_order'],
  ['time', 'deleted_at sent_at cancelled_at last_renewed_at due_date paid_at read_at starts_at ends_at suspended_at'],
  ['time', 'terminated_at activated_at'],
  ['word', 'type state result driver method period interval locale country device_type platform'],
  ['label', 'title slug label link path'],
  ['name', 'company_name company street street2 city region zip_code phone'],
  ['text', 'domain ip ip_address last_ip user_agent message reason url button_url external_id coupon token address'],
  // Objects and lists, whose own fields are looked at one by one.
  ['text', 'options gateway meta settings user category price_data'],
];

const treatments = new Map<string, Treatment>([
  ...related.flatMap(([treatment, names]) => names.split(' ').map((name) => [name, treatment] as const)),
  ...[...userRelations, ...resourceNames.flatMap((name) => resourceOf(name).includes ?? [])].map(
    (name) => [name, 'text'] as const,
  ),
  ...resourceNames.flatMap((name) => Object.entries(reference[name])),
]);

/** What becomes of a field of that name; undefined where nothing is known of it. */
export function treatmentOf(field: string): Treatment | undefined {
  return treatments.get(field);
}

/** Related records that describe what is sold, or how accounts are grouped. */
const catalogue: ReadonlySet<string> = new Set([
  'package_category',
  'package_prices',
  'package_features',
  'user_groups',
  'user_permissions',
]);

/** Where the table stands. */
export function placeOf(table: string): Place {
  return table === 'packages' || catalogue.has(table) ? 'catalogue' : 'people';
}
