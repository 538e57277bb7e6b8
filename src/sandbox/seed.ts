/** Fills a fresh database with seed data. */
import { setImmediate } from 'node:timers/promises';
import { dayMs, minuteMs } from '../model/time.ts';
import { balanceOf, seedChanges, type SeedWorld } from './seed-user-parts.ts';
import { seedCoupon, seedEmail, seedPackage, spreadTimes } from './seed-records.ts';
import { Calendar, mailHosts, mix, people, Random, stamp, textHash } from './random.ts';
import { type Db, walkIndexes, writeMeta } from './database.ts';
import { type JsonRecord, toJson } from './envelope.ts';

/** A hundred slots, shared out by the languages' percentages, so that drawing a language is one look-up. */
const slots = people.flatMap((each) => {
  const names = {
    /** As JSON strings. */
    first: each.first.map(([written]) => toJson(written)),
    firstPlain: each.first.map(([, plain]) => plain),
    last: each.last.map(([written]) => toJson(written)),
    lastPlain: each.last.map(([, plain]) => plain),
    language: each.language,
  };
  return Array.from({ length: each.share }, () => names);
});

const userStream = textHash('users');

function statusOf(draw: number): string {
  if (draw < 0.94) return 'active';
  if (draw < 0.97) return 'pending';
  return draw < 0.99 ? 'suspended' : 'banned';
}

function visibilityOf(draw: number): string {
  if (draw < 0.88) return 'online';
  return draw < 0.96 ? 'offline' : 'hidden';
}

const usernames: readonly ((first: string, last: string) => string)[] = [
  (first, last) => `${first}.${last}`,
  (first, last) => `${first}${last}`,
  (first, last) => `${first}_${last}`,
  (first, last) => `${first.charAt(0)}${last}`,
  (first, last) => `${last}${first.charAt(0)}`,
  (first, last) => `${first}-${last}`,
];

/** Makes users with rising ids and creation times, and unique usernames. */
class UserMaker {
  readonly #plan: SeedPlan;
  readonly #calendar: Calendar;
  readonly #random = new Random(0);
  readonly #changes = new Random(0);
  /** The last number used for each name; the next user of that name gets a higher one as a suffix. */
  readonly #taken = new Map<string, number>();
  #made = 0;
  #previous = 0;

  constructor(plan: SeedPlan, calendar: Calendar) {
    this.#plan = plan;
    this.#calendar = calendar;
  }

  #username(first: string, last: string): string {
    const random = this.#random;
    const name = random.pick(usernames)(first, last);
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
    if (this.#previous > 0 && this.#random.chance(this.#plan.ties)) return this.#previous;
    this.#previous = this.#calendar.at(position);
    return this.#previous;
  }

  /** Draws when the user was last seen: mostly recently; a few times are impossible, as from a wrong clock. */
  #lastSeen(created: number): number {
    const draw = this.#random.fraction();
    if (draw < 0.004) return created - this.#random.below(3 * dayMs);
    const { now } = this.#plan;
    if (draw > 0.997) return now + this.#random.below(20 * minuteMs);
    return created + (now - created) * (1 - (1 - draw) ** 3);
  }

  next() {
    const { seed, now, users } = this.#plan;
    const id = this.#made + 1;
    const random = this.#random;
    random.restart(mix(seed ^ userStream, id));
    const created = this.#createdAt((this.#made + random.fraction()) / users);
    this.#made = id;
    const names = slots[random.below(slots.length)] as (typeof slots)[number];
    const first = random.below(names.first.length);
    const last = random.below(names.last.length);
    const username = this.#username(names.firstPlain[first] ?? '', names.lastPlain[last] ?? '');
    const email = `${username}@${random.pick(mailHosts)}`;
    const seen = this.#lastSeen(created);
    const login = seen - random.below(2 * dayMs);
    const updated = created + (now - created) * random.fraction() ** 2;
    const createdAt = stamp(created);
    const avatar = random.chance(0.3) ? `"avatars\\/${(random.word() >>> 4).toString(36)}.png"` : 'null';
    const data = random.chance(0.15)
      ? `{"theme":"${random.chance(0.6) ? 'dark' : 'light'}","referrer":"${random.chance(0.5) ? 'search' : 'friend'}"}`
      : 'null';
    const verified = random.chance(0.12) ? 'null' : `"${stamp(created + random.below(6 * 60 * minuteMs))}"`;
    const cents = balanceOf(seedChanges(this.#changes, seed, id));
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

export interface SeedPlan extends SeedWorld {
  readonly emails: number;
  readonly coupons: number;
  /** Probability that a record has the creation time of the one before it. */
  readonly ties: number;
  /** Days without a record, in the form that `Calendar` takes. */
  readonly quiet: string;
}

/** Records to insert before other work of the process gets a turn. */
const batchSize = 25_000;

/** Fills a new database. Throws the signal's reason if it is aborted. */
export async function seedDatabase(db: Db, plan: SeedPlan, signal?: AbortSignal): Promise<void> {
  const { seed, now, users, packages, emails, coupons } = plan;
  const calendar = new Calendar(now, plan.quiet);

  async function inBatches(count: number, one: (id: number) => void): Promise<void> {
    const batch = db.transaction((from: number, to: number) => {
      for (let id = from; id <= to; id += 1) one(id);
    });
    for (let from = 1; from <= count; from += batchSize) {
      signal?.throwIfAborted();
      batch(from, Math.min(count, from + batchSize - 1));
      await setImmediate();
    }
  }

  function insertInto(table: 'packages' | 'coupons'): (record: JsonRecord) => void {
    const insert = db.prepare(`INSERT INTO ${table} (id, body, created_at) VALUES (?, ?, ?)`);
    return (record) => void insert.run(record['id'], toJson(record), record['created_at']);
  }

  const maker = new UserMaker(plan, calendar);
  const addUser = db.prepare('INSERT INTO users (id, body, created_at, username, email) VALUES (?, ?, ?, ?, ?)');
  await inBatches(users, () => {
    const user = maker.next();
    addUser.run(user.id, user.body, user.createdAt, user.username, user.email);
  });

  const [random, receivers] = [new Random(0), new Random(seed ^ textHash('receivers'))];
  const addEmail = db.prepare('INSERT INTO emails (id, body, created_at, user_id) VALUES (?, ?, ?, ?)');
  // Looked up by the primary key, so no index is needed yet.
  const address = db.prepare<[number], string>('SELECT email FROM users WHERE id = ?').pluck();
  await inBatches(users === 0 ? 0 : emails, (id) => {
    // Users are in the order of creation, so a user from the first part of them existed when the email was sent.
    const userId = 1 + receivers.below(Math.max(1, Math.floor((users * id) / emails)));
    const times = spreadTimes(calendar, now, receivers, id, emails);
    const user = { id: userId, email: address.get(userId) ?? '' };
    addEmail.run(id, seedEmail(random, seed, id, user, times, now), times.createdAt, userId);
  });

  const packageTimes = new Random(seed ^ textHash('package times'));
  const addPackage = insertInto('packages');
  await inBatches(packages, (id) => {
    const { createdAt, updatedAt } = spreadTimes(calendar, now, packageTimes, id, packages);
    addPackage(seedPackage(seed, id, createdAt, updatedAt));
  });

  const couponTimes = new Random(seed ^ textHash('coupon times'));
  const addCoupon = insertInto('coupons');
  await inBatches(coupons, (id) => {
    addCoupon(seedCoupon(seed, id, spreadTimes(calendar, now, couponTimes, id, coupons), packages));
  });

  // Indexes come last: sorting once is faster than inserting each row in order.
  for (const sql of walkIndexes) db.exec(sql);
  for (const [name, value] of Object.entries({ seed, users, packages, now })) writeMeta(db, name, String(value));
}
