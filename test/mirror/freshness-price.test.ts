/** The predicted price of freshness, and what a month of nights then needs: the real engine over a list in memory. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { openSimulation } from '../../bench/requests.ts';
import { priceOf, type PriceOptions, rhythmOf } from '../../src/mirror/freshness-price.ts';
import { dayMs, hourMs, parseInstant } from '../../src/model/time.ts';
import { resourceNames } from '../../src/model/resources.ts';
import { Random } from '../../src/sandbox/random.ts';
import { invoke } from '../support/invoke.ts';
import { mirroredFolder } from '../support/mirror.ts';

const windowPages = 5;

/** A mirror after some nights, of a server with new users and this many deletions each day. */
async function kept(users: number, pageSize: number, deletedADay: number) {
  const simulation = openSimulation(users, pageSize);
  onTestFinished(() => simulation.close());
  const { server, run, store, clock } = simulation;
  const random = new Random(7);
  await run({ mode: 'full' });
  const night = async (requestsPerRun: number): Promise<number> => {
    server.now += dayMs - hourMs;
    server.grow();
    server.remove(deletedADay, random);
    server.change(20, random);
    return run({ mode: 'default', requestsPerRun, windowPages });
  };
  for (let count = 0; count < 3; count += 1) await night(users);
  const options = (requestsPerRun: number): PriceOptions => ({
    requestsPerRun,
    windowPages,
    requestsPerSecond: undefined,
  });
  return {
    price: (withinMs: number, requestsPerSecond?: number) =>
      priceOf(store, clock, resourceNames, withinMs, { ...options(0), requestsPerSecond }),
    rhythm: (requestsPerRun: number) => rhythmOf(store, clock, options(requestsPerRun)),
    /** Nights with the budget: the mean number of requests, and the age in days that the oldest row reached. */
    nights: async (count: number, requestsPerRun: number) => {
      let [requests, oldest] = [0, 0];
      for (let at = 0; at < count; at += 1) {
        requests += await night(requestsPerRun);
        // The first third is still affected by the time before this budget.
        if (at < count / 3) continue;
        const freshAsOf = parseInstant(
          store
            .windows('users')
            .map((each) => each.freshAsOf ?? '')
            .sort()[0] ?? '',
        );
        oldest = Math.max(oldest, 1 + Math.round((clock.now() - (freshAsOf ?? 0)) / dayMs));
      }
      return { requests: requests / count, oldest };
    },
  };
}

describe('The price of freshness', () => {
  test.each([1, 3])(
    'for %i nights is what a month then needs, within a tenth, and keeps every row that fresh',
    { tags: 'full' },
    async (nights) => {
      const { price, nights: run, rhythm } = await kept(1_600, 15, 1);
      const found = price(nights * dayMs + 2 * hourMs);
      expect(found).toMatchObject({ runs_a_day: 1, every_runs: nights, requests_a_minute: null, minutes_a_run: null });
      const budget = found?.requests_per_run ?? 0;
      const promised = rhythm(budget);
      const month = await run(30, budget);
      expect(month.oldest).toBeLessThanOrEqual(nights);
      expect(Math.abs(month.requests / (found?.requests_a_night ?? 0) - 1)).toBeLessThan(0.1);
      // What `status` predicts for the same budget.
      expect(promised?.nights).toBe(month.oldest);
      expect(Math.abs(month.requests / (promised?.requests ?? 0) - 1)).toBeLessThan(0.1);
      // A tenth less is not enough.
      expect((await run(9, Math.floor(budget * 0.87))).oldest).toBeGreaterThan(nights);
    },
  );

  test('includes the time that the server’s rate limit requires, and says if that is too long', async () => {
    const { price } = await kept(600, 15, 0);
    // About 50 pages, so about a minute at one request a second.
    const slow = price(26 * hourMs, 1);
    expect(slow).toMatchObject({ runs_a_day: 1, every_runs: 1, requests_a_minute: 60 });
    expect(slow?.minutes_a_run).toBe(Math.ceil((slow?.requests_a_night ?? 0) / 60));
    // All pages take thirty hours, so each night reads half of them and every row is read in every second run.
    const pages = slow?.requests_a_night ?? 0;
    const crawl = pages / (30 * 3_600);
    expect(price(26 * hourMs, crawl)).toMatchObject({ runs_a_day: null, requests_a_night: null });
    expect(price(26 * hourMs, crawl)?.minutes_a_run).toBeGreaterThan(24 * 60);
    expect(price(80 * hourMs, crawl)).toMatchObject({ runs_a_day: 1, every_runs: 2 });
    expect(price(hourMs, 1)).toMatchObject({ runs_a_day: null });
    expect(price(7 * hourMs, 1)).toMatchObject({ runs_a_day: 4, every_runs: 1 });
  });

  test('includes the daily changes that it is based on, and names no number of nights if the budget is too small', async () => {
    const { price, rhythm } = await kept(600, 15, 2);
    expect(price(26 * hourMs)?.churn.users).toEqual({ added_a_day: 0.6, deleted_a_day: 2 });
    expect(rhythm(1_000)).toMatchObject({ nights: 1 });
    expect(rhythm(1)).toMatchObject({ nights: null });
  });
});

describe('sync --dry-run --fresh', () => {
  test('prints the price, and `status` prints what the budget achieves', async () => {
    const { folder, sandbox } = await mirroredFolder(
      { users: 300, behaviour: { rate_limit: 5_000 } },
      { pageSize: 10 },
    );
    sandbox.control.clearRequests();
    const dry = await invoke(['sync', '--dry-run', '--fresh', '26h'], { folder });
    expect([dry.code, sandbox.control.requests().total]).toEqual([0, 0]);
    expect(dry.stdout).toMatch(
      /\nevery row younger than 26h: about \d+ requests in 24 hours, by one sync a night; each of them reads every row, for about \d+ minutes? at 5,000 requests a minute\nset sync\.requests_per_run to \d+ for that \(now 1,000\)\nbased on the changes of a day: users \S+ new and 0 deleted, /,
    );
    const json = await invoke(['sync', 'users', '--dry-run', '--fresh', '7d', '--json'], { folder });
    expect(JSON.parse(json.stdout)).toMatchObject({ fresh: { within_seconds: 604_800, every_runs: 6, runs_a_day: 1 } });
    const status = await invoke(['status'], { folder });
    expect(status.stdout).toMatch(
      /\nwith one sync a night, every row is read within 1 day, at about \d+ requests a run\n/,
    );
    const without = await invoke(['sync', '--fresh', '26h'], { folder });
    expect([without.code, without.stderr]).toEqual([2, expect.stringContaining('Add --dry-run')]);
  });
});
