/** Made-up users, as JSON text ready to be stored: hundreds of thousands a second, the same for the same seed. */
import { dayMs, minuteMs } from '../model/time.ts';
import { balanceOf, madeChanges } from './made-balance.ts';
import { type Calendar, stamp } from './calendar.ts';
import { mailHosts, people } from './names.ts';
import { mix, Random, textHash } from './random.ts';
import { toJsonText } from './serialise.ts';

interface Names {
  /** JSON strings of first and last names, and what they give a username. */
  readonly first: readonly string[];
  readonly firstPlain: readonly string[];
  readonly last: readonly string[];
  readonly lastPlain: readonly string[];
  readonly language: string;
}

/** A hundred slots, filled by each language's share, so that picking one is one look-up. */
const slots: Names[] = people.flatMap((each) => {
  const names: Names = {
    first: each.first.map(([written]) => toJsonText(written)),
    firstPlain: each.first.map(([, plain]) => plain),
    last: each.last.map(([written]) => toJsonText(written)),
    lastPlain: each.last.map(([, plain]) => plain),
    language: each.language,
  };
  return Array.from({ length: each.share }, () => names);
});

const userStream = textHash('users');

export interface MadeUser {
  readonly id: number;
  readonly body: string;
  readonly createdAt: string;
  readonly username: string;
  readonly email: string;
}

function statusOf(draw: number): string {
  if (draw < 0.94) return 'active';
  if (draw < 0.97) return 'pending';
  return draw < 0.99 ? 'suspended' : 'banned';
}

function visibilityOf(draw: number): string {
  if (draw < 0.88) return 'online';
  return draw < 0.96 ? 'offline' : 'hidden';
}

/** Makes users of rising ids and creation times. One maker never gives a username twice. */
export class UserMaker {
  readonly #seed: number;
  readonly #calendar: Calendar;
  readonly #now: number;
  readonly #ties: number;
  readonly #count: number;
  readonly #random = new Random(0);
  readonly #changes = new Random(0);
  /** How often each name has been taken; the next one of that name gets a number behind it. */
  readonly #taken = new Map<string, number>();
  #made = 0;
  #previous = 0;

  constructor(options: { seed: number; calendar: Calendar; now: number; ties: number; count: number }) {
    this.#seed = options.seed;
    this.#calendar = options.calendar;
    this.#now = options.now;
    this.#ties = options.ties;
    this.#count = options.count;
  }

  #username(first: string, last: string): string {
    const random = this.#random;
    const style = random.below(6);
    let name: string;
    if (style === 0) name = `${first}.${last}`;
    else if (style === 1) name = `${first}${last}`;
    else if (style === 2) name = `${first}_${last}`;
    else if (style === 3) name = `${first.charAt(0)}${last}`;
    else if (style === 4) name = `${last}${first.charAt(0)}`;
    else name = `${first}-${last}`;
    const taken = this.#taken.get(name);
    if (taken === undefined) {
      this.#taken.set(name, 1);
      return name;
    }
    const next = taken + 1 + random.below(7);
    this.#taken.set(name, next);
    return `${name}${next}`;
  }

  #createdAt(position: number): number {
    if (this.#previous > 0 && this.#random.chance(this.#ties)) return this.#previous;
    this.#previous = this.#calendar.at(position);
    return this.#previous;
  }

  /** When the user was last there: most of them lately, a few by another clock than the server's. */
  #lastSeen(created: number): number {
    const draw = this.#random.fraction();
    if (draw < 0.004) return created - this.#random.below(3 * dayMs);
    if (draw > 0.997) return this.#now + this.#random.below(20 * minuteMs);
    return created + (this.#now - created) * (1 - (1 - draw) ** 3);
  }

  /** The next user. */
  next(): MadeUser {
    const id = this.#made + 1;
    const random = this.#random;
    random.restart(mix(this.#seed ^ userStream, id));
    const created = this.#createdAt((this.#made + random.fraction()) / this.#count);
    this.#made = id;
    const names = slots[random.below(slots.length)] as Names;
    const first = random.below(names.first.length);
    const last = random.below(names.last.length);
    const username = this.#username(names.firstPlain[first] ?? '', names.lastPlain[last] ?? '');
    const email = `${username}@${random.pick(mailHosts)}`;
    const seen = this.#lastSeen(created);
    const login = seen - random.below(2 * dayMs);
    const updated = created + (this.#now - created) * random.fraction() ** 2;
    const createdAt = stamp(created);
    const avatar = random.chance(0.3) ? `"avatars\\/${(random.word() >>> 4).toString(36)}.png"` : 'null';
    const data = random.chance(0.15)
      ? `{"theme":"${random.chance(0.6) ? 'dark' : 'light'}","referrer":"${random.chance(0.5) ? 'search' : 'friend'}"}`
      : 'null';
    const verified = random.chance(0.12) ? 'null' : `"${stamp(created + random.below(6 * 60 * minuteMs))}"`;
    const cents = balanceOf(madeChanges(this.#changes, this.#seed, id));
    const body =
      `{"id":${id},"username":"${username}","email":"${email}","first_name":${names.first[first] ?? '""'}` +
      `,"last_name":${names.last[last] ?? '""'},"status":"${statusOf(random.fraction())}","balance":${cents / 100}` +
      `,"avatar":${avatar},"is_subscribed":${random.chance(0.62) ? 1 : 0}` +
      `,"visibility":"${visibilityOf(random.fraction())}","language":"${names.language}","data":${data}` +
      `,"email_verified_at":${verified},"last_seen_at":"${stamp(seen)}","last_login_at":"${stamp(login)}"` +
      `,"created_at":"${createdAt}","updated_at":"${stamp(updated)}"}`;
    return { id, body, createdAt, username, email };
  }
}
