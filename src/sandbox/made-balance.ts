/** The made-up history behind a made-up balance; the balance is what it adds up to, to the cent. */
import { mix, type Random, textHash } from './random.ts';

export interface MadeChange {
  readonly result: '+' | '-';
  readonly cents: number;
  readonly description: string;
  /** When it happened, as a position between the user's creation and now. */
  readonly position: number;
}

const balanceStream = textHash('balance');

const credits = ['Balance top-up', 'Refund of an invoice', 'Affiliate commission', 'Goodwill credit'] as const;
const debits = ['Payment of an invoice', 'Renewal of a service', 'Upgrade of a service'] as const;
const none: readonly MadeChange[] = [];

/** The changes of the user's balance before anybody wrote to it. `random` is only borrowed. */
export function madeChanges(random: Random, seed: number, userId: number): readonly MadeChange[] {
  random.restart(mix(seed ^ balanceStream, userId));
  if (random.chance(0.55)) return none;
  const count = 1 + random.below(4);
  const changes: MadeChange[] = [];
  let balance = 0;
  for (let at = 0; at < count; at += 1) {
    const position = (at + random.fraction()) / count;
    if (balance > 100 && random.chance(0.4)) {
      const cents = 1 + random.below(balance);
      balance -= cents;
      changes.push({ result: '-', cents, description: random.pick(debits), position });
    } else {
      // Round amounts, prices, and now and then an odd one.
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

/** What they add up to, in cents. */
export function balanceOf(changes: readonly MadeChange[]): number {
  let cents = 0;
  for (const each of changes) cents += each.result === '+' ? each.cents : -each.cents;
  return cents;
}
