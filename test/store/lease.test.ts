// @module-tag full
/** Leases in a real PostgreSQL, by its clock. The tests change the times in the table, so nothing waits. */
import { Kysely } from 'kysely';
import { describe, expect, onTestFinished, test } from 'vitest';
import { workerKind } from '../../src/worker/store/sqlite.ts';
import { LockHeldError } from '../../src/model/errors.ts';
import { openLeases, defaultLeaseMs as leaseMs } from '../../src/store/lease.ts';
import { openShared } from '../../src/store/postgres-schema.ts';
import { sharedStores } from '../support/shared.ts';

const newSharedStore = sharedStores();
const words = { held: (name: string) => `${name} is in other hands`, what: (name: string) => name };

async function opened() {
  const { store, tamper, database, schema } = await newSharedStore();
  /** The leases as seen by another machine. */
  const machine = async () => {
    const connected = await openShared(store, workerKind);
    const db = new Kysely<unknown>({ dialect: connected.dialect });
    let elapsed = [0, 0];
    const leases = openLeases(
      connected,
      { prefix: 'test ', ...words },
      { monotonic: () => elapsed[0] ?? 0, wall: () => elapsed[1] ?? 0 },
    );
    onTestFinished(async () => {
      await leases.close();
      await db.destroy();
    });
    return {
      leases,
      db,
      pass: (monotonic: number, wall: number) => (elapsed = [(elapsed[0] ?? 0) + monotonic, (elapsed[1] ?? 0) + wall]),
      take: (run: string) => db.transaction().execute((each) => leases.acquire(each, 'one', run, 'bulk')),
      step: () => db.transaction().execute((each) => leases.guard(each)),
      release: (run: string) => db.transaction().execute((each) => leases.release(each, 'one', run)),
    };
  };
  return {
    machine,
    expire: () => tamper(`update store_leases set until = clock_timestamp() - interval '1 second'`),
    row: async () =>
      (
        await database.query(
          `select *, until - clock_timestamp() > interval '35 seconds' as fresh from ${schema}.store_leases`,
        )
      ).rows[0] as { readonly name: string; readonly epoch: number; readonly fresh: boolean },
  };
}

describe('a lease', () => {
  test('has one owner, which others can read, until it is released', async () => {
    const { machine, row } = await opened();
    const [a, b] = [await machine(), await machine()];
    await a.take('r1');
    const refused = b.take('r2');
    await expect(refused).rejects.toThrow(LockHeldError);
    await expect(refused).rejects.toThrow(/^one is in other hands: process \d+ on \S+, since 20\S+Z \(bulk, run r1\)$/);
    expect(await b.leases.owner(b.db, 'one')).toMatchObject({ run: 'r1', command: 'bulk', pid: process.pid });
    await a.step();
    await a.release('r1');
    expect(await b.leases.owner(b.db, 'one')).toBeUndefined();
    await b.take('r2');
    expect(await row()).toMatchObject({ name: 'test one', run: 'r2', epoch: '2' });
  });

  // proves: lease
  test('that expired can be taken over in the next epoch, and its former owner writes nothing more', async () => {
    const { machine, expire } = await opened();
    const [a, b] = [await machine(), await machine()];
    await a.take('r1');
    expect(a.leases.epoch('one')).toBe(1);
    await expire();
    expect(await b.leases.owner(b.db, 'one')).toBeUndefined();
    await b.take('r2');
    expect(b.leases.epoch('one')).toBe(2);
    await expect(a.step()).rejects.toThrow(
      /the lock of one was lost to process \d+ .*run r2\); nothing was written since/,
    );
    expect(await a.leases.renew()).toBe(false);
    await b.step();
    // Its release does not affect the new owner.
    await a.release('r1');
    await b.step();
  });

  test('that was taken again by the same run in another process is lost to the first process', async () => {
    const { machine, expire } = await opened();
    const [a, b] = [await machine(), await machine()];
    await a.take('r1');
    await expire();
    await b.take('r1');
    await expect(a.step()).rejects.toThrow(LockHeldError);
    await b.step();
  });

  test('is taken by one of several that find it free at the same moment', async () => {
    const { machine } = await opened();
    const machines = await Promise.all([machine(), machine(), machine()]);
    const taken = await Promise.allSettled(machines.map((each, at) => each.take(`r${at}`)));
    expect(taken.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  test('that expired and was not taken stays with its owner', async () => {
    const { machine, expire, row } = await opened();
    const a = await machine();
    await a.take('r1');
    await expire();
    await a.step();
    expect(await row()).toMatchObject({ run: 'r1', epoch: '1', fresh: true });
  });

  test('counts its remaining time by the clock of the machine that advanced more', async () => {
    const { machine, expire, row } = await opened();
    const a = await machine();
    expect(a.leases.remainingMs('one')).toBe(0);
    await a.take('r1');
    expect(a.leases.remainingMs('one')).toBe(leaseMs);
    a.pass(10_000, 0);
    expect(a.leases.remainingMs('one')).toBe(leaseMs - 10_000);
    // The machine was suspended.
    a.pass(0, 40_000);
    expect(a.leases.remainingMs('one')).toBe(leaseMs - 40_000);
    a.pass(leaseMs, 0);
    expect(a.leases.remainingMs('one')).toBe(0);
    await expire();
    expect(await a.leases.renew()).toBe(true);
    expect(a.leases.remainingMs('one')).toBe(leaseMs);
    expect(await row()).toMatchObject({ fresh: true });
  });

  test('that was abandoned is not renewed, and expires', async () => {
    const { machine, expire } = await opened();
    const [a, b] = [await machine(), await machine()];
    await a.take('r1');
    a.leases.abandon('one', 'r1');
    expect(a.leases.remainingMs('one')).toBe(0);
    await expire();
    expect(await a.leases.renew()).toBe(true);
    await b.take('r2');
    expect(b.leases.epoch('one')).toBe(2);
  });

  test('is reported as lost to the work that it guards after another took it', async () => {
    const { machine, expire } = await opened();
    const [a, b] = [await machine(), await machine()];
    await a.take('r1');
    const lost = a.leases.lost('one');
    await a.leases.renew();
    expect(lost.aborted).toBe(false);
    a.pass(20_000, 0);
    await expire();
    await b.take('r2');
    await a.leases.renew();
    expect([lost.aborted, a.leases.lost('another').aborted]).toEqual([true, true]);
  });

  test('that is released during a renewal is free', async () => {
    const { machine } = await opened();
    const [a, b] = [await machine(), await machine()];
    await a.take('r1');
    await Promise.all([a.release('r1'), a.leases.renew()]);
    await b.take('r2');
    expect(b.leases.epoch('one')).toBe(2);
  });

  test('is released when its owner closes', async () => {
    const { machine } = await opened();
    const [a, b] = [await machine(), await machine()];
    await a.take('r1');
    await a.leases.close();
    await b.take('r2');
    expect(b.leases.epoch('one')).toBe(2);
  });
});
