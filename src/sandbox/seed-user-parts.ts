/**
 * Makes the related records of seed users: orders, payments, devices and so on. They are not stored. They follow from the
 * seed and the user's id, so millions of users cost nothing until somebody looks.
 */
import { dayMs } from '../model/time.ts';
import { categories, discountOf, monthlyCents } from './seed-records.ts';
import { mix, people, Random, shares, stamp, textHash } from './random.ts';
import type { JsonRecord } from './envelope.ts';

interface SeedChange {
  readonly result: '+' | '-';
  readonly cents: number;
  readonly description: string;
  /** When it happened: 0 is the user's creation, 1 is now. */
  readonly position: number;
}

const balanceStream = textHash('balance');

const credits = ['Balance top-up', 'Refund of an invoice', 'Affiliate commission', 'Goodwill credit'] as const;
const debits = ['Payment of an invoice', 'Renewal of a service', 'Upgrade of a service'] as const;
const none: readonly SeedChange[] = [];

/** Makes the changes of the user's balance that follow from the seed. `random` is reused to save an allocation. */
export function seedChanges(random: Random, seed: number, userId: number): readonly SeedChange[] {
  random.restart(mix(seed ^ balanceStream, userId));
  if (random.chance(0.55)) return none;
  const count = 1 + random.below(4);
  const changes: SeedChange[] = [];
  let balance = 0;
  for (let at = 0; at < count; at += 1) {
    const position = (at + random.fraction()) / count;
    if (balance > 100 && random.chance(0.4)) {
      const cents = 1 + random.below(balance);
      balance -= cents;
      changes.push({ result: '-', cents, description: random.pick(debits), position });
    } else {
      // Mostly round amounts and prices, sometimes an odd amount.
      const draw = random.fraction();
      let cents = 5 + random.below(20_000);
      if (draw < 0.5) cents = 500 * (1 + random.below(20));
      else if (draw < 0.8) cents = 100 * (1 + random.below(100)) - 1;
      balance += cents;
      changes.push({ result: '+', cents, description: random.pick(credits), position });
    }
  }
  return changes;
}

/** Returns the balance that the changes add up to, cents. */
export function balanceOf(changes: readonly SeedChange[]): number {
  let cents = 0;
  for (const each of changes) cents += each.result === '+' ? each.cents : -each.cents;
  return cents;
}

export interface SeedWorld {
  readonly seed: number;
  /** Numbers of users and packages in the seed; records with higher ids were written later. */
  readonly users: number;
  readonly packages: number;
  readonly coupons: number;
  /** The time of the seeding, ms since 1970: the latest time in the seed data. */
  readonly now: number;
}

interface PartOwner {
  readonly id: number;
  readonly createdAt: string;
  readonly language: string;
}

const orderStream = textHash('orders');
/** Numbers of orders, each equally likely. */
const orderCounts = [0, 0, 0, 0, 1, 1, 2, 3] as const;
export const maxOrders = 3;
/** Distance between the packages of a user's orders. */
const packageStep = 7;

function randomFor(world: SeedWorld, purpose: string, id: number): Random {
  return new Random(mix(world.seed ^ textHash(purpose), id));
}

export function orderCount(world: SeedWorld, userId: number): number {
  return orderCounts[mix(world.seed ^ orderStream, userId) & 7] ?? 0;
}

/** Returns the package of a user's order; `firstUserOf` is the inverse. */
function packageOf(world: SeedWorld, userId: number, at: number): number {
  return ((userId + at * packageStep + (world.seed % world.packages) + world.packages) % world.packages) + 1;
}

/** Returns the first user whose order number `at` is of that package; the next ones follow at steps of `world.packages`. */
export function firstUserOf(world: SeedWorld, packageId: number, at: number): number {
  const offset = packageId - 1 - at * packageStep - (world.seed % world.packages);
  const first = ((offset % world.packages) + world.packages) % world.packages;
  return first === 0 ? world.packages : first;
}

function moment(world: SeedWorld, owner: PartOwner, position: number): string {
  const created = Date.parse(owner.createdAt);
  return stamp(created + Math.max(0, world.now - created) * position);
}

const orderStatuses = shares({ active: 68, suspended: 6, cancelled: 18, terminated: 8 });

/** Makes order number `at` of the user, counted from 0. */
export function seedOrder(world: SeedWorld, owner: PartOwner, at: number): JsonRecord {
  const random = randomFor(world, 'order', owner.id * maxOrders + at);
  const packageId = packageOf(world, owner.id, at);
  const category = categories[(packageId - 1) % categories.length];
  const status = random.pick(orderStatuses);
  const createdAt = moment(world, owner, 0.7 * random.fraction());
  const price = monthlyCents(world.seed, packageId) / 100;
  const due = stamp(world.now + (random.below(30) - (status === 'active' ? 0 : 60)) * dayMs);
  return {
    id: owner.id * maxOrders + at,
    user_id: owner.id,
    package_id: packageId,
    price_id: packageId * 10,
    status,
    name: `${category?.name ?? 'Service'} ${owner.id}-${at + 1}`,
    service: category?.service ?? null,
    domain: packageId % 3 === 0 ? `site-${owner.id}.example` : null,
    price: { id: packageId * 10, type: 'recurring', period: 'monthly', price, renewal_price: price },
    options: {},
    data: random.chance(0.3) ? { server: random.below(900) + 100 } : [],
    cancelled_at: status === 'cancelled' ? moment(world, owner, 0.9) : null,
    last_renewed_at: stamp(Date.parse(due) - 30 * dayMs),
    due_date: due,
    created_at: createdAt,
    updated_at: createdAt,
  };
}

function paymentOf(world: SeedWorld, order: JsonRecord): JsonRecord {
  const random = randomFor(world, 'payment', order['id'] as number);
  const hex = Array.from({ length: 4 }, () => random.word().toString(16).padStart(8, '0')).join('');
  const driver = random.pick(['stripe', 'paypal', 'balance']);
  const { id: orderId, user_id, package_id, price_id, name, price, created_at } = order;
  const payment = {
    id: hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/, '$1-$2-4$3-a$4-$5'),
    user_id,
    order_id: orderId,
    package_id,
    price_id,
    type: 'single',
    status: random.chance(0.9) ? 'paid' : 'unpaid',
    description: name,
    currency: 'USD',
    amount: (price as { price: number }).price,
    transaction_id: random.chance(0.9) ? `txn_${random.word().toString(36)}` : null,
    gateway: { id: driver.length, name: driver.toUpperCase(), driver },
    data: null,
    due_date: null,
    created_at,
    updated_at: created_at,
  };
  const named = world.coupons > 0 && random.chance(0.15) ? 1 + random.below(world.coupons) : null;
  if (named === null) return { ...payment, options: { coupon: null } };
  const { code, off } = discountOf(world.seed, named, world.packages);
  return { ...payment, amount: Math.max(0, Math.round(off(payment.amount) * 100)) / 100, options: { coupon: code } };
}

function transactions(world: SeedWorld, owner: PartOwner): JsonRecord[] {
  let cents = 0;
  return seedChanges(new Random(0), world.seed, owner.id).map((change, at) => {
    const before = cents;
    cents += change.result === '+' ? change.cents : -change.cents;
    const createdAt = moment(world, owner, change.position);
    return {
      id: owner.id * 8 + at,
      user_id: owner.id,
      payment_id: null,
      result: change.result,
      amount: change.cents / 100,
      balance_before_transaction: before / 100,
      description: change.description,
      created_at: createdAt,
      updated_at: createdAt,
    };
  });
}

const agents = [
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36',
  'Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0',
] as const;
const streets = ['Main Street', 'Station Road', 'Rue de la Paix', 'Gartenweg', 'Calle Mayor', 'Rua Augusta'] as const;
const cities = ['Springfield', 'Lyon', 'Köln', 'Sevilla', 'Porto', 'Utrecht', 'Gdańsk'] as const;

/** Returns an address from a block that is reserved for documentation. */
const ipAddress = (random: Random) => `198.51.100.${1 + random.below(254)}`;

/** How many records of each kind a user has, each number equally likely, and what is in them. */
const smallParts: Readonly<
  Record<string, readonly [counts: readonly number[], make: (random: Random, owner: PartOwner) => JsonRecord]>
> = {
  suborders: [
    [0, 0, 0, 0, 0, 0, 0, 1],
    (random, { id }) => ({
      order_id: id * maxOrders,
      name: 'Extra storage',
      status: 'active',
      price: { period: 'monthly', price: 1 + random.below(9) },
    }),
  ],
  notifications: [
    [0, 0, 1, 2, 3],
    (random) => ({
      type: random.pick(['success', 'warning', 'danger']),
      icon: "<i class='bx bx-bell'></i>",
      message: random.pick(['Your payment was received.', 'Your service is due soon.', 'A ticket was answered.']),
      button_url: null,
      read: random.below(2),
    }),
  ],
  punishments: [
    [...Array.from({ length: 49 }, () => 0), 1],
    (random) => ({ staff_id: 1, type: random.pick(['warning', 'ban']), reason: 'Chargeback', expires_at: null }),
  ],
  affiliate: [
    [0, 0, 1],
    (random) => ({
      code: random.word().toString(36),
      clicks: random.below(400),
      commission: 10,
      balance: random.below(5_000) / 100,
    }),
  ],
  devices: [
    [0, 1, 1, 2],
    (random) => ({
      ip_address: ipAddress(random),
      user_agent: random.pick(agents),
      device_type: random.pick(['desktop', 'desktop', 'mobile']),
      is_revoked: random.below(8) === 0 ? 1 : 0,
    }),
  ],
  address: [
    [0, 1, 1],
    (random, { language }) => ({
      company_name: random.chance(0.2) ? `${random.pick(cities)} Software` : null,
      street: `${random.pick(streets)} ${1 + random.below(180)}`,
      street2: null,
      city: random.pick(cities),
      region: null,
      country: people.find((each) => each.language === language)?.country ?? 'US',
      zip_code: String(10_000 + random.below(89_999)),
    }),
  ],
  groups: [[0, 0, 0, 0, 0, 1], (random) => ({ name: random.pick(['Resellers', 'Partners']) })],
  oauth: [
    [0, 0, 0, 1],
    (random) => ({
      driver: random.pick(['discord', 'github', 'google']),
      external_id: String(random.word()),
      data: { verified: true },
    }),
  ],
  ips: [[1, 1, 2, 3], (random) => ({ ip_address: ipAddress(random), uses: 1 + random.below(90) })],
};

/** Makes the user's related records of that kind, oldest first. A user who was written later has none. */
export function seedUserParts(kind: string, world: SeedWorld, owner: PartOwner): JsonRecord[] {
  if (owner.id > world.users) return [];
  if (kind === 'balance_transactions') return transactions(world, owner);
  if (kind === 'permissions') return owner.id === 1 ? [{ id: 1, name: 'admin.view', path: 'admin/*' }] : [];
  if (kind === 'orders' || kind === 'payments') {
    const count = world.packages === 0 ? 0 : orderCount(world, owner.id);
    const orders = Array.from({ length: count }, (_, at) => seedOrder(world, owner, at));
    return kind === 'orders' ? orders : orders.map((order) => paymentOf(world, order));
  }
  const [counts, make] = smallParts[kind] ?? [[0], () => ({})];
  const random = randomFor(world, kind, owner.id);
  return Array.from({ length: random.pick(counts) }, (_, at) => {
    const createdAt = moment(world, owner, random.fraction());
    const id = owner.id * 4 + at;
    return { id, user_id: owner.id, ...make(random, owner), created_at: createdAt, updated_at: createdAt };
  });
}
