import { describe, expect, test } from 'vitest';
import { ClosedForLong, Gate, type GateOptions } from '../../src/api/gate.ts';
import type { Outcome } from '../../src/api/rate.ts';
import { type Headers, type LimitedServer, spend } from './support/limited-server.ts';
import { hourMs } from '../../src/model/time.ts';
import { virtualTime } from './support/virtual-time.ts';

const good: Outcome = { kind: 'response', status: 200, headers: {} };
const refused = (headers: Record<string, string>): Outcome => ({ kind: 'response', status: 429, headers });

function gateOf(options: Partial<GateOptions> = {}) {
  const time = virtualTime();
  const gate = new Gate({
    concurrency: 8,
    maxWaitMs: 300_000,
    clock: time.clock,
    elapsed: () => time.clock.now(),
    sleep: time.sleep,
    ...options,
  });
  return { gate, time };
}

async function use(gate: Gate, outcome: Outcome, times = 1): Promise<void> {
  for (let count = 0; count < times; count += 1) (await gate.enter()).leave(outcome);
}

describe('a limit that is counted', () => {
  const limits: readonly (readonly [string, number, Omit<LimitedServer, 'headers' | 'latencyMs'>])[] = [
    ['from the first request, 20 a second', 800, { window: 'from the first request', limit: 20, windowMs: 1_000 }],
    ['by the clock, 20 a second', 800, { window: 'by the clock', limit: 20, windowMs: 1_000 }],
    ['by a sliding window, 20 a second', 800, { window: 'sliding', limit: 20, windowMs: 1_000 }],
    ['by a bucket, 10 a second and 5 at once', 600, { window: 'bucket', limit: 10, windowMs: 1_000, burst: 5 }],
    ['by a bucket, 30 a second and 8 at once', 900, { window: 'bucket', limit: 30, windowMs: 1_000, burst: 8 }],
  ];
  const headers: Headers[] = ['quota and wait', 'wait', 'none'];
  const cases = limits.flatMap(([name, requests, limit]) =>
    headers.flatMap((each) => [10, 80].map((latencyMs) => [name, each, latencyMs, requests, limit] as const)),
  );

  test.each(cases)(
    '%s, with headers: %s, is found at %i ms a response: at most 1.3 of its own time, and 2 percent refused',
    async (_, each, latencyMs, requests, limit) => {
      const spent = await spend({ ...limit, headers: each, latencyMs }, requests);
      const { windowMs, burst = limit.limit } = limit;
      const periods = (requests - burst) / limit.limit;
      const ownMs = (limit.window === 'bucket' ? periods : Math.ceil(periods)) * windowMs;
      expect(spent.seconds * 1_000).toBeLessThanOrEqual(1.3 * ownMs);
      expect(spent.refusedLate).toBeLessThanOrEqual(0.02);
    },
  );
});

test('a limit of 60 per minute is free in the first minute, and refuses about one request in each further one', async () => {
  const server = { limit: 60, windowMs: 60_000, window: 'from the first request', latencyMs: 20 } as const;
  const short = await spend({ ...server, headers: 'quota and wait' }, 50);
  expect(short.refused).toBe(0);
  expect(short.seconds).toBeLessThan(2);
  const long = await spend({ ...server, headers: 'quota and wait' }, 300);
  expect(long.refusals).toBeLessThanOrEqual(5);
  expect(long.seconds).toBeLessThan(5 * 60 + 15);
});

test('a bucket that refills one per second and asks to wait a second is not polled every second', async () => {
  const spent = await spend({ limit: 60, windowMs: 60_000, window: 'bucket', headers: 'wait', latencyMs: 20 }, 300);
  expect(spent.refused).toBeLessThan(0.2);
  expect(spent.used).toBeGreaterThan(0.9);
});

test('a server that refuses everything without naming a wait gets fewer and fewer requests', async () => {
  const { gate, time } = gateOf();
  const started = time.clock.now();
  await time.run(use(gate, refused({}), 20));
  expect(time.clock.now() - started).toBeGreaterThan(6 * 60_000);
});

test.each([-hourMs, hourMs])('a clock that is set by %i ms does not change waits', async (ms) => {
  const time = virtualTime();
  let setBy = 0;
  const clock = { now: () => time.clock.now() + setBy };
  const { gate } = gateOf({ requestsPerSecond: 0.5, clock, elapsed: () => time.clock.now(), sleep: time.sleep });
  const waitedFor = async (outcome: Outcome): Promise<number> => {
    const started = time.clock.now();
    await time.run(use(gate, outcome));
    return time.clock.now() - started;
  };
  await waitedFor(good);
  setBy = ms;
  expect(await waitedFor(refused({ 'retry-after': '7' }))).toBe(2_000);
  setBy = 0;
  expect(await waitedFor(good)).toBe(7_000);
});

test('concurrency grows by one per good response, up to the configured limit, and slowly after trouble', async () => {
  const troubled = gateOf();
  await use(troubled.gate, { kind: 'timeout' });
  await use(troubled.gate, good, 8);
  expect(troubled.gate.allowed).toBe(3);
  const { gate } = gateOf({ concurrency: 6 });
  expect(gate.allowed).toBe(4);
  await use(gate, good, 2);
  expect(gate.allowed).toBe(6);
  const passes = await Promise.all(Array.from({ length: 6 }, () => gate.enter()));
  let further = false;
  const waiting = gate.enter().then((pass) => {
    further = true;
    return pass;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(further).toBe(false);
  passes[0]?.leave(good);
  await waiting;
});

test.each([
  ['429', refused({ 'retry-after': '1' })],
  ['503', { kind: 'response', status: 503, headers: {} }],
  ['a timeout', { kind: 'timeout' }],
] satisfies [string, Outcome][])('%s halves the concurrency, once for all requests under way', async (_, outcome) => {
  const { gate } = gateOf();
  await use(gate, good, 100);
  expect(gate.allowed).toBe(8);
  const passes = await Promise.all(Array.from({ length: 8 }, () => gate.enter()));
  for (const pass of passes) pass.leave(outcome);
  expect(gate.allowed).toBe(4);
});

test('no request passes during a wait that the server asked for', async () => {
  const { gate, time } = gateOf();
  const started = time.clock.now();
  await use(gate, refused({ 'retry-after': '7' }));
  await time.run(gate.enter());
  expect(time.clock.now() - started).toBe(7_000);
});

test('one 503 does not delay others, but a second in a row does', async () => {
  const { gate, time } = gateOf();
  const down: Outcome = { kind: 'response', status: 503, headers: { 'retry-after': '5' } };
  const started = time.clock.now();
  await time.run(use(gate, down));
  await time.run(use(gate, good));
  await time.run(use(gate, down));
  expect(time.clock.now() - started).toBe(0);
  await time.run(use(gate, down));
  await time.run(use(gate, good));
  expect(time.clock.now() - started).toBe(5_000);
});

test('a wait beyond the maximum is reported at once', async () => {
  const { gate } = gateOf({ maxWaitMs: 60_000 });
  await use(gate, refused({ 'retry-after': '3600' }));
  await expect(gate.enter()).rejects.toBeInstanceOf(ClosedForLong);
});

describe('an absurd wait blocks requests for at most an hour', () => {
  test.each([
    ['a refusal that names it', refused({ 'retry-after': '999999999' })],
    ['a refusal that names the year 9999', refused({ 'retry-after': 'Fri, 31 Dec 9999 23:59:59 GMT' })],
    [
      'a limit that is used up until then',
      { ...good, headers: { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '99999999999999' } },
    ],
  ] as const)('%s', async (_, outcome) => {
    const { gate, time } = gateOf();
    await use(gate, outcome);
    await expect(gate.enter()).rejects.toBeInstanceOf(ClosedForLong);
    await time.run(time.sleep(3_600_000));
    await use(gate, good);
  });
});

test('a configured rate is kept evenly', async () => {
  const { gate, time } = gateOf({ requestsPerSecond: 5 });
  const started = time.clock.now();
  await time.run(use(gate, good, 21));
  expect(time.clock.now() - started).toBe(4_000);
});

test('an aborted wait leaves the queue with its reason, and others continue', async () => {
  const { gate, time } = gateOf({ concurrency: 1 });
  const first = await gate.enter();
  const stop = new AbortController();
  const second = gate.enter(stop.signal);
  const third = gate.enter();
  stop.abort(new Error('enough'));
  await expect(second).rejects.toThrow('enough');
  first.leave(good);
  await time.run(third);
  await expect(gate.enter(stop.signal)).rejects.toThrow('enough');
});
