/**
 * The property that the mirror is built for: whatever a server does while it is read, no record that it still has is
 * removed, nothing is called fresh or complete that is not, and one run on a quiet server makes the mirror equal. `npm
 * run soak` runs it some thousand times; PROPERTY_SEED=… repeats a failure, PROPERTY_SHRINK=1 shrinks it.
 */
import { existsSync } from 'node:fs';
import { array, assert, asyncProperty, boolean, constantFrom, integer, option, record, subarray } from 'fast-check';
import { expect, test } from 'vitest';
import { InterruptedError } from '../../src/model/errors.ts';
import { resourceOf, type ResourceName } from '../../src/model/resources.ts';
import { dayMs, parseInstant } from '../../src/model/time.ts';
import { defaultBehaviour } from '../support/bent/sandbox.ts';
import { OtherServerError } from '../../src/mirror/server-check.ts';
import { openSandbox, type Behaviour, type Sandbox } from '../support/bent/sandbox.ts';
import { expectMirrored, sync, type SyncTry } from '../support/mirror.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { temporaryFolderNow } from '../support/temporary-folder.ts';
import { changes, rowsOf, ServerHistory, StepClock, textOf } from './server-history.ts';
import { isFull } from '../support/part.ts';

const { PROPERTY_RUNS, PROPERTY_SEED, PROPERTY_SHRINK } = process.env;
const runs = Number(PROPERTY_RUNS ?? (isFull ? 25 : 5));
/** Every change of the code is tested with the same worlds; the soak looks for new ones. */
const drawing = PROPERTY_SEED === undefined && PROPERTY_RUNS !== undefined ? {} : { seed: Number(PROPERTY_SEED ?? 1) };

const switches: readonly Partial<Behaviour>[] = [
  { page_max: 7 },
  { page_max: 30, page_over: 'refuse' },
  { date_end: 'day' },
  { date_end: 'exclusive' },
  { date_format: 'dmy' },
  { date_ranges: 'ignored' },
  { date_ranges: 'error' },
  { page_over: 'ignore' },
  { date_format: 'dmy', date_unreadable: 'empty' },
  { date_format: 'dmy', date_unreadable: 'ignore' },
  { date_format: 'iso', date_unreadable: 'error' },
  { timezone_minutes: 330 },
  { timezone_minutes: -480 },
  { sorts: 'ignored' },
  { sort_ties: 'random' },
  { ties: 0.8 },
  { numbers_as_strings: 0.5 },
  { flags_as_booleans: 0.5 },
  { unknown_fields: 0.3 },
  { rate_limit: 10_000, rate_headers: true },
  { compression: 'gzip', byte_order_mark: true },
  { data_as_object: true },
  { depth: 50 },
  { depth: 60, depth_over: 'refuse' },
  { page_breaks_over: 9 },
  { page_breaks_over: 4, page_breaks_how: 'truncated' },
  { poisoned: 'users:2,users:11,emails:3,emails:4,emails:40', page_breaks_how: 'says_so' },
];

/** False responses of a server for a while. */
const lies: readonly Partial<Behaviour>[] = [
  { empty_lists: 'users,emails' },
  { empty_lists: 'users,emails', missing_users: true },
  { missing_users: true },
  { totals_more: 3 },
  { totals_cap: 40 },
  { totals_cached: 20 },
];

const honest: Partial<Behaviour> = {
  empty_lists: '',
  missing_users: false,
  totals_more: 0,
  totals_cap: 0,
  totals_cached: 0,
};

/**
 * All switches at once. A host that cannot make its only page has nothing to mirror, and if lists end at a depth and
 * keep no order, nothing shows it.
 */
function together<B extends Partial<Behaviour>>(before: B, switched: readonly Partial<Behaviour>[]): B {
  const all = Object.assign(before, ...switched) as B;
  if (all.page_over === 'ignore') Object.assign(all, { page_breaks_over: 0 });
  return all.sorts === 'ignored' ? { ...all, depth: 0 } : all;
}

const faults: Partial<Behaviour> = {
  read_error_500: 0.03,
  read_html: 0.03,
  read_reset_before: 0.03,
  read_reset_middle: 0.03,
  read_truncated: 0.03,
  read_empty_body: 0.02,
  fault_streak: 3,
};

const step = record({
  /** Chance of a change of the server after each page. */
  churn: constantFrom(0, 0.2, 0.6),
  faults: boolean(),
  /** The lie starts at the first page of the run or a later one, and lasts until its end. */
  lie: option(record({ said: constantFrom(...lies), from: constantFrom(0, 1, 4) }), { freq: 4 }),
  /** Pages after which the run is stopped; beyond the last page it is not. */
  stopAfter: constantFrom(3, 9, 30, 10_000, 10_000),
  mode: constantFrom('default', 'quick', 'full'),
  /** Changes while no run reads, then days that pass. */
  changesBefore: integer({ min: 0, max: 5 }),
  days: constantFrom(0, 0, 1, 4),
  /** New rules, if the server changes them. */
  switches: option(subarray([...switches], { maxLength: 3 })),
});

const world = record({
  seed: integer({ min: 1, max: 1_000_000 }),
  resource: constantFrom<ResourceName>('users', 'emails'),
  size: constantFrom(0, 1, 60, 150),
  switches: subarray([...switches], { maxLength: 4 }),
  pageSize: constantFrom(9, 20, 50),
  windowPages: constantFrom(2, 5),
  budget: constantFrom(3, 1_000),
  concurrency: constantFrom(1, 8),
  steps: array(step, { minLength: 1, maxLength: 4 }),
});

type World = typeof world extends { generate(...args: never[]): { value: infer T } } ? T : never;

async function live(world: World, sandbox: Sandbox, file: string): Promise<void> {
  const { resource } = world;
  const clock = new StepClock(sandboxNow);
  // If windows are read in parallel, several changes come between two pages of one: a deletion and a record added in
  // the middle then cancel each other out, which no count can show.
  const possible = world.concurrency === 1 ? changes : (['insert', 'update', 'undo', 'remove'] as const);
  // So can an undo, or a record that is added in the middle, if the total is cached: it counts neither.
  const standsStill = world.steps.some(({ lie }) => lie?.said.totals_cached !== undefined);
  const kinds = possible.filter((kind) => !standsStill || ['insert', 'update', 'remove'].includes(kind));
  const history = new ServerHistory(sandbox, resource, clock, world.seed, kinds);
  const { pageSize, windowPages, concurrency } = world;
  const shape = { resources: [resource], pageSize, windowPages, concurrency, clock } as const;
  let behaviour = sandbox.control.behaviour();
  for (const { churn, faults: faulty, lie, stopAfter, mode, changesBefore, days, switches } of world.steps) {
    if (switches !== null) behaviour = together({ ...defaultBehaviour }, switches);
    clock.advance(days * dayMs);
    sandbox.control.advanceClock(days * dayMs);
    for (let count = 0; count < changesBefore; count += 1) history.maybe(1);
    sandbox.control.setBehaviour({ ...behaviour, ...(faulty ? faults : {}) });
    const stop = new AbortController();
    let pages = 0;
    // If the run has never seen a record, it cannot know that records are hidden.
    const isKnown = existsSync(file) && rowsOf(file, resource, ['id']).size > 0;
    const tell = (): void => {
      if (lie !== null && isKnown && pages === lie.from) sandbox.control.setBehaviour(lie.said);
    };
    tell();
    const onEvent: SyncTry['onEvent'] = ({ kind }) => {
      if (kind !== 'page') return;
      history.maybe(churn);
      pages += 1;
      tell();
      if (pages === stopAfter) stop.abort(new InterruptedError('SIGINT'));
    };
    const tried = { ...shape, mode, requestsPerRun: world.budget, signal: stop.signal, onEvent } as const;
    // A server that shows none of its records may be another server: then nothing was changed.
    const ended = await sync(sandbox, file, tried).catch((error: unknown) => {
      if (error instanceof OtherServerError && lie !== null) return null;
      throw error;
    });
    sandbox.control.setBehaviour({ ...behaviour, ...honest });
    if (ended !== null) expectTrue(sandbox, file, resource, history, ended.report.resources[resource]);
  }
  sandbox.control.setBehaviour({ poisoned: '', depth: 0 });
  const { report } = await sync(sandbox, file, { ...shape, allowDeletions: true });
  expect(report.resources[resource]).toMatchObject({ status: 'complete', problem: null });
  expectMirrored(sandbox, file, [resource]);
}

/** What must hold after every run, whatever happened in it. */
function expectTrue(
  sandbox: Sandbox,
  file: string,
  resource: ResourceName,
  history: ServerHistory,
  report: { status: string; live: number; fresh_as_of: string | null } | undefined,
): void {
  const fields = resourceOf(resource).fields.map(({ name }) => name);
  const rows = rowsOf(file, resource, fields);
  const server = new Map(sandbox.control.dump(resource).map((each) => [Number(each['id']), textOf(each, fields)]));
  const fresh = parseInstant(report?.fresh_as_of);
  if (report?.status === 'complete') expect(report.live).toBe(rows.size);
  if (fresh === undefined) {
    expect(report?.status).not.toBe('complete');
    return;
  }
  for (const [id, text] of server) {
    // A record that was not changed since then must be in the mirror as it is.
    if ((history.touched.get(id) ?? 0) < fresh) expect([id, rows.get(id)]).toEqual([id, text]);
  }
  for (const id of rows.keys()) {
    if (server.has(id)) continue;
    expect(history.removed.get(id) ?? 0, `record ${id} was gone before ${report?.fresh_as_of}`).toBeGreaterThanOrEqual(
      fresh,
    );
  }
}

// proves: equal-when-quiet
test(
  'after any history of the server, its switches, faults and stops, one run on a quiet server makes the mirror equal',
  { timeout: 60_000 + runs * 3_000 },
  async () => {
    await assert(
      asyncProperty(world, async (drawn) => {
        const behaviour = together({}, drawn.switches);
        const sandbox = await openSandbox({
          users: drawn.resource === 'users' ? drawn.size : 3,
          emails: drawn.resource === 'emails' ? drawn.size : 0,
          packages: 0,
          coupons: 0,
          seed: drawn.seed,
          now: sandboxNow,
          behaviour,
        });
        const folder = temporaryFolderNow();
        try {
          await live(drawn, sandbox, `${folder.path}/mirror.db`);
        } finally {
          folder.remove();
          await sandbox.close();
        }
      }),
      { numRuns: runs, timeout: 60_000, endOnFailure: PROPERTY_SHRINK === undefined, ...drawing },
    );
  },
);
