/** Makes seed packages with their related records, coupons, and emails as JSON text ready to be stored. */
import { dayMs, hourMs } from '../model/time.ts';
import { type Calendar, mix, Random, stamp, textHash } from './random.ts';
import { type JsonRecord, toJson } from './envelope.ts';

/** Category | icon | service | products | features. */
const shelves = `
Web hosting | bx-globe | cpanel | Starter Web, Business Web, Agency Web, Reseller Web, WordPress Care | Free certificate, Daily backups, One-click installer, Unmetered mailboxes
Virtual servers | bx-server | proxmox | Nano VPS, Micro VPS, Small VPS, Medium VPS, Large VPS, Storage VPS | Root access, NVMe storage, Snapshots, IPv6
Game servers | bx-joystick | pterodactyl | Minecraft, Rust, Valheim, Factorio, Terraria, Palworld | Mod support, DDoS protection, Instant setup, Console access
Domains | bx-link | domains | Domain .com, Domain .net, Domain .org, Domain .io | Privacy included, DNS editor
Licences | bx-key | licenses | Panel licence, Monitoring licence, Backup licence | Updates for a year, Support by mail
`;

export const categories = shelves
  .trim()
  .split('\n')
  .map((line, at) => {
    const [name = '', icon = '', service = '', products = '', features = ''] = line.split(' | ');
    return { id: at + 1, name, icon, service, products: products.split(', '), features: features.split(', ') };
  });

const packageStream = textHash('packages');
const sizes = ['', ' Plus', ' Pro', ' Max', ' Ultra'] as const;
const statuses = ['active', 'active', 'active', 'active', 'unlisted', 'restricted', 'inactive'] as const;
const setups = ['payment_received', 'payment_received', 'order_placed', 'manual'] as const;
const places = ['Frankfurt', 'Helsinki', 'Ashburn', 'São Paulo', 'Singapore'] as const;

function dataOf(random: Random, category: (typeof categories)[number], size: number): unknown {
  if (random.chance(0.1)) return {};
  const cores = 2 ** Math.min(size, 4);
  return {
    location: random.pick(places),
    cpu: cores * 100,
    memory: cores * 2_048,
    disk: cores * 10_240,
    backups: random.below(5),
    dedicated_ip: random.chance(0.3),
    plan: `${category.service}-${size}`,
  };
}

/** Makes the package with that id; ids count from 1. */
export function seedPackage(seed: number, id: number, createdAt: string, updatedAt: string): JsonRecord {
  const random = new Random(mix(seed ^ packageStream, id));
  const category = categories[(id - 1) % categories.length] as (typeof categories)[number];
  const turn = Math.floor((id - 1) / categories.length);
  const product = category.products[turn % category.products.length] ?? category.name;
  const size = Math.floor(turn / category.products.length);
  const generation = Math.floor(size / sizes.length);
  const name = `${product}${sizes[size % sizes.length] ?? ''}${generation > 0 ? ` ${generation + 1}` : ''}`;
  return {
    id,
    order: id,
    category_id: category.id,
    name,
    description: random.chance(0.15) ? '' : `<p>${name}: ${category.features.join(', ').toLowerCase()}.</p>`,
    icon: category.icon,
    service: category.service,
    status: random.pick(statuses),
    global_quantity: random.chance(0.7) ? -1 : random.below(200),
    client_quantity: random.chance(0.8) ? -1 : 1 + random.below(5),
    require_domain: category.id === 1 || category.id === 4 ? 1 : 0,
    allow_coupons: random.chance(0.85) ? 1 : 0,
    allow_notes: random.chance(0.4) ? 1 : 0,
    data: dataOf(random, category, size),
    setup_on: random.pick(setups),
    created_at: createdAt,
    updated_at: updatedAt,
  };
}

/** Returns the creation and change times of record `id` of `count`, spread over the calendar. */
export function spreadTimes(calendar: Calendar, now: number, random: Random, id: number, count: number) {
  const created = calendar.at((id - 1 + random.fraction()) / count);
  const updated = created + (now - created) * random.fraction() ** 2;
  return { created, createdAt: stamp(created), updatedAt: stamp(updated) };
}

const periods = [
  ['monthly', 30, 1],
  ['quarterly', 90, 2.85],
  ['yearly', 365, 10],
] as const;

/** Returns the price of a package's monthly plan, cents. */
export function monthlyCents(seed: number, packageId: number): number {
  return 100 * (2 + (mix(seed ^ 0x51ed, packageId) % 60)) - 1;
}

/** Makes the related records of a package by the name of the include, except its orders, which belong to users. */
export function seedPackagePart(kind: string, seed: number, record: JsonRecord): readonly JsonRecord[] {
  const id = record['id'] as number;
  const stamps = { created_at: record['created_at'], updated_at: record['updated_at'] };
  const category = categories.find((each) => each.id === record['category_id']);
  const several = <T>(parts: readonly T[], make: (part: T, at: number) => JsonRecord) =>
    parts.map((part, at) => ({ id: id * 10 + at, package_id: id, ...make(part, at), ...stamps }));
  switch (kind) {
    case 'category': {
      if (category === undefined) return [];
      const { id: order, name, icon } = category;
      return [{ id: order, name, icon, order, status: 'active', ...stamps }];
    }
    case 'prices':
      return several(periods, ([period, days, factor]) => {
        const price = Math.round(monthlyCents(seed, id) * factor) / 100;
        const paid = { price, renewal_price: price, setup_fee: 0 };
        return { type: 'recurring', period, period_days: days, ...paid, is_active: 1 };
      });
    case 'features':
      return several(category?.features ?? [], (description, at) => ({
        icon: 'bx-check',
        color: 'success',
        description,
        order: at + 1,
      }));
    case 'emails':
      return several(['creation', 'suspension'], (event) => ({
        event,
        title: `${String(record['name'])} ${event === 'creation' ? 'is ready' : 'was suspended'}`,
        body: '<p>Please see your dashboard for the details.</p>',
      }));
    case 'webhooks':
      return id % 4 === 0
        ? [{ id, package_id: id, event: 'creation', method: 'POST', url: `https://hooks.example/${id}`, ...stamps }]
        : [];
    default:
      return [];
  }
}

const couponStream = textHash('coupons');
const words = 'SPRING SUMMER AUTUMN WINTER WELCOME LAUNCH FRIEND LOYAL BLACKFRIDAY STUDENT'.split(' ');
const currencies = ['USD', 'USD', 'EUR', 'EUR', 'GBP'] as const;
const uses = [1, 10, 50, 100, 500, 1_000] as const;
const notes = ['Newsletter', 'Partner campaign', 'Given by support after an outage', 'Trade fair – spring'] as const;

/** Makes the coupon with that id; ids count from 1. */
export function seedCoupon(
  seed: number,
  id: number,
  times: { created: number; createdAt: string; updatedAt: string },
  packages: number,
): JsonRecord {
  const random = new Random(mix(seed ^ couponStream, id));
  const percentage = random.chance(0.65);
  const amount = percentage
    ? 5 * (1 + random.below(12))
    : (50 * (1 + random.below(60)) - (random.chance(0.3) ? 1 : 0)) / 100;
  const products = packages === 0 || random.chance(0.45) ? 0 : 1 + random.below(4);
  const applicable = new Set(Array.from({ length: products }, () => String(1 + random.below(packages))));
  return {
    id,
    code: `${random.pick(words)}${percentage ? amount : ''}-${id.toString(36).toUpperCase().padStart(3, '0')}`,
    discount_type: percentage ? 'percentage' : 'flat',
    discount_amount: amount,
    currency: random.pick(currencies),
    allowed_uses: random.pick(uses),
    coupon_type: random.chance(0.7) ? 'one_time' : 'recurring',
    applicable_products: [...applicable],
    notes: random.chance(0.6) ? null : random.pick(notes),
    expires_at: random.chance(0.4) ? null : stamp(times.created + (7 + random.below(360)) * dayMs),
    created_at: times.createdAt,
    updated_at: times.updatedAt,
  };
}

/** Returns what users type for that coupon, and what it makes of a price. */
export function discountOf(seed: number, id: number, packages: number) {
  const coupon = seedCoupon(seed, id, { created: 0, createdAt: '', updatedAt: '' }, packages);
  const amount = Number(coupon['discount_amount']);
  const isPart = coupon['discount_type'] === 'percentage';
  return { code: coupon['code'], off: (price: number) => (isPart ? (price * (100 - amount)) / 100 : price - amount) };
}

const emailStream = textHash('emails');

/** The sender of the application's emails. */
export const sender = 'no-reply@hosting.example';

/** Sender | subject | text | button | attachment. `{number}` becomes the number of the invoice or ticket. */
const templates = `
billing | Invoice #{number} has been paid | We have received your payment for invoice <b>#{number}</b>. The receipt is attached. | View invoice | attachment
billing | Invoice #{number} is due in 3 days | Invoice <b>#{number}</b> is due soon. Pay it in time so that your service stays active. | Pay now
no-reply | Your service is ready | Your service has been set up. You will find the access data in your dashboard. | Open dashboard
no-reply | Welcome aboard – first steps | Thank you for joining us! Here are <a href="https://docs.example/start">the first steps</a>. | Get started
no-reply | Your password was changed | Your password was changed a moment ago. If it was not you, tell our support at once. | -
support | Re: [Ticket {number}] Server not reachable | Hello,<br><br>the node was restarted, and your server should be reachable again.<br><br>Kind regards | View ticket
no-reply | New sign-in from an unknown device | Somebody signed in to your account from a device that we have not seen before. | -
support | Planned maintenance on Sunday, 02:00–04:00 UTC | We are replacing a switch in Frankfurt. Short interruptions are possible. | -
no-reply | 20 % off every yearly plan 🎉 | Only this week: <strong>20 % off</strong> every yearly plan, new or renewed. | Claim the offer
`
  .trim()
  .split('\n')
  .map((line) => {
    const [from = '', subject = '', text = '', button = '-', attachment] = line.split(' | ');
    return { from: `${from}@hosting.example`, subject, text, button: button === '-' ? null : button, attachment };
  });

export function htmlMessage(text: string): string {
  return (
    '<!DOCTYPE html><html><body style="font-family:sans-serif;color:#1f2937"><div style="max-width:560px;margin:auto">' +
    `<p>${text}</p><p style="color:#6b7280;font-size:12px">You receive this message because you have an account with ` +
    'us.</p></div></body></html>'
  );
}

/** Makes the email with that id, as JSON; ids count from 1. `user` is the receiver. */
export function seedEmail(
  random: Random,
  seed: number,
  id: number,
  user: { id: number; email: string },
  times: { created: number; createdAt: string; updatedAt: string },
  now: number,
): string {
  random.restart(mix(seed ^ emailStream, id));
  const template = random.pick(templates);
  const number = 10_000 + random.below(90_000);
  const late = now - times.created < 2 * hourMs ? 0.3 : 0.02;
  const unsent = random.chance(late);
  return toJson({
    id,
    user_id: user.id,
    sender: template.from,
    receiver: user.email,
    subject: template.subject.replace('{number}', String(number)),
    content: htmlMessage(template.text.replace('{number}', String(number))),
    button: template.button === null ? null : { name: template.button, url: `https://hosting.example/go/${number}` },
    attachment:
      template.attachment !== undefined ? [{ name: `invoice-${number}.pdf`, path: `invoices/${number}.pdf` }] : null,
    is_sent: unsent ? 0 : 1,
    resent: random.chance(0.04) ? 1 + random.below(2) : 0,
    scheduled_at: unsent && random.chance(0.5) ? stamp(now + random.below(3 * dayMs)) : null,
    created_at: times.createdAt,
    updated_at: times.updatedAt,
  });
}
