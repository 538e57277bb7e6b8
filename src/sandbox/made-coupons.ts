/** Made-up coupons. */
import { dayMs } from '../model/time.ts';
import { stamp } from './calendar.ts';
import { mix, Random, textHash } from './random.ts';
import type { JsonRecord } from './serialise.ts';

const couponStream = textHash('coupons');
const words = [
  'SPRING',
  'SUMMER',
  'AUTUMN',
  'WINTER',
  'WELCOME',
  'LAUNCH',
  'FRIEND',
  'LOYAL',
  'BLACKFRIDAY',
  'STUDENT',
] as const;
const currencies = ['USD', 'USD', 'EUR', 'EUR', 'GBP'] as const;
const uses = [1, 10, 50, 100, 500, 1_000] as const;
const notes = ['Newsletter', 'Partner campaign', 'Given by support after an outage', 'Trade fair – spring'] as const;

/** The coupon of that number, counted from 1. */
export function madeCoupon(
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
