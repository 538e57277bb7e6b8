/** Fills a fresh database with made-up data. */
import { setImmediate } from 'node:timers/promises';
import { Calendar } from './calendar.ts';
import { madeCoupon } from './made-coupons.ts';
import { madeEmail } from './made-emails.ts';
import { madePackage, spreadTimes } from './made-packages.ts';
import { UserMaker } from './made-users.ts';
import { Random, textHash } from './random.ts';
import { createIndexes, type Db, writeMeta } from './schema.ts';
import { type JsonRecord, toJson } from './serialise.ts';

export interface SeedPlan {
  readonly seed: number;
  readonly users: number;
  readonly packages: number;
  readonly emails: number;
  readonly coupons: number;
  /** The moment up to which things have happened, in ms. */
  readonly now: number;
  /** Probability that a record has the creation time of the one before it. */
  readonly ties: number;
  /** Days without a record, as `Calendar` takes them. */
  readonly quiet: string;
}

/** Records between two looks at what else the process has to do. */
const batchSize = 25_000;

async function inBatches(
  db: Db,
  count: number,
  signal: AbortSignal | undefined,
  one: (id: number) => void,
): Promise<void> {
  const batch = db.transaction((from: number, to: number) => {
    for (let id = from; id <= to; id += 1) one(id);
  });
  for (let from = 1; from <= count; from += batchSize) {
    signal?.throwIfAborted();
    batch(from, Math.min(count, from + batchSize - 1));
    await setImmediate();
  }
}

async function seedUsers(db: Db, plan: SeedPlan, signal: AbortSignal | undefined): Promise<void> {
  const { seed, now, ties, users: count } = plan;
  const maker = new UserMaker({ seed, now, ties, count, calendar: new Calendar(now, plan.quiet) });
  const insert = db.prepare('INSERT INTO users (id, body, created_at, username, email) VALUES (?, ?, ?, ?, ?)');
  await inBatches(db, count, signal, () => {
    const user = maker.next();
    insert.run(user.id, user.body, user.createdAt, user.username, user.email);
  });
}

async function seedEmails(db: Db, plan: SeedPlan, signal: AbortSignal | undefined): Promise<void> {
  if (plan.users === 0) return;
  const calendar = new Calendar(plan.now, plan.quiet);
  const random = new Random(0);
  const receivers = new Random(plan.seed ^ textHash('receivers'));
  const insert = db.prepare('INSERT INTO emails (id, body, created_at, user_id) VALUES (?, ?, ?, ?)');
  const address = db.prepare<[number], string>('SELECT email FROM users WHERE id = ?').pluck();
  await inBatches(db, plan.emails, signal, (id) => {
    // Users come in the order of their creation, so one of the first share of them was there at that time.
    const known = Math.max(1, Math.floor((plan.users * id) / plan.emails));
    const userId = 1 + receivers.below(known);
    const times = spreadTimes(calendar, plan.now, receivers, id, plan.emails);
    const user = { id: userId, email: address.get(userId) ?? '' };
    insert.run(id, madeEmail(random, plan.seed, id, user, times, plan.now), times.createdAt, userId);
  });
}

function simpleInsert(db: Db, table: 'packages' | 'coupons'): (record: JsonRecord) => void {
  const insert = db.prepare(`INSERT INTO ${table} (id, body, created_at) VALUES (?, ?, ?)`);
  return (record) => void insert.run(record['id'], toJson(record), record['created_at']);
}

async function seedPackages(db: Db, plan: SeedPlan, signal: AbortSignal | undefined): Promise<void> {
  const calendar = new Calendar(plan.now, plan.quiet);
  const random = new Random(plan.seed ^ textHash('package times'));
  const insert = simpleInsert(db, 'packages');
  await inBatches(db, plan.packages, signal, (id) => {
    const times = spreadTimes(calendar, plan.now, random, id, plan.packages);
    insert(madePackage(plan.seed, id, times.createdAt, times.updatedAt));
  });
}

async function seedCoupons(db: Db, plan: SeedPlan, signal: AbortSignal | undefined): Promise<void> {
  const calendar = new Calendar(plan.now, plan.quiet);
  const random = new Random(plan.seed ^ textHash('coupon times'));
  const insert = simpleInsert(db, 'coupons');
  await inBatches(db, plan.coupons, signal, (id) => {
    insert(madeCoupon(plan.seed, id, spreadTimes(calendar, plan.now, random, id, plan.coupons), plan.packages));
  });
}

/** Fills a new database; throws the signal's reason where it is aborted. */
export async function seedDatabase(db: Db, plan: SeedPlan, signal?: AbortSignal): Promise<void> {
  await seedUsers(db, plan, signal);
  // The emails ask for addresses by id, which is the table's own key; no index is needed yet.
  await seedEmails(db, plan, signal);
  await seedPackages(db, plan, signal);
  await seedCoupons(db, plan, signal);
  createIndexes(db);
  writeMeta(db, 'seed', String(plan.seed));
  writeMeta(db, 'users', String(plan.users));
  writeMeta(db, 'packages', String(plan.packages));
  writeMeta(db, 'now', String(plan.now));
}
