/** Fills a fresh database with seed data. */
import { setImmediate } from 'node:timers/promises';
import { dayMs, minuteMs } from '../model/time.ts';
import { balanceOf, seedChanges, type SeedWorld } from './seed-user-parts.ts';
import { seedCoupon, seedEmail, seedPackage, spreadTimes } from './seed-records.ts';
import { Calendar, mailHosts, mix, people, Random, shares, stamp, textHash } from './random.ts';
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

const statuses = shares({ active: 94, pending: 3, suspended: 2, banned: 1 });
const visibilities = shares({ online: 88, offline: 8, hidden: 4 });

const usernames: readonly ((first: string, last: string) => string)[] = [
  (first, last) => `${first}.${last}`,
  (first, last) => `${first}${last}`,
  (first, last) => `${first}_${last}`,
  (first, last) => `${first.charAt(0)}${last}`,
  (first, last) => `${last}${first.charAt(0)}`,
  (first, last) => `${first}-${last}`,
];

/** Returns the function that makes the next user: with rising ids and creation times, and unique usernames. */
function userMaker({ seed, now, users, ties }: SeedPlan, calendar: Calendar) {
  const [random, changes] = [new Random(0), new Random(0)];
  /** The last number used for each name; the next user of that name gets a higher one as a suffix. */
  const taken = new Map<string, number>();
  let made = 0;
  let previous = 0;

  function usernameOf(first: string, last: string): string {
    const name = random.pick(usernames)(first, last);
    const before = taken.get(name);
    const number = before === undefined ? 1 : before + 1 + random.below(7);
    taken.set(name, number);
    return before === undefined ? name : `${name}${number}`;
  }

  /** Draws when the user was last seen: mostly recently; a few times are impossible, as from a wrong clock. */
  function lastSeen(created: number): number {
    const draw = random.fraction();
    if (draw < 0.004) return created - random.below(3 * dayMs);
    if (draw > 0.997) return now + random.below(20 * minuteMs);
    return created + (now - created) * (1 - (1 - draw) ** 3);
  }

  return () => {
    const id = made + 1;
    random.restart(mix(seed ^ userStream, id));
    const position = (made + random.fraction()) / users;
    const created = previous > 0 && random.chance(ties) ? previous : calendar.at(position);
    [made, previous] = [id, created];
    const names = slots[random.below(slots.length)] as (typeof slots)[number];
    const first = random.below(names.first.length);
    const last = random.below(names.last.length);
    const username = usernameOf(names.firstPlain[first] ?? '', names.lastPlain[last] ?? '');
    const email = `${username}@${random.pick(mailHosts)}`;
    const seen = lastSeen(created);
    const login = seen - random.below(2 * dayMs);
    const updated = created + (now - created) * random.fraction() ** 2;
    const createdAt = stamp(created);
    const avatar = random.chance(0.3) ? `"avatars\\/${(random.word() >>> 4).toString(36)}.png"` : 'null';
    const data = random.chance(0.15)
      ? `{"theme":"${random.chance(0.6) ? 'dark' : 'light'}","referrer":"${random.chance(0.5) ? 'search' : 'friend'}"}`
      : 'null';
    const verified = random.chance(0.12) ? 'null' : `"${stamp(created + random.below(6 * 60 * minuteMs))}"`;
    const cents = balanceOf(seedChanges(changes, seed, id));
    const body =
      `{"id":${id},"username":"${username}","email":"${email}","first_name":${names.first[first] ?? '""'}` +
      `,"last_name":${names.last[last] ?? '""'},"status":"${random.pick(statuses)}","balance":${cents / 100}` +
      `,"avatar":${avatar},"is_subscribed":${random.chance(0.62) ? 1 : 0}` +
      `,"visibility":"${random.pick(visibilities)}","language":"${names.language}","data":${data}` +
      `,"email_verified_at":${verified},"last_seen_at":"${stamp(seen)}","last_login_at":"${stamp(login)}"` +
      `,"created_at":"${createdAt}","updated_at":"${stamp(updated)}"}`;
    return { id, body, createdAt, username, email };
  };
}

export interface SeedPlan extends SeedWorld {
  readonly emails: number;
  readonly coupons: number;
  /** Probability that a record has the creation time of the one before it. */
  readonly ties: number;
}

/** Records to insert before other work of the process gets a turn. */
const batchSize = 25_000;

/** Fills a new database. Throws the signal's reason if it is aborted. */
export async function seedDatabase(db: Db, plan: SeedPlan, signal?: AbortSignal): Promise<void> {
  const { seed, now, users, packages, emails, coupons } = plan;
  const calendar = new Calendar(now);

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

  const nextUser = userMaker(plan, calendar);
  const addUser = db.prepare('INSERT INTO users (id, body, created_at, username, email) VALUES (?, ?, ?, ?, ?)');
  await inBatches(users, () => {
    const user = nextUser();
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
  for (const [name, value] of Object.entries({ seed, users, packages, coupons, now }))
    writeMeta(db, name, String(value));
}
