/** Which of several workers is next: a pure function of the time passed in. */
import { describe, expect, test } from 'vitest';
import { type FleetEvent, type FleetState, type Membership, mayTake, workInFleet } from '../../src/worker/fleet.ts';
import { LockHeldError, UsageError } from '../../src/model/errors.ts';
import { minuteMs, secondMs } from '../../src/model/time.ts';

const leaseMs = 45_000;

test.each<[string, FleetState, Parameters<typeof mayTake>[1], boolean]>([
  ['another worker is active', { freeForMs: undefined, isBetterWaiting: false }, 'current', false],
  ['the place is free', { freeForMs: 0, isBetterWaiting: true }, 'current', true],
  ['nobody else has a better mirror', { freeForMs: 0, isBetterWaiting: false }, 'behind', true],
  ['one with a better mirror is waiting', { freeForMs: 9_999, isBetterWaiting: true }, 'behind', false],
  ['one with a better mirror has not taken over in time', { freeForMs: 10_000, isBetterWaiting: true }, 'absent', true],
  ['no worker was ever active', { freeForMs: Infinity, isBetterWaiting: true }, 'absent', true],
])('if %s, a worker that sees %j with a mirror that is %s may take over: %j', (_, look, mirror, takes) => {
  expect(mayTake(look, mirror, leaseMs)).toBe(takes);
});

/** A membership with the given heartbeats. Time passes only while the worker sleeps. */
function fleet(looks: readonly (FleetState | Error)[], work: () => Promise<void>, aheadMs: readonly number[] = []) {
  const stop = new AbortController();
  const rests: number[] = [];
  const events: FleetEvent['kind'][] = [];
  let at = 0;
  const membership: Membership = {
    leaseMs,
    clock: { now: () => 0 },
    heartbeat: async () => {
      const found = looks[at++];
      if (found === undefined) stop.abort();
      if (found instanceof Error) throw found;
      return found ?? { freeForMs: undefined, isBetterWaiting: false };
    },
    head: async () => undefined,
    hasStep: async () => true,
    close: async () => {},
  };
  const done = workInFleet({
    membership,
    clock: { now: () => aheadMs[at - 1] ?? 0 },
    mirror: async () => 'current',
    remember: async () => {},
    work,
    sleep: async (ms) => void rests.push(ms),
    signal: stop.signal,
    emit: ({ kind }) => void events.push(kind),
  });
  return { done, rests, events, stop };
}

const taken: FleetState = { freeForMs: undefined, isBetterWaiting: false };
const free: FleetState = { freeForMs: 1, isBetterWaiting: false };

describe('a worker among others', () => {
  test('checks every fifteenth of a lease while another is active, and says so once', async () => {
    const { done, rests, events } = fleet([taken, taken, taken], async () => {});
    await done;
    expect(rests).toEqual([3_000, 3_000, 3_000]);
    expect(events).toEqual(['waiting']);
  });

  test('says once that its clock is wrong, and once that it is right again', async () => {
    const clocks = [0, 20 * minuteMs, 21 * minuteMs, 4 * secondMs, 0].map((ms) => -ms);
    const { done, events } = fleet([taken, taken, taken, taken, taken], async () => {}, clocks);
    await done;
    expect(events).toEqual(['waiting', 'clock', 'clock']);
  });

  test('that is replaced waits for its next turn', async () => {
    let turns = 0;
    const { done, events } = fleet([free, taken, free, taken], async () => {
      turns += 1;
      throw new LockHeldError('another has it');
    });
    await done;
    expect([turns, events[0]]).toEqual([2, 'replaced']);
  });

  test('that cannot start waits for a minute, and reports an unreachable store once', async () => {
    const away = new UsageError('the store is away');
    const { done, rests, events } = fleet([away, away, free, taken, taken], async () => {
      throw new UsageError('the mirror cannot be restored');
    });
    await done;
    expect(events.filter((kind) => kind === 'trouble')).toHaveLength(2);
    expect(rests).toContain(60_000);
  });
});
