// @module-tag full
import { expect, test } from 'vitest';
import { dayMs, hourMs, minuteMs, parseInstant, systemClock } from '../../src/model/time.ts';
import { behindProxy } from '../support/altering-proxy.ts';
import { eventsOf, expectMirrored, mirrored, newMirror, sync } from '../support/mirror.ts';
import { valuesOf } from '../support/rows.ts';

// The sandbox sends its clock in `Date`, which is right here.
// proves: clocks
test.each([
  { wrongBy: 400 * dayMs, told: "this machine's clock is 576000 min ahead of the server's", heldBy: 400 * dayMs },
  { wrongBy: 3 * minuteMs, told: '3 min ahead of', heldBy: 3 * minuteMs },
  { wrongBy: minuteMs, told: '', heldBy: minuteMs },
  { wrongBy: 0, told: '', heldBy: 0 },
  { wrongBy: -3 * minuteMs, told: '3 min behind', heldBy: 0 },
])('a clock that is wrong by $wrongBy ms makes nothing fresher than it is, and is reported', async (drawn) => {
  const { wrongBy, told, heldBy } = drawn;
  const { sandbox, file } = await newMirror({ users: 30, now: () => systemClock.now() });
  const clock = { now: () => systemClock.now() + wrongBy };
  const before = clock.now();
  const { report } = await sync(sandbox, file, { resources: ['users'], clock });
  const fresh = parseInstant(report.resources.users?.fresh_as_of) ?? 0;
  expect(Math.abs(fresh - (before - heldBy))).toBeLessThan(10_000);
  const events = eventsOf(file, 'clock_differs')
    .map(({ detail }) => detail)
    .join('\n');
  expect(events).toContain(told);
  expect(events === '').toBe(told === '');
});

test('a clock that was ahead and is corrected causes no alarm, and fresh_as_of was never too late', async () => {
  const { sandbox, file } = await newMirror({ users: 30, now: () => systemClock.now() });
  const ahead = { now: () => systemClock.now() + 400 * dayMs };
  await sync(sandbox, file, { resources: ['users'], clock: ahead });
  await sync(sandbox, file, { resources: ['users'], clock: systemClock });
  expect(eventsOf(file, 'clock_set_back')).toEqual([]);
  const [freshAsOf] = valuesOf<string>(file, "SELECT fresh_as_of FROM mirror_freshness WHERE resource = 'users'");
  expect(parseInstant(freshAsOf) ?? Infinity).toBeLessThanOrEqual(systemClock.now());
});

// At five past midnight the machine that is behind is still in the day before, and its open window starts a day earlier.
test.each([
  { time: '12:00', atMost: 15 },
  { time: '00:05', atMost: 30 },
])('at $time a machine whose clock is behind continues from what another one read', async ({ time, atMost }) => {
  const now = Date.parse(`2026-03-10T${time}:00Z`);
  const { sandbox, file } = await newMirror({ users: 300, now: () => now });
  const tried = { resources: ['users'], pageSize: 10, requestsPerRun: 0 } as const;
  await sync(sandbox, file, { ...tried, clock: { now: () => now } });
  const before = sandbox.control.requests().total;
  const behind = { now: () => now - 20 * minuteMs };
  const { report } = await sync(sandbox, file, { ...tried, clock: behind });
  expect(report.resources.users?.status).toBe('complete');
  expect(eventsOf(file, 'clock_set_back')).toEqual([]);
  expect(before).toBeGreaterThan(40);
  expect(sandbox.control.requests().total - before).toBeLessThan(atMost);
});

test('an impossible age from a cache does not count as a clock difference', async () => {
  const { sandbox, file } = await newMirror({ users: 30, now: () => systemClock.now() });
  const cached = await behindProxy(sandbox, () => ({ headers: { age: '1000000000000' } }));
  await sync(cached, file, { resources: ['users'], clock: systemClock });
  expect(eventsOf(file, 'clock_differs')).toEqual([]);
});

test('a clock that was set back hides no new record under a reused id', async () => {
  const { sandbox, file } = await newMirror({ users: 12 });
  let setBackMs = 0;
  const clock = { now: () => sandbox.control.now() - setBackMs };
  await sync(sandbox, file, { resources: ['users'], clock });
  setBackMs = hourMs;
  sandbox.control.remove('users', 5);
  sandbox.control.insert('users', { id: 5 });
  const { report } = await sync(sandbox, file, { resources: ['users'], clock });
  expect(report.resources.users).toMatchObject({ status: 'complete', problem: null });
  expectMirrored(sandbox, file, ['users']);
});

test('a clock that is set back makes no old evidence fresh: the record that seems deleted is requested again', async () => {
  const { sandbox, file } = await mirrored({ users: 12 }, { resources: ['users'] });
  sandbox.control.remove('users', 5);
  let requests = 0;
  let isSet = false;
  const watched = await behindProxy(sandbox, ({ path }) => {
    if (path.startsWith('/api/v1/users/5')) requests += 1;
    // The control record: the clock is set after the first look.
    else if (requests > 0 && path.startsWith('/api/v1/users/')) isSet = true;
    return {};
  });
  const clock = { now: () => sandbox.control.now() - (isSet ? hourMs : 0) };
  const { report } = await sync(watched, file, { resources: ['users'], mode: 'full', clock });
  expect(report.resources.users).toMatchObject({ status: 'complete', deleted: 1 });
  expect(requests).toBe(2);
});
