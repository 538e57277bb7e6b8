/**
 * Makers, approvers, denials, disabled accounts and time: nothing is sent without the approvals in force at that
 * moment.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Client } from '../../src/api/operations.ts';
import type { Journal } from '../../src/journal/port.ts';
import { openJournal, openPeopleIn } from '../support/journal-file.ts';
import type { Actor } from '../../src/model/actor.ts';
import { OperatorError } from '../../src/model/errors.ts';
import { hourMs } from '../../src/model/time.ts';
import type { People } from '../../src/people/people.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { bulkClient, newUser, plan, send, sheetOf } from '../support/bulk.ts';
import { anna, policyOf } from '../support/journal.ts';
import { newAccount, operator } from '../support/people.ts';
import { isFull } from '../support/part.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const runs = Number(process.env['PROPERTY_RUNS'] ?? (isFull ? 25 : 8));
const goodForMs = 72 * hourMs;
const needed = 2;

/** Accounts that approve; the operating system user bob is bert. */
const approvers = ['bert', 'carla', 'dora'] as const;
type Approver = (typeof approvers)[number];
const makers = ['anna', 'bob'] as const;
type Maker = (typeof makers)[number];

const at = fc.nat(2);
const maker = fc.constantFrom(...makers);
const account = fc.constantFrom(...approvers);
const moves = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('plan' as const), maker, user: fc.nat(1) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('submit' as const), maker, at }) },
  { weight: 9, arbitrary: fc.record({ kind: fc.constant('approve' as const), account, at }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('deny' as const), account, at }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('send' as const), maker, at }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('disable' as const), account }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('enable' as const), account }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('pass' as const), hours: fc.constantFrom(1, 40, 73) }) },
);
type Move = typeof moves extends fc.Arbitrary<infer T> ? T : never;

interface Given {
  readonly by: Approver;
  readonly hash: string;
  readonly time: number;
  /** The batch that was sent with it. */
  usedBy: string | null;
}

interface MovedClock {
  time: number;
  readonly now: () => number;
}

class World {
  readonly #journal: Journal;
  readonly #people: People;
  readonly #client: Client;
  readonly #sandbox: Sandbox;
  readonly #users: readonly number[];
  readonly #clock: MovedClock;
  readonly #batches: string[] = [];
  // The test's own model of the state.
  readonly #makers = new Map<string, Set<Maker>>();
  #given: Given[] = [];
  readonly #disabled = new Set<Approver>();
  sent = 0;

  static async open(sandbox: Sandbox, client: Client): Promise<World> {
    const file = `${temporaryFolder()}/journal.db`;
    const clock: MovedClock = { time: Date.now(), now: () => clock.time };
    const rules = { approval: { balance: policyOf({ approvers: needed, goodForMs }) }, caps: null };
    const journal = await openJournal(file, anna, clock, rules);
    const people = await openPeopleIn(file, operator, clock);
    for (const name of approvers) {
      const osUsers = name === 'bert' ? ['bob'] : [];
      await people.add(newAccount(name, { roles: ['approver'], osUsers, password: 'hash' }));
    }
    return new World(journal, people, client, sandbox, clock);
  }

  private constructor(journal: Journal, people: People, client: Client, sandbox: Sandbox, clock: MovedClock) {
    [this.#journal, this.#people, this.#client, this.#sandbox, this.#clock] = [journal, people, client, sandbox, clock];
    this.#users = [newUser(sandbox, 100), newUser(sandbox, 100)];
  }

  async close(): Promise<void> {
    await this.#people.close();
    await this.#journal.close();
  }

  async do(move: Move): Promise<void> {
    const batch = 'at' in move ? this.#batches[move.at % Math.max(1, this.#batches.length)] : undefined;
    if ('at' in move && batch === undefined) return;
    switch (move.kind) {
      case 'plan': {
        const sheet = sheetOf([[this.#users[move.user] ?? 0, 'add', '5', 'Credit']]);
        const planned = await tried(plan(this.#by(move.maker), this.#client, sheet));
        if (planned === undefined) return;
        this.#batches.push(planned.batch);
        this.#makers.set(planned.batch, new Set([move.maker]));
        return;
      }
      case 'submit':
        if (await done(this.#by(move.maker).submit(batch ?? '', { note: null, again: null }))) {
          this.#makers.get(batch ?? '')?.add(move.maker);
        }
        return;
      case 'approve':
      case 'deny': {
        const journal = this.#journal.by({ ...anna, name: 'web', account: move.account });
        const found = await journal.approval(batch ?? '');
        const hash = (await journal.batch(batch ?? ''))?.hash ?? '';
        if (move.kind === 'deny') {
          if (await done(journal.deny(batch ?? '', 'no')))
            this.#given = this.#given.filter((each) => each.hash !== hash);
        } else if (await done(journal.approve(batch ?? '', found?.hash ?? ''))) {
          this.#given.push({ by: move.account, hash, time: this.#clock.time, usedBy: null });
        }
        return;
      }
      case 'send':
        return this.#send(batch ?? '', move.maker);
      case 'disable':
        await this.#people.setState(move.account, 'disabled');
        this.#disabled.add(move.account);
        return;
      case 'enable':
        await this.#people.setState(move.account, 'active');
        this.#disabled.delete(move.account);
        return;
      case 'pass':
        this.#clock.time += move.hours * hourMs;
    }
  }

  async #send(batch: string, by: Maker): Promise<void> {
    const hash = (await this.#journal.batch(batch))?.hash ?? '';
    const own = this.#makers.get(batch) ?? new Set();
    const good = this.#given.filter(
      (each) =>
        each.hash === hash &&
        each.time + goodForMs > this.#clock.time &&
        !this.#disabled.has(each.by) &&
        !(each.by === 'bert' && own.has('bob')) &&
        (each.usedBy === null || each.usedBy === batch),
    );
    const before = this.#sandbox.control.ledger().length;
    await tried(send(this.#by(by), this.#client, batch, { clock: this.#clock }));
    const sent = this.#sandbox.control.ledger().length - before;
    if (sent === 0) return;
    this.sent += sent;
    for (const each of good) each.usedBy = batch;
    const people = new Set(good.map((each) => each.by)).size;
    if (people < needed) throw new Error(`batch ${batch} was sent with ${people} of ${needed} approvals`);
  }

  #by(name: Maker): Journal {
    const actor: Actor = { ...anna, name };
    return this.#journal.by(actor);
  }
}

async function tried<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof OperatorError) return undefined;
    throw error;
  }
}

const done = async (work: Promise<void>): Promise<boolean> => (await tried(work.then(() => true))) === true;

// proves: approval
test(
  'nothing is sent without the approvals in force at that moment, whoever does what',
  { timeout: 300_000 },
  async () => {
    const sandbox = await startSandbox({ users: 3, emails: 3, now: Date.now() });
    const client = bulkClient(sandbox);
    const details = await fc.check(
      fc.asyncProperty(fc.array(moves, { minLength: 8, maxLength: 30 }), async (all) => {
        const world = await World.open(sandbox, client);
        try {
          for (const move of all) await world.do(move);
        } finally {
          await world.close();
        }
      }),
      {
        numRuns: runs,
        ...(process.env['PROPERTY_SEED'] === undefined ? {} : { seed: Number(process.env['PROPERTY_SEED']) }),
      },
    );
    expect(details.failed ? fc.defaultReportMessage(details) : null).toBeNull();
    // One path certainly sends, so that the rule does not hold only because nothing is sent.
    const world = await World.open(sandbox, client);
    for (const move of [
      { kind: 'plan', maker: 'anna', user: 0 },
      { kind: 'submit', maker: 'anna', at: 0 },
      { kind: 'approve', account: 'bert', at: 0 },
      { kind: 'approve', account: 'dora', at: 0 },
      { kind: 'send', maker: 'anna', at: 0 },
    ] as const) {
      await world.do(move);
    }
    expect(world.sent).toBe(1);
    await world.close();
  },
);
