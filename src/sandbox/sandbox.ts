/** Runs the whole Administration API on this machine: seed data behind real HTTP, with switches for every fault. */
import { existsSync, renameSync, rmSync } from 'node:fs';
import Fastify, { type FastifyInstance } from 'fastify';
import { messageOf, UsageError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { hourMs } from '../model/time.ts';
import { type Behaviour, behaviourOf, type Chaos, readBehaviour } from './behaviour.ts';
import { createControl, type SandboxControl } from './control.ts';
import { checkPlace, createDatabase, type Db, Ledger, openDatabase, readMeta } from './database.ts';
import type { SeedWorld } from './seed-user-parts.ts';
import { mix, Random, textHash } from './random.ts';
import { RecordTable, Related } from './records.ts';
import { RateLimit, RequestLog } from './host.ts';
import { seedDatabase, type SeedPlan } from './seed.ts';
import { type Between, createServer, type ServerParts } from './server.ts';

export type { Behaviour, Chaos } from './behaviour.ts';
export type { ChurnCounts } from './churn.ts';
export type { SandboxControl } from './control.ts';
export type { LedgerEntry } from './database.ts';
export type { LoggedRequest } from './host.ts';

export interface SandboxOptions extends Partial<Omit<SeedPlan, 'now'>> {
  /** The database file; by default the data is in memory. If the file already has data, the numbers of records are ignored. */
  readonly file?: string | undefined;
  /** 0, the default, takes any free port. */
  readonly port?: number;
  /** The key that clients must send; made from the seed by default. */
  readonly key?: string | undefined;
  /** The time at the start, ms since 1970, from which the clock runs on; or a clock. This machine's clock by default. */
  readonly now?: number | (() => number) | undefined;
  readonly chaos?: Chaos;
  /** Switches on top of the preset. */
  readonly behaviour?: Partial<Behaviour>;
  /** Stands between the requests and the server; by default nothing does. */
  readonly between?: Between;
  readonly signal?: AbortSignal;
}

export interface Sandbox {
  /** The base address, without `/api/v1`. */
  readonly url: string;
  readonly key: string;
  readonly control: SandboxControl;
  /** Stops serving at once and closes the database. */
  close(): Promise<void>;
}

class SandboxClock {
  #offset = 0;
  readonly #source: () => number;

  constructor(source: () => number = Date.now) {
    this.#source = source;
  }

  /** Milliseconds since 1970. */
  now(): number {
    return this.#source() + this.#offset;
  }

  /** Sets the time; it runs on from there. */
  set(ms: number): void {
    this.#offset = ms - this.#source();
  }
}

const sandboxDefaults = {
  seed: 7,
  users: 1_000,
  packages: 40,
  emails: 3_000,
  coupons: 60,
  ties: 0.02,
} as const;

/** Returns the key of a sandbox that was not given one. */
export function keyOf(seed: number): string {
  const word = (at: number): string =>
    mix(seed ^ textHash('key'), at)
      .toString(36)
      .padStart(7, '0');
  return `sandbox_${word(1)}${word(2)}${word(3)}`;
}

function clockOf(now: SandboxOptions['now']): SandboxClock {
  if (typeof now === 'function') return new SandboxClock(now);
  const clock = new SandboxClock();
  if (now !== undefined) clock.set(now);
  return clock;
}

function checkedCount(name: string, value: number | undefined, fallback: number): number {
  const count = value ?? fallback;
  if (Number.isInteger(count) && count >= 0) return count;
  throw new UsageError(`the sandbox cannot have ${String(value)} ${name}: give a whole number from 0`);
}

/** Reads from the database with which seed it was made, since related records follow from that. */
function worldOf(db: Db): SeedWorld {
  const number = (name: string): number => Number(readMeta(db, name) ?? 0);
  return {
    seed: number('seed'),
    users: number('users'),
    packages: number('packages'),
    coupons: number('coupons'),
    now: number('now'),
  };
}

function planOf(options: SandboxOptions, now: number): SeedPlan {
  return {
    seed: options.seed ?? sandboxDefaults.seed,
    users: checkedCount('users', options.users, sandboxDefaults.users),
    packages: checkedCount('packages', options.packages, sandboxDefaults.packages),
    emails: checkedCount('emails', options.emails, sandboxDefaults.emails),
    coupons: checkedCount('coupons', options.coupons, sandboxDefaults.coupons),
    // Without a given time, two starts within the same hour make the same data.
    now: options.now === undefined ? Math.floor(now / hourMs) * hourMs : now,
    ties: options.ties ?? sandboxDefaults.ties,
  };
}

/** Opens the database with its data. A new file gets its name only when all of its data is in it. */
async function openFilled(file: string, plan: SeedPlan, signal: AbortSignal | undefined): Promise<Db> {
  const made = file === ':memory:' ? file : `${file}.seeding`;
  if (made !== file) checkPlace(file);
  if (made !== file && existsSync(file)) return openDatabase(file);
  const db = createDatabase(made);
  try {
    await seedDatabase(db, plan, signal);
  } catch (error) {
    db.close();
    if (made !== file) rmSync(made, { force: true });
    throw error;
  }
  if (made === file) {
    // Seeding needs no journal, but from now on a refused write must be rolled back.
    db.pragma('journal_mode = MEMORY');
    return db;
  }
  db.close();
  renameSync(made, file);
  return openDatabase(file);
}

/** Everything that a running sandbox consists of. */
export interface SandboxState {
  readonly db: Db;
  readonly tables: Readonly<Record<ResourceName, RecordTable>>;
  readonly related: Related;
  readonly ledger: Ledger;
  readonly clock: SandboxClock;
  /** Replaced whole when a switch is set. */
  behaviour: Behaviour;
  /** Probability that a new record has the creation time of the one before it. */
  readonly ties: number;
  readonly chance: Random;
  /** A separate stream for churn, so that the number of faults does not change the data. */
  readonly churn: Random;
  readonly key: string;
  /** The base address, once the server listens. */
  url: string;
}

function stateOf(db: Db, clock: SandboxClock, behaviour: Behaviour, key: string, ties: number): SandboxState {
  const world = worldOf(db);
  const users = new RecordTable(db, 'users');
  const emails = new RecordTable(db, 'emails');
  return {
    db,
    tables: { users, emails, packages: new RecordTable(db, 'packages'), coupons: new RecordTable(db, 'coupons') },
    related: new Related(db, world, users, emails),
    ledger: new Ledger(db),
    clock,
    behaviour,
    ties,
    chance: new Random(mix(world.seed, textHash('chance'))),
    churn: new Random(mix(world.seed, textHash('churn'))),
    key,
    url: '',
  };
}

/** Checks that the port is free before the data is made, which may take minutes. */
async function requireFree(port: number): Promise<void> {
  const probe = Fastify();
  await listen(probe, port);
  await probe.close();
}

async function listen(app: FastifyInstance, port: number): Promise<string> {
  try {
    // Loopback only: no other machine has any reason to use the sandbox.
    return await app.listen({ host: '127.0.0.1', port });
  } catch (error) {
    const why = messageOf(error);
    throw new UsageError(`the sandbox cannot listen on port ${port}: ${why}`, {
      advice: 'Name another port with --port, or leave it out for a free one.',
      cause: error,
    });
  }
}

/** Starts the API on 127.0.0.1 with its own database. Throws a UsageError or a FileError. */
export async function openSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const behaviour = { ...behaviourOf(options.chaos ?? 'calm'), ...readBehaviour(options.behaviour ?? {}) };
  const clock = clockOf(options.now);
  const plan = planOf(options, clock.now());
  if (options.port !== undefined) await requireFree(options.port);
  const db = await openFilled(options.file ?? ':memory:', plan, options.signal);
  try {
    const seed = Number(readMeta(db, 'seed'));
    const state = stateOf(db, clock, behaviour, options.key ?? keyOf(seed), plan.ties);
    const parts: ServerParts = {
      state,
      rate: new RateLimit(),
      log: new RequestLog(),
      between: options.between,
    };
    const control = createControl(parts);
    const app = createServer(parts);
    state.url = await listen(app, options.port ?? 0);
    return {
      url: state.url,
      key: state.key,
      control,
      async close() {
        await app.close();
        if (db.open) db.close();
      },
    };
  } catch (error) {
    db.close();
    throw error;
  }
}
