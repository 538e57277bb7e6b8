// @module-tag full
/** One limit for several machines, in a real PostgreSQL and by its clock. The intervals are long, so nothing waits. */
import { expect, onTestFinished, test } from 'vitest';
import { openRequestBudget } from '../../src/store/request-budget.ts';
import { connectTo } from '../../src/store/postgres.ts';
import { openShared } from '../../src/store/postgres-schema.ts';
import { workerKind } from '../../src/worker/store/sqlite.ts';
import { sharedStores } from '../support/shared.ts';

const newSharedStore = sharedStores();
const minute = 60_000;

async function opened() {
  const { store, tamper } = await newSharedStore();
  const first = await openShared(store, workerKind);
  onTestFinished(() => first.close());
  const warned: string[] = [];
  return {
    store,
    tamper,
    warned,
    /** The budget as seen by another machine. */
    machine: (perMinute?: number, key = 'k') => {
      const database = connectTo(store);
      let now = 0;
      const log = { warn: (_: object, text: string) => warned.push(text) };
      const budget = openRequestBudget(database, {
        address: 'https://panel.example.com',
        keyMark: key,
        requestsPerSecond: perMinute === undefined ? undefined : perMinute / 60,
        log: log as never,
        elapsed: () => now,
      });
      onTestFinished(() => budget.close());
      return { ...budget, pass: (ms: number) => (now += ms) };
    },
  };
}

const minutes = (ms: number) => Math.round(ms / minute);

test('machines with one key share slots in turn, at the rate of one machine', async () => {
  const { machine } = await opened();
  const [a, b] = [machine(1), machine(1)];
  const waits = [];
  for (const each of [a, b, a, a, b]) waits.push(minutes(await each.next()));
  expect(waits).toEqual([0, 1, 2, 3, 4]);
  expect(minutes(await machine(1, 'another key').next())).toBe(0);
});

test('a fast limit reserves several slots with one statement, and reserves again after they expire', async () => {
  const { machine, store } = await opened();
  const [a, b] = [machine(1_200), machine(1_200)];
  const first = [await a.next(), await a.next(), await a.next()];
  expect(first.map(Math.round)).toEqual([0, 50, 100]);
  // Five slots of 50 ms each were reserved.
  expect(await b.next()).toBeGreaterThan(0);
  const database = connectTo(store);
  onTestFinished(() => database.close());
  const next = async () =>
    Number(
      (await database.query<{ at: number }>('select extract(epoch from next_at) * 1000 as at from store_budgets'))[0]
        ?.at,
    );
  const before = await next();
  a.pass(minute);
  await a.next();
  expect(await next()).toBeGreaterThan(before);
});

test('a refusal by the server applies to every machine, with or without a limit of its own', async () => {
  const { machine } = await opened();
  for (const limit of [undefined, 600]) {
    const [a, b] = [machine(limit, `key ${limit}`), machine(limit, `key ${limit}`)];
    expect([minutes(await a.next()), minutes(await b.next())]).toEqual([0, 0]);
    a.refused(10 * minute);
    expect(minutes(await a.next())).toBe(10);
    b.pass(2_000);
    expect(minutes(await b.next())).toBe(10);
  }
});

test('without a limit, a second of requests costs one statement', async () => {
  const { machine, tamper } = await opened();
  const a = machine();
  expect(await a.next()).toBe(0);
  await tamper(`update store_budgets set closed_until = clock_timestamp() + interval '1 hour'`);
  expect(await a.next()).toBe(0);
  a.pass(1_000);
  expect(minutes(await a.next())).toBe(60);
});

test('without the store, each machine keeps its own limit, and says so once', async () => {
  const { machine, tamper, warned } = await opened();
  const a = machine(1);
  await tamper('alter table store_budgets rename next_at to moved');
  expect([await a.next(), await a.next()]).toEqual([0, 0]);
  expect(warned).toEqual([expect.stringContaining('kept by each machine alone')]);
  await tamper('alter table store_budgets rename moved to next_at');
  expect(await a.next()).toBe(0);
  a.pass(minute);
  await a.next();
  expect(minutes(await a.next())).toBe(1);
});
