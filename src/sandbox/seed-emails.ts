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

/** From whom; the subject; the text; a button. `{number}` is the number of the invoice, or of the ticket. */
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
      template.attachment !== undefined ? [{ name: `invoice-${number}.pdf`, path: `invoices/${number}.pdf` }] : null,
    is_sent: unsent ? 0 : 1,
    resent: random.chance(0.04) ? 1 + random.below(2) : 0,
    scheduled_at: unsent && random.chance(0.5) ? stamp(now + random.below(3 * dayMs)) : null,
    created_at: times.createdAt,
    updated_at: times.updatedAt,
  });
}
