// @module-tag full
/**
 * Servers whose pages leave out records that they count, which looks like totals that are too large. Nothing counts as fresh that
 * was not seen, and nothing is removed.
 */
import { describe, expect, test } from 'vitest';
import { hourMs } from '../../src/model/time.ts';
import type { Behaviour, Sandbox } from '../support/bent/sandbox.ts';
import { behindProxy } from '../support/altering-proxy.ts';
import { expectMirrored, sync, type SyncTry } from '../support/mirror.ts';
import { sample } from '../support/part.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { valuesOf } from '../support/rows.ts';

type Records = readonly { readonly id: number }[];

/** The records that a page of this size shows. */
type CutPage = (records: Records, size: number) => Records;

/** A server whose pages of users are cut once `cut` is set. */
async function cutting(behaviour: Partial<Behaviour> = {}) {
  const sandbox = await startSandbox({ users: 700, emails: 20, packages: 5, coupons: 5, behaviour });
  const by: { cut?: CutPage } = {};
  const proxy = await behindProxy(sandbox, ({ path, body }) => {
    if (!path.startsWith('/api/v1/users?') || by.cut === undefined) return {};
    const list = JSON.parse(body) as { readonly data: Records; readonly per_page: number };
    return { body: JSON.stringify({ ...list, data: by.cut(list.data, list.per_page) }) };
  });
  return { sandbox, proxy, by, file: `${temporaryFolder()}/mirror.db` };
}

const tried = { resources: ['users'], pageSize: 50, windowPages: 6 } as const;

/** A run an hour later, after some changes. Returns its report, and whether it has seen everything. */
async function night(proxy: Sandbox, file: string, number: number, more: SyncTry = {}) {
  const { control } = proxy;
  control.advanceClock(hourMs);
  control.insert('users');
  for (let month = 4; month <= 9; month += 1)
    control.insert('users', { created_at: `2025-0${month}-11T12:00:00.000000Z` });
  control.update('users', 17 + number * 50, { first_name: `Night ${number}` });
  const startedAt = control.now();
  const { report, error } = await sync(proxy, file, { ...tried, ...more });
  const { users } = report.resources;
  const freshAsOf = users?.fresh_as_of ?? null;
  return {
    ...users,
    advice: error?.advice,
    requests: report.requests,
    isFresh: freshAsOf !== null && Date.parse(freshAsOf) >= startedAt,
  };
}

/** Pseudo-random numbers from 0 to 1, the same each time. */
function chances(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

const dropsLast: CutPage = (records, size) => (records.length < size || size === 1 ? records : records.slice(0, -1));
const repeatsLast: CutPage = (records, size) =>
  records.length < size || size < 3 ? records : [...records.slice(0, -1), ...records.slice(-2, -1)];
const cuts: CutPage = (records) => records.slice(0, 20);
const dropsSecond: CutPage = (records) => records.filter((_, at) => at !== 1);

function dropsOne(seed: number): CutPage {
  const chance = chances(seed);
  return (records) => {
    const at = Math.floor(chance() * records.length);
    return records.length < 2 ? records : records.filter((_, index) => index !== at);
  };
}

function sometimes(cut: CutPage, seed: number): CutPage {
  const chance = chances(seed);
  return (records, size) => (chance() < 0.3 ? cut(records, size) : records);
}

type Liar = readonly [name: string, cut: () => CutPage, behaviour: Partial<Behaviour>];

const liars: readonly Liar[] = [
  ['drops the last of every full page', () => dropsLast, {}],
  ['repeats a record in place of the last of every full page', () => repeatsLast, {}],
  ['drops the second of every page', () => dropsSecond, {}],
  ['drops one of each page at random', () => dropsOne(1), {}],
  ['drops one of some pages at random', () => sometimes(dropsOne(2), 2), {}],
  ['cuts pages to 20', () => cuts, {}],
  ['cuts some pages to 20', () => sometimes(cuts, 3), {}],
  ['drops the last of every full page, without ranges of days', () => dropsLast, { date_ranges: 'ignored' }],
  ['drops the last of every full page, and keeps no order', () => dropsLast, { sorts: 'ignored' }],
  ['cuts pages to 20, in another order on every request', () => cuts, { sorts: 'random' }],
];

/** Whether the mirror has exactly the users of the server. */
function isEqual(sandbox: Sandbox, file: string): boolean {
  const rows = valuesOf(file, "SELECT id || ' ' || first_name FROM users ORDER BY id");
  const records = sandbox.control.dump('users').map(({ id, first_name: name }) => `${String(id)} ${String(name)}`);
  return rows.length === records.length && rows.every((row, at) => row === records[at]);
}

describe('a server that', () => {
  test.each(sample(liars, 2))(
    '%s is never called complete or fresh before everything was seen, and loses no row',
    async (_, cut, behaviour) => {
      for (const before of [0, 1]) {
        const { sandbox, proxy, by, file } = await cutting(behaviour);
        for (let at = 0; at < before + 2; at += 1) {
          if (at === before) by.cut = cut();
          const said = await night(proxy, file, at);
          expect(said.deleted).toBe(0);
          expect(said.requests).toBeLessThan(1.3 * 100 + 1_050);
          const isWhole = isEqual(sandbox, file);
          expect([said.status === 'complete' && !isWhole, said.isFresh && !isWhole]).toEqual([false, false]);
        }
        delete by.cut;
        expect(await night(proxy, file, 9)).toMatchObject({ status: 'complete', deleted: 0 });
        expectMirrored(sandbox, file, ['users']);
      }
    },
  );
});
