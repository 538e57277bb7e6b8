import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { TimeLimit } from '../../src/data/job-process.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const after = (ms: number) => () => new Promise<void>((resolve) => setTimeout(resolve, ms));

test('a time limit does not count the time between waits', async () => {
  const end = vi.fn();
  const limit = new TimeLimit(100, end);
  for (let round = 0; round < 3; round += 1) {
    const wait = limit.during(after(30));
    await vi.advanceTimersByTimeAsync(30);
    await wait;
    await vi.advanceTimersByTimeAsync(10_000);
  }
  expect({ ended: end.mock.calls.length, isUp: limit.isUp }).toEqual({ ended: 0, isUp: false });
  const wait = limit.during(after(30));
  await vi.advanceTimersByTimeAsync(30);
  await wait;
  expect({ ended: end.mock.calls.length, isUp: limit.isUp }).toEqual({ ended: 1, isUp: true });
});

test('a time limit beyond the longest timer does not end at once', async () => {
  const limit = new TimeLimit(400 * 24 * 3_600_000, () => {});
  const wait = limit.during(after(1_000));
  await vi.advanceTimersByTimeAsync(1_000);
  await wait;
  expect(limit.isUp).toBe(false);
});
