// @module-tag full
/**
 * A server may follow any of the rules that the API's reference leaves open, in any combination, and may change them
 * between two runs. A wrong guess about them may cost requests, never records.
 */
import { copyFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dayMs, minuteMs, timestampOf } from '../../src/model/time.ts';
import { defaultBehaviour } from '../support/bent/sandbox.ts';
import { openSandbox, type Behaviour, type Sandbox, type SandboxOptions } from '../support/bent/sandbox.ts';
import { expectMirrored, sync, type SyncTry } from '../support/mirror.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { temporaryFolderNow } from '../support/temporary-folder.ts';
import { isSoak, matrix, pairwise, sample } from '../support/part.ts';

type Rules = Partial<Behaviour>;

/** In the soak: each rule combined with each of the other lists. Otherwise: every pair of rules. */
function product(...lists: readonly (readonly Rules[])[]): Rules[] {
  const all = matrix(...lists);
  return (isSoak ? all : pairwise(all)).map((rules) => Object.assign({}, ...rules) as Rules);
}

const pages: readonly Rules[] = [
  { page_max: 0, page_over: 'clamp' },
  { page_max: 7, page_over: 'clamp' },
  { page_max: 7, page_over: 'refuse' },
  { page_over: 'ignore' },
];
/** Ties do not matter if sorts are ignored. */
const orders: readonly Rules[] = [{ sort_ties: 'stable' }, { sort_ties: 'random' }, { sorts: 'ignored' }];
/** A server that takes both is read as `iso`, which is tried first. */
const formats: readonly Rules[] = [{ date_format: 'iso' }, { date_format: 'dmy' }];
const ends: readonly Rules[] = [{ date_end: 'midnight' }, { date_end: 'exclusive' }, { date_end: 'day' }];
const zones: readonly Rules[] = [{ timezone_minutes: 0 }, { timezone_minutes: 330 }, { timezone_minutes: -480 }];
/** Format, end and zone do not matter if ranges do not work. */
const rangeless: readonly Rules[] = [{ date_ranges: 'ignored' }, { date_ranges: 'error' }];
const unreadable: readonly Rules[] = [
  { date_unreadable: 'error' },
  { date_unreadable: 'ignore' },
  { date_unreadable: 'empty' },
];

function nameOf(rules: Rules): string {
  return Object.entries(rules)
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(' ');
}

/** Creation times at which the rules differ: around midnights of several zones, in one second, long ago and just now. */
function edges(): string[] {
  const midnights = ['2025-07-04', '2026-01-01', '2026-03-01', '2026-03-10'].map((day) =>
    Date.parse(`${day}T00:00:00Z`),
  );
  const around = midnights.flatMap((midnight) =>
    [0, 330, -480].flatMap((zone) => [-1_000, 0, 1_000].map((ms) => midnight - zone * minuteMs + ms)),
  );
  const tied = [1, 2, 3, 4].map(() => Date.parse('2025-11-11T11:11:11Z'));
  return [...around, ...tied, sandboxNow - 1_000, Date.parse('1999-12-31T23:59:59Z')].map(timestampOf);
}

async function edgedSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await openSandbox({ users: 20, packages: 0, emails: 0, coupons: 0, now: sandboxNow, ...options });
  for (const created_at of edges()) sandbox.control.insert('users', { created_at });
  return sandbox;
}

/** Small pages and windows, so that even few records fill several of them. */
const shape = { resources: ['users'], pageSize: 12, windowPages: 2 } as const;

/** Why the run is not complete or the mirror not equal to the server; undefined if all is well. */
async function failureOf(sandbox: Sandbox, file: string, tried: SyncTry = {}): Promise<string | undefined> {
  try {
    const { report } = await sync(sandbox, file, { ...shape, ...tried });
    const { status, problem } = report.resources.users ?? {};
    if (status !== 'complete' || report.status !== 'complete') return `${status}, ${problem}`;
    expectMirrored(sandbox, file, ['users']);
    return undefined;
  } catch (error) {
    return String(error);
  }
}

describe('a first sync is complete and equal', () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await edgedSandbox();
  });
  afterAll(() => sandbox.close());

  async function failuresOf(combinations: readonly Rules[]): Promise<string[]> {
    const failures: string[] = [];
    for (const rules of combinations) {
      sandbox.control.setBehaviour({ ...defaultBehaviour, ...rules });
      const folder = temporaryFolderNow();
      const failure = await failureOf(sandbox, `${folder.path}/mirror.db`);
      folder.remove();
      if (failure !== undefined) failures.push(`${nameOf(rules)}: ${failure}`);
    }
    return failures;
  }

  const ranges = [...product(formats, ends, zones), ...rangeless];
  const all = matrix(pages, orders, ranges);
  const chosen = isSoak ? all : pairwise(all);
  describe.each(pages.map((each) => [nameOf(each), each] as const))('with %s', (_, page) => {
    // proves: profile
    test.each(orders.map((each) => [nameOf(each), each] as const))(
      'and %s, whatever the ranges of days mean',
      async (_, order) => {
        const some = chosen.filter((each) => each[0] === page && each[1] === order);
        expect(some).not.toEqual([]);
        expect(await failuresOf(some.map((rules) => Object.assign({}, ...rules)))).toEqual([]);
      },
    );
  });

  test('if days are read in both formats', { tags: 'full' }, async () => {
    expect(await failuresOf(product([{ date_format: 'both' }], ends, zones))).toEqual([]);
  });

  test('whatever the server does with days that it cannot read', async () => {
    expect(await failuresOf(product(formats, unreadable, ends, zones))).toEqual([]);
  });

  test('with another order on every request, if windows of one page can be requested', async () => {
    expect(await failuresOf(product([{ sorts: 'random' }], [{ page_max: 0 }, { page_max: 7 }], ends))).toEqual([]);
  });

  test('or incomplete, if every request has another order and everything has to be read as one', async () => {
    const failures = await failuresOf(product([{ sorts: 'random' }], [{ page_max: 0 }, { page_max: 7 }], rangeless));
    for (const each of failures) expect(each).toMatch(/partial, .*\d+ records? came twice/);
    expect(failures).toHaveLength(2 * rangeless.length);
  });
});

type Changes = 'of every kind' | 'that remove';

/** Changes the server between two runs. Returns a function that undoes it. */
function change(sandbox: Sandbox, changes: Changes): () => void {
  const { control } = sandbox;
  const users = control.dump('users');
  const places = [1, 8, 30, users.length - 1];
  const touched = users.filter((_, index) => places.includes(index));
  control.advanceClock(4 * dayMs);
  const added: number[] = [];
  if (changes === 'of every kind') {
    const times = ['2024-02-29T12:00:00', '2025-07-04T00:00:00', '2025-12-31T23:59:59'].map(
      (each) => `${each}.000000Z`,
    );
    for (const created_at of [...times, timestampOf(control.now())]) {
      added.push(Number(control.insert('users', { created_at })['id']));
    }
  }
  const [updated, ...removed] = touched.map(({ id }) => Number(id));
  if (changes === 'of every kind') control.update('users', updated ?? 0, { first_name: 'Changed' });
  for (const id of removed) control.remove('users', id);
  return () => {
    for (const id of [...added, ...touched.map((each) => Number(each['id']))]) control.remove('users', id);
    for (const record of touched) control.insert('users', record);
    control.setClock(sandboxNow);
  };
}

type Manner = readonly [mode: 'default' | 'quick', changes: Changes];

/** A quick run looks for old records only if the server's count shows that some went. */
const manners: readonly Manner[] = [
  ['default', 'of every kind'],
  ['quick', 'that remove'],
];

/** One in so many changes of rules is tried; in the soak, of a default run, each. */
const part = 4;

const rangeRules: readonly Rules[] = [
  {},
  { date_end: 'exclusive' },
  { date_end: 'day' },
  { date_format: 'dmy' },
  { date_format: 'dmy', date_unreadable: 'empty' },
  { date_format: 'dmy', date_unreadable: 'ignore', date_end: 'day' },
  { timezone_minutes: 330 },
  { timezone_minutes: -480, date_end: 'day' },
  ...rangeless,
];
const otherRules: readonly Rules[] = [
  { page_max: 7, page_over: 'clamp' },
  { page_max: 7, page_over: 'refuse' },
  { page_over: 'ignore' },
  { sort_ties: 'random' },
  { sorts: 'ignored' },
];

describe('a server that changes its rules between two runs', () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await edgedSandbox();
  });
  afterAll(() => sandbox.close());

  async function failuresOf(before: Rules, after: readonly Rules[], [mode, changes]: Manner): Promise<string[]> {
    const { control } = sandbox;
    const folder = temporaryFolderNow();
    const failures: string[] = [];
    const note = (rules: Rules, failure: string | undefined) => {
      if (failure !== undefined) failures.push(`${nameOf(before)} -> ${nameOf(rules)}: ${failure}`);
    };
    control.setBehaviour({ ...defaultBehaviour, ...before });
    control.setClock(sandboxNow);
    note(before, await failureOf(sandbox, `${folder.path}/before.db`));
    for (const [index, rules] of after.entries()) {
      const file = `${folder.path}/${index}.db`;
      copyFileSync(`${folder.path}/before.db`, file);
      control.setBehaviour({ ...defaultBehaviour, ...rules });
      const undo = change(sandbox, changes);
      note(rules, await failureOf(sandbox, file, { mode }));
      undo();
    }
    folder.remove();
    return failures;
  }

  describe.each(manners)('is mirrored completely by a %s run after changes %s', (...manner: Manner) => {
    const [mode] = manner;
    const thorough = isSoak && mode === 'default';

    test.each(
      sample(
        rangeRules.map((each, index) => [nameOf(each), each, index] as const),
        1,
      ),
    )('after ranges with %s', async (_, before, from) => {
      const after = sample(rangeRules, 4).filter((_, to) => thorough || (from + to) % part === 0);
      expect(await failuresOf(before, after, manner)).toEqual([]);
    });

    test.each(
      sample(
        otherRules.map((each) => [nameOf(each), each] as const),
        1,
      ),
    )('before or after %s', async (_, other) => {
      expect(await failuresOf({}, [other], manner)).toEqual([]);
      expect(await failuresOf(other, [{}, ...otherRules], manner)).toEqual([]);
    });
  });
});
