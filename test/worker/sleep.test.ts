import { expect, test } from 'vitest';
import { sleepByClock } from '../../src/worker/sleep.ts';

test('a sleep by the clock lasts until its time, and ends at once when it is aborted', async () => {
  const stop = new AbortController();
  const asleep = sleepByClock(3_600_000, stop.signal);
  const end = Date.now() + 10;
  await sleepByClock(10, new AbortController().signal);
  expect(Date.now()).toBeGreaterThanOrEqual(end);
  stop.abort();
  await expect(asleep).resolves.toBeUndefined();
  await expect(sleepByClock(3_600_000, stop.signal)).resolves.toBeUndefined();
});
