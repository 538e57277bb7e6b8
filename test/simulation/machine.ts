/**
 * One machine in simulated time: processes that run side by side in this one. Each waits for its turn before every step
 * on a server or a file. The seed decides whose turn it is, so the same seed gives the same order. A process can be
 * killed at any of these steps: then it does nothing more.
 */
import crypto, { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import SqliteDatabase from 'better-sqlite3';
import type { Sleep } from '../../src/api/gate.ts';
import type { Clock } from '../../src/model/time.ts';
import { randomFrom } from '../property/server-history.ts';

/** What a killed process gets from a synchronous step, which cannot wait for ever. Nothing may rely on it. */
export class Killed extends Error {}

const never = new Promise<never>(() => {});

/** One process of the machine. */
export class Process {
  readonly name: string;
  isAlive = true;
  /** The steps left until it is killed. */
  #left: number;
  readonly #files: (() => unknown)[] = [];

  constructor(name: string, left: number) {
    this.name = name;
    this.#left = left;
  }

  /** To be called when it ends in any way: the system closes its files. */
  closes(close: () => unknown): void {
    this.#files.push(close);
  }

  /** Counts a step; false for the step at which it is killed. */
  step(): boolean {
    this.#left -= 1;
    return this.#left !== 0;
  }

  async end(): Promise<void> {
    this.isAlive = false;
    for (const close of this.#files.splice(0).reverse()) await close();
  }
}

interface Waiting {
  readonly process: Process;
  readonly label: string;
  readonly go: () => void;
}

interface Timer {
  readonly at: number;
  readonly process: Process | null;
  readonly wake: () => void;
}

export class Machine {
  /** The time of the world; a clock of the machine may show another time. */
  time: number;
  /** How far the machine's clock is ahead of it, ms. */
  skewMs = 0;
  /** How long each step of a journal takes, ms. */
  journalStepMs = 0;
  /** Called whenever time has passed. */
  onTime: (time: number) => void = () => {};
  readonly running = new Map<Process, Promise<void>>();
  readonly lines: string[] = [];
  steps = 0;
  readonly #random: () => number;
  readonly #hash = createHash('sha256');
  #waiting: Waiting[] = [];
  #timers: Timer[] = [];
  #busy = 0;
  /** The latest time that the machine's clock has ever shown. */
  #latest = 0;

  constructor(seed: number, start: number) {
    this.#random = randomFrom(seed);
    this.time = start;
  }

  /** The machine's clock: it moves with each look, so that no two moments are the same. */
  readonly clock: Clock = {
    now: () => {
      this.time += 1;
      const shown = this.time + this.skewMs;
      this.#latest = Math.max(this.#latest, shown);
      return shown;
    },
  };

  /** Now, but never earlier than the clock has ever shown, so that earlier timestamps are really earlier. */
  latest(): number {
    return Math.max(this.clock.now(), this.#latest);
  }

  /** One line of the trace. */
  note(text: string): void {
    const line = `${new Date(this.time).toISOString().slice(5, 23)} ${text}`;
    this.#hash.update(`${line}\n`);
    this.lines.push(line);
  }

  /** The hash of the trace so far. */
  hash(): string {
    return this.#hash.copy().digest('hex');
  }

  /** Waits for the turn of the process. */
  turn(process: Process, label: string): Promise<void> {
    if (!process.isAlive) return never;
    if (!process.step()) {
      this.kill(process, label);
      return never;
    }
    return new Promise((go) => void this.#waiting.push({ process, label, go }));
  }

  kill(process: Process, at: string): void {
    this.note(`${process.name} is killed at ${at}`);
    this.#waiting = this.#waiting.filter((each) => each.process !== process);
    this.#timers = this.#timers.filter((each) => each.process !== process);
    this.running.delete(process);
    void this.busy(process.end());
  }

  /** The work continues by itself; no process gets a turn meanwhile. */
  async busy<T>(work: Promise<T>): Promise<T> {
    this.#busy += 1;
    try {
      return await work;
    } finally {
      this.#busy -= 1;
    }
  }

  /**
   * Calls of the object's asynchronous methods wait for their turn, and no other process gets one until they are done.
   */
  inTurn<T extends object>(process: Process, what: string, object: T, isAtOnce: ReadonlySet<string>): T {
    return new Proxy(object, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function' || typeof name === 'symbol') return value;
        if (isAtOnce.has(name)) return (...given: unknown[]): unknown => Reflect.apply(value, target, given);
        return async (...given: unknown[]): Promise<unknown> => {
          await this.turn(process, `${what}.${name}`);
          if (what === 'journal') this.#pass(this.journalStepMs);
          return this.busy(Promise.resolve(Reflect.apply(value, target, given)));
        };
      },
    });
  }

  /**
   * A store of the process: each of its calls may be the step at which it is killed, and then nothing more is written.
   */
  mortal<T extends object>(process: Process, store: T): T {
    return new Proxy(store, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function' || name === 'close') return value;
        return (...given: unknown[]): unknown => {
          if (process.isAlive && !process.step()) this.kill(process, `store.${String(name)}`);
          if (!process.isAlive) throw new Killed('the process is dead');
          return Reflect.apply(value, target, given) as unknown;
        };
      },
    });
  }

  /** @param inCall whether it is part of a call during which no process gets a turn, except while it sleeps */
  sleep(process: Process | null, inCall = false): Sleep {
    return async (ms, signal) => {
      signal?.throwIfAborted();
      if (inCall) this.#busy -= 1;
      try {
        await new Promise<void>((resolve, reject) => {
          const timer = { at: this.time + Math.max(1, Math.ceil(ms)), process, wake: resolve };
          this.#timers.push(timer);
          signal?.addEventListener('abort', () => {
            this.#timers = this.#timers.filter((each) => each !== timer);
            reject(signal.reason as Error);
          });
        });
      } finally {
        if (inCall) this.#busy += 1;
      }
    };
  }

  /** Starts a process; it ends with its work, or when it is killed. */
  start(process: Process, work: () => Promise<void>, onError: (error: unknown) => void): void {
    const whole = async (): Promise<void> => {
      try {
        // It is registered as running before it does anything.
        await Promise.resolve();
        await work();
      } catch (error) {
        if (process.isAlive) onError(error);
      }
      if (!process.isAlive) return;
      await this.busy(process.end());
      this.running.delete(process);
    };
    this.running.set(process, whole());
  }

  /** Calls `wake` after this time, unless the machine ends before. */
  after(ms: number, wake: () => void): void {
    this.#timers.push({ at: this.time + ms, process: null, wake });
  }

  /** Gives the processes their turns one by one, and lets time pass if all of them wait for it. */
  async run(until: () => boolean): Promise<void> {
    for (;;) {
      await this.#settle();
      if (until()) return;
      const next = this.#timers.reduce<Timer | undefined>(
        (a, b) => (a === undefined || b.at < a.at ? b : a),
        undefined,
      );
      if (next !== undefined && (next.at <= this.time || this.#waiting.length === 0)) {
        this.#timers = this.#timers.filter((each) => each !== next);
        this.#pass(Math.max(0, next.at - this.time));
        next.wake();
        continue;
      }
      const [chosen] = this.#waiting.splice(Math.floor(this.#random() * this.#waiting.length), 1);
      if (chosen === undefined) throw new Error('everybody waits for ever');
      this.steps += 1;
      this.#pass(1 + Math.floor(this.#random() * 60));
      this.note(`${chosen.process.name} ${chosen.label}`);
      chosen.go();
    }
  }

  #pass(ms: number): void {
    this.time += ms;
    this.onTime(this.time);
  }

  /** Waits until the process that got its turn waits again. */
  async #settle(): Promise<void> {
    for (let quiet = 0; quiet < 4; quiet = this.#busy === 0 ? quiet + 1 : 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

/** Takes all random numbers of this process from the seed, until the returned function is called. */
export function seedRandomness(seed: number): () => void {
  const { randomBytes, randomUUID } = crypto;
  const { random } = Math;
  const bytes = randomFrom(seed);
  const drawn = (size: number) => Buffer.from(Array.from({ length: size }, () => Math.floor(bytes() * 256)));
  const uuid = () =>
    drawn(16)
      .toString('hex')
      .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  Object.assign(crypto, { randomBytes: drawn, randomUUID: uuid });
  Math.random = randomFrom(seed + 1);
  syncBuiltinESMExports();
  return () => {
    Object.assign(crypto, { randomBytes, randomUUID });
    Math.random = random;
    syncBuiltinESMExports();
  };
}

/** A disk that fills: SQLite files cannot grow, and other files accept a limited number of writes. */
export class Disk {
  readonly #open = new Set<SqliteDatabase.Database>();
  readonly #restore: () => void;
  #pages: number | null = null;
  #writes = Infinity;

  static async open(folder: string): Promise<Disk> {
    const handle = await open(folder, 'r');
    const files = Object.getPrototypeOf(handle) as { write: (...given: unknown[]) => Promise<unknown> };
    await handle.close();
    return new Disk(folder, files);
  }

  private constructor(folder: string, files: { write: (...given: unknown[]) => Promise<unknown> }) {
    const prototype = SqliteDatabase.prototype as {
      pragma: (this: SqliteDatabase.Database, ...given: unknown[]) => unknown;
    };
    const { pragma } = prototype;
    const { write } = files;
    const limit = (database: SqliteDatabase.Database, isNew: boolean) => this.#limit(database, folder, isNew);
    prototype.pragma = function (...given) {
      const result = Reflect.apply(pragma, this, given);
      limit(this, true);
      return result;
    };
    const mayWrite = () => (this.#writes -= 1) >= 0;
    files.write = function (...given) {
      if (mayWrite()) return Reflect.apply(write, this, given);
      const error = new Error('ENOSPC: no space left on device, write');
      return Promise.reject(Object.assign(error, { code: 'ENOSPC', errno: -28, syscall: 'write' }));
    };
    this.#restore = () => {
      prototype.pragma = pragma;
      files.write = write;
    };
  }

  /** From now on there is room for this many more pages of each database, and this many writes to other files. */
  fill(pages: number, writes: number): void {
    this.#pages = pages;
    this.#writes = writes;
    for (const database of this.#open) this.#limit(database, '', false);
  }

  /** Makes room again. */
  empty(): void {
    this.#pages = null;
    this.#writes = Infinity;
    for (const database of this.#open) this.#limit(database, '', false);
  }

  close(): void {
    this.#restore();
  }

  #limit(database: SqliteDatabase.Database, folder: string, isNew: boolean): void {
    if (isNew && (this.#open.has(database) || !database.name.startsWith(folder))) return;
    if (!database.open || database.name.includes('.owner-')) return void this.#open.delete(database);
    this.#open.add(database);
    if (isNew && this.#pages === null) return;
    const count = Number(database.pragma('page_count', { simple: true }));
    database.pragma(`max_page_count = ${this.#pages === null ? 1_073_741_823 : count + this.#pages}`);
  }
}
