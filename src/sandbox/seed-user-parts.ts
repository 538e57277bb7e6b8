/**
 * Makes the related records of seed users: orders, payments, devices and so on. They are not stored. They follow from the
 * seed and the user's id, so millions of users cost nothing until somebody looks.
 */
import { dayMs } from '../model/time.ts';
import { categories, monthlyCents } from './seed-records.ts';
import { mix, people, Random, stamp, textHash } from './random.ts';
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

function orderStatus(draw: number): string {
  if (draw < 0.68) return 'active';
  if (draw < 0.74) return 'suspended';
  return draw < 0.92 ? 'cancelled' : 'terminated';
}

/** Makes order number `at` of the user, counted from 0. */
export function seedOrder(world: SeedWorld, owner: PartOwner, at: number): JsonRecord {
  const random = randomFor(world, 'order', owner.id * maxOrders + at);
  const packageId = packageOf(world, owner.id, at);
  const category = categories[(packageId - 1) % categories.length];
  const status = orderStatus(random.fraction());
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

function uuid(random: Random): string {
  const hex = Array.from({ length: 4 }, () => random.word().toString(16).padStart(8, '0')).join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

function payments(world: SeedWorld, owner: PartOwner): JsonRecord[] {
  const list: JsonRecord[] = [];
  for (let at = 0; at < orderCount(world, owner.id); at += 1) {
    const order = seedOrder(world, owner, at);
    const random = randomFor(world, 'payment', order['id'] as number);
    const price = order['price'] as { price: number };
    const driver = random.pick(['stripe', 'paypal', 'balance'] as const);
    list.push({
      id: uuid(random),
      user_id: owner.id,
      order_id: order['id'],
      package_id: order['package_id'],
      price_id: order['price_id'],
      type: 'single',
      status: random.chance(0.9) ? 'paid' : 'unpaid',
      description: order['name'],
      currency: 'USD',
      amount: price.price,
      transaction_id: random.chance(0.9) ? `txn_${random.word().toString(36)}` : null,
      gateway: { id: driver.length, name: driver.toUpperCase(), driver },
      data: null,
      options: { coupon: null },
      due_date: null,
      created_at: order['created_at'],
      updated_at: order['created_at'],
    });
  }
  return list;
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
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari/604.1',
] as const;

/** Returns an address from the blocks that are reserved for documentation. */
function address(random: Random): string {
  return `${random.pick(['192.0.2', '198.51.100', '203.0.113'] as const)}.${1 + random.below(254)}`;
}

function several(
  world: SeedWorld,
  owner: PartOwner,
  purpose: string,
  counts: readonly number[],
  make: (random: Random, at: number) => JsonRecord,
): JsonRecord[] {
  const random = randomFor(world, purpose, owner.id);
  return Array.from({ length: random.pick(counts) }, (_, at) => {
    const createdAt = moment(world, owner, random.fraction());
    const id = owner.id * 4 + at;
    return { id, user_id: owner.id, ...make(random, at), created_at: createdAt, updated_at: createdAt };
  });
}

const streets = ['Main Street', 'Station Road', 'Rue de la Paix', 'Gartenweg', 'Calle Mayor', 'Rua Augusta'] as const;
const cities = ['Springfield', 'Lyon', 'Köln', 'Sevilla', 'Porto', 'Utrecht', 'Gdańsk'] as const;

function addressRecord(world: SeedWorld, owner: PartOwner): JsonRecord[] {
  return several(world, owner, 'address', [0, 1, 1], (random) => ({
    company_name: random.chance(0.2) ? `${random.pick(cities)} Software` : null,
    street: `${random.pick(streets)} ${1 + random.below(180)}`,
    street2: null,
    city: random.pick(cities),
    region: null,
    country: people.find((each) => each.language === owner.language)?.country ?? 'US',
    zip_code: String(10_000 + random.below(89_999)),
  }));
}

/** Makes the user's related records of that kind, oldest first. A user who was written later has none. */
export function seedUserParts(kind: string, world: SeedWorld, owner: PartOwner): JsonRecord[] {
  if (owner.id > world.users) return [];
  const many = (counts: readonly number[], make: (random: Random, at: number) => JsonRecord): JsonRecord[] =>
    several(world, owner, kind, counts, make);
  switch (kind) {
    case 'balance_transactions':
      return transactions(world, owner);
    case 'orders': {
      if (world.packages === 0) return [];
      return Array.from({ length: orderCount(world, owner.id) }, (_, at) => seedOrder(world, owner, at));
    }
    case 'payments':
      return world.packages === 0 ? [] : payments(world, owner);
    case 'suborders':
      return many([0, 0, 0, 0, 0, 0, 0, 1], (random) => ({
        order_id: owner.id * maxOrders,
        name: 'Extra storage',
        status: 'active',
        price: { period: 'monthly', price: 1 + random.below(9) },
      }));
    case 'notifications':
      return many([0, 0, 1, 2, 3], (random) => ({
        type: random.pick(['success', 'warning', 'danger'] as const),
        icon: "<i class='bx bx-bell'></i>",
        message: random.pick(['Your payment was received.', 'Your service is due soon.', 'A ticket was answered.']),
        button_url: null,
        read: random.below(2),
      }));
    case 'punishments':
      return many([...Array.from({ length: 49 }, () => 0), 1], (random) => ({
        staff_id: 1,
        type: random.pick(['warning', 'ban', 'ipban'] as const),
        reason: random.pick(['Chargeback', 'Spam', 'Abusive language in a ticket']),
        expires_at: null,
      }));
    case 'affiliate':
      return many([0, 0, 1], (random) => ({
        code: random.word().toString(36),
        clicks: random.below(400),
        commission: 10,
        balance: random.below(5_000) / 100,
      }));
    case 'devices':
      return many([0, 1, 1, 2], (random) => ({
        ip_address: address(random),
        user_agent: random.pick(agents),
        device_type: random.pick(['desktop', 'desktop', 'mobile'] as const),
        is_revoked: random.below(8) === 0 ? 1 : 0,
      }));
    case 'address':
      return addressRecord(world, owner);
    case 'groups':
      return many([0, 0, 0, 0, 0, 1], (random) => random.pick([{ name: 'Resellers' }, { name: 'Partners' }]));
    case 'permissions':
      return owner.id === 1 ? [{ id: 1, name: 'admin.view', path: 'admin/*' }] : [];
    case 'oauth':
      return many([0, 0, 0, 1], (random) => ({
        driver: random.pick(['discord', 'github', 'google'] as const),
        external_id: String(random.word()),
        data: { verified: true },
      }));
    case 'ips':
      return many([1, 1, 2, 3], (random) => ({ ip_address: address(random), uses: 1 + random.below(90) }));
    default:
      return [];
  }
}
