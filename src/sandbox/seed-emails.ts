/** Seed messages to users, as JSON text ready to be stored. */
import { dayMs, hourMs } from '../model/time.ts';
import { stamp } from './calendar.ts';
import { mix, Random, textHash } from './random.ts';
import { type JsonRecord, toJson } from './envelope.ts';

const couponStream = textHash('coupons');
const words = 'SPRING SUMMER AUTUMN WINTER WELCOME LAUNCH FRIEND LOYAL BLACKFRIDAY STUDENT'.split(' ');
const currencies = ['USD', 'USD', 'EUR', 'EUR', 'GBP'] as const;
const uses = [1, 10, 50, 100, 500, 1_000] as const;
const notes = ['Newsletter', 'Partner campaign', 'Given by support after an outage', 'Trade fair – spring'] as const;

/** The coupon of that number, counted from 1. */
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

const emailStream = textHash('emails');

/** Where the application's messages come from. */
export const sender = 'no-reply@hosting.example';
const billing = 'billing@hosting.example';
const support = 'support@hosting.example';

interface Template {
  readonly from: string;
  /** `{number}` here and in the text is the number of the invoice, or of the ticket. */
  readonly subject: string;
  readonly text: string;
  readonly button: string | null;
  readonly attachment?: true;
}

const templates: readonly Template[] = [
  {
    from: billing,
    subject: 'Invoice #{number} has been paid',
    text: 'We have received your payment for invoice <b>#{number}</b>. The receipt is attached.',
    button: 'View invoice',
    attachment: true,
  },
  {
    from: billing,
    subject: 'Invoice #{number} is due in 3 days',
    text: 'Invoice <b>#{number}</b> is due soon. Pay it in time so that your service stays active.',
    button: 'Pay now',
  },
  {
    from: sender,
    subject: 'Your service is ready',
    text: 'Your service has been set up. You will find the access data in your dashboard.',
    button: 'Open dashboard',
  },
  {
    from: sender,
    subject: 'Welcome aboard – first steps',
    text: 'Thank you for joining us! Here are <a href="https://docs.example/start">the first steps</a>.',
    button: 'Get started',
  },
  {
    from: sender,
    subject: 'Your password was changed',
    text: 'Your password was changed a moment ago. If it was not you, tell our support at once.',
    button: null,
  },
  {
    from: support,
    subject: 'Re: [Ticket {number}] Server not reachable',
    text: 'Hello,<br><br>the node was restarted, and your server should be reachable again.<br><br>Kind regards',
    button: 'View ticket',
  },
  {
    from: sender,
    subject: 'New sign-in from an unknown device',
    text: 'Somebody signed in to your account from a device that we have not seen before.',
    button: null,
  },
  {
    from: support,
    subject: 'Planned maintenance on Sunday, 02:00–04:00 UTC',
    text: 'We are replacing a switch in Frankfurt. Short interruptions are possible.',
    button: null,
  },
  {
    from: sender,
    subject: '20 % off every yearly plan 🎉',
    text: 'Only this week: <strong>20 % off</strong> every yearly plan, new or renewed.',
    button: 'Claim the offer',
  },
];

export function htmlMessage(text: string): string {
  return (
    '<!DOCTYPE html><html><body style="font-family:sans-serif;color:#1f2937"><div style="max-width:560px;margin:auto">' +
    `<p>${text}</p><p style="color:#6b7280;font-size:12px">You receive this message because you have an account with ` +
    'us.</p></div></body></html>'
  );
}

/** The message of that number, counted from 1; `user` is whom it went to. */
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
      template.attachment === true ? [{ name: `invoice-${number}.pdf`, path: `invoices/${number}.pdf` }] : null,
    is_sent: unsent ? 0 : 1,
    resent: random.chance(0.04) ? 1 + random.below(2) : 0,
    scheduled_at: unsent && random.chance(0.5) ? stamp(now + random.below(3 * dayMs)) : null,
    created_at: times.createdAt,
    updated_at: times.updatedAt,
  });
}
