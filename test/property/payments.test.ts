/**
 * Two people, waiting prompts, journals that are restored, lost and adopted, rows in new combinations, and a failing
 * server: no payment is made twice.
 */
import { copyFileSync, existsSync, rmSync } from 'node:fs';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Client } from '../../src/api/operations.ts';
import { adopt } from '../../src/bulk/adopt.ts';
import { MirrorsJournalMemory } from '../../src/store/journal-memory.ts';
import { reconcile } from '../../src/bulk/reconcile.ts';
import type { Journal } from '../../src/journal/port.ts';
import { openJournal } from '../support/journal-file.ts';
import { anna } from '../support/journal.ts';
import { OperatorError } from '../../src/model/errors.ts';
import { systemClock } from '../../src/model/time.ts';
import type { Fault, Sandbox } from '../support/bent/sandbox.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { bulkClient, newUser, plan, send, sheetOf } from '../support/bulk.ts';
import { isFull } from '../support/part.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { traceProblems } from '../support/trace.ts';

const runs = Number(process.env['PROPERTY_RUNS'] ?? (isFull ? 25 : 8));

/** A row: an index of a user, an amount and a text. */
const rows = fc.uniqueArray(
  fc.record({ user: fc.nat(2), amount: fc.constantFrom('5', '7.50'), text: fc.constantFrom('Credit', 'credit', '') }),
  { minLength: 1, maxLength: 4, selector: ({ user, amount }) => `${user} ${amount}` },
);
const faults = fc.constantFrom<Fault>(
  'commit_reset',
  'reset_before',
  'commit_429',
  'commit_500',
  'lost',
  'commit_late',
);

const moves = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('plan' as const), person: fc.nat(1), rows }) },
  // The person at the prompt consents to one of the batches, sooner or later.
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('consent' as const), person: fc.nat(1), at: fc.nat(5) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('resume' as const), person: fc.nat(1), at: fc.nat(5) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reconcile' as const), person: fc.nat(1), at: fc.nat(5) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('fault' as const), fault: faults }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('late' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('copy' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('put back' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('lost' as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('adopt' as const), person: fc.nat(1) }) },
);
type Move = typeof moves extends fc.Arbitrary<infer T> ? T : never;

class World {
  readonly #folder = temporaryFolder();
  readonly #file = `${this.#folder}/journal.db`;
  /** A mirror outlives the journal, and is not restored with it. */
  readonly #memory: MirrorsJournalMemory;
  #people: readonly Journal[] = [];
  readonly #sandbox: Sandbox;
  readonly #client: Client;
  readonly #users: readonly number[];
  readonly #batches: string[] = [];
  readonly #wrong: string[] = [];

  static async open(sandbox: Sandbox, client: Client): Promise<World> {
    const world = new World(sandbox, client);
    await world.#openJournals();
    return world;
  }

  private constructor(sandbox: Sandbox, client: Client) {
    this.#sandbox = sandbox;
    this.#client = client;
    this.#users = [0, 1, 2].map(() => newUser(sandbox, 100));
    openMirrorFile(`${this.#folder}/mirror.db`).close();
    this.#memory = new MirrorsJournalMemory(`${this.#folder}/mirror.db`);
  }

  async #openJournals(): Promise<void> {
    this.#people = [await openJournal(this.#file, anna), await openJournal(this.#file, anna)];
  }

  async close(): Promise<void> {
    this.#memory.close();
    await this.#closeJournals();
  }

  async #closeJournals(): Promise<void> {
    for (const journal of this.#people) await journal.close();
  }

  async do(move: Move): Promise<void> {
    const { control } = this.#sandbox;
    switch (move.kind) {
      case 'plan': {
        const cells = move.rows.map(({ user, amount, text }) => [this.#users[user] ?? 0, 'add', amount, text]);
        const planned = await this.#tried(plan(this.#journal(move.person), this.#client, sheetOf(cells)));
        if (planned !== undefined) this.#batches.push(planned.batch);
        return;
      }
      case 'consent':
      case 'resume':
      case 'reconcile': {
        const batch = this.#batches[move.at % Math.max(1, this.#batches.length)];
        const journal = this.#journal(move.person);
        const state = batch === undefined ? undefined : (await journal.batch(batch))?.state;
        if (batch === undefined || state === undefined || (move.kind === 'resume' && state === 'planned')) return;
        const how = { memory: this.#memory, ...(move.kind === 'reconcile' && { reconcile: true as const }) };
        const sent = await this.#tried(send(journal, this.#client, batch, { settleAfterMs: 0, ...how }));
        const unknown = Object.entries(await journal.counts(batch)).some(
          ([each, count]) => ['sending', 'acknowledged', 'unknown', 'needs_human'].includes(each) && count > 0,
        );
        if (unknown && sent !== undefined && sent.error?.exitCode !== 8)
          this.#wrong.push('no 8 while a row is unknown');
        return;
      }
      case 'fault':
        control.faultNext({ fault: move.fault, match: { method: 'PUT' } });
        return;
      case 'late':
        control.commitLate();
        return;
      case 'copy':
        await this.#moveFile(this.#file, `${this.#file}.copy`);
        return;
      case 'put back':
        if (existsSync(`${this.#file}.copy`)) await this.#moveFile(`${this.#file}.copy`, this.#file);
        return;
      case 'lost':
        await this.#moveFile(null, this.#file);
        return;
      case 'adopt':
        // Nothing is adopted before writes in flight have had time to finish.
        control.commitLate();
        await this.#tried(this.#adopt(this.#journal(move.person)));
    }
  }

  async #adopt(journal: Journal): Promise<void> {
    const signal = new AbortController().signal;
    const ports = { journal, client: this.#client, memory: this.#memory, clock: systemClock, signal };
    const whole = { batch: null, span: { from: null, to: null } };
    const rest = { directory: null, pageSize: 1_000, announce: () => {} };
    await adopt(ports, await reconcile({ ...ports, ...rest }, whole));
  }

  #journal(person: number): Journal {
    const journal = this.#people[person];
    if (journal === undefined) throw new Error(`there is no person ${person}`);
    return journal;
  }

  /** With nobody using the file, as a careful person would do it. */
  async #moveFile(from: string | null, to: string): Promise<void> {
    await this.#closeJournals();
    for (const end of ['-wal', '-shm']) rmSync(`${this.#file}${end}`, { force: true });
    if (from === null) rmSync(to);
    else copyFileSync(from, to);
    await this.#openJournals();
  }

  async #tried<T>(work: Promise<T>): Promise<T | undefined> {
    try {
      return await work;
    } catch (error) {
      if (error instanceof OperatorError) return undefined;
      throw error;
    }
  }

  /** The violations found. Nobody ever asks to repeat a payment of the same amount to the same user. */
  async faults(): Promise<string[]> {
    this.#sandbox.control.commitLate();
    const seen = new Map<string, number>();
    for (const { user_id: user, body } of this.#sandbox.control.ledger()) {
      if (!this.#users.includes(Number(user))) continue;
      const payment = `user ${user}: ${String(body['amount'])}`;
      seen.set(payment, (seen.get(payment) ?? 0) + 1);
    }
    const twice = [...seen].filter(([, times]) => times > 1).map(([payment]) => `paid twice: ${payment}`);
    const traced = await traceProblems(this.#journal(0));
    return [...this.#wrong, ...twice, ...traced];
  }
}

test(
  'no payment is made twice, whatever people plan, delay, consent to, resume and restore',
  { timeout: 300_000 },
  async () => {
    const sandbox = await startSandbox({ users: 5, emails: 5, now: Date.now(), behaviour: { retry_after_seconds: 0 } });
    sandbox.control.setBehaviour({ late_commit_ms: 3_600_000 });
    const client = bulkClient(sandbox);
    const details = await fc.check(
      fc.asyncProperty(fc.array(moves, { minLength: 3, maxLength: 14 }), async (all) => {
        const world = await World.open(sandbox, client);
        try {
          // One after the other: two actions at once equal one of the orders, since each step is one transaction.
          for (const move of all) await world.do(move);
          const faults = await world.faults();
          if (faults.length > 0) throw new Error(faults.join('; '));
        } finally {
          sandbox.control.clearFaults();
          await world.close();
        }
      }),
      {
        numRuns: runs,
        ...(process.env['PROPERTY_SEED'] === undefined ? {} : { seed: Number(process.env['PROPERTY_SEED']) }),
      },
    );
    expect(details.failed ? fc.defaultReportMessage(details) : null).toBeNull();
  },
);
