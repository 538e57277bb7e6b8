// @module-tag full
/**
 * The property of the change cursor: whatever a server does while it is read, a consumer that follows the mirror by its
 * cursor in batches of any size, and may stop at any point, ends with the same rows and gets none twice.
 */
import { array, assert, asyncProperty, boolean, constantFrom, integer, record } from 'fast-check';
import { test } from 'vitest';
import { InterruptedError } from '../../src/model/errors.ts';
import { dayMs } from '../../src/model/time.ts';
import { forgetUser, openForgetStore, undoForget } from '../../src/mirror/forget.ts';
import { openSandbox, type Sandbox } from '../support/bent/sandbox.ts';
import { consumerOf } from '../support/consumer.ts';
import { sync, type SyncTry } from '../support/mirror.ts';
import { rowsOf } from '../support/rows.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { temporaryFolderNow } from '../support/temporary-folder.ts';
import { randomFrom, ServerHistory, StepClock } from './server-history.ts';

const { PROPERTY_RUNS, PROPERTY_SEED } = process.env;
const runs = Number(PROPERTY_RUNS ?? 12);
const drawing = PROPERTY_SEED === undefined && PROPERTY_RUNS !== undefined ? {} : { seed: Number(PROPERTY_SEED ?? 1) };

const night = record({
  churn: constantFrom(0, 0.3, 0.8),
  changesBefore: integer({ min: 0, max: 8 }),
  stopAfter: constantFrom(4, 10_000, 10_000),
  days: constantFrom(0, 1, 4),
  /** A user is forgotten after it, or all such users are restored. */
  aftermath: constantFrom('nothing', 'nothing', 'forget', 'undo'),
  /** The id of a deleted record is reused. */
  reuses: boolean(),
});

const world = record({
  seed: integer({ min: 1, max: 1_000_000 }),
  pageSize: constantFrom(5, 20),
  /** How many changes the consumer reads at once. */
  limit: constantFrom(2, 7, 100),
  /** Chance that the consumer stops after a batch. */
  stops: constantFrom(0.01, 0.08),
  relations: boolean(),
  nights: array(night, { minLength: 2, maxLength: 4 }),
});

type World = typeof world extends { generate(...args: never[]): { value: infer T } } ? T : never;

/** Forgets the user if the mirror has any data of it, or undoes that. */
async function forget(file: string, id: number, clock: StepClock, then: 'forget' | 'undo'): Promise<void> {
  if (then === 'undo' && rowsOf(file, `SELECT 1 FROM mirror_suppressions WHERE user_id = ${id}`).length === 0) return;
  const store = openForgetStore(file, clock, 50);
  try {
    if (then === 'undo') await undoForget({ store, clock }, String(id));
    else if (store.knows(id)) await forgetUser({ store, journal: 'none', clock }, id);
  } finally {
    store.close();
  }
}

async function live(world: World, sandbox: Sandbox, file: string): Promise<void> {
  const clock = new StepClock(sandboxNow);
  const history = new ServerHistory(sandbox, 'users', clock, world.seed);
  const random = randomFrom(world.seed + 1);
  const consumer = consumerOf(file);
  const stops = () => random() < world.stops;
  const { pageSize } = world;
  const includes = world.relations ? { includes: { users: ['orders', 'address'] } } : {};
  const shape = { resources: ['users', 'emails'], pageSize, windowPages: 3, clock, ...includes } as const;
  for (const { churn, changesBefore, stopAfter, days, aftermath, reuses } of world.nights) {
    clock.advance(days * dayMs);
    sandbox.control.advanceClock(days * dayMs);
    for (let count = 0; count < changesBefore; count += 1) history.maybe(1);
    const stop = new AbortController();
    let pages = 0;
    const onEvent: SyncTry['onEvent'] = ({ kind }) => {
      if (kind !== 'page') return;
      history.maybe(churn);
      if (random() < 0.2) consumer.read(world.limit, stops);
      pages += 1;
      if (pages === stopAfter) stop.abort(new InterruptedError('SIGINT'));
    };
    if (reuses && sandbox.control.get('users', 9) !== undefined) {
      sandbox.control.remove('users', 9);
      sandbox.control.insert('users', {
        id: 9,
        username: `again_${clock.now()}`,
        created_at: '2025-01-05T10:00:00.000000Z',
      });
    }
    await sync(sandbox, file, { ...shape, signal: stop.signal, onEvent, allowDeletions: true });
    consumer.read(world.limit, stops);
    if (aftermath !== 'nothing') await forget(file, 11, clock, aftermath);
  }
  await sync(sandbox, file, { ...shape, allowDeletions: true });
  while (!consumer.read(world.limit, stops)) continue;
  consumer.expectEqual();
}

// proves: cursor
test(
  'a consumer that follows the mirror by its cursor, and may stop anywhere, ends with the same rows and gets none twice',
  { timeout: 60_000 + runs * 3_000 },
  async () => {
    await assert(
      asyncProperty(world, async (drawn) => {
        const seeded = { users: 40, emails: 25, packages: 0, coupons: 0, seed: drawn.seed, now: sandboxNow };
        const sandbox = await openSandbox(seeded);
        const folder = temporaryFolderNow();
        try {
          await live(drawn, sandbox, `${folder.path}/mirror.db`);
        } finally {
          folder.remove();
          await sandbox.close();
        }
      }),
      { numRuns: runs, timeout: 60_000, endOnFailure: true, ...drawing },
    );
  },
);
