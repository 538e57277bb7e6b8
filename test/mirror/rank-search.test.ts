import { array, assert, integer, property, record } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { leeway, requestsOfSearch, simulated } from '../../bench/rank-probes.ts';
import { type RankFindings, searchMissing } from '../../src/mirror/find-deletions.ts';
import { Random } from '../../src/sandbox/random.ts';
import { sample } from '../support/part.ts';

interface Listed {
  readonly id: number;
  readonly moment: number;
}

/** Runs the search against a list of ids. Returns what it found and the pages that it requested. */
function search(local: readonly Listed[], served: readonly number[], pageSize: number, total = served.length) {
  const rows = { ids: local.map(({ id }) => id), moments: local.map(({ moment }) => moment) };
  const steps = searchMissing(rows, { total, pageSize });
  const asked: number[] = [];
  let step = steps.next();
  while (step.done !== true) {
    asked.push(...step.value);
    step = steps.next(step.value.map((page) => served.slice((page - 1) * pageSize, page * pageSize)));
  }
  return { found: step.value, asked };
}

function ascending(findings: RankFindings): unknown {
  return findings.kind === 'missing' ? findings.ids.toSorted((a, b) => a - b) : findings;
}

/** Records in the mirror's order. Their ids are not in that order, and some have the same time. */
const world = record({
  steps: array(integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 400 }),
  pageSize: integer({ min: 2, max: 12 }),
  deletions: array(integer({ min: 0, max: 399 }), { maxLength: 30 }),
  seed: integer(),
});

/** @param spread added to each step; with 1, no two records have the same time */
function recordsOf(steps: readonly number[], spread: number): Listed[] {
  let moment = 0;
  return steps.map((step, index) => {
    moment += step + spread;
    return { id: ((index * 7919) % 10_007) + 1, moment };
  });
}

describe('the search for deletions', () => {
  test('finds exactly the deleted records, and requests no page twice', () => {
    assert(
      property(world, ({ steps, pageSize, deletions }) => {
        const local = recordsOf(steps, 0);
        const gone = new Set(deletions.map((at) => local[at]?.id));
        const served = local.map(({ id }) => id).filter((id) => !gone.has(id));
        const { found, asked } = search(local, served, pageSize);
        const lost = local.map(({ id }) => id).filter((id) => gone.has(id));
        expect(ascending(found)).toEqual(lost.toSorted((a, b) => a - b));
        expect(new Set(asked).size).toBe(asked.length);
        expect(asked.length).toBeLessThanOrEqual(Math.ceil(served.length / pageSize));
      }),
      { numRuns: 500 },
    );
  });

  test('finds as many as were deleted if the server orders ties differently, or reports a contradiction', () => {
    let undecided = 0;
    assert(
      property(world, ({ steps, pageSize, deletions, seed }) => {
        const local = recordsOf(steps, 0);
        const random = new Random(seed);
        const gone = new Set(deletions.map((at) => local[at]?.id));
        const lot = new Map(local.map(({ id }) => [id, random.fraction()]));
        const served = local
          .filter(({ id }) => !gone.has(id))
          .toSorted((a, b) => a.moment - b.moment || (lot.get(a.id) ?? 0) - (lot.get(b.id) ?? 0))
          .map(({ id }) => id);
        const { found } = search(local, served, pageSize);
        if (found.kind === 'contradiction') {
          undecided += 1;
          return;
        }
        // The number is right. Each of them is then looked up on the server.
        expect(found.ids.length).toBe(local.length - served.length);
      }),
      { numRuns: 500, seed: 3 },
    );
    expect(undecided).toBeLessThan(250);
  });

  test('finds them if pages begin and end within ties that the server orders differently', () => {
    const local = Array.from({ length: 200 }, (_, index) => ({ id: index, moment: Math.floor(index / 4) }));
    const gone = new Set([17, 120, 199]);
    const served = local
      .filter(({ id }) => !gone.has(id))
      .toSorted((a, b) => a.moment - b.moment || b.id - a.id)
      .map(({ id }) => id);
    expect(ascending(search(local, served, 10).found)).toEqual([17, 120, 199]);
  });

  test('finds deleted records at both ends of the list, too', () => {
    const local = recordsOf(
      Array.from({ length: 100 }, () => 1),
      1,
    );
    const ids = local.map(({ id }) => id);
    const served = ids.slice(5, 95).filter((id) => id !== ids[40]);
    const missing = [...ids.slice(0, 5), ids[40] ?? 0, ...ids.slice(95)];
    expect(ascending(search(local, served, 10).found)).toEqual(missing.toSorted((a, b) => a - b));
  });

  test.each([
    ['shows a record that the mirror does not know', (ids: number[]) => ids.with(2, 99_999)],
    ['shows a record twice', (ids: number[]) => ids.with(2, ids[1] ?? 0)],
    ['lists records in another order', (ids: number[]) => ids.with(2, ids[3] ?? 0).with(3, ids[2] ?? 0)],
    ['shows less than it counts', (ids: number[]) => ids.slice(1)],
  ])('gives up if the server %s', (_, changed) => {
    const local = recordsOf(
      Array.from({ length: 60 }, () => 1),
      1,
    );
    const served = local.map(({ id }) => id).filter((_, index) => index !== 30);
    const { found } = search(local, changed(served), 10, served.length);
    expect(found.kind).toBe('contradiction');
  });

  test('gives up if the server has more records than the mirror', () => {
    const local = recordsOf(
      Array.from({ length: 60 }, () => 1),
      1,
    );
    const served = local.map(({ id }) => id);
    const more = [...served.slice(0, 30), 50_000, 50_001, ...served.slice(30)];
    expect(search(local, more, 10).found.kind).toBe('contradiction');
  });
});

describe('the requests of a search', () => {
  const cases = simulated.flatMap(({ records, requests }) =>
    Object.entries(requests).map(([deletions, floor]) => [Number(deletions), records, floor] as const),
  );
  test.each(sample(cases, 2))(
    'for %i deletions among %i records stay near the %i of the simulation',
    (deletions, records, floor) => {
      expect(requestsOfSearch(records, deletions, new Random(7))).toBeLessThanOrEqual(floor * leeway);
    },
  );
});
